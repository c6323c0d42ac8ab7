"""What a person wrote of their own in a message, and what they quote or forward in it."""

import re
from typing import Final

_QUOTED: Final = re.compile(r"\s*[>＞]")
_FORWARDED: Final = re.compile(
    r"\s*(?:-{2,}\s*(?:original message|forwarded message|原始邮件|转发的?邮件|邮件原件)|begin forwarded message:|"
    r"_{10,}\s*$)",
    re.IGNORECASE,
)
_WROTE: Final = re.compile(r"\s*(?:on\b.{4,200}\bwrote|于?.{2,200}写道)\s*[:：]\s*$", re.IGNORECASE)
_HEADER: Final = re.compile(
    r"\s*\*{0,2}(?:from|to|cc|sent|date|subject|reply-to|发件人|收件人|抄送|发送时间|日期|时间|主题)\*{0,2}\s*[:：]",
    re.IGNORECASE,
)


def split_quotations(text: str) -> tuple[str, str]:
    """The lines that a person wrote, and those that they quote: after `>`, below a mail's headers or a mark of one.

    What follows a forwarded mail counts as part of it.
    """
    own, quoted = list[str](), list[str]()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if _FORWARDED.match(line) or _WROTE.match(line) or (_HEADER.match(line) and _HEADER.match(following)):
            return "\n".join(own), "\n".join([*quoted, *lines[number:]])
        (quoted if _QUOTED.match(line) else own).append(line)
    return "\n".join(own), "\n".join(quoted)
