"""Whatever a tool returns becomes JSON that a checkpoint takes."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import types
import uuid
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel, RootModel, SecretStr

from segue.tools.calls import DEPTH, NoResult, json_value
from tests.cases import cases


class Colour(enum.Enum):
    RED = "red"
    BOTH = ("red", "blue")


class Size(enum.IntEnum):
    BIG = 3


class Pair(NamedTuple):
    a: int
    b: Any


class Point(BaseModel):
    x: int
    when: datetime.date
    token: SecretStr = SecretStr("s3cret")


@dataclasses.dataclass
class Room:
    number: int
    next: "Room | None" = None


class Numbers:
    """As NumPy's arrays are."""

    def tolist(self) -> list[float]:
        return [1.0, math.nan]

    def __len__(self) -> int:
        raise TypeError


class Thing:
    def __str__(self) -> str:
        return "a thing"


class Loud(str):
    def __str__(self) -> str:
        return self.upper()


class Half(float):
    pass


LOOP: dict[str, Any] = {"n": 1}
LOOP["again"] = [LOOP]
ROOM = Room(1)
ROOM.next = ROOM
SHARED = [1]
MIXED = {"1": "a", "1 (str)": "b", "null": "c", "false": "d", "2.5": "e"}


@cases(
    "value, expected",
    [
        (None, None),
        (True, True),
        ("", ""),
        (-0.0, -0.0),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**63, str(2**63)),
        (-(2**63) - 1, str(-(2**63) - 1)),
        ([1 << 20_000], [hex(1 << 20_000)]),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("nul \0", "nul \0"),
        (b"text \xe6\x98\xaf", "text 是"),
        (bytearray(b"\xff\x00"), {"bytes": 2, "base64": "/wA="}),
        (memoryview(b"ok"), "ok"),
        ((1, (2, 3)), [1, [2, 3]]),
        (Pair(1, b"x"), [1, "x"]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"a"}), ["a"]),
        (range(3), [0, 1, 2]),
        (collections.deque([1]), [1]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        ({"a": 1}.items(), [["a", 1]]),
        (collections.OrderedDict(a=1), {"a": 1}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.UserDict({"a": 1}), {"a": 1}),
        (collections.UserString("text"), "text"),
        ({1: "a", "1": "b", None: "c", False: "d", 2.5: "e"}, MIXED),
        ({Colour.RED: 1, (1, 2): 2, "\ud800": 3, math.nan: 4}, {"red": 1, "(1, 2)": 2, "\ufffd": 3, "NaN": 4}),
        ([Colour.RED, Colour.BOTH, Size.BIG], ["red", ["red", "blue"], 3]),
        (Loud("soft"), "soft"),
        (Half(0.5), 0.5),
        (datetime.date(2026, 5, 1), "2026-05-01"),
        (datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC), "2026-05-01T12:00:00+00:00"),
        (datetime.timedelta(hours=1), "1:00:00"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (1 + 2j, "(1+2j)"),
        (ValueError("x"), "x"),
        (Thing(), "a thing"),
        (array.array("i", [1, 2]), [1, 2]),
        (Numbers(), [1.0, "NaN"]),
        (Room, str(Room)),
        (Point(x=1, when=datetime.date(2026, 5, 1)), {"x": 1, "when": "2026-05-01", "token": "**********"}),
        (RootModel[bytes](b"raw"), "raw"),
        (RootModel[list[int]]([1]), [1]),
        (Room(1, Room(2)), {"number": 1, "next": {"number": 2, "next": None}}),
        (AIMessage("hello"), "hello"),
        (Document("page"), {"id": None, "metadata": {}, "page_content": "page", "type": "Document"}),
        (LOOP, {"n": 1, "again": ["[circular]"]}),
        (ROOM, {"number": 1, "next": "[circular]"}),
        ([SHARED, SHARED], [[1], [1]]),
    ],
)
def test_value(value: Any, expected: Any) -> None:
    found = json_value(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    json.dumps(found, ensure_ascii=False).encode()
    serializer = JsonPlusSerializer(allowed_msgpack_modules=[])
    assert serializer.loads_typed(serializer.dumps_typed(found)) == found


def nested(levels: int, inner: Any = "core") -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def test_what_is_nested_too_deep_is_left_out() -> None:
    assert json_value(nested(DEPTH)) == nested(DEPTH)
    assert "core" not in str(json_value(nested(DEPTH + 1)))
    found = json_value(nested(100_000))
    assert "deeper than 100 levels" in str(found)
    serializer = JsonPlusSerializer(allowed_msgpack_modules=[])
    assert serializer.loads_typed(serializer.dumps_typed(found)) == found


@cases("value", [iter([1]), (n for n in "ab"), map(str, [1]), [zip([1], [2], strict=True)]])
def test_what_can_be_read_once_only_is_refused(value: Any) -> None:
    with pytest.raises(NoResult, match="return a list"):
        json_value(value)


def test_lists_that_stand_for_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.tools.calls.VALUES", 10_000)
    many: Any = "x"
    for _ in range(60):
        many = [many, many]
    with pytest.raises(NoResult, match="more than 10,000 values"):
        json_value(many)
    with pytest.raises(NoResult):
        json_value(range(10**12))
