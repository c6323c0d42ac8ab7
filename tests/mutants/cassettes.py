"""The faults of recorded sessions and their replay."""

from tests.mutants.mutants import Mutant

CASSETTE = "src/segue/testing/cassette"
TEXT = "src/segue/models/transcript.py"
TEXTS = "tests/models/test_openai.py::test_what_decides_the_reply_changes_the_digest"
REPLAY = "tests/rehearsal/test_replay.py"
SESSIONS = "tests/rehearsal/test_cassette.py::test_a_session_replays_and_backtests_as_recorded"

CASSETTES = (
    Mutant(
        "a changed prompt is not noticed",
        f"{CASSETTE}/cassette.py",
        "if self._compare and calls[place].digest != sent:",
        "if self._compare and not sent:",
        f"{REPLAY}::test_a_change_is_shown_where_it_first_matters",
    ),
    Mutant(
        "a changed tool schema is not noticed",
        TEXT,
        '_json(plain["function"])',
        '_json({"name": plain["function"]["name"]})',
        TEXTS,
    ),
    Mutant("a changed model is not noticed", TEXT, 'yield f"model: {model}"', 'yield "model:"', TEXTS),
    Mutant(
        "a replay runs a real tool",
        f"{CASSETTE}/replay.py",
        "return CallResult.of(result)",
        "pass",
        SESSIONS,
    ),
    Mutant(
        "--from reuses the result of another call",
        f"{CASSETTE}/cassette.py",
        "c.name == name and canonical(c.arguments) == wanted",
        "c.name == name",
        f"{REPLAY}::test_from_a_turn_on_results_are_reused_until_a_call_differs",
    ),
    Mutant(
        "--from reuses results after a call that differed",
        f"{CASSETTE}/cassette.py",
        "None if self.runs_tools else next(made, None)",
        "next(made, None)",
        f"{REPLAY}::test_from_a_turn_on_results_are_reused_until_a_call_differs",
    ),
    Mutant(
        "an added message reaches the agent too early",
        f"{CASSETTE}/cassette.py",
        "if t.model_calls <= asked and t.tool_calls <= ran",
        "if t",
        SESSIONS,
    ),
    Mutant(
        "a secret stays in a prompt",
        f"{CASSETTE}/recorder.py",
        "given = given.replace(value, stand_in)",
        "given = stand_in if given == value else given",
        "tests/rehearsal/test_cassette.py::test_redacted_values_are_nowhere_and_the_cassette_still_replays",
    ),
)
