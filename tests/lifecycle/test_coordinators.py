"""A folder of Markdown as context: rules that always hold, knowledge that is searched in both languages."""

import os
from pathlib import Path
from typing import Any

import pytest

from segue.core.errors import ConfigurationError
from segue.lifecycle import engine
from segue.lifecycle.engine import FolderCoordinator, RegistryCoordinator
from segue.passages import MOST_BYTES


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


async def titles(coordinator: FolderCoordinator, text: str) -> list[str]:
    return [item["title"] for item in (await coordinator.get_context_async(text)).knowledge]


SALES = (
    "# 销售\n\n北京的销售额在三月最高。\n\n# 投诉\n\n广州的客户投诉最多。\n\n# English\n\nShanghai sales fell in May."
)


async def test_two_characters_of_chinese_and_english_words_are_found_the_best_first(tmp_path: Path) -> None:
    coordinator = FolderCoordinator(write(tmp_path, sales_md=SALES, food_md="# 美食\n\n北京烤鸭。"))
    assert await titles(coordinator, "北京") == ["food.md › 美食", "sales.md › 销售"]
    assert await titles(coordinator, "帮我分析一下北京的销售数据") == ["sales.md › 销售"]
    assert await titles(coordinator, "What were the SALES in shanghai?") == ["sales.md › English"]
    assert await titles(coordinator, "火星移民") == []
    assert await titles(coordinator, "What is this?") == []


@pytest.mark.parametrize("text", ['"', "NEAR(a b)", "a OR b AND *", "'; DROP TABLE passages", "", "\ud800", "x" * 9999])
async def test_any_text_can_be_asked_for(tmp_path: Path, text: str) -> None:
    coordinator = FolderCoordinator(write(tmp_path, sales_md=SALES))
    assert await titles(coordinator, text) == []
    assert await titles(coordinator, "广州") == ["sales.md › 投诉"]


async def test_rules_always_hold_and_are_no_knowledge(tmp_path: Path) -> None:
    coordinator = FolderCoordinator(
        write(
            tmp_path,
            rules_md="- 金额用人民币\n- cite sources",
            规则__b_md="# 语气\n\n总是礼貌，\n不要啰嗦。",
            c_md="金额很大",
        )
    )
    context = await coordinator.get_context_async("金额")
    assert list(context.rules) == ["金额用人民币", "cite sources", "总是礼貌， 不要啰嗦。"]
    assert [item["title"] for item in context.knowledge] == ["c.md"]


async def test_files_that_change_come_or_go_are_read_anew(tmp_path: Path) -> None:
    coordinator = FolderCoordinator(write(tmp_path, a_md="apples", rules_md="- one"))
    assert await titles(coordinator, "apples") == ["a.md"]
    write(tmp_path, a_md="pears instead", b_md="apples too", rules_md="- one\n- two")
    assert await titles(coordinator, "apples") == ["b.md"]
    assert len((await coordinator.get_context_async("x")).rules) == 2
    (tmp_path / "b.md").unlink()
    assert await titles(coordinator, "apples") == []
    assert await titles(coordinator, "pears") == ["a.md"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"])
async def test_files_are_read_in_whatever_encoding_they_are(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.md").write_bytes("# 标题\r\n\r\n广州客户的投诉很多，需要处理。\r\n".encode(encoding))
    coordinator = FolderCoordinator(tmp_path)
    (found,) = (await coordinator.get_context_async("投诉")).knowledge
    assert found == {"title": "a.md › 标题", "text": "广州客户的投诉很多，需要处理。"}


async def test_western_text_is_read_too_and_accents_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("Caf\xe9 prices".encode("cp1252"))
    assert await titles(FolderCoordinator(tmp_path), "cafe") == ["a.md"]


async def test_what_is_no_text_is_named_and_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path, good_md="apples")
    (tmp_path / "bad.md").write_bytes(b"\x00\x01\x02" * 50)
    (tmp_path / "dir.md").mkdir()
    (tmp_path / "page.html").write_text("apples", encoding="utf-8")
    coordinator = FolderCoordinator(tmp_path)
    assert await titles(coordinator, "apples") == ["good.md"]
    assert coordinator.skipped == {"bad.md": "it is not text"}


async def test_of_a_huge_file_the_beginning_is_used_and_that_is_said(tmp_path: Path) -> None:
    text = "First apples.\n\n" + "填充的内容没有意义。" * (MOST_BYTES // 30) + "\n\nLast pears."
    (tmp_path / "huge.md").write_text(text, encoding="utf-8")
    coordinator = FolderCoordinator(tmp_path)
    assert await titles(coordinator, "apples") == ["huge.md"]
    assert await titles(coordinator, "pears") == []
    assert coordinator.skipped == {"huge.md": "it is too long: only its beginning is used"}


async def test_more_passages_than_are_searched_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_PASSAGES", 2)
    coordinator = FolderCoordinator(write(tmp_path, a_md="# 1\n\na\n\n# 2\n\nb\n\n# 3\n\napples"))
    assert await titles(coordinator, "apples") == []
    assert list(coordinator.skipped) == ["a.md"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="there are no symbolic links here")
async def test_links_that_lead_out_of_the_folder_and_hidden_files_are_left_alone(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", secret_md="apples")
    inside = write(tmp_path / "inside", a_md="pears")
    (inside / "link.md").symlink_to(outside / "secret.md")
    (inside / ".hidden.md").write_text("apples", encoding="utf-8")
    assert await titles(FolderCoordinator(inside), "apples") == []


async def test_a_coordinator_beside_it_adds_its_own(tmp_path: Path) -> None:
    class Other:
        async def get_context_async(self, text: str) -> Any:
            from segue.core.lifecycle import Context

            return Context(rules=["r"], knowledge=["k"], tools=["t"])

    coordinator = FolderCoordinator(write(tmp_path, a_md="apples", rules_md="- one"), beside=Other())
    context = await coordinator.get_context_async("apples")
    assert (list(context.rules), list(context.tools), len(context.knowledge)) == (["one", "r"], ["t"], 2)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        FolderCoordinator(tmp_path / "nowhere")


async def test_registered_agents_and_tools_are_a_context() -> None:
    from segue.registry import Registry

    registry = Registry(environ={})
    everyone = await RegistryCoordinator(registry).get_context_async("x")
    assert [tool["name"] for tool in everyone.tools][:2] == ["search_cities", "query_attractions"]
    assert not everyone.rules and "travel: " in everyone.knowledge[0]
    one = await RegistryCoordinator(registry, "travel").get_context_async("x")
    assert len(one.rules) == 2
