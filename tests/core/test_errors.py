"""Errors: every one in the drawing, in its place, with a sentence that helps; and names without passwords."""

import inspect
import re

from segue.core import errors
from segue.core.environment import without_password
from segue.core.errors import SegueError
from tests.cases import cases

DEFINED = {
    name: member
    for name, member in inspect.getmembers(errors, inspect.isclass)
    if issubclass(member, BaseException) and member.__module__ == "segue.core.errors"
}
MADE = [
    SegueError("It did not work: try again."),
    errors.AppClosed(),
    errors.LedgerClosed(),
    errors.OtherProcess("segue.db"),
    errors.InsideEventLoop(),
    errors.BlockingCall(),
    errors.UnknownOption("x", ["mode", "model"]),
    errors.UnknownAgent("x", ["travel", "support"]),
    errors.UnknownWorkflow("x", ["travel_change"]),
    errors.UnknownScenario("x", ["change_with_fee"]),
    errors.InvalidWorkflow("mine.md", 12, "slots.name.ask", "{problem}", problem="field required"),
    errors.UnknownMode("x", ["direct", "react"]),
    errors.UnknownTool("x", []),
    errors.UnknownLanguage("x"),
    errors.UnknownModel("gpt"),
    errors.MissingKey("openai:gpt-4.1-mini"),
    errors.MissingExtra("The server", "serve"),
    errors.ToolServerUnavailable("shop", "its command was not found"),
    errors.LoginRequired("shop"),
    errors.IllegalTransition("done", "running"),
    errors.UnknownTask("t1"),
    errors.UnknownSchedule("weekly"),
    errors.UnknownMemory("logs.md"),
    errors.UnknownFact("task-1-1"),
    errors.UnknownThread("s1"),
    errors.UnknownField("a", "agents.toml", ["mcp", "0", "comand"], ["command", "name"]),
    errors.UnknownSnapshot("s1", "1f1e"),
    errors.UnknownPlace("1f1e"),
    errors.QuestionClosed("t1", "q1"),
    errors.NothingStored(),
    errors.ThreadExists("s1"),
    errors.KeyUsed("order-17"),
    errors.InvalidExport("it has no version"),
    errors.TaskUnfinished("s1", "t1", "paused"),
    errors.TaskPinned("t1", "support", "2026-12-01"),
    errors.ThreadBusy("s1"),
    errors.TooManyTasks(32, 256),
    errors.DamagedSession("s1", "its row is none", "The row is damaged: recover the session."),
    errors.DamagedCheckpoint("s1", "it cannot be decoded"),
    errors.DamagedRow("s1", "status: no text", "task 't1'"),
    errors.UnreadableState("s1", "it cannot be decoded"),
    errors.FileUnavailable("missing", "segue.db.files/aa"),
    errors.NothingReadable("s1", "it cannot be decoded"),
    errors.DatabaseTooNew("segue.db", 3, 2),
    errors.StaleOwner("s1"),
]


def drawn() -> dict[str, str]:
    """Each class in the module's drawing, and the class that it hangs from."""
    parents: dict[str, str] = {}
    line_of: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^([│├└─ ]*)([A-Z]\w+(?: · [A-Z]\w+)*)(?: {2,}.*)?$", line)
        if not found or (not found[1] and line_of):
            continue
        depth = len(found[1]) // 4
        names = found[2].split(" · ")
        parents |= {name: line_of[depth - 1] if depth else "RuntimeError" for name in names}
        line_of[depth:] = [names[-1]]
    return parents


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {name: kind.__bases__[0].__name__ for name, kind in DEFINED.items()}


@cases("kind", DEFINED.values())
def test_every_error_has_a_sentence_of_its_own(kind: type[SegueError]) -> None:
    assert "__doc__" in vars(kind)
    doc = inspect.getdoc(kind) or ""
    assert doc[0].isupper()
    assert doc.endswith(".")
    assert issubclass(kind, SegueError)


@cases("error", MADE)
def test_a_message_is_a_sentence(error: SegueError) -> None:
    assert str(error)[0].isupper()
    assert str(error).endswith(".")
    assert "\n" not in str(error)


def test_every_error_that_writes_its_own_message_is_tried_here() -> None:
    assert {type(error) for error in MADE} == {kind for kind in DEFINED.values() if "__init__" in vars(kind)}


def test_messages_name_what_there_is_and_what_to_do() -> None:
    said = {type(error).__name__: str(error) for error in MADE}
    assert said["UnknownAgent"] == "There is no agent 'x'; use one of: travel, support."
    assert said["UnknownTool"] == "There is no tool 'x'; use one of: none."
    assert "OPENAI_API_KEY" in said["MissingKey"] and "--model offline" in said["MissingKey"]
    assert "pip install 'segue[serve]'" in said["MissingExtra"]
    assert "cancel task 't1'" in said["TaskUnfinished"]
    assert "--db" in said["DatabaseTooNew"]


def test_names_may_come_from_a_generator() -> None:
    assert errors.listed(name for name in ("a", "b")) == "a, b"


def test_an_unfinished_task_carries_its_id() -> None:
    assert errors.TaskUnfinished("s1", "t1", "paused").task_id == "t1"


# The name of a database, as it is shown.


@cases(
    "given, shown",
    [
        ("a?password=b.db", "a?password=b.db"),
        ("postgresql://ann:s3cret@host:5432/db", "postgresql://ann@host:5432/db"),
        ("postgresql://ann:s3@/?cret@host/db", "postgresql://ann@host/db"),
        ("postgres:///db?sslpassword=s3cret&host=/run", "postgres:///db?host=/run"),
        ("postgresql://host/db?sslmode=require&password=s3cret", "postgresql://host/db?sslmode=require"),
        ("postgresql://host/db?password=s3@cret", "postgresql://host/db"),
        ("postgresql://host/db?user=ann@corp&password=s3cret", "postgresql://host/db?user=ann@corp"),
    ],
)
def test_no_password_is_shown(given: str, shown: str) -> None:
    assert without_password(given) == shown
