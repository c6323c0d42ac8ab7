"""New ids for the tasks of a thread that is copied: in every row, also inside its state."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from segue.core.context import Ids
from segue.core.errors import TaskError
from segue.core.records import Json

from ..ports import CheckpointRow, WriteRow
from ..state.compression import Undecodable
from ..state.msgpack import rewritten
from ..state.serializer import named

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# What follows the first digits of a whole id, or of its beginning where it names a tool's result,
# `<task>.<scope>.<index>`: a hyphen or a dot is found several times sooner than digits.
_PLACES = re.compile(
    r"-(?<=[0-9a-f]{8}-)[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\.(?<=[0-9a-f]{8}\.)(?=[^\s.]{1,64}\.\d)"
)
_DIGITS = 8


def is_id(text: str) -> bool:
    """Whether a text is an id as Segue gives them to tasks."""
    return re.fullmatch(UUID, text) is not None


class Renaming:
    """A new id for each of some tasks.

    State, messages, ledger and events name a task by its id in many places, in texts among others.
    """

    def __init__(self, task_ids: Iterable[str]) -> None:
        mint = Ids().task
        self.new: dict[str, str] = {}
        for old in task_ids:
            if not is_id(old):
                raise TaskError(
                    "The task {old} has an id that Segue did not give it: its session cannot be copied.", old=old
                )
            self.new[old] = mint()
        self._texts = {**self.new, **{old[:8]: new[:8] for old, new in self.new.items()}}

    def of(self, value: Any) -> Any:
        """The value of a column with the new ids in it; numbers and None stay."""
        return self._replaced(value) if isinstance(value, str) else value

    def row(self, columns: Mapping[str, Any]) -> Json:
        """A row with the new ids in it."""
        return {name: self.of(value) for name, value in columns.items()}

    def typed(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of a value with the new ids in it; one that cannot be read stays as it is."""
        with suppress(Undecodable), named():
            return (kind, rewritten(data, self.of, of_key=self.of)) if kind == "msgpack" else (kind, data)
        return kind, data

    def checkpoint(self, row: CheckpointRow) -> CheckpointRow:
        """A checkpoint with the new ids in its state and metadata."""
        state, metadata = self.typed(*row.state), self.of(row.metadata)
        return CheckpointRow(row.inside, row.checkpoint_id, row.parent_id, state, metadata)

    def write(self, row: WriteRow) -> WriteRow:
        """A write with the new ids in its value."""
        value = self.typed(*row.value) if row.value else None
        return WriteRow(row.inside, row.checkpoint_id, row.task_id, row.task_path, row.idx, row.channel, value)

    def _replaced(self, value: str) -> str:
        """The value with each id that has a new one replaced by that."""
        parts: list[str] = []
        passed = end = 0
        for place in _PLACES.finditer(value):
            begin = place.start() - _DIGITS
            until = place.end() if place.end() - place.start() > 1 else place.start()  # without the dot
            if begin < passed:  # its digits end another one
                continue
            passed = until
            if (replacement := self._texts.get(value[begin:until])) is not None:
                parts += [value[end:begin], replacement]
                end = until
        parts.append(value[end:])
        return "".join(parts)
