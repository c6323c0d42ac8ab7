"""The result of a task: a dict whose fields are attributes, too."""

from collections.abc import Mapping
from typing import Any

from .records import Json


class Result(Json):
    """The result of a message.

    A dict: `result["answer"]` and `result.answer` are the same.
    """

    @property
    def answer(self) -> str:
        """The answer; empty while the task waits or is paused."""
        return str(self.get("answer") or "")

    @property
    def success(self) -> bool:
        """Whether it ended with an answer."""
        return bool(self.get("success"))

    @property
    def status(self) -> str:
        """The task's status: done, error, waiting, paused or cancelled."""
        return str(self.get("status", ""))

    @property
    def mode(self) -> str:
        """The mode that answered."""
        return str(self.get("mode", ""))

    @property
    def task_id(self) -> str:
        """The task of the message."""
        return str(self.get("task_id", ""))

    @property
    def session_id(self) -> str:
        """The conversation that it belongs to."""
        return str(self.get("session_id", ""))

    @property
    def reasoning(self) -> Mapping[str, Any]:
        """{"text", "total_steps", "tools_used"}."""
        return self.get("reasoning") or {}

    @property
    def history(self) -> list[Json]:
        """The steps: {"step", "phase", "action", "result", "description"} each."""
        return list(self.get("history") or ())

    @property
    def plan(self) -> Json | None:
        """The plan, {"goal", "steps"}, where the mode made one."""
        return self.get("plan")

    @property
    def model(self) -> str:
        """The name of the model that answered; empty where none was called."""
        return str(self.get("model", ""))

    @property
    def usage(self) -> Mapping[str, Any]:
        """{"input", "output", "calls", "cost", "currency"}: tokens, calls, money; a cost of None is not known."""
        return self.get("usage") or {}

    @property
    def object(self) -> Any:
        """The object of the `response_model`, where one was asked for."""
        return self.get("object")

    @property
    def error(self) -> str | None:
        """Why it failed."""
        return self.get("error")

    @property
    def malformed(self) -> bool:
        """Whether the answer is plain text of a model that did not keep to the protocol, three replies in a row."""
        return bool(self.get("malformed"))

    @property
    def refused(self) -> bool:
        """Whether the answer says why there is none: the model refused, or the offline planner has no tool for it."""
        return bool(self.get("refused"))

    @property
    def unknown_outcomes(self) -> list[Json]:
        """The calls that may or may not have taken effect."""
        return list(self.get("unknown_outcomes") or ())
