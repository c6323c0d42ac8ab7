"""Faults of endpoints: whether and when to retry, in which form, and what the operator can do."""

import json
import math
import random
import re
import sys
import time
from asyncio import sleep
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

from ...core.errors import Clause, ModelError, ModelRefused, ModelUnreachable, UnreadableReply
from ...core.models import UNREADABLE, ModelPiece, ModelReply, ModelRequest, Retry
from ..habits import Habits, Trial
from ..reply import BROKEN, FILTERED, MALFORMED

if TYPE_CHECKING:
    import openai

FIRST_DELAY = 1.0
"""Seconds before the second attempt; they double with each further one, less a random part of up to half."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often a model is tried, how long is waited, in seconds, and where time and chance come from.

    No other layer retries.
    """

    attempts: int = 3
    """The first one included."""
    first_delay: float = field(default_factory=lambda: FIRST_DELAY)
    """Before the second attempt."""
    max_retry_after: float = 60.0
    """The longest Retry-After that is waited for; with a longer one the task ends, to be resumed."""
    read_timeout: float = 60.0
    """For each piece of a stream."""
    reply_timeout: float = 300.0
    """For a reply that is not streamed."""
    sleep: Callable[[float], Awaitable[object]] = sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time

    def delay(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait before an attempt (2 is the first that waits): its Retry-After, else backoff."""
        if retry_after is not None:
            return retry_after
        return float(self.first_delay * 2 ** (attempt - 2)) * (1 - self.chance() / 2)

    def time_after(self, seconds: float) -> str:
        """The time of day in so many seconds."""
        return datetime.fromtimestamp(self.clock() + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_REASON_CHARS = 200
_QUOTA = "insufficient_quota"


@dataclass(frozen=True)
class Fault:
    """Why an attempt failed.

    `reason` continues "The model x at y"; `advice` says what to do. `text` is the endpoint's error in lower case,
    `retry_after` its Retry-After in seconds. `too_long`: the prompt is. `about_reply`: what the model wrote is refused.
    `is_known`: it is a fault of an endpoint, and no error of a program that only its own words explain.
    """

    reason: Clause
    advice: str = "check the endpoint, then resume"
    retryable: bool = True
    status: int = 0
    text: str = ""
    retry_after: float | None = None
    too_long: bool = False
    about_reply: bool = False
    is_known: bool = True


class AttemptFailed(Exception):
    """An attempt failed; carries the fault through LangChain."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault.reason))
        self.fault = fault


class Redactor:
    """Replaces keys in what an endpoint sends."""

    def __init__(self, keys: Iterable[str]) -> None:
        known = [re.escape(key) for key in keys if len(key) > 5]
        self._secret = re.compile("|".join([*known, r"(?i:bearer\s+)\S+", r"\bsk-[\w*.-]{6,}"]))

    def __call__(self, text: str) -> str:
        return self._secret.sub("***", text)


def client_errors(*names: str) -> tuple[type[Exception], ...]:
    """The exceptions of these names: OpenAI's client is built on one of two httpx, and takes clients of the other."""
    clients = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(getattr(client, name) for client in clients for name in names)


def fault_of(error: "openai.OpenAIError", redact: Redactor, clock: Callable[[], float]) -> Fault:
    """Return the fault behind an error of the client."""
    import openai  # it takes most of a second, and only a fault needs it

    if isinstance(error, openai.APIStatusError):
        wait = retry_after(error.response.headers, clock)
        return status_fault(error.status_code, _body(error), redact, wait)
    if isinstance(error, openai.APIConnectionError):
        return _connection_fault(error, redact)
    if isinstance(error, openai.APIError):
        return body_fault(error.body or error.message, redact)
    why = _words(str(error), redact)
    return Fault(
        Clause("could not take the request ({why})", why=why), "check the key and the settings", retryable=False
    )


def provider_fault(error: Exception, redact: Redactor, clock: Callable[[], float]) -> Fault:
    """Return the fault behind an exception of any provider's client, as its status, its cause or its words say."""
    response = getattr(error, "response", None)
    status, body = _status_of(error, response), getattr(error, "body", None) or str(error)
    text, why = f"{_all(body)} {str(error)[:_SEARCHED].lower()}", _words(body, redact)
    if status is not None:
        headers = getattr(response, "headers", None)
        wait = retry_after(headers, clock) if isinstance(headers, Mapping) else None
        fault = replace(status_fault(status, body, redact, wait), text=text)
        return replace(fault, advice="check its key") if status in (401, 403) else fault
    if is_too_long(text):
        return _prompt_too_long(0, why, text)
    cause: BaseException | None = error
    for _ in range(_DEEPEST):
        if isinstance(cause, (TimeoutError, ConnectionError, *client_errors("TimeoutException", "RequestError"))):
            reason = Clause("could not be reached ({why})", why=why)
            return Fault(reason, "check the address and the network, then resume")
        cause = cause and cause.__cause__
    refused = Clause("refused the request ({why})", why=why)
    return Fault(refused, "change what it names, then resume", retryable=False, text=text, is_known=False)


def _status_of(error: Exception, response: object) -> int | None:
    """The HTTP status that an exception names, in the fields of common clients."""
    metadata = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    named = (
        getattr(error, "status_code", None),
        getattr(error, "http_status", None),
        getattr(response, "status_code", None),
        metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None,
        getattr(error, "code", None),
    )
    return next((int(status) for status in named if isinstance(status, int) and 400 <= status <= 599), None)


def _body(error: "openai.APIStatusError") -> object:
    """What the endpoint sent; the client keeps only what stands under `error`."""
    try:
        return error.response.json() or error.message
    except (ValueError, RuntimeError):  # it is no JSON, or was not read
        return error.body or error.message


def _connection_fault(error: "openai.APIConnectionError", redact: Redactor) -> Fault:
    cause = error.__cause__
    why = _words(str(cause or error) or type(cause).__name__, redact)
    if isinstance(cause, client_errors("UnsupportedProtocol", "InvalidURL", "LocalProtocolError")):
        return Fault(
            Clause("could not take the request ({why})", why=why),
            "check base_url and the key, then resume",
            retryable=False,
        )
    if isinstance(cause, Exception) and not isinstance(cause, client_errors("ConnectError", "ConnectTimeout")):
        return Fault(Clause("closed the connection ({why})", why=why))
    return Fault(Clause("could not be reached ({why})", why=why), "check the address and the network, then resume")


def timeout_fault(seconds: float, cause: BaseException | None) -> Fault:
    """Return the fault of a timeout."""
    if isinstance(cause, client_errors("ConnectTimeout")):
        return Fault(Clause("could not be reached in time"), "check the address and the network, then resume")
    advice = "check the endpoint, then resume; a slow one needs a larger read_timeout on the agent"
    return Fault(Clause("sent nothing new for {seconds} s", seconds=f"{seconds:g}"), advice)


def too_long(limit: int) -> Fault:
    return Fault(Clause("sent a reply of more than {limit} bytes", limit=f"{limit:,}"))


_REPHRASE = "rephrase the message, or choose another model"


def body_fault(body: object, redact: Redactor) -> Fault:
    """Return the fault of an error object in the place of a reply; its `code` may be an HTTP status."""
    inner = body.get("error") if isinstance(body, Mapping) else None
    codes = [str(part.get("code") or "") for part in (inner, body) if isinstance(part, Mapping)]
    code = next(filter(None, codes), "")
    if code == _QUOTA or re.fullmatch("4[0-9][0-9]", code):
        return status_fault(429 if code == _QUOTA else int(code), body, redact)
    why, text = _words(body, redact), _all(body)
    if is_too_long(text):
        return _prompt_too_long(0, why, text)
    return Fault(Clause("did not finish its reply ({why})", why=why), text=text, about_reply=_is_about_reply(text))


def end_fault(finish_reason: str) -> Fault | None:
    """Return the fault of a reply that broke off, as its finish_reason says; else None."""
    if finish_reason in FILTERED:
        return Fault(Clause("stopped its reply at its content filter"), _REPHRASE, retryable=False)
    why = f"finish_reason {finish_reason}"
    if finish_reason in MALFORMED:
        return Fault(Clause("wrote a call that cannot be read ({why})", why=why), about_reply=True)
    if finish_reason in BROKEN:
        return Fault(Clause("did not finish its reply ({why})", why=why))
    return None


def status_fault(status: int, body: object, redact: Redactor, wait: float | None = None) -> Fault:
    """Return the fault of an HTTP error."""
    why, text, told = _words(body, redact), _all(body), _told(body)
    refused = Clause("refused the request ({why})", why=why)
    if _is_about_reply(text):
        return Fault(refused, "resume to ask again", status=status, text=text, about_reply=True)
    if status not in (401, 402, 403, 404) and is_too_long(text):
        return _prompt_too_long(status, why, text)
    if status < 500 and _DECLINED.search(told):
        return Fault(Clause("declined to answer ({why})", why=why), _REPHRASE, False, status=status, text=text)
    if status == 402 or (status < 500 and _NO_CREDIT.search(told)):
        reason = Clause("has no credit left ({why})", why=why)
        known = "" if status in (402, 429) else text
        return Fault(reason, "top up the account or use another key", False, status=status, text=known)
    if status == 401 or (status == 403 and not _NOT_THE_KEY.search(text)):
        reason, advice = Clause("rejected the key ({why})", why=why), "check OPENAI_API_KEY or the agent's api_key"
        return Fault(reason, advice, False, status=status, text=text)
    if status in (404, 405) and not _NO_TOOLS.search(text):
        reason = Clause("was not found ({why})", why=why)
        return Fault(reason, "check the model's name and base_url", False, status=status, text=text)
    if status >= 500 and _TEMPLATE.search(text):
        advice = _advice(text) if _NO_TOOLS.search(text) else _TEMPLATE_ADVICE
        return Fault(refused, advice, False, status=status, text=text)
    if status in _PASSING or status >= 500:
        reason = Clause("answered {status} ({why})", status=status, why=why)
        wait = _wait_in(body) if wait is None else wait
        return Fault(reason, "wait a moment, then resume", status=status, text=text, retry_after=wait)
    advice = "check base_url, then resume" if why == _WEB_PAGE else _advice(text)
    return Fault(refused, advice, False, status=status, text=text)


def _prompt_too_long(status: int, why: str, text: str) -> Fault:
    refused = Clause("refused the request ({why})", why=why)
    return Fault(refused, "lower the agent's budget.prompt_tokens", False, status=status, text=text, too_long=True)


def _advice(text: str) -> str:
    """What to do about a refusal."""
    if _NO_TOOLS.search(text):
        return 'if it takes no tools, set protocol="json" on the agent'
    if "max_tokens" in text and "max_completion_tokens" in text:
        return "leave max_tokens out and set what it names under extra_body on the agent, then resume"
    return "change what it names, then resume"


_PASSING = (408, 409, 424, 425, 429, 498, 499)
"""Statuses below 500 of what passes: timeouts, conflicts, rates, and no capacity at the moment."""
_DECLINED = re.compile(
    r"content[ _](?:management[ _])?(?:policy|filter)|responsibleaipolicy|data_inspection_failed|by moderation"
    r"|inappropriate content|safety system|内容安全|敏感"
)
"""A message that may not be answered."""
_NO_CREDIT = re.compile(
    r"insufficient[ _](?:quota|balance|funds|credits?)|exceeded_current_quota|credit balance is too low|arrears"
    r"|余额不足|欠费"
)
_NOT_THE_KEY = re.compile(r"country|\bregion|territor|access to (?:the )?model|地区|<html|<!doctype")
"""A 403 that is about something else."""
_TEMPLATE_ADVICE = "its chat template refuses the messages: see habits in the agents file"
_TEMPLATE = re.compile(r"jinja|chat[ _]template|template error|raise_exception")
_NO_TOOLS = re.compile(
    r"(?:not|n't|cannot|that) support (?:the |any )?(?:use of )?"
    r"(?:tools?\b|tool[- _](?:use|call|choice)|function[- _]?call)"
    r"|\b(?:tools?|tool[- _](?:use|calls?|calling|choice)|function[- _]call(?:s|ing)?|functions?)['\"`]?"
    r" (?:parameter |field |argument )?(?:is|are|was) (?:not|currently not|un)"
    r"|(?:unknown|unsupported|unrecognized|unexpected|extra|not permitted|not allowed)[^.]{0,40}['\"`: ]"
    r"(?:tools|tool_choice|functions)(?:['\"`.,]|$)"
    r"|\btool(?:s|[- _](?:choice|use|calls?|calling)) not supported"
    r"|(?:unsupported|unknown|invalid|unexpected) role:? ?\W{0,2}tool\b|role \W{0,2}tool\W{0,2} is not"
    r"|enable-auto-tool-choice|tool-call-parser|tools param requires"
)
"""A refusal of tools as such; most that hold the word are about something else."""
_ABOUT_REPLY = re.compile(
    r"tool_use_failed|json_validate_failed|output_parse_failed|failed_generation|malformed_function_call"
    r"|failed to call a function|failed to parse tool[ _]call|error parsing tool call|tool call validation failed"
    r"|(?:failed|unable) to parse (?:the )?(?:model(?:'s)? )?(?:output|response|generat)"
)
"""A refusal of what the model wrote, in the words of Groq, Ollama, llama.cpp and others."""
_TOO_LONG = re.compile(
    r"context[_ -]?(?:length|window|size|limit)|context_length_exceeded|maximum context"
    r"|(?:prompt|input|request|messages?|conversation|query)s?[_ ](?:is |are |was )?too[_ ](?:long|large|many tokens)"
    r"|(?:prompt|input|request|messages?)[^.]{0,60}"
    r"\b(?:exceed|over the|longer than|larger than|greater than|must be less|above)[^.]{0,60}"
    r"\b(?:max|limit|length|token|context|allowed)"
    r"|input token count|too many (?:input |prompt )?tokens|must have less than \d+ tokens|range of input length"
    r"|(?:max|maximum)[_ ](?:prompt|input)[_ ](?:length|tokens|size)"
    r"|reduce (?:the length|your (?:message|prompt|input)|the (?:prompt|number of (?:tokens|messages)))"
    r"|tokens?[^.]{0,40}exceed[^.]{0,40}(?:context|window|model's (?:max|limit))"
    r"|payload too large|request entity too large|inputs\W{0,2} tokens \+|current length is \d+ while limit"
    r"|content\W{0,4} string too long|prompt_tokens[^.]{0,20} must be less"
    r"|上下文[^。]{0,20}(?:长度|超)|(?:输入|提示)[^。]{0,20}(?:过长|超)"
)
"""A prompt that is too long, in the words of many endpoints."""
_NOT_TOO_LONG = re.compile(
    r"(?:max_tokens|max_completion_tokens|(?<!input or )output tokens)[^.]{0,40}(?:too large|at most|must be)"
    r"|max_(?:completion_)?tokens\W{0,4}\d+ >"
)


_SEARCHED = 20_000
"""Characters of an error in which such words are looked for."""


def is_too_long(text: str) -> bool:
    """Whether an error, in lower case, says that the prompt is too long."""
    return bool(_TOO_LONG.search(text)) and not _NOT_TOO_LONG.search(text)


def _is_about_reply(text: str) -> bool:
    return bool(_ABOUT_REPLY.search(text))


_MOST_WAIT = 366 * 86_400.0
"""Seconds; an endpoint that names a longer wait, or none that is a number, means nothing by it."""


def retry_after(headers: Mapping[str, str], clock: Callable[[], float]) -> float | None:
    """Read the Retry-After in seconds; None where there is none that makes sense."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return _sensible(float(headers.get(name, "")) / unit)
        except ValueError:
            continue
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _sensible(max(aware.timestamp() - clock(), 0.0))
    except (ValueError, OverflowError):
        return None


def _sensible(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) and 0 <= seconds <= _MOST_WAIT else None


_UNITS = {"h": 3600.0, "m": 60.0, "ms": 0.001, "milli": 0.001, "s": 1.0}
_WAIT = re.compile(
    r"(?:try(?: it)? again|retry|wait)(?:ing)?(?: (?:in|after|for|at least|about|approximately))*[: ]+"
    r"((?:\d+(?:\.\d+)?\s*(?:h|ms|m|s|hours?|minutes?|mins?|seconds?|secs?|milliseconds?)(?=[^a-z]|\Z)\s*)+)"
)
_AMOUNT = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)\s*+(ms|milli|h|m|s)")


def _wait_in(body: object) -> float | None:
    """The wait in seconds that an error's body names: Google's RetryInfo, a field, or a sentence."""
    waiting = [body]
    for _ in range(100):
        if not waiting:
            break
        part = waiting.pop(0)
        if isinstance(part, Mapping):
            for name in ("retryDelay", "retry_after", "retryAfter", "retry_after_seconds"):
                if (found := _seconds(part.get(name))) is not None:
                    return found
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    words = _WAIT.search(_all(body))
    return _seconds(words[1]) if words else None


def _seconds(given: object) -> float | None:
    """A duration as a number, as "1m30.5s", or as {"seconds": 6}."""
    if isinstance(given, Mapping):
        given = given.get("seconds")
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return _sensible(float(given))
        except OverflowError:
            return None
    if not isinstance(given, str):
        return None
    try:
        return _sensible(float(given))
    except ValueError:
        amounts = _AMOUNT.findall(given.lower())
        return _sensible(sum(float(n) * _UNITS[unit] for n, unit in amounts)) if amounts else None


_WEB_PAGE = "a web page"


def _words(body: object, redact: Redactor) -> str:
    """An error body's message, in a line."""
    text = " ".join(redact(_message(body)).split())
    if re.match(r"<(!doctype|html)", text, re.IGNORECASE):
        return _WEB_PAGE
    return text[:_REASON_CHARS].rstrip(". ") or "no reason given"


_WORDS = (
    "message", "msg", "detail", "error", "errors", "error_message", "error_msg", "errorMessage", "error_description",
    "status_msg", "base_resp", "reason", "title", "description",
)  # fmt: skip
_DEEPEST = 20


def _message(body: object, depth: int = 0) -> str:
    """The words of an error in whatever form: an object, a list of them, or a text."""
    if isinstance(body, str):
        return body
    if depth < _DEEPEST and isinstance(body, list):
        return "; ".join(filter(None, (_message(each, depth + 1) for each in body[:3])))
    if depth < _DEEPEST and isinstance(body, Mapping):
        for key in _WORDS:
            if body.get(key) and (words := _message(body[key], depth + 1)):
                return words + _more_words(body)
    return _dumped(body) if body else ""


def _more_words(body: Mapping[str, Any]) -> str:
    """What a router passes on of the provider's words, and where in the request a validator found a fault."""
    metadata, place = body.get("metadata"), body.get("loc")
    if isinstance(metadata, Mapping) and metadata.get("raw"):
        return f": {_message(metadata['raw'])}"
    return f" ({'.'.join(map(str, place))})" if isinstance(place, list) else ""


def is_error(document: object) -> bool:
    """Whether a document in the place of a reply, or of a chunk of one, is an error object."""
    if not isinstance(document, Mapping):
        return isinstance(document, list) and any(map(is_error, document[:1]))
    if document.get("error"):
        return True
    if document.get("choices"):
        return False
    if document.get("object") == "error" or document.get("type") == "error" or document.get("success") is False:
        return True
    outcome = document.get("base_resp")
    if isinstance(outcome, Mapping) and outcome.get("status_code"):
        return True
    named = (document.get(key) for key in ("detail", "message", "msg", "error_msg", "error_message", "errorMessage"))
    return any(isinstance(words, str | list) and words for words in named)


def _all(body: object) -> str:
    """The beginning of an error, in lower case, in which known words are looked for."""
    return (body if isinstance(body, str) else _dumped(body))[:_SEARCHED].lower()


def _told(body: object) -> str:
    """What an error says and its codes, as `_all`, without what it repeats of the request."""
    error = body.get("error") if isinstance(body, Mapping) else None
    codes = [each.get(key) for each in (body, error) if isinstance(each, Mapping) for key in ("code", "type")]
    return _all(f"{_message(body)} {_dumped(codes)}")


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# The attempts of one call: again after what passes, and in another form after what a refusal shows.

_NOT_ABOUT_THE_BODY = (401, 403, 408, 409, 429)


class Attempt(Protocol):
    """One attempt at a call."""

    @property
    def sent(self) -> dict[str, Any]:
        """The body, or what stands for it, as it was sent."""
        ...

    def pieces(self) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then the reply."""
        ...


class Attempts:
    """How one model is asked until it replies.

    `given` are the habits that the agent sets in place of those known, `without` those that it cannot take up.
    """

    def __init__(
        self,
        endpoint: str,
        policy: RetryPolicy,
        habits: Habits | None,
        given: Collection[str] | None,
        without: Collection[str] = (),
    ) -> None:
        self._endpoint = endpoint
        self._without = without
        self._habits = habits or Habits()
        self._given = None if given is None else frozenset(given)
        self._policy = policy

    async def stream(self, model: "Attempted", request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then exactly one `ModelReply`; a `Retry` goes before each attempt but the first."""
        count = 1
        known = await self._habits.of(self._endpoint) if self._given is None else self._given
        trial = Trial(known, self._without)
        while True:
            attempt = model.begin(request, trial.active)
            begun = False
            try:
                async with aclosing(attempt.pieces()) as pieces:
                    async for piece in pieces:
                        begun = True
                        if isinstance(piece, ModelReply) and trial.active != trial.known:
                            await self._learn(trial)
                        yield piece
                return
            except AttemptFailed as failed:
                fault, cause = failed.fault, failed.__cause__
            # Raised out here an error has no context: what the client raised may hold the key.
            is_refusal = not begun and bool(fault.text) and fault.status not in _NOT_ABOUT_THE_BODY
            words, refused = str(fault.reason), not fault.retryable
            if is_refusal and trial.adapt(fault.text, words, refused, attempt.sent, request):
                continue
            if fault.about_reply:
                why = UnreadableReply("{fault}.", fault=model.faulty(fault))
                yield ModelReply("", UNREADABLE, unreadable=why)
                return
            if cause is not None and not fault.is_known:
                raise cause
            if end := self._end(model.faulty(fault), fault, count):
                raise end from cause
            count += 1
            seconds = self._policy.delay(count, fault.retry_after)
            yield Retry(attempt=count, reason=model.faulty(fault), seconds=seconds)
            await self._policy.sleep(seconds)

    async def _learn(self, trial: Trial) -> None:
        """Keep what the endpoint accepted; where the agent sets its habits, for this process only."""
        if self._given is None:
            await self._habits.learn(self._endpoint, trial.known, trial.active)
        else:
            self._given = trial.active

    def _end(self, faulty: Clause, fault: Fault, count: int) -> ModelError | None:
        """The error that the call ends with, unless there is another attempt."""
        if not fault.retryable:
            refused = ModelRefused("{fault}: {advice}.", fault=faulty, advice=Clause(fault.advice))
            refused.is_too_long = fault.too_long
            refused.may_be_too_long = fault.too_long or fault.status in (400, 413)
            return refused
        if fault.retry_after is not None and fault.retry_after > self._policy.max_retry_after:
            until = self._policy.time_after(fault.retry_after)
            return ModelUnreachable(
                "{fault}: it accepts no request until {until}; resume then.", fault=faulty, until=until
            )
        if count >= self._policy.attempts:
            return ModelUnreachable(
                "{fault}, the last of {attempts} attempts: {advice}.",
                fault=faulty,
                attempts=self._policy.attempts,
                advice=Clause(fault.advice),
            )
        return None


class Attempted(Protocol):
    """A model that is asked in attempts."""

    def begin(self, request: ModelRequest, habits: frozenset[str]) -> Attempt: ...

    def faulty(self, fault: Fault) -> Clause:
        """The model with what is wrong, as the beginning of a sentence."""
        ...
