"""The log of a conversation: JSON lines, first what it is about, then each utterance, last how it ended."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from ..core.conversation import Conversation, Ending, EndReason, Utterance, config_of
from ..core.errors import ConfigurationError
from ..core.records import Json
from .text_file import replace_text

VERSION = 1
"""The version of the format."""


def write_log(conversation: Conversation, path: str | Path, *, time: str = "") -> None:
    """Write the log, in place of an earlier one; a conversation that has not ended has no last line."""
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in _lines(conversation, time))
    replace_text(Path(path), "".join(lines))


def _lines(conversation: Conversation, time: str) -> Iterator[Json]:
    config = conversation.config
    yield {
        "type": "meta",
        "version": VERSION,
        "segue": version("segue"),
        "conversation_id": conversation.conversation_id,
        "task_id": conversation.task_id,
        "language": conversation.language,
        "seed": config.seed,
        "workflow": config.workflow,
        "config": config.model_dump(mode="json", exclude_defaults=True),
        "time": time,
    }
    for utterance in conversation.utterances:
        yield {"type": "utterance", **utterance.json()}
    if conversation.ending:
        yield {"type": "end", **asdict(conversation.ending), "state": dict(conversation.state)}


def read_log(path: str | Path) -> Conversation:
    """Read a conversation's log.

    Raises:
        ConfigurationError: the file cannot be read, or is not a log of this version.
    """
    file = Path(path)
    try:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        return _conversation(lines)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError("The log {file} cannot be read: {error}.", file=file, error=error) from error


def _conversation(lines: list[Json]) -> Conversation:
    meta = lines[0]
    if meta.get("type") != "meta" or meta.get("version") != VERSION:
        raise ValueError(f"its first line is not the meta line of version {VERSION}")
    end = lines[-1] if lines[-1]["type"] == "end" else {}
    return Conversation(
        conversation_id=meta["conversation_id"],
        config=config_of(meta["config"]),
        utterances=tuple(Utterance.of(line) for line in lines if line["type"] == "utterance"),
        state=end.get("state", {}),
        ending=ending_of(end) if end else None,
        language=meta["language"],
        task_id=meta["task_id"],
    )


def ending_of(form: Json) -> Ending:
    """The ending in a line or a result."""
    return Ending(
        reason=EndReason(form.get("reason") or form["end_reason"]),
        turns=form["turns"],
        usage=form.get("usage", {}),
        seconds=form.get("seconds", 0.0),
    )
