"""Memory of the controller–executor: of a session, of a user, and in named files."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent, App, FlowConfig
from segue.core.errors import InvalidMemory, InvalidMessage
from segue.core.events import ErrorRaised
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


def folder_of_files(root: Path) -> Path:
    """A folder with two memory files of a person's, and a file outside of it."""
    root.mkdir(parents=True)
    (root / "rules.md").write_text("Write in verse.", encoding="utf-8")
    (root / "trip.md").write_text("The door is blue.", encoding="utf-8")
    (root.parent / "secret.md").write_text("4711", encoding="utf-8")
    return root


@pytest.mark.parametrize("name", ["controller", "controller_executor"])
@pytest.mark.parametrize("named", [True, False])
async def test_bare_graphs_read_the_files_below_the_memory_folder(
    name: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = folder_of_files(tmp_path / ("kept" if named else "memory"))
    monkeypatch.setenv("SEGUE_MEMORY", "kept" if named else "")
    model = ScriptedChatModel([choose("double", number=4), FINISH])
    graph = segue.graph(name, agents=[Agent(agent_id="a", model=model, tools=(double,))])
    files = {"rules": "rules.md", "logs": "trip.md"}
    out = await graph.ainvoke({"goal": "double 4", "plan": "1. double 4", "memory_files": files})
    assert out["result"]
    first, last = (str(call[0].content) for call in model.calls)
    assert "Write in verse." in first and "The door is blue." in first and "memory_error" not in first
    assert 'double {"number": 4}' in last.split("## Memory")[1].split("## State")[0]
    assert 'double {"number": 4} → 8' in (root / "trip.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in root.iterdir() if path.suffix) == ["rules.md", "trip.md"], "it makes no file"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("gone.md", "There is no memory file gone.md: create it"),
        ("../secret.md", "cannot be used: it has '..'"),
        ("/etc/hostname", "cannot be used: it is an absolute path"),
        ("link.md", "is a link"),
    ],
)
async def test_the_controller_sees_which_file_cannot_be_read(
    path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder_of_files(tmp_path / "memory")
    (tmp_path / "memory" / "link.md").symlink_to(tmp_path / "secret.md")
    model = ScriptedChatModel([FINISH])
    graph = segue.graph("controller_executor", agents=[Agent(agent_id="a", model=model, tools=(double,))])
    await graph.ainvoke({"goal": "double 4", "memory_files": {"rules": "rules.md", "other": path}})
    prompt = str(model.calls[0][0].content)
    assert why in prompt.split('"memory_error"')[1] and "4711" not in prompt
    assert ("Write in verse." in prompt) is (path == "gone.md"), "the others are read"


@pytest.mark.parametrize("files", [["rules.md"], {"rules": 3}, {"rules": ""}, "rules.md", {"rules": "r.md", "x": None}])
async def test_memory_files_that_are_no_paths_by_name_are_refused(files: Any) -> None:
    agent = Agent(agent_id="a", model=ScriptedChatModel([]), tools=(double,))
    with pytest.raises(InvalidMessage, match="give the paths of at most 50 files by their names"):
        await segue.graph("controller_executor", agents=[agent]).ainvoke({"goal": "go", "memory_files": files})
    async with segue.open(":memory:", agents=[agent]) as app:
        with pytest.raises(InvalidMessage, match="give the paths of at most 50 files by their names"):
            await app.ask("go", agent="a", mode="controller", memory_files=files)
        assert not await app.tasks.list()


async def test_a_message_names_memory_files_for_its_flow(tmp_path: Path) -> None:
    folder_of_files(tmp_path / "default")
    model = ScriptedChatModel([choose("double", number=4), FINISH, FINISH])
    agent = Agent(agent_id="a", model=model, tools=(double,), mode="work")
    files = {"rules": "rules.md", "logs": "trip.md", "other": "gone.md"}
    async with segue.open(":memory:", agents=[agent], modes={"work": flow()}, memory=tmp_path) as app:
        result = await app.ask("1. double 4\n2. tell it", agent="a", memory_files=files)
        errors = [e.message for e in await app.events(result.task_id) if isinstance(e, ErrorRaised)]
        await app.ask("1. double 5\n2. tell it", agent="a", session_id=result.session_id)
    first, _, later = (str(call[0].content) for call in model.calls)
    assert "Write in verse." in first and "The door is blue." in first
    assert set(errors) == {"There is no memory file gone.md: create it, or leave it out of memory_files."}
    assert "Write in verse." not in later, "they are those of one message"
    assert 'double {"number": 4}' in (tmp_path / "default" / "trip.md").read_text(encoding="utf-8")


async def test_memory_files_that_nothing_would_read_are_refused(tmp_path: Path) -> None:
    agent = Agent(agent_id="a", model=ScriptedChatModel([]), tools=(double,))
    listing, without = flow(MemoryReading={"files": ["logs"]}), FlowConfig(topology=["Controller", "Executor"])
    async with segue.open(":memory:", agents=[agent], modes={"work": listing, "plain": without}) as app:
        for mode in ("react", "auto", "plain"):
            with pytest.raises(InvalidMessage, match=f"The mode {mode} reads no memory files"):
                await app.ask("go", agent="a", mode=mode, memory_files={"rules": "rules.md"})
        with pytest.raises(InvalidMemory, match="it has"):
            await app.ask("go", agent="a", mode="work", memory_files={"rules": "../rules.md"})
        assert not await app.tasks.list()
        with pytest.raises(InvalidMessage, match="The flow work does not read the memory file rules"):
            await app.ask("1. a\n2. b", agent="a", mode="work", memory_files={"rules": "rules.md"})


async def test_memory_files_are_not_added_to_an_unfinished_task(tmp_path: Path) -> None:
    folder_of_files(tmp_path / "default")
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    agent = Agent(agent_id="a", model=ScriptedChatModel([choose("slow"), FINISH]), tools=(slow,), mode="work")
    async with segue.open(":memory:", agents=[agent], modes={"work": flow()}, memory=tmp_path) as app:
        task = await app.start("1. wait\n2. tell it", agent="a", session_id="s")
        await entered.wait()
        options: Any = {"agent": "a", "session_id": "s", "steer": True}
        with pytest.raises(InvalidMessage, match="Memory files cannot be added to an unfinished task"):
            await app.ask("in verse", memory_files={"rules": "rules.md"}, **options)
        assert not (await app.task(task.task_id)).notes
        gate.set()
        assert (await app.ask("in verse", **options)).task_id == task.task_id
