"""OpenAI-compatible endpoints: which form of structured output they take, and their faults in a sentence."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import httpx
import openai

from ..errors import ModelRefused, ModelUnreachable
from ..services import ModelPiece, ModelRequest
from .chat_object import stream_reply

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

LADDER = ("json_schema", "json_object", "prompt")
"""Ways to ask for JSON, the strictest first; what an endpoint refuses is not tried on it again."""

_found: dict[str, int] = {}


class OpenAIModel:
    """A model behind an OpenAI-compatible chat-completions endpoint."""

    is_language_model = True

    def __init__(self, chat: "ChatOpenAI", name: str) -> None:
        self.chat = chat
        self.name = name
        self._endpoint = f"{chat.openai_api_base or 'default'}#{chat.model_name}"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        while True:
            rung = _found.get(self._endpoint, 0)
            try:
                async for piece in self._attempt(request, rung):
                    yield piece
                return
            except openai.BadRequestError as error:
                if request.schema is None or rung + 1 == len(LADDER) or not _blames_format(error):
                    raise ModelRefused(f"{self._who} refused the request: {_reason(error)}.") from error
                _found[self._endpoint] = rung + 1

    async def _attempt(self, request: ModelRequest, rung: int) -> AsyncIterator[ModelPiece]:
        bound = self.chat.bind(**_response_format(request, LADDER[rung]))
        try:
            async for piece in stream_reply(bound, request):
                yield piece
        except openai.BadRequestError:
            raise
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise ModelRefused(f"{self._who} rejected the key: check OPENAI_API_KEY ({_reason(error)}).") from error
        except openai.NotFoundError as error:
            raise ModelRefused(f"{self._who} was not found: check the model's name and base_url.") from error
        except (openai.APIConnectionError, httpx.TransportError) as error:
            raise ModelUnreachable(
                f"{self._who} could not be reached: check the address and the network, then resume."
            ) from error
        except openai.APIStatusError as error:
            raise ModelUnreachable(
                f"{self._who} answered {error.status_code}: wait a moment, then resume ({_reason(error)})."
            ) from error
        except (openai.APIError, json.JSONDecodeError) as error:
            raise ModelUnreachable(f"{self._who} broke off its reply: resume to ask again ({error}).") from error

    @property
    def _who(self) -> str:
        return f"The model «{self.name}» at {self.chat.openai_api_base or 'api.openai.com'}"


def _response_format(request: ModelRequest, way: str) -> Mapping[str, Any]:
    if request.schema is None or way == "prompt":
        return {}
    if way == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema = {"name": request.purpose, "schema": request.schema, "strict": False}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _blames_format(error: openai.BadRequestError) -> bool:
    text = str(error).lower()
    return any(word in text for word in ("response_format", "json_schema", "json_object", "schema", "grammar"))


def _reason(error: openai.APIStatusError) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or error.message)[:200].rstrip(".")
