"""Markdown as rules and passages, and the index of passages."""

from segue.passages import PassageIndex, passages_of, rules_of


def test_rules_are_items_and_paragraphs() -> None:
    text = "# Title\n\nA paragraph\nof two lines.\n\n1. first\n   goes on\n2. second\n* third\n\n一、第四条"
    assert rules_of(text) == ["A paragraph of two lines.", "first goes on", "second", "third", "第四条"]


def test_passages_keep_their_heading_and_their_size() -> None:
    text = "intro\n\n# One\n\n" + "\n\n".join(["word " * 60] * 8) + "\n\n# Two\n\n" + "x" * 2500
    passages = list(passages_of(text, "f.md"))
    assert {passage.title for passage in passages} == {"f.md", "f.md › One", "f.md › Two"}
    assert all(0 < len(passage.text) <= 1000 for passage in passages)
    assert sum(len(p.text) for p in passages if p.title.endswith("Two")) == 2500


def test_headings_within_code_are_no_headings() -> None:
    (passage,) = passages_of("# Real\n\n```\n# not a heading\n\ncode\n```\n", "f.md")
    assert passage.title == "f.md › Real" and "# not a heading" in passage.text


def test_the_index_forgets_what_is_removed() -> None:
    index = PassageIndex()
    index.add("a", passages_of("apples and pears", "a"), 10)
    assert len(index) == 1 and index.search("pears", 3)
    index.remove("a")
    assert len(index) == 0 and index.search("pears", 3) == []


def test_the_index_tells_the_places_of_passages_in_their_file() -> None:
    index = PassageIndex()
    index.add("a", passages_of("# 1\n\napples\n\n# 2\n\npears", "a"), 10)
    index.add("b", passages_of("# 1\n\nplums\n\n# 2\n\npears", "b"), 10)
    assert (index.places("a", "pears", 9), index.places("b", "pears", 9)) == ([1], [1])
    assert index.places("b", "apples", 9) == []
