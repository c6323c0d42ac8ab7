"""Faults of OpenAI-compatible endpoints: whether and when to retry, and what the operator can do."""

import json
import random
import re
import sys
import time
from asyncio import sleep
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ...core.clause import Clause

if TYPE_CHECKING:
    import openai

ATTEMPTS = 3
"""How often a call is made, the first time included; no other layer retries."""

MAX_RETRY_AFTER = 60.0
"""The longest Retry-After in seconds that is waited for; with a longer one the task ends, to be resumed."""

FIRST_DELAY = 1.0
"""Seconds before the second attempt; they double with each further one, less a random part of up to half."""

REPLY_SECONDS = 300.0
"""Seconds that a reply may take which is not streamed."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, in seconds, and where time and chance come from.

    `read_timeout` bounds the wait for each piece of a stream, `reply_timeout` that for a reply that is not streamed.
    """

    read_timeout: float = 60.0
    reply_timeout: float = REPLY_SECONDS
    sleep: Callable[[float], Awaitable[object]] = sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time

    def delay(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait before an attempt (2 is the first that waits): its Retry-After, else backoff."""
        if retry_after is not None:
            return retry_after
        return float(FIRST_DELAY * 2 ** (attempt - 2)) * (1 - self.chance() / 2)

    def time_after(self, seconds: float) -> str:
        """The time of day in so many seconds."""
        return datetime.fromtimestamp(self.clock() + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_REASON_CHARS = 200
_QUOTA = "insufficient_quota"


@dataclass(frozen=True)
class Fault:
    """Why an attempt failed.

    `reason` continues "The model x at y"; `advice` says what to do. `text` is the endpoint's error in lower case,
    `retry_after` its Retry-After in seconds.
    """

    reason: Clause
    advice: str = "check the endpoint, then resume"
    retryable: bool = True
    status: int = 0
    text: str = ""
    retry_after: float | None = None


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
        return status_fault(error.status_code, error.body or error.message, redact, wait)
    if isinstance(error, openai.APIConnectionError):
        return _connection_fault(error, redact)
    if isinstance(error, openai.APIError):
        return body_fault(error.body or error.message, redact)
    why = _words(str(error), redact)
    return Fault(
        Clause("could not take the request ({why})", why=why), "check the key and the settings", retryable=False
    )


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


def body_fault(body: object, redact: Redactor) -> Fault:
    """Return the fault of an error object in the place of a reply; its `code` may be an HTTP status."""
    code = str(body.get("code") or "") if isinstance(body, Mapping) else ""
    if code in ("429", _QUOTA) or re.fullmatch("4[0-9][0-9]", code):
        return status_fault(429 if code == _QUOTA else int(code), body, redact)
    return Fault(Clause("did not finish its reply ({why})", why=_words(body, redact)), text=_all(body))


def status_fault(status: int, body: object, redact: Redactor, wait: float | None = None) -> Fault:
    """Return the fault of an HTTP error."""
    why, text = _words(body, redact), _all(body)
    if status in (401, 403):
        reason, advice = Clause("rejected the key ({why})", why=why), "check OPENAI_API_KEY or the agent's api_key"
        return Fault(reason, advice, False, status=status, text=text)
    if status == 404:
        reason = Clause("was not found ({why})", why=why)
        return Fault(reason, "check the model's name and base_url", False, status=status, text=text)
    if status == 429 and _QUOTA in text:
        reason = Clause("has no credit left ({why})", why=why)
        return Fault(reason, "top up the account or use another key", False, status=status)
    if status in (408, 409, 429) or status >= 500:
        reason = Clause("answered {status} ({why})", status=status, why=why)
        return Fault(reason, "wait a moment, then resume", status=status, text=text, retry_after=wait)
    refused = Clause("refused the request ({why})", why=why)
    if "context" in text and any(word in text for word in ("length", "window", "maximum")):
        return Fault(refused, "lower the agent's budget.prompt_tokens", False, status=status)
    return Fault(refused, "change what it names, then resume", False, status=status, text=text)


def retry_after(headers: Mapping[str, str], clock: Callable[[], float]) -> float | None:
    """Read the Retry-After in seconds; None where there is none."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(float(headers.get(name, "")) / unit, 0.0)
        except ValueError:
            continue
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(aware.timestamp() - clock(), 0.0)


def _words(body: object, redact: Redactor) -> str:
    """An error body's message, in a line."""
    text = " ".join(redact(_message(body)).split())
    if re.match(r"<(!doctype|html)", text, re.IGNORECASE):
        return "a web page"
    return text[:_REASON_CHARS].rstrip(". ") or "no reason given"


def _message(body: object) -> str:
    while isinstance(body, Mapping):
        inner = next((body[key] for key in ("message", "detail", "error") if body.get(key)), None)
        if inner is None:
            break
        body = inner
    return body if isinstance(body, str) else _dumped(body)


def _all(body: object) -> str:
    return (body if isinstance(body, str) else _dumped(body)).lower()


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
