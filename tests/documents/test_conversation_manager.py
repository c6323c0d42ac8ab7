"""The features of the conversation manager's document, one test each."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from typer.testing import CliRunner

from segue import Agent
from segue.app import App
from segue.cli import app as command_line
from segue.core.conversation import (
    Conversation,
    ConversationConfig,
    EndReason,
    Role,
    UserOutput,
    load_config,
    transcript,
)
from segue.core.errors import ConfigurationError
from segue.runtime.modes import graph
from segue.testing.rehearsal import APIOutput, converse, read_log
from tests.cases import cases
from tests.fakes import ScriptedChatModel
from tests.loopback import LoopbackServer, Text
from tests.rehearsal.participants import Does, Never, calls, found, helpful, restless, says, talkative

TRANSCRIPT = """\
[USER] user query...
[BOT] bot response...
[USER] user query...
[BOT] bot action...
[SYSTEM] api calling...
[BOT] bot response..."""
HEADER = """\
+----------+-------------------------------------------------------------------------------------------------------------------------------------+
| log_file | tmp.log                                                                                                                             |
| time     | 2024-09-05 11:25:30                                                                                                                 |
| config   | {'conversation_turn_limit': 10, 'user_mode': 'dummy_user', 'bot_mode': 'dummy_bot', 'bot_action_limit': 5, 'api_mode': 'dummy_api'} |
+----------+-------------------------------------------------------------------------------------------------------------------------------------+
"""  # noqa: E501
FIVE = '{"expression": "2+3", "value": 5, "summary": "`2+3` = **5**"}'
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def cast(app: App) -> Callable[..., None]:
    """Put participants under the names `own` into the app."""

    def put(user: Any = None, bot: Any = None, api: Any = None) -> None:
        names = app.agents.participants
        for table, given in ((names.users, user), (names.bots, bot), (names.apis, api)):
            if given is not None:
                table.register("own", lambda setting, given=given: Does(given, [LOOK]))  # type: ignore[attr-defined]

    return put


def texts(conversation: Conversation, role: Role) -> list[str]:
    return [utterance.text for utterance in conversation.utterances if utterance.role is role]


async def test_user_bot_and_api_take_turns_until_the_user_ends(app: App) -> None:
    conversation = await converse(app, ConversationConfig())

    assert transcript(conversation) == TRANSCRIPT
    assert conversation.ending and (conversation.ending.reason, conversation.ending.turns) == (EndReason.USER_ENDED, 2)


def test_the_dummies_reproduce_the_documents_transcript_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--user", "dummy_user", "--bot", "dummy_bot", "--api", "dummy_api", "--turns", "10", "--log", "tmp.log"]

    shown = CliRunner().invoke(command_line, ["simulate", *given])

    lines, header = shown.stdout.splitlines(), HEADER.splitlines()
    assert lines[:2] + lines[3:5] == header[:2] + header[3:5]
    assert "\n".join(lines[5:-1]) == TRANSCRIPT
    assert lines[-1] == "====================== END! ======================"
    assert transcript(read_log("tmp.log")) == TRANSCRIPT


def test_a_file_configures_the_conversation_and_options_override_it(tmp_path: Path) -> None:
    (tmp_path / "talk.yaml").write_text("user_mode: scripted_user\nscript: [hi]\nconversation_turn_limit: 3\n")
    (tmp_path / "talk.toml").write_text('user_mode = "scripted_user"\nscript = ["hi"]\nconversation_turn_limit = 3\n')
    (tmp_path / "wrong.toml").write_text("bot_action_limits = 3\n")

    given = ["--config", str(tmp_path / "talk.yaml"), "--turns", "1", "--log", str(tmp_path / "log")]
    shown = CliRunner().invoke(command_line, ["simulate", *given, "--db", ":memory:"])
    of_yaml = load_config(tmp_path / "talk.yaml", conversation_turn_limit=4, user_mode=None, seed=None)

    assert of_yaml == load_config(tmp_path / "talk.toml", conversation_turn_limit=4)
    assert "[USER] hi\n[BOT] bot response..." in shown.stdout
    assert (of_yaml.script, of_yaml.conversation_turn_limit, of_yaml.bot_action_limit) == (("hi",), 4, 5)
    with pytest.raises(
        ConfigurationError, match=r"wrong\.toml has no field 'bot_action_limits'; use one of: bot_action_limit\."
    ):
        load_config(tmp_path / "wrong.toml")


async def test_participants_are_found_by_name_and_ones_own_can_be_added(app: App, cast: Callable[..., None]) -> None:
    cast(bot=lambda conversation: says("mine"))

    own = await converse(app, ConversationConfig(bot_mode="own"))
    imported = await converse(app, ConversationConfig(user_mode=f"{__name__}:QuietUser"))

    assert texts(own, Role.BOT) == ["mine", "mine"]
    assert len(imported.utterances) == 1
    with pytest.raises(ConfigurationError, match=r'There is no bot "nobody"; use one of: .*dummy_bot, .*own'):
        await converse(app, ConversationConfig(bot_mode="nobody"))


class PlainUser:
    """As the document writes its participants: plain classes that are given the configuration and the conversation."""

    def __init__(self, cfg: ConversationConfig, conv: Conversation) -> None:
        self.cfg, self.conv = cfg, conv

    def process(self) -> UserOutput:
        return UserOutput(text=f"{self.cfg.goal} {self.conv.turn + 1}" if self.conv.turn < 2 else "[END]")


class PlainBot(PlainUser):
    def process(self) -> Any:
        time.sleep(0.01)  # it blocks no event loop
        return calls("find", of=self.conv.turn) if not self.conv.actions else says("Found.")


class PlainAPI:
    """Carries out `process(action, action_input)`, and offers no list of functions."""

    def process(self, action: str, action_input: dict[str, Any]) -> APIOutput:
        threads.append(threading.current_thread())
        return APIOutput(data={action: action_input})


threads: list[threading.Thread] = []


async def test_participants_may_be_plain_classes_as_in_the_document(app: App) -> None:
    names = app.agents.participants
    names.users.register("plain", PlainUser)
    names.bots.register("plain", PlainBot)
    names.apis.register("plain", PlainAPI)

    config = ConversationConfig(user_mode="plain", bot_mode="plain", api_mode="plain", goal="Ask")
    conversation = await converse(app, config)

    lines = transcript(conversation).splitlines()
    assert lines[:4] == ["[USER] Ask 1", '[BOT] find({"of": 1})', '[SYSTEM] {"find": {"of": 1}}', "[BOT] Found."]
    assert lines[4:] == [line.replace("1", "2") for line in lines[:4]]
    assert threading.main_thread() not in threads and len(threads) == 2


class TakesThree:
    def __init__(self, one: int, two: int, three: int) -> None: ...


class NoProcess:
    def __init__(self, setting: Any) -> None: ...


class WantsTwo(NoProcess):
    def process(self, one: int, two: int) -> Any: ...


class WrongSpecs(PlainAPI):
    specs = ({"name": "find"},)


WRONG = [
    ("user", TakesThree, r'The user "own" cannot be built: it should take a Setting, the keywords cfg and conv, or'),
    ("bot", NoProcess, r'The bot "own" cannot be used: it should have a method process\(conversation\) or process\(\)'),
    ("bot", WantsTwo, r'The bot "own" cannot be used'),
    ("api", NoProcess, r"or process\(action, action_input\)"),
    ("api", WrongSpecs, r'The specs of the API "own" should be a list of functions in OpenAI'),
]


@cases("role, given, why", WRONG)
async def test_a_participant_that_does_not_fit_is_refused_before_the_conversation_begins(
    app: App, role: str, given: Any, why: str
) -> None:
    getattr(app.agents.participants, f"{role}s").register("own", given)
    with pytest.raises(ConfigurationError, match=why):
        await converse(app, ConversationConfig(**{f"{role}_mode": "own"}))
    assert await app.tasks.list() == []


async def test_an_output_of_another_type_is_named(app: App, cast: Callable[..., None]) -> None:
    cast(bot=lambda conversation: "hello")
    with pytest.raises(ConfigurationError, match=r'The bot "own" returned str: its process should return a BotOutput'):
        await converse(app, ConversationConfig(bot_mode="own"))


FORM_ERRORS = [
    ({"user_mode": "nobody"}, r'There is no user "nobody"; use one of: dummy_user, .*scripted_user'),
    (
        {"bot_mode": "no_such.module:Bot"},
        r'There is no bot "no_such.module:Bot": No module .*; use one of: .*react_bot',
    ),
    ({"api_mode": "nothing"}, r'There is no API "nothing"; use one of: backend, dummy_api'),
    ({"workflow": "nothing"}, r"There is no workflow 'nothing'; .*travel_change"),
    ({"bot_mode": "segue:react"}, r"needs the app"),
    ({"conversation_turn_limit": "many"}, r"conversation_turn_limit: Input should be a valid integer"),
]


@cases("form, why", FORM_ERRORS)
async def test_a_wrong_form_of_the_graph_is_answered_with_a_sentence(form: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        await graph("conversation").ainvoke(form)


async def test_the_graphs_input_is_a_form_of_the_configuration() -> None:
    conversation = graph("conversation", checkpointer=InMemorySaver())
    fields = conversation.get_input_jsonschema()["properties"]
    thread: Any = {"configurable": {"thread_id": "1"}}

    first = await conversation.ainvoke({"user_mode": "scripted_user", "script": ["你好"]}, thread)
    second = await conversation.ainvoke({"workflow": "travel_change", "seed": 3}, thread)

    assert fields.keys() == ConversationConfig.model_fields.keys()
    assert all(field.get("description") for field in fields.values())
    assert first["result"]["answer"] == "[USER] 你好\n[BOT] bot response..."
    assert first["result"]["conversation"]["language"] == "zh"
    assert second["result"]["conversation"]["language"] == "en"
    assert second["result"]["answer"].startswith("[USER] I am ill and would like a refund.")


class QuietUser:
    """Ends at once."""

    def __init__(self, setting: object) -> None:
        pass

    async def process(self, conversation: Conversation) -> UserOutput:
        return UserOutput(text="[END]")


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_turn_limit_of_n_means_n_answered_turns(app: App, cast: Callable[..., None], limit: int) -> None:
    cast(user=talkative, bot=helpful)
    config = ConversationConfig(user_mode="own", bot_mode="own", conversation_turn_limit=limit)

    conversation = await converse(app, config)

    numbers = range(1, limit + 1)
    assert texts(conversation, Role.USER) == [f"question {n}" for n in numbers]
    assert texts(conversation, Role.BOT) == [f"answer {n}" for n in numbers]
    assert conversation.ending and conversation.ending.reason is EndReason.TURN_LIMIT


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_an_action_limit_of_n_means_n_calls_and_then_the_default_response(
    app: App, cast: Callable[..., None], limit: int
) -> None:
    cast(bot=restless, api=found)
    config = ConversationConfig(
        bot_mode="own", api_mode="own", bot_action_limit=limit, default_response="Sorry.", conversation_turn_limit=1
    )

    conversation = await converse(app, config)

    assert [u.role.value for u in conversation.utterances] == ["USER", *["BOT", "API"] * limit, "BOT"]
    last = conversation.utterances[-1]
    assert (last.text, last.action, last.controller) == ("Sorry.", "", "bot_action_limit")


async def test_a_bot_may_answer_after_its_last_call(app: App, cast: Callable[..., None]) -> None:
    cast(bot=lambda c: calls("look") if len(c.actions) < 2 else says("done"), api=found)
    config = ConversationConfig(bot_mode="own", api_mode="own", bot_action_limit=2, conversation_turn_limit=1)

    conversation = await converse(app, config)

    assert texts(conversation, Role.BOT) == ["", "", "done"]


async def test_only_the_user_ends_and_only_with_end_alone_on_a_line(app: App, cast: Callable[..., None]) -> None:
    said = ["Is [END] a word?", "Bye.\n[END]"]
    cast(user=lambda c: UserOutput(text=said[c.turn]), bot=lambda c: says("It is over. [END]\n[END]"))

    conversation = await converse(app, ConversationConfig(user_mode="own", bot_mode="own"))

    assert texts(conversation, Role.USER) == ["Is [END] a word?", "Bye."]
    assert texts(conversation, Role.BOT) == ["It is over."]
    assert conversation.utterances[-1].ends


async def test_a_refused_call_counts_and_its_hint_is_the_result(app: App, cast: Callable[..., None]) -> None:
    cast(bot=lambda c: calls("look") if len(c.utterances) < 30 else says("enough"), api=found)
    app.agents.participants.controllers.register("never", lambda setting: Never())
    config = ConversationConfig(
        bot_mode="own", api_mode="own", controllers=["never"], bot_action_limit=3, conversation_turn_limit=1
    )

    conversation = await converse(app, config)

    results = [u for u in conversation.utterances if u.role is Role.API]
    assert [(u.data, u.status_code, u.controller) for u in results] == [("not now", 409, "never")] * 3
    assert conversation.utterances[-1].controller == "bot_action_limit"


async def test_the_same_call_is_refused_after_it_was_made_twice(app: App, cast: Callable[..., None]) -> None:
    cast(bot=lambda c: calls("look", place=min(len(c.actions), 1)), api=found)
    config = ConversationConfig(
        bot_mode="own", api_mode="own", controllers=["api_duplication"], bot_action_limit=4, conversation_turn_limit=1
    )

    conversation = await converse(app, config)

    results = [u for u in conversation.utterances if u.role is Role.API]
    assert [u.controller for u in results] == ["", "", "", "api_duplication"]
    assert "2 times" in results[-1].data


async def test_a_long_session_ends_after_an_answer(app: App, cast: Callable[..., None]) -> None:
    cast(user=talkative, bot=lambda c: says("x" * 100))
    config = ConversationConfig(user_mode="own", bot_mode="own", controllers=["session_length"], session_length=200)

    conversation = await converse(app, config)

    assert conversation.ending and conversation.ending.reason is EndReason.SESSION_LENGTH
    assert (conversation.turn, conversation.utterances[-1].role) == (2, Role.BOT)


def bot_at(server: LoopbackServer, **fields: Any) -> Agent:
    return Agent(agent_id="helper", model="openai:x", base_url=server.base_url, api_key="k", **fields)


async def test_the_react_bot_thinks_and_acts_in_text(app: App) -> None:
    script = [
        'Thought: I add.\nAction: API_calculate\nAction Input: {"expression": "2+3"}',
        "Thought: I know.\nResponse: It is 5. [END]",
    ]
    with ScriptedChatModel(script) as model:
        app.register(Agent(agent_id="helper", model=model, tools=["calculator"]))
        config = ConversationConfig(
            user_mode="scripted_user", script=["2+3?"], bot_mode="react_bot", bot_agent="helper", api_mode="tools"
        )
        conversation = await converse(app, config)

    assert transcript(conversation).splitlines()[1:] == [
        '[BOT] calculate({"expression": "2+3"})',
        f"[SYSTEM] {FIVE}",
        "[BOT] It is 5.",
    ]
    sent = [str(message.content) for message in model.calls[1]]
    assert sent[-2:] == [
        'Thought: I add.\nAction: calculate\nAction Input: {"expression": "2+3"}',
        f"Observation: {FIVE}",
    ]
    assert "`calculate`" in sent[0]


async def test_an_action_input_that_is_not_valid_json_is_requested_again(app: App) -> None:
    broken = "Thought: I add.\nAction: calculate\nAction Input: {'expression': 2"
    with ScriptedChatModel([broken, "Action: calculate", "Response: No."]) as model:
        app.register(Agent(agent_id="helper", model=model))
        config = ConversationConfig(bot_mode="react_bot", bot_agent="helper", conversation_turn_limit=1)
        conversation = await converse(app, config)

    hints = [str(messages[-1].content) for messages in model.calls[1:]]
    assert "not valid JSON" in hints[0] and "missing" in hints[1]
    assert texts(conversation, Role.BOT) == ["No."]
    assert conversation.utterances[-1].usage["calls"] == 3


async def test_a_bot_that_cannot_be_read_sends_the_default_response(app: App) -> None:
    with ScriptedChatModel(["Thought: hm"] * 3) as model:
        app.register(Agent(agent_id="helper", model=model))
        config = ConversationConfig(bot_mode="react_bot", bot_agent="helper", conversation_turn_limit=1)
        conversation = await converse(app, config)

    last = conversation.utterances[-1]
    assert last.text.startswith("I am sorry") and "3 replies" in last.error


async def test_simulated_users_differ_by_persona_and_run_on_a_model_of_their_own(app: App) -> None:
    said = [Text("User: I want a refund. [END]\nAssistant: Certainly."), Text("Thanks. [END].")]
    async with LoopbackServer(said * 2) as users, LoopbackServer([Text("Response: Granted.")] * 2) as bots:
        app.register(bot_at(bots))
        app.register(Agent(agent_id="customer", model="openai:user", base_url=users.base_url, api_key="k"))
        for persona, seed in (("A student", 1), ("A pilot", 2)):
            config = ConversationConfig(
                user_mode="llm_profile", user_agent="customer", persona=persona, goal="a refund", seed=seed,
                bot_mode="react_bot", bot_agent="helper",
            )  # fmt: skip
            conversation = await converse(app, config)
            assert transcript(conversation).endswith("[BOT] Granted.\n[USER] Thanks.")
    bodies = [request.body for request in users.requests]

    assert [body["model"] for body in bodies] == ["user"] * 4
    assert "A student" in bodies[0]["messages"][0]["content"] and "A pilot" in bodies[2]["messages"][0]["content"]
    assert len({body["seed"] for body in bodies}) == 4
    assert "\nUser: I want a refund.\nAssistant: Granted.\n" in bodies[1]["messages"][-1]["content"]


async def test_a_simulated_user_without_a_model_says_which_option_is_missing(app: App) -> None:
    app.register(Agent(agent_id="helper", model=ScriptedChatModel(["Hello."])))
    with pytest.raises(ConfigurationError, match="user_model"):
        await converse(app, ConversationConfig(user_mode="llm_profile", bot_agent="helper"))


async def test_a_user_says_something_outside_the_workflow_with_a_seeded_probability(app: App) -> None:
    async def run(probability: float) -> list[bool]:
        with ScriptedChatModel(["hm"] * 6) as model:
            app.register(Agent(agent_id="customer", model=model))
            config = ConversationConfig(
                user_mode="llm_oow", user_agent="customer", seed=3, conversation_turn_limit=6,
                out_of_workflow=probability,
            )  # fmt: skip
            await converse(app, config)
        return ["outside the goal" in str(messages[1].content) for messages in model.calls]

    assert await run(1) == [False] + [True] * 5
    half = await run(0.5)
    assert half == await run(0.5) and 0 < sum(half) < 5


async def test_an_unknown_api_lists_the_names_and_arguments_are_checked(app: App, cast: Callable[..., None]) -> None:
    script = [calls("nothing"), calls("calculate"), calls("calculate", expression="1/0"), says("ok")]
    cast(bot=lambda c: script[len(c.actions)])
    config = ConversationConfig(
        bot_mode="own", api_mode="tools", tools=["calculator", "clock"], conversation_turn_limit=1
    )

    results = (await converse(app, config)).results

    assert [u.status_code for u in results] == [400, 400, 500]
    assert "use one of: calculate, " in results[0].data
    assert results[1].data == "The arguments of calculate are not valid: missing: expression."


async def test_a_simulated_api_answers_from_the_schemas_and_the_calls_so_far(
    app: App, cast: Callable[..., None]
) -> None:
    api = {"name": "book", "description": "Book a seat", "parameters": {"type": "object", "properties": {}}}
    cast(bot=lambda c: calls("book") if len(c.actions) < 2 else says("ok"))
    replies = ['{"status_code": 200, "data": {"seat": 7}}', "no", '{"status_code": 409, "data": "x"}']
    with ScriptedChatModel(replies) as model:
        app.register(Agent(agent_id="backend", model=model))
        config = ConversationConfig(
            bot_mode="own", api_mode="llm", api_agent="backend", apis=[api], conversation_turn_limit=1
        )
        results = (await converse(app, config)).results

    assert [(u.status_code, u.data) for u in results] == [(200, {"seat": 7}), (409, "x")]
    assert "Book a seat" in str(model.calls[0][0].content)
    assert '{"seat": 7}' in str(model.calls[1][0].content)


@pytest.mark.parametrize("mode", ["react", "plan", "plan_react"])
async def test_a_segue_agent_in_any_mode_is_the_bot_and_its_calls_go_through_the_api(app: App, mode: str) -> None:
    config = ConversationConfig(
        user_mode="scripted_user", script=["北京有什么景点？"], bot_mode=f"segue:{mode}", bot_agent="travel",
        api_mode="tools", controllers=["never"],
    )  # fmt: skip
    app.agents.participants.controllers.register("never", lambda setting: Never())

    conversation = await converse(app, config)

    call, result = conversation.utterances[1:3]
    assert (call.action, call.action_input) == ("query_attractions", {"cities": ["北京"]})
    assert (result.data, result.controller) == ("not now", "never")
    assert conversation.utterances[-2].text


@pytest.mark.parametrize("api", ["dummy_api", "plain"])
async def test_an_api_that_lists_no_functions_is_called_by_the_names_of_the_tools(app: App, api: str) -> None:
    app.agents.participants.apis.register("plain", PlainAPI)
    config = ConversationConfig(
        user_mode="scripted_user", script=["北京有什么景点？"], bot_mode="segue:react", bot_agent="travel", api_mode=api
    )
    conversation = await converse(app, config)
    (result,) = conversation.results
    assert (result.action, result.status_code) == ("query_attractions", 200)
    assert result.data in ("api calling...", {"query_attractions": {"cities": ["北京"]}})


async def test_a_person_is_the_user_or_the_bot(app: App, cast: Callable[..., None]) -> None:
    typed = {"USER": ["hello", "END"], "BOT": ['look({"at": 1})', 'lok({"at": 1})', "ok()"]}
    cast(api=found)

    async def person(question: dict[str, Any]) -> str:
        return typed[question["role"]].pop(0)

    config = ConversationConfig(user_mode="input_user", bot_mode="input_bot", api_mode="own")
    conversation = await converse(app, config, person=person)

    assert [u.action for u in conversation.results] == ["look", "lok"]
    assert transcript(conversation).startswith('[USER] hello\n[BOT] look({"at": 1})\n[SYSTEM] found\n')
    assert transcript(conversation).endswith("\n[BOT] ok()")
    assert conversation.ending and conversation.ending.reason is EndReason.USER_ENDED


async def test_every_utterance_is_a_durable_event_of_the_trace(app: App) -> None:
    conversation = await converse(app, ConversationConfig(), conversation_id="talk")

    trace = await app.trace(conversation.task_id)

    kinds = [event.type for event in trace.events]
    assert (kinds.count("utterance"), kinds.count("conversation_end")) == (7, 1)
    assert json.loads((await app.history("talk"))[0]["content"]) == {}
