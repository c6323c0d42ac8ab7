"""What a backtest reports: its files, its statistics, and a judge's opinion."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.core.agents import Agent
from segue.testing.backtest import Backtest, TaskReport, Verdict
from segue.testing.backtest.comparison import Difference, Effects, Sides
from segue.testing.backtest.confirmation import confirm, exact_p
from segue.testing.backtest.run import Change, conclusion, notes, write_report
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer
from tests.hostile_markdown import HOSTILE, check_inert
from tests.loopback import LoopbackServer, Text

NONE = Sides(then=None, now=None)


def task(number: int, verdict: Verdict, **fields: Any) -> TaskReport:
    about = {"session_id": "s", "task_id": f"{number:08d}-0", "message": f"<b>message {number}</b>"}
    return TaskReport(**about, verdict=verdict, cost=NONE, tokens=NONE, seconds=NONE, **fields)


CHANGED = task(
    1,
    Verdict.OTHER_EFFECTS,
    difference=Difference("call", 'refund({"order": 17})', 'refund({"order": 71})', 2),
    effects=Effects(changed=[{"name": "refund", "then": {"order": 17}, "now": {"order": 71}}]),
    answered={"recording": 1, "stand_in": 1},
    stand_ins=[{"name": "refund", "arguments": {"order": 71}, "result": "refunded <71>"}],
)
MADE = Backtest(tasks=[task(0, Verdict.SAME, answered={"recording": 2}), CHANGED], skipped={"x": "copy"})


@pytest.mark.parametrize(("language", "words"), [("en", "Different arguments"), ("zh", "参数不同")])
def test_the_files_show_effects_side_by_side(tmp_path: Path, language: str, words: str) -> None:
    found = {file.suffix: file.read_text(encoding="utf-8") for file in write_report(MADE, tmp_path / "out", language)}
    assert json.loads(found[".json"])["summary"]["other_effects"] == 1
    for kind in (".md", ".html"):
        assert words in found[kind] and "order = 17" in found[kind] and "order = 71" in found[kind]
        assert "segue trace 00000001" in found[kind]
        assert re.search(r"(stand-in|替代结果).*1", found[kind]) and "refunded &lt;71" in found[kind]
        assert found[kind].index(MADE.conclusion(language)) < found[kind].index(words)
    assert "<b>message" not in found[".html"] + found[".md"]


def test_what_models_and_tools_wrote_is_text_in_a_report(tmp_path: Path) -> None:
    hostile = replace(
        CHANGED,
        message=HOSTILE,
        difference=Difference("call", HOSTILE, HOSTILE, 2),
        effects=Effects(changed=[{"name": "refund", "then": {"to": HOSTILE}, "now": {"to": [HOSTILE]}}]),
        stand_ins=[{"name": "refund", "arguments": {"to": HOSTILE}, "result": HOSTILE}],
    )
    files = write_report(replace(MADE, tasks=[hostile]), tmp_path)
    check_inert(next(file for file in files if file.suffix == ".md").read_text("utf-8"))


def test_a_report_says_which_models_read_no_prompt(tmp_path: Path) -> None:
    made = replace(MADE, models={"offline": False, "openai:m": True})
    found = {file.suffix: file.read_text(encoding="utf-8") for file in write_report(made, tmp_path)}
    for kind in (".md", ".html"):
        assert "The model offline is rule-based and reads no prompt" in found[kind] and "openai:m" not in found[kind]


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"same": 1}, "Nothing would change: the recorded task would behave the same."),
        ({"same": 2, "error": 0}, "Nothing would change: all 2 recorded tasks would behave the same."),
        ({"other_words": 1}, "Out of 1 recorded task, 1 would only be worded differently."),
        ({"same": 7, "other_calls": 2, "error": 1},
         "Out of 10 recorded tasks, 1 would fail, 2 would look up or ask something different, 7 would stay the same."),
    ],
)  # fmt: skip
def test_a_conclusion_begins_with_the_worst(summary: dict[str, int], said: str) -> None:
    assert conclusion({}, Change(0, 0), "en") == "Nothing was compared: no recorded task was found."
    assert conclusion(summary, None, "en") == said
    assert conclusion(summary, Change(9, 0), "en").startswith(f"{said} The difference exceeds chance")
    assert conclusion(summary, Change(1, 2), "en").startswith(f"{said} The difference is within chance")


def test_shares_have_intervals_and_calls_coverage() -> None:
    share = MADE.shares["same"]
    assert share is not None
    assert (round(share.low, 3), share.value, round(share.high, 3)) == (0.095, 0.5, 0.905)  # Wilson
    assert (MADE.coverage, MADE.is_changed, Backtest(tasks=[]).coverage) == (0.75, True, None)


def test_with_a_baseline_only_what_exceeds_it_counts() -> None:
    noisy = [task(n, Verdict.OTHER_CALLS if n < 3 else Verdict.SAME) for n in range(20)]
    worse = [task(n, Verdict.OTHER_CALLS if n < 12 else Verdict.SAME) for n in range(20)]
    other = [task(n, Verdict.OTHER_CALLS if 2 <= n < 5 else Verdict.SAME) for n in range(20)]
    made = Backtest(tasks=other, baseline=Backtest(tasks=noisy))
    assert (made.beyond_baseline, made.is_changed) == (Change(worse=2, better=2), False)
    made = Backtest(tasks=worse, baseline=Backtest(tasks=noisy))
    assert (made.beyond_baseline, made.is_changed) == (Change(worse=9, better=0), True)
    assert made.json()["baseline"]["p_value"] == 2 / 2**9


@cases(
    "strata, least, most",
    [
        ([(5, 0)], 1 / 252, 1 / 252),
        ([(0, 5)], 1.0, 1.0),
        ([(5, 5)], 1.0, 1.0),
        ([(0, 0)], 1.0, 1.0),
        ([(3, 0)], 10 / 120, 10 / 120),
        ([(3, 0), (2, 0), (3, 0)], 0.0, 0.01),
    ],
)
def test_a_confirmation_is_an_exact_test_of_tasks_together(
    strata: list[tuple[int, int]], least: float, most: float
) -> None:
    assert least - 1e-12 <= exact_p(strata) <= most + 1e-12


def test_what_is_confirmed_counts_and_what_both_agents_do_does_not() -> None:
    def dropped(number: int, tool: str) -> TaskReport:
        return replace(task(number, Verdict.OTHER_CALLS), difference=Difference("call", f"{tool}({{}})", "", 1))

    noise, real = dropped(1, "look"), dropped(2, "pay")
    groups = Backtest(tasks=[noise, real]).groups
    same = [task(number, Verdict.SAME) for number in (1, 2)]
    made = confirm(groups, [[noise, real]] * 5, [[noise, same[1]]] * 5)
    found = {each.tool: (each.new, each.old, each.exceeds_noise) for each in made.groups}
    assert found == {"look": (5, 5, False), "pay": (5, 0, True)}
    assert made.groups[[*found].index("pay")].p_value == 2 / 252  # of two groups
    assert (made.exceeds_noise, made.turns) == (True, 20)
    confirmed = Backtest(tasks=[noise, real], confirmation=made)
    assert confirmed.is_changed and confirmed.json()["confirmation"]["exceeds_noise"]
    assert "Confirmed: 1 of 2 kinds" in confirmed.conclusion()
    assert any("No call of pay: confirmed. 5 of 5" in note for note in notes(confirmed, "en"))
    unconfirmed = confirm(groups, [same] * 5, [same] * 5)
    assert not Backtest(tasks=[noise, real], confirmation=unconfirmed).is_changed


async def test_a_judge_decides_whether_other_words_say_the_same(tmp_path: Path) -> None:
    agent = Agent(agent_id="shop", mode="react")
    with ScriptedChatModel([answer("It is late."), answer("Tomorrow.")]) as model:
        async with segue.open(tmp_path / "segue.db", agents=[agent.model_copy(update={"model": model})]) as app:
            for message in ("Where is it?", "When?"):
                await app.ask(message, session_id="s", agent="shop")
    opinions = [
        '{"reason": "Both say so.", "same": true, "before": true, "after": true}',
        "Well.",
        '{"reason": "Another day.", "same": false, "before": true, "after": false}',
    ]
    judge: dict[str, Any] = {"judge": "openai:m", "concurrency": 1}
    with (
        ScriptedChatModel([answer("It has been delayed."), answer("On Monday.")]) as model,
        LoopbackServer([Text(each) for each in opinions]) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        patch.setenv("OPENAI_API_KEY", "none")
        async with segue.open(tmp_path / "segue.db", agents=[agent.model_copy(update={"model": model})]) as app:
            made = await app.backtest(**judge)
    assert "one message of a customer" in str(server.requests[0].body["messages"][0])
    assert [found.verdict for found in made.tasks] == ["same", "other_words"]
    assert (made.tasks[1].success, made.tasks[1].judged) == ((True, False), "Another day.")
    assert made.success == Change(worse=1, better=0)
