"""Transcripts of failed conversations, with the utterance that the attribution cites."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.conversation import PREFIXES, Conversation, Role, Utterance, shown, spoken
from ..batch.manifest import log_file_of
from ..log import read_log
from .outcome import Fault, Outcome
from .summary import Report


@dataclass(frozen=True)
class Line:
    """One utterance as the page shows it; `note` says what the text does not: a status code or a controller."""

    index: int
    turn: int
    role: str
    prefix: str
    text: str
    note: str
    action: bool
    cited: bool


@dataclass(frozen=True)
class Transcript:
    """A failed conversation."""

    outcome: Outcome
    log: str
    """The log's path, from the report's folder."""
    lines: Sequence[Line]


def transcripts_of(report: Report, folder: Path) -> list[Transcript]:
    """The transcripts of a report's failures, from the logs in the batch's folder."""
    found = []
    for outcome in report.failures:
        assert outcome.fault
        file = log_file_of(folder, outcome.conversation_id)
        lines = _lines(read_log(file), outcome.fault)
        found.append(Transcript(outcome, file.relative_to(folder).as_posix(), lines))
    return found


def _lines(conversation: Conversation, fault: Fault) -> list[Line]:
    cited = _cited(conversation, fault)
    return [
        Line(u.index, u.turn, u.role.value, PREFIXES[u.role], spoken(u), _note(u), u.is_action, u.index == cited)
        for u in shown(conversation)
    ]


def _cited(conversation: Conversation, fault: Fault) -> int:
    """The index of the line to show: the cited utterance or, where it has no words, the last one before it."""
    lines = list(shown(conversation))
    until = [u for u in lines if (u.turn <= fault.turn if fault.index < 0 else u.index <= fault.index)]
    return (until or lines[:1] or [Utterance(index=-1, turn=0, role=Role.USER)])[-1].index


def _note(utterance: Utterance) -> str:
    code = "" if utterance.status_code is None else str(utterance.status_code)
    return " ".join(part for part in (code, utterance.controller, utterance.error) if part)
