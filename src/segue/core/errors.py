"""Every error that Segue raises, named by what to do next.

SegueError                  a RuntimeError, so that servers pass its sentence on
├── InvalidMessage          the message is empty or too long, or a file of it cannot be sent: send another
│   ├── InvalidReplyOption  something that a message asks of its reply cannot be done: leave it out
│   └── UnsupportedFile     the model does not read files of that type: leave it out
├── ConfigurationError      something is missing or misspelt: set it
│   ├── UnknownAgent · UnknownMode · UnknownTool · UnknownLanguage · UnknownOption · UnknownModel · UnknownField
│   ├── UnknownWorkflow · UnknownScenario · InvalidWorkflow
│   ├── MissingKey · MissingExtra · InsideEventLoop · BlockingCall
│   └── ToolServerUnavailable   an MCP server does not start or answer
│       └── LoginRequired       it asks for a login
├── ModelError              the model did not answer: check the endpoint, then resume
│   └── ModelUnreachable · ModelRefused · UnreadableReply
├── MemoryUnavailable       a memory file cannot be read or written: the controller sees why
│   └── InvalidMemory · UnknownMemory · UnknownFact
├── InvalidPlan · IllegalTransition · AppClosed · LedgerClosed · OtherProcess
├── TaskError
│   ├── UnknownTask · UnknownThread · UnknownSchedule · NothingStored · AmbiguousTask
│   ├── UnknownSnapshot     the session has no snapshot of that id
│   │   └── UnknownPlace    no session and no snapshot has that name
│   ├── ThreadExists · KeyUsed · InvalidExport
│   ├── TaskPinned          it keeps a version of its agent that is not here: resume it where that is
│   ├── QuestionClosed · InvalidAnswer · NotAnApprover
│   └── ThreadBusy · TaskUnfinished · TooManyTasks
└── StorageError
    ├── DatabaseTooNew · DatabaseUnavailable
    │   ├── DatabaseUnreachable     its server cannot be reached now
    │   └── DatabaseDamaged         the file itself is damaged: restore it from a copy
    │       └── NotADatabase        the file is not a database: name another one
    ├── DamagedSession      part of the session cannot be read: recover it
    │   └── DamagedCheckpoint · DamagedRow · UnreadableState
    └── FileUnavailable · NothingReadable · StaleOwner
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from .variables import masked

# Parts of an error's sentence that have a translation of their own.


def _as_shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a sentence, without those of an agents file's variables."""
    shown = dict(values)
    for name, value in values.items():
        if isinstance(value, str) or (isinstance(value, Exception) and not isinstance(value, SegueError)):
            shown[name] = masked(str(value))
    return shown


class Clause:
    """A template and its values, which may be clauses; its text is English."""

    def __init__(self, template: str, /, **values: object) -> None:
        self.template = template
        self.values = _as_shown(values)

    def __str__(self) -> str:
        return self.template.format(**self.values) if self.values else self.template


def together(clauses: Iterable[Clause]) -> Clause:
    """The clauses as one, separated by semicolons."""
    values = {f"part{place}": clause for place, clause in enumerate(clauses)}
    return Clause("; ".join(f"{{{name}}}" for name in values), **values)


# ---


class SegueError(RuntimeError):
    """The root; its message is one English sentence that says what to do.

    The sentence is `template` with `params` filled in; without params the template is the sentence itself.
    """

    def __init__(self, template: str = "", /, **params: object) -> None:
        super().__init__(masked(template.format(**params) if params else template))
        self.template = template if params else masked(template)
        self.params = _as_shown(params)


def listed(names: Iterable[str]) -> str:
    """Names in their order, comma-separated, or 'none'."""
    return ", ".join(names) or "none"


class InvalidMessage(SegueError):
    """The message cannot be sent: it is empty or longer than the budget allows."""


class InvalidReplyOption(InvalidMessage):
    """Something that a message asks of its reply cannot be done; `option` names it."""

    @property
    def option(self) -> str:
        return str(self.params["option"])


class UnsupportedFile(InvalidMessage):
    """A file of the message has a type that its model does not read."""


class AppClosed(SegueError):
    """The app was used after it was closed."""

    def __init__(self) -> None:
        super().__init__("The app is closed: use it inside `async with segue.open()`, or open it again.")


class LedgerClosed(SegueError):
    """A graph made a tool call through a ledger that was closed; the tool did not run."""

    def __init__(self) -> None:
        super().__init__("The ledger is closed, and the tool did not run: run the graph before close().")


class OtherProcess(SegueError):
    """The app was opened in another process, which this one was forked from."""

    def __init__(self, path: str) -> None:
        super().__init__(
            "The database {path} was opened in another process: call `segue.open()` in each process, after the fork.",
            path=path,
        )


class ConfigurationError(SegueError):
    """A setting is missing or wrong."""


class UnknownAgent(ConfigurationError):
    """No agent is registered under that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__("There is no agent '{name}'; use one of: {known}.", name=name, known=listed(known))


class UnknownMode(ConfigurationError):
    """No mode is registered under that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__("There is no mode '{name}'; use one of: {known}.", name=name, known=listed(known))


class UnknownTool(ConfigurationError):
    """No tool is known under that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__("There is no tool '{name}'; use one of: {known}.", name=name, known=listed(known))


class UnknownOption(ConfigurationError):
    """A message has no option of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__("There is no option '{name}'; use one of: {known}.", name=name, known=listed(known))


class UnknownWorkflow(ConfigurationError):
    """There is no such file and no shipped workflow of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        template = "There is no workflow '{name}'; give a .md or .yaml file, or one of: {known}."
        super().__init__(template, name=name, known=listed(known))


class UnknownScenario(ConfigurationError):
    """The workflow has no scenario of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__("There is no scenario '{name}'; use one of: {known}.", name=name, known=listed(known))


class InvalidWorkflow(ConfigurationError):
    """The file of a workflow or of its scenarios has a fault: correct it. `reason` is a template of the values."""

    def __init__(self, file: str, line: int, field: str, reason: str, **values: object) -> None:
        at = {"file": file, "line": line, "field": f", {field}" if field else ""}
        template = "The workflow is not valid: {file}, line {line}{field}: {reason}."
        super().__init__(template, **at, reason=Clause(reason, **values))


class UnknownField(ConfigurationError):
    """A table of the agents file has no field of that name."""

    def __init__(self, name: str, file: object, path: Sequence[str], known: Sequence[str]) -> None:
        template = "The agent '{name}' in {file} has an unknown field '{field}': use {known}."
        near = listed(get_close_matches(path[-1], known, 1) or known)
        super().__init__(template, name=name, file=file, field=".".join(path), known=near)


class InsideEventLoop(ConfigurationError):
    """A synchronous function was called inside an event loop."""

    def __init__(self, called: str = "segue.ask") -> None:
        super().__init__(
            "A call of {called} cannot run inside an event loop: use `async with segue.open() as app` and "
            "`await app.ask(…)`.",
            called=called,
        )


class BlockingCall(ConfigurationError):
    """A graph was called synchronously on the event loop that would have to run it."""

    def __init__(self) -> None:
        super().__init__(
            "An asynchronous node or tool called `invoke` or `stream` of a graph, which would wait for itself: await "
            "`ainvoke`, or read `astream`."
        )


class UnknownLanguage(ConfigurationError):
    """Segue has no texts in that language."""

    def __init__(self, name: str) -> None:
        template = "The language '{name}' is not supported; use zh or en, or leave it out to follow each message."
        super().__init__(template, name=name)


class UnknownModel(ConfigurationError):
    """The model name has no prefix that Segue knows."""

    def __init__(self, name: str) -> None:
        known = "use openai:<name>, local:<path.gguf> or offline, or pass a chat model object"
        super().__init__(f"The model '{{name}}' is not known; {known}.", name=name)


class MissingKey(ConfigurationError):
    """The endpoint needs a key and none is set."""

    def __init__(self, model: str) -> None:
        ways = "set OPENAI_API_KEY, give the agent an api_key, or use --model offline to try Segue without one"
        super().__init__(f"The model '{{model}}' needs a key: {ways}.", model=model)


class MissingExtra(ConfigurationError):
    """An optional part of Segue is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__("{what} needs an extra: pip install 'segue[{extra}]'.", what=Clause(what), extra=extra)


class ToolServerUnavailable(ConfigurationError):
    """An MCP server of the agent does not start or answer, or an A2A agent that it has as a tool."""

    def __init__(self, server: str, reason: Clause | str, what: Clause | None = None) -> None:
        reason = reason.strip().rstrip(".") if isinstance(reason, str) else reason
        hint = "Check its command or url, or remove it from the agent, then send the message again."
        template = f"The {{what}} '{{server}}' cannot be used: {{reason}}. {hint}"
        super().__init__(template, what=what or Clause("MCP server"), server=server, reason=reason)


class LoginRequired(ToolServerUnavailable):
    """An MCP server asks for a login, or for one with more scopes."""

    def __init__(self, server: str) -> None:
        login = "run `segue mcp login {server}`, then send the message again"
        SegueError.__init__(self, f"The MCP server '{{server}}' requires a login: {login}.", server=server)


class ModelError(SegueError):
    """The model gave no usable reply."""


class ModelUnreachable(ModelError):
    """The endpoint did not answer; the task keeps its progress and can be resumed."""


class ModelRefused(ModelError):
    """The endpoint answered with an error that asking again will not change."""

    may_be_too_long: bool = False
    """Whether a smaller prompt may pass."""
    is_too_long: bool = False
    """Whether it says so."""


class UnreadableReply(ModelError):
    """The reply is not a valid decision or plan; the message says what is wrong with it."""


class InvalidPlan(SegueError):
    """The plan is not valid; the message lists the reasons."""


class MemoryUnavailable(SegueError):
    """A memory file cannot be read or written; the message says why."""


class InvalidMemory(MemoryUnavailable):
    """The name of a memory file cannot be used, or what is written is too much."""


class UnknownMemory(MemoryUnavailable):
    """There is no memory file of that name."""

    def __init__(self, name: str) -> None:
        super().__init__("There is no memory file '{name}'; `segue memory` lists them.", name=name[:200])


class UnknownFact(MemoryUnavailable):
    """Nothing of that key is remembered of the user."""

    def __init__(self, key: str) -> None:
        super().__init__(
            "Nothing is remembered under the key '{key}'; `segue memory facts` lists the keys.", key=key[:200]
        )


class IllegalTransition(SegueError):
    """A status cannot change in this way; nothing was changed."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__("A status cannot change from '{old}' to '{new}'.", old=old, new=new)


class TaskError(SegueError):
    """A task or thread is not in the state that the call needs."""


class AmbiguousTask(TaskError):
    """The text is the beginning of several tasks' ids, or too short to tell."""


class UnknownTask(TaskError):
    """No task has that id."""

    def __init__(self, task_id: str) -> None:
        template = "There is no task '{task_id}' in this database; `segue tasks` lists the tasks."
        super().__init__(template, task_id=task_id)


class UnknownThread(TaskError):
    """No session has that id."""

    def __init__(self, session_id: str) -> None:
        template = "There is no session '{session_id}' in this database; `segue sessions` lists the sessions."
        super().__init__(template, session_id=session_id)


class UnknownSchedule(TaskError):
    """No schedule has that id."""

    def __init__(self, schedule_id: str) -> None:
        template = "There is no schedule '{schedule_id}' in this database; `segue schedules` lists them."
        super().__init__(template, schedule_id=schedule_id)


class NothingStored(TaskError):
    """The database has no session yet."""

    def __init__(self) -> None:
        super().__init__("This database has no sessions yet: `segue chat` starts one.")


class UnknownSnapshot(TaskError):
    """The session has no checkpoint of that id."""

    def __init__(self, session_id: str, checkpoint_id: str) -> None:
        template = "Session '{session_id}' has no snapshot '{checkpoint_id}': `segue timeline {session_id}` lists them."
        super().__init__(template, session_id=session_id, checkpoint_id=checkpoint_id)


class QuestionClosed(TaskError):
    """The question was answered already, or another one took its place; nothing was stored."""

    def __init__(
        self, task_id: str, interrupt_id: str, asked: Mapping[str, Any] | None = None, *, status: str = "waiting"
    ) -> None:
        known: dict[str, Any] = {"task_id": task_id, "interrupt_id": interrupt_id, "status": status}
        template = "Question {interrupt_id} of task {task_id} is no longer open: the task is {status}."
        if asked is not None:
            known["open_id"] = asked["interrupt_id"]
            known["what"] = asked.get("question") or listed(call["name"] for call in asked.get("calls", ()))
            template = "Question {interrupt_id} of task {task_id} is no longer open; {open_id} is: {what}"
        super().__init__(template, **known)


class UnknownPlace(UnknownSnapshot):
    """No session and no snapshot has that name."""

    def __init__(self, text: str) -> None:
        TaskError.__init__(
            self,
            "There is no session and no snapshot '{text}' in this database: `segue timeline SESSION` lists snapshots.",
            text=text,
        )


class ThreadExists(TaskError):
    """A session of that name already exists; nothing was stored."""

    def __init__(self, session_id: str) -> None:
        template = "Session '{session_id}' already exists: choose another name for the new one."
        super().__init__(template, session_id=session_id)


class KeyUsed(TaskError):
    """The idempotency key was used for another request: use a new key for each."""

    def __init__(self, key: str) -> None:
        template = "The idempotency key '{key}' was used for another request: use a new key for each request."
        super().__init__(template, key=key)


class InvalidExport(TaskError):
    """A document cannot be imported; nothing was stored."""

    def __init__(self, reason: str) -> None:
        template = "The document cannot be imported: {reason}. Nothing was stored; export the session again."
        super().__init__(template, reason=reason)


class TaskUnfinished(TaskError):
    """The thread has a task that was stopped; resume or cancel it before sending something new."""

    def __init__(self, session_id: str, task_id: str, status: str) -> None:
        choices = Clause("answer or cancel" if status == "waiting" else "resume, steer or cancel")
        about: dict[str, object] = {"session_id": session_id, "task_id": task_id, "status": status, "choices": choices}
        super().__init__(
            "Session '{session_id}' has a task that is {status}: {choices} task '{task_id}', "
            "then send the message again.",
            **about,
        )
        self.task_id = task_id
        self.status = status


class InvalidAnswer(TaskError):
    """What a person decided does not fit what was asked; nothing was stored."""


class NotAnApprover(TaskError):
    """Somebody else has to approve the call: who has the role, another person, or not the one who asked for it."""


class ThreadBusy(TaskError):
    """Another owner is running a task on this thread; wait until it is done."""

    def __init__(self, session_id: str) -> None:
        template = "Session '{session_id}' is busy with another task: wait for it, or use another session."
        super().__init__(template, session_id=session_id)
        self.session_id = session_id


class TaskPinned(TaskError):
    """The task keeps the version of its agent that it began with; resume it where that is registered."""

    def __init__(self, task_id: str, agent_id: str, version: str | None) -> None:
        super().__init__(
            "Task {task_id} is pinned to version {version} of its agent {agent}: resume it where that version is "
            "registered, or let it continue with another one: segue rollout {task_id} --continue.",
            task_id=task_id,
            version=version,
            agent=agent_id,
        )


class TooManyTasks(TaskError):
    """The process runs as many tasks as it may, and its queue is full; nothing was stored. Try again later."""

    retry_after = 5
    """Seconds."""

    def __init__(self, running: int, queued: int) -> None:
        super().__init__(
            "Too many tasks: {running} running and {queued} queued, which is the limit. Try again in a moment.",
            running=running,
            queued=queued,
        )


class StorageError(SegueError):
    """The database cannot be used as asked."""


class DatabaseUnavailable(StorageError):
    """The database file cannot be opened, locked or written."""


class DatabaseUnreachable(DatabaseUnavailable):
    """The database's server cannot be reached, or has no connection left: it may be back in a moment."""


class DatabaseDamaged(DatabaseUnavailable):
    """The database file is damaged; a task that meets it fails, where it is else resumable."""


class NotADatabase(DatabaseDamaged):
    """The file is not a database, or its first bytes are damaged; name another file."""


class DamagedSession(StorageError):
    """Something of the session cannot be read; `segue recover` repairs it."""

    def __init__(self, session_id: str, reason: str, template: str, **params: object) -> None:
        super().__init__(template, session_id=session_id, reason=reason, **params)
        self.session_id = session_id
        self.reason = reason


class DamagedCheckpoint(DamagedSession):
    """A checkpoint of the session cannot be read; an older one may be."""

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(
            session_id,
            reason,
            "The newest checkpoint of session '{session_id}' is damaged ({reason}): "
            "segue recover {session_id} goes back to the newest one that can be read.",
        )


class DamagedRow(DamagedSession):
    """A row of the session cannot be read; `segue recover` repairs it."""

    def __init__(self, session_id: str, reason: str, what: str) -> None:
        super().__init__(
            session_id,
            reason,
            "{what} of session '{session_id}' is damaged ({reason}): segue recover {session_id} repairs it.",
            what=what[:1].upper() + what[1:],
        )


class UnreadableState(DamagedSession):
    """A checkpoint that an unfinished task would be exported with cannot be read."""

    def __init__(self, session_id: str, reason: str) -> None:
        template = (
            "Session '{session_id}' cannot be exported with its unfinished task, since a checkpoint is damaged "
            "({reason}): segue recover {session_id}. Where that finds nothing, end the task or cancel it first."
        )
        super().__init__(session_id, reason, template)


class FileUnavailable(StorageError):
    """The content of a message's file is missing or damaged."""

    def __init__(self, state: str, path: object) -> None:
        template = "The file {path} of a message is {state}: restore it from a copy, or send it again in a new message."
        super().__init__(template, path=path, state=state)


class NothingReadable(StorageError):
    """No checkpoint of the session can be read; continue in a new one."""

    def __init__(self, session_id: str, reason: str) -> None:
        template = (
            "No checkpoint of session '{session_id}' can be read ({reason}): continue in a new session. None of them "
            "was deleted; `segue tasks` and `segue trace` show what was done in this one."
        )
        super().__init__(template, session_id=session_id, reason=reason)


class DatabaseTooNew(StorageError):
    """The database was written by a newer Segue."""

    def __init__(self, path: str, found: int, known: int) -> None:
        template = (
            "The database {path} has schema version {found} and this Segue supports up to {known}: "
            "upgrade Segue, or name another file with --db."
        )
        super().__init__(template, path=path, found=found, known=known)


class StaleOwner(StorageError):
    """Another process took over the thread; this one must stop without writing."""

    def __init__(self, session_id: str) -> None:
        template = "Another process took over session '{session_id}'; this one stopped without writing."
        super().__init__(template, session_id=session_id)
