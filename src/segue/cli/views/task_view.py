"""A task as a view shows it: its reply so far, its language, and what was not printed yet."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...core.events import Answer, AttemptRestarted, Cancelled, Event, Fallback, Thought
from ...prompts.language import Language
from ...runtime.projection import Projection
from ...runtime.reply_stream import Added, Kind, Part, ReplyStream


@dataclass
class TaskView:
    """What was streamed of a task so far, and what its events amount to."""

    language: Language = "en"
    reply: ReplyStream = field(default_factory=ReplyStream)
    thought: str = ""
    _printed: str = ""
    """The last thought that was printed while it was written."""
    _finished: int = 0
    """How much of the reply's text an answer, which is printed whole, had."""

    @property
    def task(self) -> Projection:
        return self.reply.task

    @property
    def answer(self) -> str:
        """What is being written of the answer."""
        return self.reply.text[self._finished :]

    def take_thought(self) -> str:
        """The thought so far, which is going to be printed."""
        thought, self.thought = self.thought, ""
        if thought.strip():
            self._printed = thought
            return thought
        return ""

    def complete_thought(self, event: Thought) -> str:
        """The whole thought, which is going to be printed; empty where it was while it was written."""
        printed, self.thought, self._printed = self._printed, "", ""
        return "" if printed.strip() == event.text.strip() else event.text

    def recall(self, event: Event) -> None:
        """Take in what happened before, and was shown then."""
        self.reply.recall([event])

    def fold(self, event: Event) -> Sequence[Part]:
        """Take an event in; what it adds to the reply."""
        parts = [*self.reply.of(event)]
        self.thought += "".join(part.text for part in parts if isinstance(part, Added) and part.kind is Kind.THOUGHT)
        if isinstance(event, AttemptRestarted | Fallback | Answer | Cancelled):
            self.thought = ""
        if isinstance(event, Answer | Cancelled):
            self._finished = len(self.reply.text)
        return parts
