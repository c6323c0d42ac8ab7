"""Schemas with their references replaced."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.utils.json_schema import dereference_refs

from segue.core.json import MOST_INLINED, UnusableSchema, inlined
from tests.cases import cases

NAMES = ("a", "b", "c")
TARGETS = st.sampled_from([*(f"#/$defs/{name}" for name in NAMES), "#/properties/x"])
PARTS = st.recursive(
    st.just({"type": "string"}) | TARGETS.map(lambda ref: {"$ref": ref, "title": "T"} if "a" in ref else {"$ref": ref}),
    lambda part: st.builds(lambda inner, other: {"properties": {"p": inner}, "anyOf": [other, inner]}, part, part),
    max_leaves=4,
)


def doubling(count: int) -> dict[str, Any]:
    """A schema whose last definition refers twice to the one before, and so on."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for place in range(1, count):
        ref = {"$ref": f"#/$defs/d{place - 1}"}
        definitions[f"d{place}"] = {"type": "object", "properties": {"a": ref, "b": ref}}
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{count - 1}"}}, "$defs": definitions}


@given(st.fixed_dictionaries({"properties": st.fixed_dictionaries({"x": PARTS}), "$defs": st.fixed_dictionaries(
    {name: PARTS for name in NAMES})}))  # fmt: skip
def test_references_are_replaced_as_by_langchain(schema: dict[str, Any]) -> None:
    try:
        found = inlined(schema)
    except UnusableSchema:
        return
    assert found == dereference_refs(schema)


def test_what_surrounds_a_reference_overrides_it_and_the_order_stays() -> None:
    ref = {"$ref": "#/$defs/a~1b%20c", "description": "mine"}
    schema = {"$defs": {"a/b c": {"type": "string", "description": "its"}}, "properties": {"$ref": {}, "x": ref}}
    found = inlined(schema)
    assert list(found) == ["$defs", "properties"]
    assert found["properties"] == {"$ref": {}, "x": {"type": "string", "description": "mine"}}


def test_a_definition_that_refers_to_itself_ends_in_what_accepts_anything() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {"properties": {"first": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    assert inlined(schema)["properties"]["first"] == {"type": "object", "properties": {"next": {}}}


def test_references_that_double_are_refused_before_they_fill_the_memory() -> None:
    assert len(str(inlined(doubling(8)))) > 1000
    with pytest.raises(UnusableSchema, match="the references of its schema add more than 10,000 values"):
        inlined(doubling(25))


def test_a_large_schema_without_references_is_not_refused() -> None:
    schema = {"type": "string", "enum": [str(n) for n in range(2 * MOST_INLINED)]}
    assert inlined(schema) == schema


def test_a_chain_of_references_or_of_lists_is_not_followed_for_ever() -> None:
    chain = {f"d{place}": {"items": {"$ref": f"#/$defs/d{place - 1}"}} for place in range(1, 5000)}
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"items": deep}
    for schema in ({"$ref": "#/$defs/d4999", "$defs": {**chain, "d0": {}}}, deep):
        with pytest.raises(UnusableSchema, match="more than 100 levels"):
            inlined(schema)


@cases("ref", ["#/$defs/none", "https://evil.invalid/x", "#/type/0", "", "#/anyOf/9", "#/anyOf/-1"])
def test_a_reference_that_leads_nowhere_is_named(ref: str) -> None:
    with pytest.raises(UnusableSchema, match="unresolvable \\$ref"):
        inlined({"type": "object", "anyOf": [{}], "properties": {"x": {"$ref": ref}}})
