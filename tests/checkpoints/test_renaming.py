"""Ids that change inside stored state: everything else must stay as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage

from segue.checkpoints.fork import Renaming
from segue.checkpoints.rows import SERDE
from segue.core.context import Ids
from segue.core.errors import TaskError

OLD, OTHER, STRANGER = (Ids().task() for _ in range(3))


def test_an_id_is_changed_wherever_it_stands_and_others_are_not() -> None:
    renaming = Renaming([OLD, OTHER])
    ref = f"{OLD[:8]}.1#1.0"
    state = {
        "task_id": OLD,
        "keys": {OTHER: [OLD, STRANGER, f"x{OLD}y", OLD[:8]]},
        "messages": [
            AIMessage(f"of {OLD}", tool_calls=[{"id": f"{OLD[:8]}-0", "name": "t", "args": {"task": OTHER}}]),
            ToolMessage(f"… recall(ref='{ref}')", tool_call_id="x", additional_kwargs={"ref": ref, "key": OLD}),
        ],
    }
    kind, data = SERDE.plain_typed(state)
    read = SERDE.loads_typed(renaming.typed(kind, data))
    new, other = renaming.new[OLD], renaming.new[OTHER]
    assert (read["task_id"], list(read["keys"])) == (new, [other])
    assert read["keys"][other] == [new, STRANGER, f"x{new}y", OLD[:8]]
    call, result = read["messages"]
    assert (call.content, call.tool_calls[0]["args"]) == (f"of {new}", {"task": other})
    assert call.tool_calls[0]["id"] == f"{OLD[:8]}-0"
    assert result.additional_kwargs == {"ref": f"{new[:8]}.1#1.0", "key": new}
    assert result.content == f"… recall(ref='{new[:8]}.1#1.0')"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text() | st.just(OLD),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(OLD), inner),
    max_leaves=10,
)


@given(values)
def test_bytes_and_json_are_changed_alike(value: Any) -> None:
    renaming = Renaming([OLD])
    kind, data = SERDE.plain_typed(value)
    read = SERDE.loads_typed(renaming.typed(kind, data))
    assert read == json.loads(json.dumps(value).replace(OLD, renaming.new[OLD]))
    assert read == json.loads(renaming.of(json.dumps(value)))


def test_what_cannot_be_read_stays_as_it_is() -> None:
    for stored in (SERDE.dumps_typed([OLD]), ("msgpack", b"\xc1"), ("msgpack", b""), ("bytes", OLD.encode())):
        assert Renaming([OLD]).typed(*stored) == stored


def test_numbers_and_none_stay_and_ids_of_another_kind_are_refused() -> None:
    renaming = Renaming([OLD])
    assert [renaming.of(value) for value in (1, 1.5, None)] == [1, 1.5, None]
    with pytest.raises(TaskError, match="task task-1 "):
        Renaming([OLD, "task-1"])
