"""Sentences of the deterministic user of a rehearsal, in both languages."""

from collections.abc import Mapping

REHEARSED: Mapping[str, tuple[str, str]] = {
    "thanks": ("好的，谢谢。", "Thank you."),
    "does_not_know": ("这个我不知道。", "I do not know that."),
    "waits": ("好的。", "All right."),
    "gives_up": ("那算了。", "Never mind then."),
    "knows": ("你知道：\n{facts}", "What you know:\n{facts}"),
    "also": ("办完之后，你还会提出：{requests}", "Once that is settled, you also ask: {requests}"),
    "requires": ("须先成功：{names}", "must have succeeded before: {names}"),
}
ANYTHING_ELSE = (
    "anything else",
    "something else i can",
    "how else can i",
    "what else can i",
    "还有什么",
    "其他可以帮",
    "别的需要",
)
"""Words of a bot that asks for nothing in particular."""
REQUESTS = (
    *("?", "please", "tell me", "give me", "provide", "let me know", "i need", "i will need", "i'll need", "may i"),
    *("？", "请", "需要", "提供", "告诉", "告知", "麻烦您", "能否", "说一下"),
)
"""Words of a sentence that asks for something."""
ONE_MOMENT = (
    "let me",
    "one moment",
    "hold on",
    "i will check",
    "i'll check",
    "稍等",
    "稍候",
    "正在",
    "我来查",
    "我查一下",
)
"""Words of a bot that is at work."""


def rehearsed(name: str, language: str, **slots: str) -> str:
    """A sentence in that language."""
    chinese, english = REHEARSED[name]
    return (chinese if language == "zh" else english).format(**slots)
