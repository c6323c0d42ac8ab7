"""Memory of the controller–executor: of a session, of a user, and in named files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent, App, FlowConfig
from tests.fakes import ScriptedChatModel, choose

FINISH = choose("finish", summary="done")


def double(number: int) -> int:
    """Double a number."""
    return number * 2


def flow(**subflows: Any) -> FlowConfig:
    return FlowConfig.model_validate({"subflows_config": subflows})


async def asked(app: App, session: str, *script: str) -> str:
    """One task in a session; the memory that its last prompt has."""
    model = ScriptedChatModel([*script, FINISH])
    app.register(Agent(agent_id="a", model=model, tools=(double,), mode="work"))
    with model:
        await app.ask("1. double 4\n2. tell the result", session_id=session, agent="a")
    return str(model.calls[-1][0].content).split("## Memory")[1].split("## State")[0]


@pytest.mark.parametrize(
    ("writing", "shared", "names"),
    [
        ({}, False, ["s1/work.logs.md", "s2/work.logs.md"]),
        ({"scope": "user"}, True, ["work.logs.md"]),
        ({"file": "projects/notes"}, True, ["projects/notes.md"]),
        ({"file": "notes.txt", "scope": "session"}, False, ["s1/notes.txt", "s2/notes.txt"]),
    ],
    ids=["session", "user", "named file", "named in the session"],
)
async def test_memory_belongs_to_a_session_to_a_user_or_to_a_named_file(
    writing: dict[str, str], shared: bool, names: Sequence[str]
) -> None:
    async with segue.open(":memory:", modes={"work": flow(MemoryWriting=writing)}) as app:
        await asked(app, "s1", choose("double", number=4))
        assert ('double {"number": 4}' in await asked(app, "s2")) is shared
        assert [file["name"] for file in await app.memory.files()] == names


async def test_a_named_file_that_a_person_wrote_is_read_and_added_to(tmp_path: Path) -> None:
    notes = tmp_path / "default" / "notes.md"
    notes.parent.mkdir()
    notes.write_text("# Mine\n\nThe door is blue.\n", encoding="utf-8")
    config = flow(MemoryWriting={"file": "notes.md"})
    async with segue.open(":memory:", modes={"work": config}, memory=tmp_path) as app:
        assert "The door is blue." in await asked(app, "s1", choose("double", number=4))
    text = notes.read_text(encoding="utf-8")
    assert text.startswith("# Mine\n\nThe door is blue.\n") and 'double {"number": 4} → 8' in text


async def test_a_flow_reads_a_file_beside_its_own_by_name(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "rules.md").write_text("Write in verse.", encoding="utf-8")
    (tmp_path / "default" / "other.md").write_text("Not this one.", encoding="utf-8")
    config = flow(MemoryReading={"files": ["rules", "logs"]})
    async with segue.open(":memory:", modes={"work": config}, memory=tmp_path) as app:
        memory = await asked(app, "s1", choose("double", number=4))
    assert "Write in verse." in memory and 'double {"number": 4}' in memory and "Not this one." not in memory


async def test_branches_share_no_file_unless_they_name_it() -> None:
    script = [
        choose("first", goal="double 1"), choose("double", number=1), FINISH,
        choose("second", goal="double 2"), choose("double", number=2), FINISH,
    ]  # fmt: skip
    named = {"MemoryWriting": {"file": "shared"}}
    for config, names in (
        ({}, ["s/work.first.logs.md", "s/work.logs.md", "s/work.second.logs.md"]),
        ({"subflows_config": named}, ["s/work.logs.md", "shared.md"]),
    ):
        branches = {name: {"flow": config} for name in ("first", "second")}
        async with segue.open(":memory:", modes={"work": flow(Executor={"branches": branches})}) as app:
            await asked(app, "s", *script)
            assert [file["name"] for file in await app.memory.files()] == names


@pytest.mark.parametrize("name", ["controller", "controller_executor"])
async def test_memory_files_of_the_input_are_read_and_written_by_their_names(name: str) -> None:
    model = ScriptedChatModel([choose("double", number=4), FINISH, FINISH])
    graph = segue.graph(name, agents=[Agent(agent_id="a", model=model, tools=(double,))])
    for _ in range(2):
        given = {"goal": "double 4", "plan": "1. double 4", "memory_files": {"logs": "projects/trip.md"}}
        await graph.ainvoke(given, context={"agent": "a"})
    assert 'double {"number": 4}' in str(model.calls[-1][0].content)
