"""Turn by turn: read a line, answer it, until the person leaves."""

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches

from rich.text import Text

from ...core.errors import SegueError, TaskUnfinished, ThreadBusy
from ...core.records import SessionFilter, Task
from ...core.task import OPEN, TaskStatus, check_session
from ...core.timeline import SHORT
from ..dialog import ConversationLoop, is_command
from ..exits import sentence_of
from ..hints import busy_hints, unfinished_hint
from ..prompt import Choices, Prompt, open_prompt
from ..settings import Settings
from ..views.console import print_error
from ..views.lines import header, print_heading, usage_parts
from ..views.tables import print_history, print_pairs, print_sessions
from ..views.timeline import Reverted, effect_lines, print_branches, print_timeline, undo_lines
from .inspect import list_sessions, print_trace, read_trace
from .rewind import list_snapshots, revert

MOST_OFFERED = 50
"""Sessions and tasks that are offered as completions."""


def converse(settings: Settings) -> int:
    """Talk until Ctrl-D, /exit, or Ctrl-C while nothing runs."""
    with ConversationLoop(settings, framed=False) as loop:
        talk = ChatCommands(loop, settings)
        prompt = open_prompt(settings.say("prompt"), talk.about)
        talk.open()
        while (text := loop.run(talk.read(prompt))) is not None and talk.take(text):
            pass
        talk.close()
    return loop.leave(0)


class ChatCommands:
    """The commands that begin with a slash, and everything else, which is a message."""

    def __init__(self, loop: ConversationLoop, settings: Settings) -> None:
        self._loop = loop
        self._settings = settings
        self._talk = loop.conversation
        self._files: list[str] = []
        """What goes along with the next message."""
        self._commands: dict[str, Callable[[str], bool]] = {
            "/help": self._help,
            "/mode": self._mode,
            "/agent": self._agent,
            "/model": self._model,
            "/new": self._new,
            "/session": self._session,
            "/sessions": self._sessions,
            "/history": self._history,
            "/trace": self._trace,
            "/cost": self._cost,
            "/timeline": self._timeline,
            "/fork": self._fork,
            "/edit": self._edit,
            "/undo": self._undo,
            "/resume": self._resume,
            "/steer": self._steer,
            "/file": self._file,
            "/cancel": self._cancel,
            "/exit": lambda _: False,
        }

    @property
    def about(self) -> dict[str, str]:
        """What each command does, in a few words."""
        pairs = (line.partition("\t") for line in self._text("help").splitlines())
        return {keys.partition(" ")[0]: what for keys, _, what in pairs}

    async def read(self, prompt: Prompt) -> str | None:
        """What the person writes next; None when they leave."""
        return await prompt.read(await self.choices())

    async def choices(self) -> Choices:
        """The commands, and what each may be followed by."""
        app = self._talk.app
        tasks = [task.task_id for task in await app.tasks.list(limit=MOST_OFFERED)]
        arguments: Choices = {
            "/mode": app.modes,
            "/agent": [*app.agents],
            "/session": [session.session_id for session in await app.sessions.list(MOST_OFFERED)],
            **dict.fromkeys(("/trace", "/resume", "/cancel"), tasks),
        }
        return {name: arguments.get(name, ()) for name in self._commands}

    def open(self) -> None:
        """Print who answers, and how to get help."""
        agents = self._talk.app.agents
        agent = agents.get(self._talk.agent) or next(iter(agents.values()))
        model = self._talk.app.model_for(agent.agent_id, self._settings.model)
        mode = self._talk.mode or agent.mode
        heading = header(
            agent.agent_id, model, mode, self._talk.session, self._settings.database, self._settings.ui_language
        )
        print_heading(self._talk.console, model, heading, self._settings.ui_language)
        self._say(self._text("help_hint"))

    def close(self) -> None:
        """Print how to come back, if anything was said."""
        if task := self._loop.run(self._talk.app.tasks.newest(self._talk.session)):
            self._talk.print_continue_hint(task)

    def take(self, line: str) -> bool:
        """Carry a line out; False means that the person leaves."""
        name, _, rest = line.strip().partition(" ")
        try:
            if command := self._commands.get("/exit" if name == "/quit" else name):
                return command(rest.strip())
            if is_command(name) and (nearest := get_close_matches(name, self._commands, 1, 0.65)):
                self._say(self._text("no_command_but", name=name, nearest=nearest[0]))
            elif is_command(name):
                self._say(self._text("no_command", name=name))
                self._help("")
            elif name:
                self._loop.run_turns(self._talk.send(line, files=self._files))
                self._files = []
        except TaskUnfinished as error:
            task = self._latest()
            print_error(
                sentence_of(error, self._settings),
                self._text("hint_waiting" if task and task.status == TaskStatus.WAITING else "hint"),
            )
        except ThreadBusy as error:
            if task := self._latest():
                print_error(*self._loop.run(busy_hints(self._talk.app, self._settings, task.task_id, error)))
        except SegueError as error:
            print_error(sentence_of(error, self._settings))
        return True

    def _text(self, name: str, /, **slots: object) -> str:
        """A text in the terminal's language."""
        return self._settings.say(name, **slots)

    def _say(self, text: str) -> None:
        self._talk.console.print(Text(text, style="dim"))

    def _help(self, _: str) -> bool:
        print_pairs(self._talk.console, self._text("help"))
        return True

    def _mode(self, name: str) -> bool:
        modes = self._talk.app.modes
        if name in modes:
            self._talk.mode = name
            self._say(self._text("mode_now", name=name))
        else:
            self._say(self._text("mode_usage", names=", ".join(modes)))
        return True

    def _agent(self, name: str) -> bool:
        agents = self._talk.app.agents
        if name in agents:
            self._talk.settings = replace(self._talk.settings, agent=name)
            self._say(self._text("agent_now", name=name))
        else:
            self._say(self._text("agent_usage", names=", ".join(agents)))
        return True

    def _model(self, name: str) -> bool:
        if name:
            model = self._talk.app.model_for(self._talk.agent, name)
            self._talk.settings = replace(self._talk.settings, model=name)
            self._say(self._text("model_now", name=model.name))
        else:
            self._say(self._text("model_usage"))
        return True

    def _session(self, name: str) -> bool:
        if name:
            check_session(name)
            self._move_to(name)
        else:
            self._say(self._text("session_usage"))
        return True

    def _move_to(self, session: str) -> None:
        self._talk.session = session
        self._say(self._text("session_now", name=session))

    def _new(self, _: str) -> bool:
        self._move_to(self._talk.app.sessions.new_id())
        return True

    def _sessions(self, _: str) -> bool:
        found, interrupted = self._loop.run(
            list_sessions(self._talk.app, self._settings, MOST_OFFERED, SessionFilter(archived=False))
        )
        print_sessions(self._talk.console, found, interrupted, self._settings)
        return True

    def _history(self, _: str) -> bool:
        messages = self._loop.run(self._talk.app.history(self._talk.session))
        hints = self._loop.run(unfinished_hint(self._talk.app, self._settings, self._talk.session))
        print_history(self._talk.console, messages, self._settings.ui_language, hints)
        return True

    def _trace(self, task_id: str) -> bool:
        if name := self._named(task_id):
            found, interrupted = self._loop.run(read_trace(self._talk.app, name))
            print_trace(self._talk.console, found, self._settings, interrupted=interrupted)
        return True

    def _cost(self, _: str) -> bool:
        used = self._loop.run(self._talk.app.tasks.usage(session_id=self._talk.session))
        parts = [self._text("tasks_counted", n=used.tasks), *usage_parts(used.json(), self._settings.ui_language)]
        self._say(" · ".join(parts))
        return True

    def _timeline(self, _: str) -> bool:
        if self._latest():
            listing = list_snapshots(self._talk.app, self._settings, self._talk.session, MOST_OFFERED)
            found, entries, branches = self._loop.run(listing)
            print_timeline(self._talk.console, entries, self._settings, "/fork {}".format)
            print_branches(self._talk.console, branches, found, self._settings, "/session {}".format)
        return True

    def _fork(self, snapshot: str) -> bool:
        """Go on in a new session from a snapshot, by default the newest one of this session."""
        if self._latest():
            back = self._loop.run(revert(self._talk.app, snapshot or self._talk.session, False))
            session = self._talk.app.sessions.new_id()
            task = self._loop.run(self._talk.app.rewind.fork(back.place.session_id, back.place.checkpoint_id, session))
            self._print_effects(back)
            self._move_to(session)
            if task and task.status in OPEN:
                self._say(self._text("hint_waiting" if task.status == TaskStatus.WAITING else "hint"))
        return True

    def _edit(self, text: str) -> bool:
        """Send a message of the session again as another one, in a branch of the conversation."""
        task = self._latest()
        if not text:
            self._say(self._text("edit_usage"))
        elif task:
            place, _, message = text.partition(" ")
            app = self._talk.app
            turns = {each.short_id: each.task_id for each in self._loop.run(app.rewind.timeline(task.session_id))}
            if message.strip() and (turn := turns.get(place)):
                task, text = self._loop.run(app.task(turn)), message.strip()
            before = self._loop.run(app.rewind.before_turn(task.task_id)).checkpoint_id
            self._print_effects(self._loop.run(revert(app, f"{task.session_id}/{before}", False)))
            begun = self._loop.run(app.rewind.branch(task.task_id, app.sessions.new_id(), text))
            self._move_to(begun.session_id)
            self._loop.run_turns(self._talk.show(begun))
        return True

    def _undo(self, snapshot: str) -> bool:
        """Undo the calls after a snapshot, by default those of the last turn."""
        if task := self._latest():
            app = self._talk.app
            if not snapshot:
                before = self._loop.run(app.rewind.before_turn(task.task_id)).checkpoint_id
                snapshot = f"{task.session_id}/{before}"
            back = self._loop.run(revert(app, snapshot, True))
            for line in undo_lines(back, self._settings, _undo_command(back)):
                self._say(line)
        return True

    def _print_effects(self, back: Reverted) -> None:
        for line in effect_lines(back, self._settings, _undo_command(back)):
            self._say(line)

    def _resume(self, task_id: str) -> bool:
        if task := self._named(task_id):
            self._loop.run_turns(self._talk.resume(task))
        return True

    def _steer(self, text: str) -> bool:
        if text:
            self._loop.run_turns(self._talk.send(text, steer=True))
        else:
            self._say(self._text("steer_usage"))
        return True

    def _file(self, path: str) -> bool:
        if path:
            self._loop.run(self._talk.app.files.read([*self._files, path]))
            self._files.append(path)
            self._say(self._text("file_added", names=", ".join(self._files)))
        elif self._files:
            self._files = []
            self._say(self._text("files_removed"))
        else:
            self._say(self._text("file_usage"))
        return True

    def _cancel(self, task_id: str) -> bool:
        if task := self._named(task_id):
            self._loop.run(self._talk.app.cancel(task))
            self._say(self._text("task_cancelled"))
        return True

    def _named(self, task_id: str) -> str:
        """The id of the task that is named, or of the session's last one; empty where there is none."""
        if task_id:
            return str(self._loop.run(self._talk.app.tasks.find(task_id)))
        latest = self._latest()
        return latest.task_id if latest else ""

    def _latest(self) -> Task | None:
        latest: Task | None = self._loop.run(self._talk.app.tasks.newest(self._talk.session))
        if latest is None:
            self._say(self._text("nothing_sent"))
        return latest


def _undo_command(back: Reverted) -> str:
    return f"/undo {back.place.session_id}/{back.place.checkpoint_id[-SHORT:]}"
