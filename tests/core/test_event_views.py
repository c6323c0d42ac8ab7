"""Where people see a durable event: each view shows it, or is listed here as silent on it."""

import inspect
import re
from typing import get_args

from segue.cli.views.task import _Drawing
from segue.core.events import Durable
from segue.runtime.history import _line
from segue.runtime.reply import ReplyStream
from segue.server.app import PAGE
from tests.cases import cases

DURABLE = {kind.type: kind for kind in get_args(Durable)}


def registered(owner: type, name: str) -> set[str]:
    """The events that a method of single dispatch takes."""
    kinds = owner.__dict__[name].dispatcher.registry
    return {name for name, kind in DURABLE.items() if kind in kinds}


def keys_of(file: str, constant: str) -> set[str]:
    """The events that an object of the page has a function for."""
    table = (PAGE / file).read_text(encoding="utf-8").partition(f"const {constant} = {{\n")[2].partition("\n};")[0]
    return {*re.findall(r"^  (\w+):", table, re.M)} & DURABLE.keys()


@cases(
    "view, shown, silent",
    [
        (
            "_of of runtime/reply.py, which protocols and the terminal read",
            registered(ReplyStream, "_of"),
            "action agent_called conversation_end flow_end notes_moved notes_taken observe paused permission_granted "
            "question_answered round_start state_changed task_complete task_started utterance wait_started",
        ),
        (  # approvals, steps and begun calls are drawn as what the fold makes of them
            "_line of cli/views/task.py, which is segue trace",
            registered(_Drawing, "_line"),
            "approval_given lifecycle model_called notes_taken permission_granted state_changed step_update "
            "task_complete task_started tool_call",
        ),
        (
            "_line of runtime/history.py, which is the timeline",
            {name for name, kind in DURABLE.items() if re.search(rf"\b{kind.__name__}\(", inspect.getsource(_line))},
            "agent_called approval_given branch_start call_permitted conversation_end flow_end lifecycle mode_selected "
            "model_called notes_moved notes_taken observe paused permission_granted question_answered recovered "
            "recursion_start resumed round_start state_changed step_update task_complete thought tool_call "
            "wait_started",
        ),
        (
            "FOLDS of the page's state/turn.js, or EXCHANGES of state/exchanges.js",
            keys_of("state/turn.js", "FOLDS") | keys_of("state/exchanges.js", "EXCHANGES"),
            "action branch_end branch_start call_permitted conversation_end flow_end lifecycle notes_taken observe "
            "permission_granted recovered round_start task_complete",
        ),
        (
            "ROWS of the page's panels/parts/spans.js",
            keys_of("panels/parts/spans.js", "ROWS"),
            "action agent_called branch_end call_permitted conversation_end flow_end lifecycle notes_moved notes_taken "
            "observe permission_granted recovered state_changed step_update task_complete thought utterance",
        ),
    ],
)
def test_each_view_shows_an_event_or_is_silent_on_purpose(view: str, shown: set[str], silent: str) -> None:
    assert DURABLE.keys() - shown == {*silent.split()}, f"show it in {view}, or add it to the silent ones of this view"
