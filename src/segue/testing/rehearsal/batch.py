"""A batch of conversations: its manifest, and the worker processes that hold it."""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from filelock import FileLock, Timeout

from ...app import App
from ...checkpoints.storage import open_storage
from ...core.agents import load_agents, load_modes
from ...core.audit import AuditSettings, load_audit
from ...core.conversation import ConversationConfig, config_of
from ...core.errors import ConfigurationError, listed
from ...core.flows import load_flows
from ...core.records import Json
from ...core.schedules import load_deadlines
from ...core.spend import load_spend, spend_limits
from ...entry import open as open_app
from ...prompts.catalogue import Language, task_text
from .participants import files_of, load_scenarios, with_workflow
from .simulate import asked_tools, check_config, check_writable, read_log, replace_text

VERSION = 1
FILE = "manifest.json"
PEOPLE = ("input_user", "input_bot")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One conversation of a batch; `worker` says which process and database it belongs to, from 1."""

    conversation_id: str
    scenario: str
    trial: int
    worker: int
    config: ConversationConfig


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a batch consists of: `n` conversations, the scenarios in turn, each trial with a seed of its own."""

    config: Json
    """A `ConversationConfig`, without defaults."""
    n: int
    workers: int
    seed: int = 0
    scenarios: tuple[str, ...] = ()
    agents: str = ""
    """The agents file, as an absolute path."""
    digest: str = ""
    """Of the files that the conversations depend on: workflow, scenarios, agents."""
    segue: str = version("segue")
    created_at: str = ""

    def conversations(self) -> Iterator[Planned]:
        """Every conversation; a larger `n` keeps those of a smaller one."""
        config, names = config_of(self.config), self.scenarios or ("",)
        for place in range(self.n):
            trial, which = divmod(place, len(names))
            scenario = names[which]
            yield Planned(
                conversation_id=f"{scenario or 'conversation'}-{trial + 1:03d}",
                scenario=scenario,
                trial=trial + 1,
                worker=place % self.workers + 1,
                config=with_workflow(
                    config.model_copy(update={"scenario": scenario, "seed": seed_of(self.seed, scenario, trial + 1)})
                ),
            )

    def differences(self, other: "Manifest") -> list[str]:
        """The fields for which two manifests cannot share a folder."""
        names = ("config", "seed", "scenarios", "agents", "digest")
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a batch's folder.

        Raises:
            ConfigurationError: the folder has none, or it cannot be read.
        """
        file = folder / FILE
        if not file.is_file():
            raise ConfigurationError(
                "There is no batch in {folder}: create one with `segue simulate --n N --out {folder}`.", folder=folder
            )
        try:
            form = json.loads(file.read_text(encoding="utf-8-sig"))
            if form.pop("version") != VERSION:
                raise ValueError(f"its version is not {VERSION}")
            return cls(**{**form, "scenarios": tuple(form["scenarios"])})
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigurationError("The manifest {file} cannot be read: {error}.", file=file, error=error) from error

    def write(self, folder: Path) -> None:
        """Write the manifest, in place of an earlier one."""
        form = {"version": VERSION, **asdict(self)}
        replace_text(folder / FILE, json.dumps(form, ensure_ascii=False, indent=2) + "\n")


def batch_of(config: ConversationConfig, *, n: int, workers: int = 1, agents: str = "") -> Manifest:
    """The manifest of `n` conversations: those of the configured scenario, or of all scenarios of its workflow in turn.

    Each conversation's seed follows from that of the configuration, 0 by default.

    Raises:
        UnknownWorkflow, UnknownScenario, InvalidWorkflow.
        ConfigurationError: a participant is a person, or a file cannot be read.
    """
    for mode in (config.user_mode, config.bot_mode):
        if mode in PEOPLE:
            raise ConfigurationError("{mode} is a person, who cannot take part in a batch: leave out --n.", mode=mode)
    if config.workflows or config.reference:
        raise ConfigurationError(
            "A batch rehearses one workflow, without a reference: run one batch for each workflow, or leave out --n to "
            "rehearse `workflows` or a `reference` in one conversation."
        )
    if config.workflow and not config.scenario:
        names = tuple(scenario.name for scenario in load_scenarios(config.workflow))
    else:
        with_workflow(config)
        names = (config.scenario,) if config.scenario else ()
    file = str(Path(agents).resolve()) if agents else ""
    return Manifest(
        config=config.model_dump(mode="json", exclude_defaults=True, exclude={"seed", "scenario"}),
        n=n,
        workers=min(workers, n),
        seed=config.seed or 0,
        scenarios=names,
        agents=file,
        digest=_digest([*(files_of(config.workflow) if config.workflow else ()), *([Path(file)] if file else ())]),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _digest(files: Iterable[Path]) -> str:
    found = sha256()
    for file in files:
        try:
            found.update(sha256(file.read_bytes()).digest())
        except OSError as error:
            raise ConfigurationError("The file {file} cannot be read: {error}.", file=file, error=error) from error
    return found.hexdigest()


def seed_of(seed: int, scenario: str, trial: int) -> int:
    """The seed of one conversation, of 31 bits: a function of the batch's seed, the scenario and the trial."""
    return random.Random(f"{seed}/{scenario}/{trial}").getrandbits(31)


def open_batch(folder: Path, manifest: Manifest) -> Manifest:
    """Begin a batch in an empty folder, or continue the one that is there; `n` may have grown, and the
    workers stay those of the beginning.

    Raises:
        ConfigurationError: the folder holds another batch, naming the differences.
    """
    if not (folder / FILE).is_file():
        if folder.is_dir() and any(not file.name.startswith(".") for file in folder.iterdir()):
            raise ConfigurationError(
                "The folder {folder} is not empty and contains no batch: name another one with --out.", folder=folder
            )
        manifest.write(folder)
        return manifest
    present = Manifest.read(folder)
    if names := present.differences(manifest):
        raise ConfigurationError(
            "The folder {folder} contains another batch, with {differences}: use the same options to "
            "continue it, or name another folder with --out.",
            folder=folder,
            differences=", ".join(f"{name} {_shown(present, name)}" for name in names),
        )
    if manifest.n > present.n:
        present = replace(present, n=manifest.n)
        present.write(folder)
    return present


def _shown(manifest: Manifest, name: str) -> str:
    value: Any = getattr(manifest, name)
    return value[:12] if name == "digest" else json.dumps(value, ensure_ascii=False)


def log_file(folder: Path, planned: Planned) -> Path:
    """Where the log of a conversation is, or will be."""
    return log_file_of(folder, planned.conversation_id)


def log_file_of(folder: Path, conversation_id: str) -> Path:
    """The same, of the conversation of that id."""
    return folder / "logs" / f"{conversation_id}.jsonl"


def is_finished(folder: Path, planned: Planned) -> bool:
    """Whether the conversation has a log that ends."""
    file = log_file(folder, planned)
    return file.is_file() and read_log(file).ending is not None


def unfinished(folder: Path, manifest: Manifest) -> Sequence[Planned]:
    """The conversations that are still to be held."""
    return [planned for planned in manifest.conversations() if not is_finished(folder, planned)]


@dataclass(frozen=True)
class Progress:
    """What a worker says: a conversation is started, finished or failed. The first one, "begun", is of none."""

    conversation_id: str
    status: str
    error: str = ""
    finished: int = 0
    """Conversations of the batch that have ended, of `total`."""
    total: int = 0


@dataclass(frozen=True)
class BatchResult:
    """How a batch went: how many conversations there are, how many have ended, and why others did not."""

    total: int
    finished: int
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counting:
    """Where a batch's model calls count towards limits of spending.

    `database` is the path or URL of a database; empty: that of the batch's first worker. `tenant` is the prefix of the
    tenant whose calls they are. `limits` are `SpendLimits` as JSON; None: those of the agents file.
    """

    database: str = ""
    tenant: str = ""
    limits: Json | None = None


HERE: Final = Counting()
"""In the batch's own databases."""


async def rehearse(
    folder: Path,
    manifest: Manifest,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    language: Language = "en",
    counting: Counting = HERE,
) -> BatchResult:
    """Hold the conversations of a batch that have not ended yet; `language` is that of errors.

    Limits of the agents file's [spend] hold for all workers together.

    Each worker has a process and a database. After a crash of this process or a worker the same call continues:
    finished conversations and turns are not repeated.

    Raises:
        ConfigurationError: the folder holds another batch or cannot be written, another process works on this batch,
            or it names what is not there.
    """
    check_writable(folder / FILE)
    await check(manifest)
    try:
        with _lock(folder).acquire(timeout=0):
            return await _run_workers(folder, open_batch(folder, manifest), on_progress, language, counting)
    except Timeout:
        raise ConfigurationError(
            "Another process is working on the batch in {folder}: wait for it to end.", folder=folder
        ) from None


def _lock(folder: Path) -> FileLock:
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".lock")


async def _run_workers(
    folder: Path,
    manifest: Manifest,
    on_progress: Callable[[Progress], None],
    language: Language,
    counting: Counting,
) -> BatchResult:
    todo = unfinished(folder, manifest)
    finished, errors = manifest.n - len(todo), list[str]()

    def note(progress: Progress) -> None:
        nonlocal finished
        finished += progress.status == "finished"
        if progress.status == "failed":
            errors.append(f"{progress.conversation_id}: {progress.error}")
        on_progress(replace(progress, finished=finished, total=manifest.n))

    note(Progress("", "begun"))
    async with asyncio.TaskGroup() as group:
        for worker in sorted({planned.worker for planned in todo}):
            group.create_task(_watch(folder, worker, language, counting, note, errors))
    return BatchResult(manifest.n, manifest.n - len(unfinished(folder, manifest)), tuple(errors))


async def _watch(
    folder: Path,
    worker: int,
    language: Language,
    counting: Counting,
    on_progress: Callable[[Progress], None],
    errors: list[str],
) -> None:
    """Start a worker and pass on what it says; its standard input stays open as long as this process lives.

    Its first line says where calls count: the URL of a database may hold a password.
    """
    command = (sys.executable, "-m", "segue.testing.rehearsal.worker", str(folder), str(worker), language)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    stderr = asyncio.create_task(process.stderr.read())
    try:
        process.stdin.write(json.dumps(asdict(counting)).encode() + b"\n")
        async for line in process.stdout:
            on_progress(_read(line))
        if await process.wait():
            lines = (await stderr).decode("utf-8", "replace").strip().splitlines()
            ended = task_text("worker_ended", language, worker=worker, code=process.returncode)
            errors.append(lines[-1] if lines else ended)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _read(line: bytes) -> Progress:
    form: Json = json.loads(line)
    return Progress(form["conversation_id"], form["status"], form["error"])


async def check(manifest: Manifest) -> None:
    """Refuse a batch that names what is not there.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    async with opened(manifest, ":memory:") as app:
        check_with(app, manifest)


def check_with(app: App, manifest: Manifest) -> None:
    """Refuse a batch that names what an app does not have, or what its restrictions do not allow.

    Raises:
        ConfigurationError, UnknownAgent, UnknownTool: also where a person would have to approve calls.
    """
    first = {planned.scenario: planned.config for planned in manifest.conversations()}
    for config in first.values():
        check_config(app, config)
        if asked := asked_tools(app, config):
            raise ConfigurationError(
                "Nobody can be asked in a batch, but the tools {tools} need approval: use a simulated API or "
                'approvals = "reject". To run them, set approvals = "approve", and auto_approve_conversations = true '
                "in the [approvals] table of the agents file.",
                tools=listed(asked),
            )


@asynccontextmanager
async def opened(
    manifest: Manifest, path: str | Path, counting: Counting | None = None, batch: str = ""
) -> AsyncIterator[App]:
    """An app with the batch's agents; modules are looked for in this folder and beside the agents file.

    The calls of the `batch` count where `counting` says, and in the app's own database without it.
    """
    folders = [Path.cwd(), *([Path(manifest.agents).parent] if manifest.agents else ())]
    sys.path.extend(str(folder) for folder in folders if str(folder) not in sys.path)
    settings: dict[str, Any] = {}
    if file := manifest.agents:
        settings = {"agents": load_agents(file), "modes": {**load_modes(file), **load_flows(file)}}
        audit = load_audit(file)  # of several databases: their heads cannot go to one file
        settings |= {"audit": audit and AuditSettings(enabled=audit.enabled), "approvals": load_deadlines(file)}
        settings["spend"] = load_spend(file)
    if counting and counting.limits is not None:
        settings["spend"] = spend_limits(counting.limits)
    async with AsyncExitStack() as closing:
        elsewhere = None
        if counting and settings.get("spend"):
            elsewhere = await open_storage(counting.database)
            closing.push_async_callback(elsewhere.close)
        app = await closing.enter_async_context(open_app(path, **settings))
        if counting and elsewhere:
            app.tasks.count_in(elsewhere.spend, counting.tenant, batch)
        yield app
