"""Sentences of the deterministic user of a rehearsal, and the words that it looks for."""

from .catalogue import Texts

rehearsed = Texts("rehearsal")
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
