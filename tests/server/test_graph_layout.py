"""Drawings of graphs: nothing overlaps, and every edge begins and ends at its nodes."""

import re
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.server.api.agents import HEIGHT, Box, Layout, lay_out

NAMES = ["__start__", "INPUT", "CALL_LLM", "CALL_TOOL", "A", "A_NODE_WITH_A_LONG_NAME", "__end__"]
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=20)


def overlap(one: Box, other: Box) -> bool:
    return (
        abs(one.x - other.x) < (one.width + other.width) / 2 and abs(one.y - other.y) < (one.height + other.height) / 2
    )


def ends(path: str) -> tuple[tuple[float, float], tuple[float, float]]:
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    return (numbers[0], numbers[1]), (numbers[-2], numbers[-1])


def check(nodes: Sequence[str], edges: Sequence[tuple[str, str]], drawn: Layout) -> None:
    boxes = {box.name: box for box in drawn.boxes}
    assert [*boxes] == [*nodes]
    assert not [pair for pair in combinations(boxes.values(), 2) if overlap(*pair)]
    for box in boxes.values():
        assert box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= drawn.width
        assert box.y - box.height / 2 >= 0 and box.y + box.height / 2 <= drawn.height
    assert {(curve.source, curve.target) for curve in drawn.curves} == {*edges}
    for curve in drawn.curves:
        for (x, y), name in zip(ends(curve.path), (curve.source, curve.target), strict=True):
            box = boxes[name]
            assert abs(x - box.x) <= box.width / 2 + 0.1 and abs(y - box.y) <= HEIGHT / 2 + 0.1


@settings(deadline=None, max_examples=60, derandomize=True)
@given(EDGES)
def test_any_graph_is_drawn_without_overlaps(edges: list[tuple[str, str]]) -> None:
    check(NAMES, edges, lay_out(NAMES, edges))


@pytest.mark.parametrize("nodes", [["one"], ["one", "two"]])
def test_a_graph_without_edges_is_drawn(nodes: list[str]) -> None:
    check(nodes, [], lay_out(nodes, []))


def test_edges_lead_downwards_but_for_those_that_lead_back() -> None:
    edges = [("start", "think"), ("think", "act"), ("act", "think"), ("think", "end"), ("act", "act")]
    at = {box.name: box.y for box in lay_out(["start", "think", "act", "end"], edges).boxes}
    assert at["start"] < at["think"] < at["act"] == at["end"]
