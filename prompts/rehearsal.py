"""What the deterministic user of a rehearsal says, in both languages."""

from collections.abc import Mapping

REHEARSED: Mapping[str, tuple[str, str]] = {
    "thanks": ("好的，谢谢。", "Thank you."),
    "does_not_know": ("这个我不知道。", "I do not know that."),
    "gives_up": ("那算了。", "Never mind then."),
    "knows": ("你知道：\n{facts}", "What you know:\n{facts}"),
    "also": ("办完之后，你还会提出：{requests}", "Once that is settled, you also ask: {requests}"),
    "requires": ("须先成功：{names}", "must have succeeded before: {names}"),
}
ANYTHING_ELSE = ("anything else", "something else i can", "还有什么", "其他可以帮", "别的需要")
"""Words of a bot that asks for nothing in particular."""


def rehearsed(name: str, language: str, **slots: str) -> str:
    """A sentence in that language."""
    chinese, english = REHEARSED[name]
    return (chinese if language == "zh" else english).format(**slots)
