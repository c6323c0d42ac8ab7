"""String values of a JSON text that arrives in pieces."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.nodes.model_call import MAX_DEPTH, JsonStrings, Path
from tests.cases import cases

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\{}[],:\U0001f600'), max_size=8)
JSON = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def read(pieces: list[str]) -> dict[Path, str]:
    strings, found = JsonStrings(), dict[Path, str]()
    for piece in pieces:
        for path, added in strings.feed(piece):
            found[path] = found.get(path, "") + added
    return found


def expected(value: Any, path: Path = ()) -> list[tuple[Path, str]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in expected(inner, (*path, key))]
    if isinstance(value, list):
        return [pair for inner in value for pair in expected(inner, (*path, None))]
    return [(path, value)] if isinstance(value, str) and value and len(path) <= MAX_DEPTH else []


@given(st.dictionaries(TEXTS, JSON, max_size=3), st.integers(1, 7), st.booleans())
def test_strings_come_with_their_paths_however_the_text_is_split(value: Any, size: int, ascii_only: bool) -> None:
    text = f"Here it is: \n```json\n{json.dumps(value, ensure_ascii=ascii_only)}\n```"
    merged = dict[Path, str]()
    for path, content in expected(value):
        merged[path] = merged.get(path, "") + content
    assert read([text[at : at + size] for at in range(0, len(text), size)]) == merged


@cases(
    "text, found",
    [
        (r'{"a": "x\ud83d', "x"),
        (r'{"a": "x\ud83dy"}', "x\ufffdy"),
        (r'{"a": "x\ude00"}', "x\ufffd"),
        (r'{"a": "x\u00"}', "xu00"),
        (r'{"a": "\u6771\/\"\\\n"}', '東/"\\\n'),
        ('{"a": "no end', "no end"),
        ('}]{x} {"a": "after braces"}', "after braces"),
    ],
)
def test_what_is_broken_is_read_as_far_as_it_makes_sense(text: str, found: str) -> None:
    assert read(list(text)).get(("a",)) == read([text]).get(("a",)) == found


def test_what_was_read_is_not_kept() -> None:
    strings = JsonStrings()
    list(strings.feed('{"a": "' + "x" * 1000))
    list(strings.feed("y" * 1000 + "\\ud83d\\ude0"))
    assert strings._rest == "\\ud83d\\ude0"
