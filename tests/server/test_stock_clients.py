"""One conversation, held by each stock client of OpenAI's API for Python, while the service restarts in its middle.

A function of the client, a tool of the agent, an approval, a restart, structured output and an image.
"""

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from segue.core.agents import Agent
from tests.fakes import ScriptedChatModel

from .serving import Held, Json, Served, ServerSettings
from .shop import refund

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
OPEN = ServerSettings(chats_a_minute=6000)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DATA_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
ADDRESS = "https://example.com/cat.png"
CITY = '{"name": "Oslo", "people": 700000}'


class City(BaseModel):
    """A city."""

    name: str
    people: int


def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sun"


def _call(name: str, /, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "c1"}])


class Desk:
    """The service's one agent, and the tools that it ran."""

    def __init__(self) -> None:
        self.held = Held()
        self.model = ScriptedChatModel(self._reply)

    def agent(self) -> Agent:
        tools = (self.held.note, refund)
        return Agent(
            agent_id="desk", model=self.model, mode="react", protocol="native", tools=tools, accepts=("image",)
        )

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        place = max(place for place, message in enumerate(messages) if message.type == "human")
        asked, after = messages[place], [str(m.content) for m in messages[place:] if m.type == "tool"]
        text, offered = str(asked.text), self._offered()
        if isinstance(asked.content, list):
            return AIMessage(f"I see {sum(part['type'] != 'text' for part in asked.content)} picture.")
        for word, name, arguments in (
            ("weather", "weather", {"city": "Oslo"}),
            ("note", "note", {"name": "milk"}),
            ("money", "refund", {"amount": 5}),
        ):
            if word in text and not after:
                return _call(name, **arguments)
        if after:
            return AIMessage(f"Done: {after[-1]}.")
        if form := next((name for name in offered if name in ("City", "final_result")), ""):
            return _call(form, name="Oslo", people=700000)
        return AIMessage(CITY if "city" in text else "Hello.")

    def _offered(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.model.call_kwargs[-1].get("tools", ())]


Step = Callable[[str, str], Awaitable[Any]]


async def converse(database: Path, client: Any) -> None:
    """The conversation; `client` has a method for each kind of message, which takes the base URL and the text."""
    desk = Desk()
    with Served(database, OPEN, agents=[desk.agent()]) as served:
        url = f"{served.url}/v1"
        assert "sun" in await client.with_function(url, "How is the weather?")
        assert "noted milk" in await client.ask(url, "Take a note.")
        assert desk.held.effects == ["milk"]
        await client.request_approval(url, "I want my money back.")
    with Served(database, OPEN, agents=[desk.agent()]) as served:
        url = f"{served.url}/v1"
        assert "refunded 5" in await client.approve(url)
        assert await client.structured(url, "Which city?") == City(name="Oslo", people=700000)
        assert "picture" in await client.look(url, "What is this?", DATA_URL)
        assert "picture" in await client.look(url, "And this?", ADDRESS)
    assert desk.held.effects == ["milk"], "a tool ran again"
    tasks = [message for message in desk.model.calls[-1] if message.type == "human"]
    assert len(tasks) >= 3, "the conversation was not continued"


class OpenAIChat:
    """The `openai` package, chat completions."""

    def __init__(self) -> None:
        self.messages: list[Any] = [{"role": "system", "content": "Be brief."}]

    def _complete(self, url: str, method: str = "create", **options: Any) -> Any:
        from openai import OpenAI

        with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            made = getattr(client.chat.completions, method)(model="desk", messages=self.messages, **options)
        message = made.choices[0].message
        self.messages.append(message.model_dump(exclude_none=True, exclude={"parsed", "reasoning_content"}))
        return message

    async def with_function(self, url: str, text: str) -> str:
        self.messages.append({"role": "user", "content": text})
        tool = {"type": "function", "function": {"name": "weather", "parameters": FORM}}
        (call,) = self._complete(url, tools=[tool]).tool_calls
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": weather("Oslo")})
        return str(self._complete(url, tools=[tool]).content)

    async def ask(self, url: str, text: Any) -> str:
        self.messages.append({"role": "user", "content": text})
        return str(self._complete(url).content)

    async def request_approval(self, url: str, text: str) -> None:
        assert "refund" in await self.ask(url, text)

    async def approve(self, url: str) -> str:
        return await self.ask(url, "approve")

    async def structured(self, url: str, text: str) -> Any:
        self.messages.append({"role": "user", "content": text})
        return self._complete(url, "parse", response_format=City).parsed

    async def look(self, url: str, text: str, image: str) -> str:
        return await self.ask(url, [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": image}}])


FORM: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class OpenAIResponses:
    """The `openai` package, responses."""

    def __init__(self) -> None:
        self.last: Any = None

    def _respond(self, url: str, given: Any, method: str = "create", **options: Any) -> Any:
        from openai import OpenAI

        if self.last:
            options["previous_response_id"] = self.last.id
        with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            self.last = getattr(client.responses, method)(
                model="desk", input=given, instructions="Be brief.", **options
            )
        return self.last

    async def with_function(self, url: str, text: str) -> str:
        tool = {"type": "function", "name": "weather", "parameters": FORM, "strict": True}
        (call,) = [i for i in self._respond(url, text, tools=[tool]).output if i.type == "function_call"]
        given = [{"type": "function_call_output", "call_id": call.call_id, "output": weather("Oslo")}]
        return str(self._respond(url, given, tools=[tool]).output_text)

    async def ask(self, url: str, text: Any) -> str:
        return str(self._respond(url, text).output_text)

    async def request_approval(self, url: str, text: str) -> None:
        (self.request,) = [i for i in self._respond(url, text).output if i.type == "mcp_approval_request"]

    async def approve(self, url: str) -> str:
        given = {"type": "mcp_approval_response", "approval_request_id": self.request.id, "approve": True}
        return await self.ask(url, [given])

    async def structured(self, url: str, text: str) -> Any:
        return self._respond(url, text, "parse", text_format=City).output_parsed

    async def look(self, url: str, text: str, image: str) -> str:
        parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": image}]
        return await self.ask(url, [{"role": "user", "content": parts}])


class OpenAIAgents:
    """The `openai-agents` package, which sends all items each time; it approves calls of the tools that it knows."""

    def __init__(self) -> None:
        from agents import Agent as Program
        from agents import HostedMCPTool, function_tool

        desk: Any = {"type": "mcp", "server_label": "desk", "server_url": "https://desk", "require_approval": "always"}
        tools: Any = [function_tool(weather), HostedMCPTool(tool_config=desk)]
        self.program: Any = Program(name="p", instructions="Be brief.", tools=tools)
        self.items: list[Any] = []
        self.held: Any = None

    async def _run(self, url: str, given: Any, **options: Any) -> Any:
        from agents import ModelSettings, OpenAIResponsesModel, RunConfig, Runner
        from openai import AsyncOpenAI

        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            model = OpenAIResponsesModel(model="desk", openai_client=client)
            for name, value in {"output_type": None, "model_settings": ModelSettings(), **options}.items():
                setattr(self.program, name, value)
            result = await Runner.run(self.program, given, run_config=RunConfig(model=model, tracing_disabled=True))
        self.items = result.to_input_list()
        return result

    async def _say(self, url: str, content: Any, **options: Any) -> Any:
        return await self._run(url, [*self.items, {"role": "user", "content": content}], **options)

    async def with_function(self, url: str, text: str) -> str:
        from agents import ModelSettings

        return str((await self._say(url, text, model_settings=ModelSettings(tool_choice="required"))).final_output)

    async def ask(self, url: str, text: Any) -> str:
        return str((await self._say(url, text)).final_output)

    async def request_approval(self, url: str, text: str) -> None:
        self.held = await self._say(url, text)
        assert [each.raw_item.name for each in self.held.interruptions] == ["refund"]

    async def approve(self, url: str) -> str:
        state = self.held.to_state()
        state.approve(self.held.interruptions[0])
        return str((await self._run(url, state)).final_output)

    async def structured(self, url: str, text: str) -> Any:
        return (await self._say(url, text, output_type=City)).final_output

    async def look(self, url: str, text: str, image: str) -> str:
        return await self.ask(
            url, [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": image, "detail": "auto"}]
        )


class PydanticAI:
    """pydantic-ai: its structured output is a call of a tool that is required."""

    def __init__(self) -> None:
        self.history: Any = None

    async def _run(self, url: str, given: Any, **options: Any) -> Any:
        from openai import AsyncOpenAI
        from pydantic_ai import Agent as Program
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            model = OpenAIChatModel("desk", provider=OpenAIProvider(openai_client=client))
            program: Any = Program(model, instructions="Be brief.", **options)
            result = await program.run(given, message_history=self.history)
        self.history = result.all_messages()
        return result.output

    async def with_function(self, url: str, text: str) -> str:
        return str(await self._run(url, text, tools=[weather]))

    async def ask(self, url: str, text: Any) -> str:
        return str(await self._run(url, text))

    async def request_approval(self, url: str, text: str) -> None:
        assert "refund" in await self.ask(url, text)

    async def approve(self, url: str) -> str:
        return await self.ask(url, "approve")

    async def structured(self, url: str, text: str) -> Any:
        return await self._run(url, text, output_type=City)

    async def look(self, url: str, text: str, image: str) -> str:
        from pydantic_ai import BinaryContent, ImageUrl

        content = BinaryContent(PNG, media_type="image/png") if image.startswith("data:") else ImageUrl(image)
        return await self.ask(url, [text, content])


class LangChain:
    """LangChain's `ChatOpenAI`."""

    def __init__(self) -> None:
        self.messages: list[Any] = [("system", "Be brief.")]

    def _chat(self, url: str) -> Any:
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model="desk", base_url=url, api_key="none", max_retries=0, temperature=0.1)  # type: ignore[arg-type]

    async def with_function(self, url: str, text: str) -> str:
        from langchain_core.tools import tool

        bound = self._chat(url).bind_tools([tool(weather)])
        self.messages.append(("user", text))
        called = await bound.ainvoke(self.messages)
        self.messages += [called, await tool(weather).ainvoke(called.tool_calls[0])]
        self.messages.append(await bound.ainvoke(self.messages))
        return str(self.messages[-1].content)

    async def ask(self, url: str, text: Any) -> str:
        self.messages.append(("user", text))
        self.messages.append(await self._chat(url).ainvoke(self.messages))
        return str(self.messages[-1].content)

    async def request_approval(self, url: str, text: str) -> None:
        assert "refund" in await self.ask(url, text)

    async def approve(self, url: str) -> str:
        return await self.ask(url, "approve")

    async def structured(self, url: str, text: str) -> Any:
        self.messages.append(("user", text))
        found = await self._chat(url).with_structured_output(City, include_raw=True).ainvoke(self.messages)
        called = self._chat(url).with_structured_output(City, method="function_calling")
        assert await called.ainvoke([("user", "Call with a city.")]) == found["parsed"]
        self.messages.append(found["raw"])
        return found["parsed"]

    async def look(self, url: str, text: str, image: str) -> str:
        return await self.ask(url, [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": image}}])


class LiteLLM(OpenAIChat):
    """litellm, with its OpenAI-compatible provider."""

    def _complete(self, url: str, method: str = "create", **options: Any) -> Any:
        import litellm

        about = {"api_base": url, "api_key": "none", "model": "openai/desk", "num_retries": 0}
        made: Any = litellm.completion(messages=self.messages, **about, **options)
        message = made.choices[0].message
        self.messages.append(
            message.model_dump(exclude_none=True, exclude={"reasoning_content", "provider_specific_fields"})
        )
        return message

    async def structured(self, url: str, text: str) -> Any:
        self.messages.append({"role": "user", "content": text})
        return City.model_validate_json(self._complete(url, response_format=City).content)


class LLM:
    """The library of Simon Willison's `llm`."""

    def __init__(self) -> None:
        self.conversation: Any = None

    def _prompt(self, url: str, text: str, **options: Any) -> str:
        import llm
        from llm.default_plugins.openai_models import Chat

        model = Chat("desk", model_name="desk", api_base=url, vision=True, supports_tools=True, supports_schema=True)
        model.key = "none"
        if self.conversation is None:
            self.conversation = llm.Conversation(model=model)
        self.conversation.model = model
        tools = options.pop("tools", None)
        if tools:
            return str(self.conversation.chain(text, tools=tools, stream=True, **options).text())
        return str(self.conversation.prompt(text, stream=True, **options).text())

    async def with_function(self, url: str, text: str) -> str:
        return self._prompt(url, text, tools=[weather])

    async def ask(self, url: str, text: str) -> str:
        return self._prompt(url, text)

    async def request_approval(self, url: str, text: str) -> None:
        assert "refund" in await self.ask(url, text)

    async def approve(self, url: str) -> str:
        return await self.ask(url, "approve")

    async def structured(self, url: str, text: str) -> Any:
        return City.model_validate_json(self._prompt(url, text, schema=City))

    async def look(self, url: str, text: str, image: str) -> str:
        import llm

        given = {"content": PNG} if image.startswith("data:") else {"url": image, "type": "image/png"}
        return self._prompt(url, text, attachments=[llm.Attachment(**given)])


CLIENTS = (OpenAIChat, OpenAIResponses, OpenAIAgents, PydanticAI, LangChain, LiteLLM, LLM)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
async def test_a_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: type) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    await converse(tmp_path / "segue.db", client())
