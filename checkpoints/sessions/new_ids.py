"""New ids for the tasks of a thread that is copied: in every row, also inside what is stored as bytes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, AnyStr

from segue.core.errors import TaskError
from segue.core.ids import Ids
from segue.core.records import Json

from ..ports import CheckpointRow, WriteRow
from ..state.compression import Undecodable, decompressed
from ..state.serializer import checksummed, without_key

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# What follows the first digits of a whole id, or of its beginning where it names a tool's result,
# `<task>.<scope>.<index>`: a hyphen or a dot is found several times sooner than digits.
_PLACES = (
    r"-(?<=[0-9a-f]{8}-)[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\.(?<=[0-9a-f]{8}\.)(?=[^\s.]{1,64}\.\d)"
)
_DIGITS = 8
_IN_TEXT = re.compile(_PLACES)
_IN_BYTES = re.compile(_PLACES.encode())


def is_id(text: str) -> bool:
    """Whether a text is an id as Segue gives them to tasks."""
    return re.fullmatch(UUID, text) is not None


class Renaming:
    """A new id for each of some tasks.

    State, messages, ledger and events name a task by its id in many places. All ids are equally long, so one takes
    another's place in msgpack and JSON alike without being decoded.
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
        self._bytes = {old.encode(): new.encode() for old, new in self._texts.items()}

    def of(self, value: Any) -> Any:
        """The value of a column with the new ids in it; numbers and None stay."""
        if isinstance(value, str):
            return _replaced(value, _IN_TEXT, self._texts)
        if isinstance(value, bytes):
            return _replaced(value, _IN_BYTES, self._bytes)
        return value

    def row(self, columns: Mapping[str, Any]) -> Json:
        """A row with the new ids in it."""
        return {name: self.of(value) for name, value in columns.items()}

    def typed(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of a stored value with the new ids in it.

        Its checksum is computed again, unless it was wrong before. It is compressed where it is stored.
        """
        try:
            plain_kind, plain = decompressed(kind, data)
        except Undecodable:
            return kind, data
        if checksummed(plain_kind, plain) != without_key(plain_kind):
            return kind, self.of(data)
        renamed = self.of(plain)
        return str(checksummed(plain_kind, renamed)), renamed

    def checkpoint(self, row: CheckpointRow) -> CheckpointRow:
        """A checkpoint with the new ids in its state and metadata."""
        state, metadata = self.typed(*row.state), self.of(row.metadata)
        return CheckpointRow(row.inside, row.checkpoint_id, row.parent_id, state, metadata)

    def write(self, row: WriteRow) -> WriteRow:
        """A write with the new ids in its value."""
        value = self.typed(*row.value) if row.value else None
        return WriteRow(row.inside, row.checkpoint_id, row.task_id, row.task_path, row.idx, row.channel, value)


def _replaced(value: AnyStr, places: re.Pattern[AnyStr], new: Mapping[AnyStr, AnyStr]) -> AnyStr:
    """The value with each id that has a new one replaced by that."""
    parts: list[AnyStr] = []
    passed = end = 0
    for place in places.finditer(value):
        begin = place.start() - _DIGITS
        until = place.end() if place.end() - place.start() > 1 else place.start()  # without the dot
        if begin < passed:  # its digits end another one
            continue
        passed = until
        if (replacement := new.get(value[begin:until])) is not None:
            parts += [value[end:begin], replacement]
            end = until
    parts.append(value[end:])
    return value[:0].join(parts)
