"""The branches of conversations: threads that repeat another one up to a turn."""

from segue.core.audit import Act
from segue.core.records import names_of, readable, to_row
from segue.core.timeline import Branch

from .ports import Connection, insert_into

_PUT = f"""
    {insert_into("branches", names_of(Branch))}
    ON CONFLICT (thread_id) DO UPDATE SET root = excluded.root, parent = excluded.parent, turn = excluded.turn
"""
_UNNAME = "DELETE FROM titles WHERE thread_id = ?"
_SAME_TITLE = """
    INSERT INTO titles (thread_id, title) SELECT :thread_id, title FROM titles WHERE thread_id = :parent
"""
_LIST = """
    SELECT * FROM branches
    WHERE root = coalesce((SELECT root FROM branches WHERE thread_id = :thread_id), :thread_id)
    ORDER BY (SELECT min(position) FROM tasks WHERE tasks.thread_id = branches.thread_id)
"""


def put_branch(connection: Connection, branch: Branch) -> None:
    """Store, in the transaction that stores its first task, that a thread is a branch, with its parent's title."""
    connection.execute(_PUT, to_row(Branch, vars(branch)))
    connection.execute(_UNNAME, (branch.session_id,))
    connection.execute(_SAME_TITLE, to_row(Branch, vars(branch)))


def branched(branch: Branch) -> Act:
    """What the audit log has of a new branch."""
    return Act("branched", {"from": branch.parent, "turn": branch.turn})


def branches_of(connection: Connection, thread_id: str) -> list[Branch]:
    """The branches of a thread's conversation, its first thread at the beginning; empty where it has none.

    Those that cannot be read are left out.
    """
    found = readable(Branch, connection.fetched(_LIST, {"thread_id": thread_id}))
    return [Branch(found[0].root, found[0].root, "", 1), *found] if found else []
