"""What wakes workers: procrastinate's queue, and the triggers that fill it and notify."""

from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path

from ..ports import Connection
from .connection import CHANNEL
from .errors import unavailable

QUEUED_TASK = "segue.run"
"""The one task of the queue: its jobs carry the id of a task of Segue, and nothing else."""

LONGEST = 32
"""Bytes of an agent's id and digest in the name of its queue: that is part of a channel's, which may have 63."""

FIRST_MIGRATION = "03.04.00_50_post_add_retry_failed_job_procedure.sql"
"""The last migration of the oldest procrastinate that is supported; the table's comment names a later one."""

_LAST_MIGRATION = "SELECT obj_description('procrastinate_jobs'::regclass)"

# Which queue a task waits in: its agent's, so that only workers that have the agent fetch it.
_QUEUE = f"""
    CREATE FUNCTION segue_queue(agent text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT 'segue:' || CASE WHEN octet_length(agent) <= {LONGEST} THEN agent
            ELSE left(encode(sha256(convert_to(agent, 'UTF8')), 'hex'), {LONGEST}) END
    $$
"""
# One job that nobody fetched yet is enough for a task: who fetches it finds what was committed before. A task that has
# begun goes before those that have not. It waits for the workers that have its agent as it was when the task began;
# where a worker with another version of the agent takes it, its job moves to that worker's queue.
_WAKE = f"""
    CREATE FUNCTION segue_wake(task text, agent text, digest text, began boolean) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE queue text := segue_queue(agent || coalesce(':' || digest, ''));
    BEGIN
        DELETE FROM procrastinate_jobs WHERE queueing_lock = task AND status = 'todo' AND queue_name <> queue;
        PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW(
            queue, '{QUEUED_TASK}', began::integer, NULL, task, jsonb_build_object('task_id', task), NULL
        )::procrastinate_job_to_defer_v1]);
    EXCEPTION WHEN unique_violation THEN NULL;
    END $$
"""
# Whoever lets a session go wakes a worker for its task, if that is to go on, in the transaction that does so.
_RELEASED = f"""
    CREATE FUNCTION segue_released() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE newest record;
    BEGIN
        SELECT task_id, agent_id, agent_digest, status INTO newest FROM tasks
        WHERE thread_id = NEW.thread_id ORDER BY position DESC LIMIT 1;
        IF newest.status IN ('pending', 'running', 'pausing') THEN
            PERFORM segue_wake(newest.task_id, newest.agent_id, newest.agent_digest, newest.status <> 'pending');
        END IF;
        PERFORM pg_notify('{CHANNEL}', json_build_object('thread', NEW.thread_id)::text);
        RETURN NULL;
    END $$
"""
_ON_RELEASE = """
    CREATE TRIGGER segue_released AFTER UPDATE OF owner ON leases
    FOR EACH ROW WHEN (OLD.owner <> '' AND NEW.owner = '') EXECUTE FUNCTION segue_released()
"""
_REQUESTED = f"""
    CREATE FUNCTION segue_requested() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('{CHANNEL}', '{{"of": "requests"}}');
        RETURN NULL;
    END $$
"""
_ON_REQUEST = """
    CREATE TRIGGER segue_requested AFTER UPDATE OF requested ON tasks
    FOR EACH ROW WHEN (NEW.requested IS NOT NULL AND NEW.requested IS DISTINCT FROM OLD.requested)
    EXECUTE FUNCTION segue_requested()
"""
_WORKERS = """
    CREATE TABLE workers (
        owner text COLLATE "C" PRIMARY KEY,
        agents text NOT NULL,
        modes text NOT NULL,
        concurrency bigint NOT NULL,
        running bigint NOT NULL,
        started_at double precision NOT NULL,
        seen_at double precision NOT NULL
    )
"""
_TO_RUN = "CREATE INDEX tasks_to_run ON tasks (position) WHERE status IN ('pending', 'running', 'pausing')"

WAKING = (_WORKERS, _TO_RUN, _QUEUE, _WAKE, _RELEASED, _ON_RELEASE, _REQUESTED, _ON_REQUEST)
"""After procrastinate's own tables, which have their own versions."""


def queues_of(agents: Mapping[str, str]) -> list[str]:
    """The names of the queues of these agents' tasks, as `segue_wake` gives them; `agents` are digests by id."""
    names = [*agents, *(f"{agent}:{digest}" for agent, digest in agents.items())]
    return [f"segue:{name if len(name) <= LONGEST else sha256(name.encode()).hexdigest()[:LONGEST]}" for name in names]


def missing_migrations(connection: Connection, path: str) -> list[Path]:
    """The files of the installed procrastinate that its tables lack.

    Raises:
        DatabaseUnavailable: a newer procrastinate created or upgraded them.
    """
    stored = connection.execute(_LAST_MIGRATION).fetchone()[0] or FIRST_MIGRATION
    folder = Path(str(distribution("procrastinate").locate_file("procrastinate/sql/migrations")))
    installed = sorted(folder.glob("*.sql"))
    if stored > installed[-1].name:
        raise unavailable(
            path,
            "has the queue of a newer procrastinate than the one that is installed: install the version of that "
            "package that the other processes have",
        )
    return [file for file in installed if file.name > stored]


def install_queue(connection: Connection, path: str) -> None:
    """Create procrastinate's tables, or bring them up to date."""
    from procrastinate.schema import SchemaManager

    if connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()[0] is None:
        connection.execute(SchemaManager.get_schema())
        missing = missing_migrations(connection, path)[-1:]
    else:
        missing = missing_migrations(connection, path)
        for file in missing:
            connection.execute(file.read_text(encoding="utf-8"))
    if missing:
        connection.execute(f"COMMENT ON TABLE procrastinate_jobs IS '{missing[-1].name}'")
