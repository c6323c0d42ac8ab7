"""A task as a view shows it: the projection of its events, its language, and what is being written."""

from dataclasses import dataclass, field

from ...core.events import (
    Answer,
    AttemptRestarted,
    Cancelled,
    Event,
    Fallback,
    Thinking,
    Thought,
    Token,
)
from ...prompts.language import Language
from ...runtime.projection import Projection


@dataclass
class TaskView:
    """What was streamed of a task so far, and what its events amount to."""

    task: Projection = field(default_factory=Projection)
    language: Language = "en"
    thought: str = ""
    printed: str = ""
    """The last thought that was printed while it was written."""
    answer: str = ""

    def take_thought(self) -> str:
        """The thought so far, which is going to be printed."""
        thought, self.thought = self.thought, ""
        if thought.strip():
            self.printed = thought
            return thought
        return ""

    def was_printed(self, event: Thought) -> bool:
        """Whether the whole thought is what was printed already."""
        return self.printed.strip() == event.text.strip()

    def fold(self, event: Event) -> None:
        """Take an event in."""
        self.task.fold(event)
        match event:
            case Thinking():
                self.thought += event.content
            case Thought():
                self.thought = self.printed = ""
            case Token():
                self.answer += event.content
            case AttemptRestarted() | Fallback() | Answer() | Cancelled():
                self.thought = self.answer = ""
