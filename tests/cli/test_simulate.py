"""`segue simulate`: what it takes and says."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from segue.cli import app
from segue.core.conversation import EndReason
from segue.testing.rehearsal import read_log

PERSON = ["--user", "input_user", "--session", "talk", "--db", "talk.db"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_arguments_it_asks_what_to_simulate_and_writes_nothing(folder: Path) -> None:
    asked = CliRunner().invoke(app, ["simulate"])
    assert asked.exit_code == 2 and asked.stderr.startswith("What do you want to simulate?")
    assert "travel_change" in asked.stderr and not asked.stdout
    assert not [*folder.iterdir()]


def test_a_person_leaves_and_comes_back() -> None:
    left = CliRunner().invoke(app, ["simulate", *PERSON], input="hello\n")
    unfinished = read_log("logs/talk.jsonl")
    back = CliRunner().invoke(app, ["simulate", "--session", "talk", "--db", "talk.db"], input="again\nEND\n")

    other = CliRunner().invoke(app, ["simulate", *PERSON, "--turns", "3"])

    assert other.exit_code == 2 and "has another configuration" in other.stderr
    assert (left.exit_code, back.exit_code) == (3, 0)
    assert "segue simulate --session talk --db talk.db" in left.stderr
    assert unfinished.ending is None and [u.text for u in unfinished.utterances] == ["hello", "bot response..."]
    assert "'user_mode': 'input_user'" in back.stdout
    assert back.stdout.splitlines()[5:-1] == [
        "[USER] hello",
        "[BOT] bot response...",
        "[USER] again",
        "[BOT] bot action...",
        "[SYSTEM] api calling...",
        "[BOT] bot response...",
    ]
    ended = read_log("logs/talk.jsonl").ending
    assert ended and ended.reason is EndReason.USER_ENDED


def test_that_the_limit_of_turns_ended_it_is_said() -> None:
    lines = ["--user", "scripted_user", "--say", "one", "--say", "two"]
    ended = CliRunner().invoke(app, ["simulate", *lines, "--turns", "1"])
    assert "ended after 1 user turns, the limit" in ended.stderr and ended.exit_code == 0
    assert CliRunner().invoke(app, ["simulate", *lines]).stderr == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--user", "nobody"], 'There is no user "nobody"'),
        (["--api", "nowhere:Thing"], "nowhere"),
        (["--agent", "nobody"], "nobody"),
        (["--config", "absent.toml"], "absent.toml"),
    ],
)
def test_what_is_not_there_is_an_error_in_a_sentence(given: list[str], said: str) -> None:
    refused = CliRunner().invoke(app, ["simulate", *given])

    assert refused.exit_code in (1, 2) and said in refused.stderr
    assert not refused.exception or isinstance(refused.exception, SystemExit)


def test_the_header_has_the_documents_row_and_one_for_each_other_setting_with_those_of_the_workflow() -> None:
    shown = CliRunner().invoke(app, ["simulate", "--workflow", "travel_change", "--seed", "1", "--turns", "1"]).stdout

    rows = [line.split(" | ") for line in shown.split("[USER]")[0].splitlines() if " | " in line]
    names = [row[0].strip("| ") for row in rows]
    assert names[:3] == ["log_file", "time", "config"] and {"seed", "controllers"} <= {*names}
    assert len({*map(len, shown.splitlines()[: len(rows)])}) == 1
    assert rows[2][1].strip("| ").startswith("{'conversation_turn_limit': 1, 'user_mode': 'rule_user', 'bot_mode': ")


def test_prefixes_are_coloured_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")

    shown = CliRunner().invoke(app, ["simulate", "--user", "dummy_user"], color=True).stdout

    assert "\x1b[31m[USER]\x1b[0m" in shown
    assert "[BOT]\x1b[0m" in shown and "\x1b[38;5;208m" in shown
    assert "\x1b[32m[SYSTEM]\x1b[0m" in shown


@pytest.mark.parametrize("given", [["--log", "f/x.jsonl"], ["--log", "d"], ["--n", "2", "--out", "f"]])
@pytest.mark.parametrize(
    ("workflow", "language", "said"),
    [("travel_change", "en", "cannot be written"), ("clinic_appointment", "zh", "无法写入")],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_conversation(
    given: list[str], workflow: str, language: str, said: str, folder: Path
) -> None:
    (folder / "f").touch()
    (folder / "d").mkdir()

    refused = CliRunner().invoke(app, ["simulate", "--workflow", workflow, "--language", language, *given])

    assert refused.exit_code == 2 and said in refused.stderr
    assert "[USER]" not in refused.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--workflow", "travel_change", "--scenario", "oops"], "There is no scenario 'oops'"),
        (["--user", "nobody"], 'There is no user "nobody"'),
        (["--user", "input_user"], "input_user is a person"),
        (["--bot", "input_bot"], "input_bot is a person"),
    ],
)
def test_a_batch_that_cannot_be_held_leaves_its_folder_free(given: list[str], said: str, folder: Path) -> None:
    refused = CliRunner().invoke(app, ["simulate", *given, "--n", "2", "--out", "rx"])

    assert refused.exit_code == 2 and said in refused.stderr
    assert not (folder / "rx").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--user", "rule_user"], "name one, such as --workflow travel_change"),
        (["--user", "llm_profile", "--model", "offline"], "name one as user_model"),
        (["--bot", "react_bot", "--model", "offline"], "name one as bot_model"),
        (["--api", "backend"], "name one, such as --workflow travel_change"),
    ],
)
def test_a_participant_that_cannot_take_part_is_refused_before_anything_is_shown(
    given: list[str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    refused = CliRunner().invoke(app, ["simulate", *given])

    assert (refused.exit_code, refused.stdout) == (2, "") and said in refused.stderr
    assert not (folder / "logs").exists()


def test_an_unknown_field_of_a_configuration_is_named_with_the_one_that_is_meant(folder: Path) -> None:
    (folder / "c.yaml").write_text("bot_mod: dummy_bot\n", encoding="utf-8")

    refused = CliRunner().invoke(app, ["simulate", "--config", "c.yaml"])

    assert refused.exit_code == 2
    assert "The conversation's configuration c.yaml has no field 'bot_mod'; use one of: bot_mode." in refused.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--out", "o"], "it applies only to a batch"),
        (["--workers", "2"], "it applies only to a batch"),
        (["--say", "hello"], "the user is dummy_user"),
        (["--workflow", "travel_change", "--say", "hello", "--n", "2"], "the user is rule_user"),
        (["--user", "scripted_user"], "scripted_user has nothing to say"),
        (
            ["--goal", "a refund"],
            "--goal works only with a user played by a language model, but the user is dummy_user",
        ),
        (
            ["--workflow", "travel_change", "--persona", "in a hurry"],
            "--persona works only with a user played by a language model",
        ),
    ],
)
def test_options_without_effect_are_refused(given: list[str], said: str) -> None:
    refused = CliRunner().invoke(app, ["simulate", *given])

    assert refused.exit_code == 2 and said in refused.stderr


@pytest.mark.parametrize(("given", "language"), [([], "en"), (["--language", "en"], "en")])
def test_the_language_of_the_workflow_comes_before_that_of_the_environment(
    given: list[str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_LANGUAGE", "zh")

    CliRunner().invoke(app, ["simulate", "--workflow", "travel_change", "--turns", "1", "--log", "x.jsonl", *given])

    assert read_log("x.jsonl").language == language


@pytest.mark.slow
def test_a_finished_batch_that_is_run_again_shows_all_its_conversations() -> None:
    batch = ["simulate", "--user", "dummy_user", "--n", "1", "--out", "o"]
    CliRunner().invoke(app, batch)

    assert "1/1" in CliRunner().invoke(app, batch).stderr
