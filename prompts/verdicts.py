"""What a person's text says of a question: that it is approved, refused, or neither."""

import re
from typing import Literal

_APPROVING = """
approve|approved|i approve|confirm|confirmed|i confirm|accept|accepted|i accept|allow|allowed|granted
permission granted|yes|yep|yeah|yup|y|ok|okay|k|kk|sure|sure thing|fine|lgtm|agreed|i agree|affirmative
absolutely|certainly|definitely|of course|correct|exactly|all right|alright|no problem|no problems|no objection
no objections|no worries|all good|go|go ahead|go for it|go on|proceed|continue|carry on|do it|do so|do that
do this|run it|you may|you can|you may proceed|let's go|let's do it|make it so|sounds good|looks good
looks right|works for me|fine by me|fine with me|good to go|that's fine|that is fine|that's right|that is right
that's ok|that is ok|it's fine|it's ok|it is fine|it is ok
"""
_REFUSING = """
no|nope|nah|n|reject|rejected|i reject|deny|denied|decline|declined|i decline|refuse|refused|i refuse|disapprove
disapproved|cancel|stop|abort|veto|negative|never|never mind|nevermind|forget it|don't|dont|do not|no way
not now|not yet|not approved|absolutely not|certainly not|of course not|definitely not|hold off|i disagree
i object|leave it
"""
_BEGIN_REFUSAL = """
don't|dont|do not|please don't|please do not|no don't|no do not|no please don't|i don't want|i do not want
i don't approve|i do not approve|i don't agree|i do not agree|you may not|you must not|never|reject|deny|decline
refuse|cancel|stop|abort
"""
_NO_REFUSAL = """
don't worry|dont worry|do not worry|don't hesitate|do not hesitate|don't wait|do not wait|don't forget
don't stop|dont stop|do not stop
"""
_FILLING = """
please|pls|thanks|thank you|thx|thank you very much|many thanks|it|that|this|them|then|now|right now|right away
just|so|well|with it|with that|with this|to me|and|all|both|do|the call|the calls|the action|everything
as planned
"""
_APPROVING_ZH = """
批准|同意|通过|允许|准许|确认|可以|好|是|对|行|嗯|没问题|没有问题|没意见|继续|执行|做|办|去做|照做|照办|当然
放心做|开始|我同意|我批准|我确认|我允许|就这样|就这么办|就这么做
"""
_FILLING_ZH = """
请|麻烦|麻烦了|麻烦你了|麻烦您了|那|那就|你|您|吧|呀|啊|啦|的|哦|嘛|谢谢|多谢|都|全部|下去|马上|现在|立即
"""
_REFUSING_ZH = """
不行|不要|不可以|不可|不同意|不批准|不允许|不用|不必|不需要|不能|不准|不许|不通过|不做|不办|不执行|不继续|不想
不了|先不|暂不|先别|别|拒绝|否决|驳回|取消|停止|停下|停|算了|反对|免了|没必要|我不|我拒绝|我反对|请不要|请别
请取消|请停止
"""
_NO_REFUSAL_ZH = """
别的|别人|别担心|别忘|别急|别停|不用担心|不要担心|不要停|不能不|不得不
"""
_SIGNS = {
    "👍": "yes",
    "👌": "yes",
    "✅": "yes",
    "✔": "yes",
    "🆗": "yes",
    "☑": "yes",
    "👎": "no",
    "❌": "no",
    "🚫": "no",
    "✋": "no",
}
_TONES = re.compile("[\U0001f3fb-\U0001f3ff\ufe0e\ufe0f]")
_BETWEEN = re.compile(r"[,.;:!~…—，。；：！、\n\r]+|\s[-–]+\s")


def _listed(words: str) -> frozenset[str]:
    return frozenset(word for line in words.split("\n") for word in line.split("|") if word)


_YES, _NO, _BEGIN_NO, _NOT_NO = (_listed(words) for words in (_APPROVING, _REFUSING, _BEGIN_REFUSAL, _NO_REFUSAL))
_FILLER = _listed(_FILLING)
_LONGEST = max(len(phrase.split()) for phrase in (*_YES, *_NO, *_NOT_NO, *_FILLER))
_YES_ZH, _FILLER_ZH = _listed(_APPROVING_ZH), _listed(_FILLING_ZH)
_NO_ZH, _NOT_NO_ZH = tuple(_listed(_REFUSING_ZH)), tuple(_listed(_NO_REFUSAL_ZH))
_LONGEST_ZH = max(map(len, (*_YES_ZH, *_FILLER_ZH)))


def read_verdict(text: str) -> Literal["approve", "reject", ""]:
    """What a text says: approve if every phrase of it approves, reject if its first phrase refuses; else neither.

    A text with anything besides, such as a condition or a question, decides nothing: it is for its reader to ask again.
    """
    phrases = _phrases(own_words(text))
    if not phrases or any(phrase.endswith(("?", "？")) for phrase in phrases):
        return ""
    meanings = [_meaning(phrase) for phrase in phrases]
    if meanings[0] == "reject":
        return "" if "approve" in meanings else "reject"
    spoken = {meaning for meaning in meanings if meaning != "filler"}
    return "approve" if spoken == {"approve"} else ""


def _phrases(text: str) -> list[str]:
    plain = _TONES.sub("", text.casefold().replace("’", "'"))
    for sign, word in _SIGNS.items():
        plain = plain.replace(sign, f"\n{word}\n")
    phrases = (" ".join(phrase.strip("\"'“”‘’*_`()（） \t-").split()) for phrase in _BETWEEN.split(plain))
    return [phrase for phrase in phrases if phrase]


def _meaning(phrase: str) -> Literal["approve", "reject", "filler", ""]:
    """What one phrase says."""
    if not phrase.isascii():
        return _meaning_zh(phrase.replace(" ", ""))
    words = phrase.split()
    parts = _cut(words, _LONGEST, " ", _YES | _NO | _NOT_NO | _FILLER)
    if _begins(words, _NOT_NO) or not _NOT_NO.isdisjoint(parts):
        return ""
    kinds = {"approve" if part in _YES else "reject" if part in _NO else "filler" for part in parts or ()}
    if parts and not {"approve", "reject"} <= kinds:
        return "approve" if "approve" in kinds else "reject" if "reject" in kinds else "filler"
    return "reject" if _begins(words, _BEGIN_NO) else ""


def _begins(words: list[str], phrases: frozenset[str]) -> bool:
    return any(" ".join(words[:length]) in phrases for length in range(1, _LONGEST + 1))


def _meaning_zh(phrase: str) -> Literal["approve", "reject", "filler", ""]:
    if phrase in ("不", "否") or (phrase.startswith(_NO_ZH) and not phrase.startswith(_NOT_NO_ZH)):
        return "reject"
    parts = _cut([*phrase], _LONGEST_ZH, "", _YES_ZH | _FILLER_ZH | _YES | _FILLER)
    if not parts:
        return ""
    return "approve" if any(part in _YES_ZH or part in _YES for part in parts) else "filler"


def _cut(units: list[str], longest: int, between: str, known: frozenset[str]) -> list[str]:
    """The phrase in known parts, the longest first; empty where one is unknown."""
    parts: list[str] = []
    place = 0
    while place < len(units):
        for length in range(min(longest, len(units) - place), 0, -1):
            part = between.join(units[place : place + length])
            if part in known:
                parts.append(part)
                place += length
                break
        else:
            return []
    return parts


# A person's own words in a message that a client wrapped: a template around them, and blocks that it added.

_QUERY = ("user_query", "user_question", "user_message", "user_request", "query", "question")
"""The tags that hold a person's words in a template."""
_BLOCK_END = re.compile(r"</([a-zA-Z][\w-]{0,39})>")


def own_words(text: str) -> str:
    """What a person wrote of a message, where its client put it into a template.

    That is what a template's last tag holds if it names the person's words, else what stands after the last block of a
    text that begins with a block or with a heading, else what stands before the first block. A block is what a client
    adds, such as retrieved text, between tags at the beginning of a line; what it says is nobody's word.
    """
    ends = [*_BLOCK_END.finditer(text)]
    if not ends:
        return text
    last = ends[-1]
    after = text[last.end() :].strip()
    begin = _first_block(text, {end[1] for end in ends})
    if begin < 0:
        return text
    is_template = begin == 0 or text.lstrip().startswith("#")
    if after:
        return after if is_template else text
    if last[1].lower() in _QUERY and is_template:
        opened = text.rfind(f"<{last[1]}>", 0, last.start())
        return text[opened + len(last[1]) + 2 : last.start()].strip() if opened >= 0 else text
    return text[:begin].strip() or text


def _first_block(text: str, names: set[str]) -> int:
    """Where the first line begins that opens one of the tags; -1 where none does."""
    place = 0
    for line in text.splitlines(keepends=True):
        opened = re.match(r"\s{0,8}<([a-zA-Z][\w-]{0,39})[\s>/]", line)
        if opened and opened[1] in names:
            return place if text[:place].strip() else 0
        place += len(line)
    return -1
