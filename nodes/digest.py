"""The digest of messages that left a prompt: typed entries, each with its receipt, folded by rules and no model.

An entry is a sentence in its writer's own words, or a call with the fields that it took and gave. What a tool says
becomes no rule, whatever it says.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import is_
from typing import Any, Final, Literal, Self

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from segue.core.calls import RECALL
from segue.core.models import tokens
from segue.core.value_forms import leaves, structured
from segue.memory.statements import MOST_CHARS, find_statements
from segue.prompts.catalogue import language_of, task_text

from .context import DIGEST, REJECTED, as_json, is_digest, is_steering, ref_of, truncate

Kind = Literal[
    "rule", "limit", "decision", "fact", "preference", "identifier", "deadline", "open_step", "result", "summary"
]
Writer = Literal["user", "operator", "agent", "tool", "model"]

BINDING: Final = ("rule", "limit")
"""Kinds that never leave where the user or the operator wrote them."""
_ORDER: Final = (*BINDING, "preference", "deadline", "decision", "open_step", "identifier", "fact", "result", "summary")
"""The kinds; the last ones leave first where there is no room for all."""
_SHARE: Final = 3
"""One part in so many of the room for messages goes to the digest once messages are left out."""
_SMALL_SHARE: Final = 500
"""Tokens that it has in a small room, but at most half of it."""
_LARGE_SHARE: Final = 1_000
"""Tokens that it has where what people said needs them; a tenth of the room always stays for the latest messages."""
_CALLS_SHARE: Final = 4
"""One part in so many of what rules and limits leave is for calls and answers, one for prose, where there are any."""
_ENTRY_CHARS: Final = 600
"""Characters of an entry."""
_FIELD_CHARS: Final = 60
_FIELDS: Final = 8
"""Fields of a call's result, and characters of each."""
_RESULT_CHARS: Final = 120
"""Characters of a result without fields, and of an error."""
TURN: Final = "turn"
"""In a user's message at the beginning of a window: the number of its turn in the session."""
NOT_SAID: Final = "brief"
"""In a message: its words are no person's of this session."""


def turns_of(messages: Iterable[AnyMessage], begin: int = 0) -> Iterator[tuple[int, AnyMessage]]:
    """What was said in a session, each message with the number of its turn; so many turns began before the first.

    A user's message begins a turn, unless it was added to a task under way; at the beginning of a window it has the
    turn's number.
    """
    turn = begin
    for message in messages:
        if message.additional_kwargs.get(NOT_SAID) or is_digest(message):
            continue
        if message.type == "human" and not is_steering(message):
            turn = message.additional_kwargs.get(TURN) or turn + 1
        yield turn, message


@dataclass(frozen=True)
class Entry:
    """What the digest says of one sentence or call.

    `receipt` opens what it came from: `turn-4`, or the ref of a call's result. An entry takes the place of an older
    one with its `subject`, which it names in `before`. `against` is what a tool says otherwise. `marked`: its writer
    said what kind it is, by a label or a heading. `but_see` is the receipt of a later one that changes a part of it.
    """

    kind: Kind
    text: str
    receipt: str
    writer: Writer = "user"
    subject: str = ""
    before: str = ""
    before_receipt: str = ""
    against: str = ""
    against_receipt: str = ""
    fields: Mapping[str, str] | None = None
    marked: bool = False
    but_see: str = ""

    @property
    def binds(self) -> bool:
        """Whether it never leaves."""
        return self.kind in BINDING and self.writer in ("user", "operator")

    def line(self, language: str) -> str:
        """How a prompt shows it."""
        return f"[{self.receipt}] {self.said(language)}"

    def said(self, language: str) -> str:
        """Its words, with what it changed and what differs from it."""
        more = ""
        if self.before:
            more += task_text("digest_before", language, text=self.before, receipt=self.before_receipt)
        if self.against:
            more += task_text("digest_against", language, text=self.against, receipt=self.against_receipt)
        if self.but_see:
            more += task_text("digest_but_see", language, receipt=self.but_see)
        return f"{self.text}{more}"


@dataclass(frozen=True)
class Digest:
    """The entries, oldest first, and how far they go: `messages` of the history, the `last` of which has this id.

    `results`: some of these are results of calls. `left_out` counts the entries that had no room, `over` the tokens
    that rules and limits take beyond their share, and `tokens` those of the entries.
    """

    entries: tuple[Entry, ...] = ()
    turns: int = 0
    messages: int = 0
    last: str = ""
    results: bool = False
    language: str = ""
    left_out: int = 0
    over: int = 0
    tokens: int = 0

    def json(self) -> dict[str, Any]:
        """The form in the state."""
        entries = [{name: value for name, value in asdict(entry).items() if value} for entry in self.entries]
        return {**asdict(self), "entries": entries}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """The digest in the form that `json` gives."""
        return cls(**{**stored, "entries": tuple(Entry(**entry) for entry in stored["entries"])})

    @property
    def text(self) -> str:
        """What a prompt shows."""
        language = self.language
        parts = [task_text("digest", language)]
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault("binding" if entry.binds else entry.kind, []).append(entry)
        for name in sorted(groups, key=("binding", *_ORDER).index):
            parts.append(task_text(f"digest_{name}", language))
            receipt = ""
            for entry in groups[name]:
                if entry.receipt == receipt:
                    parts[-1] += f" {entry.said(language)}"
                else:
                    parts.append(entry.line(language))
                receipt = entry.receipt
            if name == "binding" and self.over:
                parts.append(task_text("digest_over", language, n=self.over))
        if self.left_out:
            parts.append(task_text("digest_left_out", language, n=self.left_out))
        return "\n".join(parts)

    def message(self) -> HumanMessage | None:
        """The message that stands for what was left out; None where there is nothing to say of it."""
        if not self.entries:
            return None
        return HumanMessage(self.text, id=DIGEST, additional_kwargs={DIGEST: as_json(self.json())})


def share_of(most_tokens: int) -> int:
    """The tokens of the digest where messages have so many."""
    return max(most_tokens // _SHARE, min(most_tokens // 2, _SMALL_SHARE))


def most_share_of(most_tokens: int) -> int:
    """The tokens that what people said may take where it outgrows the share."""
    return max(share_of(most_tokens), min(most_tokens * 9 // 10, _LARGE_SHARE))


def digest_in(message: AnyMessage) -> Digest:
    """The digest that a message shows, which is the first one of those that a graph was given."""
    return _read(message.additional_kwargs[DIGEST])


@lru_cache(maxsize=64)
def _read(stored: str) -> Digest:
    return replace(Digest.of(json.loads(stored)), messages=1, last="")


# Folding: the entries of what is left out are put behind those that there are.


def fold(digest: Digest, messages: Iterable[AnyMessage], most_tokens: int, most_said: int = 0) -> Digest:
    """The digest with the entries of these messages, the latest value of each subject, in so many tokens.

    With what people said it may have `most_said`.
    """
    turns, language, found = digest.turns, digest.language, list[Entry]()
    calls: dict[str | None, Any] = {}
    for turns, message in turns_of(messages, digest.turns):
        if message.type == "human":
            language = language or language_of(message.text)
            found += of_text(message.text, f"turn-{turns}")
        elif message.type == "system":
            found += of_text(message.text, f"turn-{turns + 1}", "operator")
        elif isinstance(message, AIMessage):
            calls = {call["id"]: call for call in message.tool_calls}
            found += _of_answer(message.text, f"turn-{turns}")
        elif isinstance(message, ToolMessage):
            call = calls.get(message.tool_call_id) or {"name": message.name or "", "args": {}}
            status = REJECTED if message.additional_kwargs.get(REJECTED) else message.status
            receipt = ref_of(message) or f"turn-{turns}"
            found += of_call(call["name"], call["args"], message.text, status, receipt, language or "en")
    return merge(replace(digest, turns=turns, language=language or "en"), found, most_tokens, most_said)


def merge(digest: Digest, found: Iterable[Entry], most_tokens: int, most_said: int = 0) -> Digest:
    """The digest with these entries, in so many tokens; rules and limits stay, however many they are."""
    entries = {_key(entry): entry for entry in digest.entries}
    for entry in found:
        _put(entries, entry)
    return _fitted(digest, _contradicted(entries.values()), most_tokens, max(most_tokens, most_said))


_VALUES: Final = ("fact", "identifier", "preference", "deadline", "decision")
_PEOPLE: Final = ("user", "operator")


def _key(entry: Entry) -> tuple[str, str]:
    """What an entry is the only one of: its subject where it has one, else its words."""
    group = "value" if entry.kind in _VALUES and entry.writer != "tool" else f"{entry.kind} {entry.writer}"
    return group, entry.subject or " ".join(entry.text.lower().split())


def _put(entries: dict[tuple[str, str], Entry], entry: Entry) -> None:
    """Put an entry last, in place of the one about the same; the value that it changes is named.

    What takes the place of a rule never leaves, either.
    """
    key = _key(entry)
    if key not in entries and entry.writer in _PEOPLE:
        key = _changed_by(entries, entry) or key
    older = entries.pop(key, None)
    if older is None:
        entries[_key(entry)] = entry
    elif older.text == entry.text:
        entries[_key(entry)] = replace(older, receipt=entry.receipt)
    else:
        kind = older.kind if older.binds else entry.kind
        marked = older.marked or entry.marked
        newer = replace(entry, kind=kind, marked=marked, before=older.text, before_receipt=older.receipt)
        entries[_key(newer)] = newer


def mark_changed(digest: Digest, later: Iterable[tuple[str, str]]) -> Digest:
    """The digest, its entries marked that later texts of the user change, which are shown; each has its receipt."""
    entries = {_key(entry): entry for entry in digest.entries}
    for text, receipt in later:
        for entry in _stated(text[:MOST_CHARS], receipt):
            key = _key(entry)
            found = key if key in entries else _changed_by(entries, entry)
            if found and entries[found].text != entry.text:
                entries[found] = replace(entries[found], but_see=receipt)
    marked = tuple(entries.values())
    return digest if all(map(is_, marked, digest.entries)) else replace(digest, entries=marked)


@lru_cache(maxsize=1024)
def _stated(text: str, receipt: str) -> tuple[Entry, ...]:
    """The entries of a message that is still shown, and asked for with each prompt."""
    return tuple(of_text(text, receipt))


def _changed_by(entries: dict[tuple[str, str], Entry], entry: Entry) -> tuple[str, str] | None:
    """The key of the entry of a person that another one changes in other words; what is changed in part says so."""
    sets, values = _settings(entry), _new_values(entry.text)
    if not sets and not values:
        return None
    close: list[tuple[int, tuple[str, str]]] = []
    for key, older in [*entries.items()]:
        if older.writer not in _PEOPLE:
            continue
        if sets and (common := sets & _settings(older)):
            one, other = _scope(entry.text), _scope(older.text)
            if one == other and common == _settings(older):
                return key
            if one == other or not (one and other):
                entries[key] = replace(older, but_see=entry.receipt)
        elif any(values.get(form, set()) - given for form, given in _values(older.text).items()):
            shared = len(_content(entry.text) & _content(older.text))
            if shared > (1 if older.binds else 0):
                close.append((shared, key))
    close.sort(reverse=True)
    is_clear = len(close) == 1 or (len(close) > 1 and close[0][0] > close[1][0])
    return close[0][1] if is_clear else None


def _contradicted(entries: Iterable[Entry]) -> list[Entry]:
    """The entries; where a user and a tool give the same thing different values, the user's names both."""
    kept = list(entries)
    given: dict[str, tuple[str, str]] = {}
    for entry in kept:
        for name, value in (entry.fields or {}).items():
            given[name.replace("_", " ").lower()] = (value, entry.receipt)
    for place, entry in enumerate(kept):
        if entry.writer != "user" or not entry.subject or not given:
            continue
        subject = entry.subject.replace("spending", "budget")
        name = subject if subject in given else subject.rpartition(" ")[2]
        value, receipt = given.get(name, ("", ""))
        if value and value.lower() not in entry.text.lower():
            kept[place] = replace(entry, against=f"{name} {value}", against_receipt=receipt)
    return kept


def _frame(language: str) -> int:
    """Tokens of what surrounds the entries."""
    return sum(tokens(task_text(name, language, n=99)) for name in ("digest", "digest_binding", "digest_left_out"))


def _fitted(digest: Digest, entries: Sequence[Entry], most_tokens: int, most_said: int) -> Digest:
    """The entries that fit: all that bind, what people said, prose, calls and answers, by kind, the latest first."""
    cost = [tokens(f"{entry.line(digest.language)}\n") for entry in entries]
    binding = sum(each for entry, each in zip(entries, cost, strict=True) if entry.binds)
    said, prose, found = list[int](), list[int](), list[int]()
    for place, entry in enumerate(entries):
        if not entry.binds:
            (said if entry.writer in _PEOPLE else prose if entry.writer == "model" else found).append(place)
    used, kept = binding + _frame(digest.language), set[int]()
    part = max(0, most_tokens - used) // _CALLS_SHARE
    for_calls, for_prose = min(sum(cost[place] for place in found), part), part if prose else 0
    for places, room in ((said, most_said - for_calls - for_prose), (prose, most_tokens), (found, most_tokens)):
        most = min(room, used + for_prose) if places is prose else room
        kinds = set[Kind]()
        for place in sorted(places, key=lambda place: (*_rank(entries[place]), -place)):
            kind = entries[place].kind
            needed = cost[place] + (0 if kind in kinds else tokens(task_text(f"digest_{kind}", digest.language)))
            if used + needed <= most:
                used += needed
                kept.add(place)
                kinds.add(kind)
    shown = tuple(entry for place, entry in enumerate(entries) if entry.binds or place in kept)
    left_out = digest.left_out + len(entries) - len(shown)
    return replace(digest, entries=shown, left_out=left_out, over=max(0, binding - most_said), tokens=used)


def _rank(entry: Entry) -> tuple[bool, int]:
    return not entry.marked, _ORDER.index(entry.kind)


# The sentences of a person: what orders, bounds, dates, names or decides something.

_BREAK = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_UNFINISHED = re.compile(r"(?:^|\W)(?:mr|mrs|ms|dr|st|no|vs|etc|e\.g|i\.e|a\.m|p\.m)\.$", re.IGNORECASE)
_ITEM = re.compile(r"(?:[-*•·]|\d{1,3}[.)、]|[（(]\d{1,3}[)）])\s*")
_HEADING = re.compile(
    r"(?<![\w'’-])(?:[^\W\d][\w'’-]{0,30} ){0,3}(?:"
    r"(?P<rule>rules?|constraints?|polic(?:y|ies)|requirements?|instructions?)|"
    r"(?P<limit>limits?|budget)|(?P<deadline>deadlines?|due)|(?P<preference>preferences?)|(?P<decision>decisions?|decided)|"
    r"(?P<open_step>state|status|goals?|tasks?|(?:next )?steps?|to-?dos?|open)|(?P<fact>facts?|notes?))|"
    r"\w{0,4}?(?:(?P<rule_zh>规则|约束|要求|规定|守则)|(?P<limit_zh>限制|限额|预算)|(?P<deadline_zh>截止|期限)|"
    r"(?P<preference_zh>偏好|喜好)|(?P<decision_zh>决定)|(?P<open_step_zh>待办|下一步|目标)|(?P<fact_zh>事实|备注))",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"\b(?:never|always|must|mustn't|do not|not allowed|forbid(?:den)?|prohibited|from now on|going forward|"
    r"under no circumstances|at no time|make sure|be sure|ensure|has to|have to be|needs to be|you (?:should|shall|may|"
    r"can|can't|cannot|have to|need to)|should(?:n't)? be|may not|only (?:if|when|after|with|use|send|call|book|reply|"
    r"answer|write|speak|contact|buy|pay)|unless|without (?:my|explicit|prior|written|asking|approval|permission|"
    r"consent|confirm\w+)|whenever|every time|each time|avoid|refrain|no longer|remember to|keep in mind|as a rule|"
    r"(?:ask|confirm with|check with|tell|warn|notify) me (?:first|before|when)|"
    r"strictly|stop and|escalate)\b|"
    r"(?<!\bi )(?<!\bwe )(?<!\bthey )(?<!\byou )\bdon't\b|^(?:please )?(?:only|reply|answer|respond|address|speak|"
    r"sign|format|keep|round|cite|refer to|call me|treat|use)\b|"
    r"^no (?!thanks|problem|idea|worries|need|one|way|i |it )\w|\b(?:forget|ignore|withdraw|lift) (?:the|that|my)\b|"
    r"(?<!我)(?<!我们)(?:不要|不得|不准|不许|不能|不可|别再?(?![的人墅处名]))|禁止|严禁|切勿|请勿|必须|务必|一律|永远|绝不|"
    r"绝对不|只能|只可|只准|只用|从现在起|从现在开始|从今以后|今后|以后|始终|总是|每次|每当|未经|除非|应该|应当|不应|"
    r"先(?:问我|征得|经过|得到)|记得|记住|确保|避免|一定要|不用再|不必再|规则|^请?(?:用(?!户)|叫我|称呼我)",
    re.IGNORECASE,
)
_POLITE = re.compile(r"(?:please|(?:can|could|would|will) you)\b|请|能不能|可不可以|可以", re.IGNORECASE)
_BOUND = re.compile(
    r"\b(?:budget|cap|capped|limit|limited|ceiling|maximum|max|minimum|at most|at least|no more than|no less than|"
    r"not more than|more than|less than|fewer than|under|below|above|over|up to|within|exceed|quota|threshold|spend|"
    r"spending|expenses?|costs?)\b|预算|上限|下限|最多|最少|至少|不超过|不得超过|不低于|以内|以下|以上|限额|超过|不多于|不少于",
    re.IGNORECASE,
)
NUMBER_WORDS = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand|"
    r"million|half|noon|midnight)"
)
_NUMBER = re.compile(rf"\d|\b{NUMBER_WORDS}\b|[一二两三四五六七八九十百千万]", re.IGNORECASE)
_DUE = re.compile(
    r"\b(?:deadline|due|by|until|till|before|no later than|at the latest|launch|ship|expires?|scheduled|moved to)\b|"
    r"截止|期限|最晚|最迟|之前|以前|前(?:$|[交完提到，。])",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}:\d{2}\b|\b\d{1,2} ?(?:am|pm|o'clock)\b|"
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december|monday|tuesday|"
    r"wednesday|thursday|friday|saturday|sunday|tomorrow|tonight|noon|midnight|next week|end of (?:the )?(?:day|week|"
    r"month|year))\b|\d{1,4}[年月日号点]|(?:周|星期|礼拜)[一二三四五六日天]|明天|今晚|后天|月底|年底|下周",
    re.IGNORECASE,
)
_PREFERS = re.compile(
    r"\b(?:prefers?|preferences?|favou?rite|rather|(?:i|we|user)(?:'d| would)? (?:like|love|hate|dislike|want|wants)|"
    r"user wants)\b|喜欢|偏好|偏爱|更愿意|希望|想要|讨厌",
    re.IGNORECASE,
)
_DECIDES = re.compile(
    r"\b(?:decided?|decision|let's (?:go (?:with|for)|use|take|do|keep|pick)|(?:we|i)'ll (?:go|use|take|keep|"
    r"pick)|go (?:with|for|ahead)|agreed|approved?|rejected?|chose|chosen|picked|settled on|"
    r"switch(?:ed)? to|confirmed)\b|"
    r"决定|定了|就(?:用|选|要|按|这么)|选择|同意|批准|拒绝|确认|改成|改为|换成|敲定",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:next step|to-?do|still (?:need|have|open|to)|remaining|pending|awaiting|waiting for|outstanding|"
    r"open question|follow up|not yet|current task|steps? \d)\b|"
    r"下一步|待办|还需要|还要|还没|尚未|等待|待定|未完成|接下来",
    re.IGNORECASE,
)
_IS = re.compile(
    r"\b(?:is|are|was|were|has|means?|called|calling|named|lives?|works?|owns?|belongs?|runs?|moved|located|born|"
    r"rebased|based)\b|是|叫|为|位于|属于|等于|住在|来自",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,] )[A-Z][\w-]+|[\"“「『《]")
_QUESTION = re.compile(r"[?？]$|[吗呢么]$")


def of_text(text: str, receipt: str, writer: Writer = "user") -> list[Entry]:
    """The entries of a message of the user or the operator."""
    stated = {each.text: each.subject for each in find_statements(text)}
    found = []
    for sentence, heading in _sentences(text):
        sets = _sets(sentence)
        words = sentence.lower().replace("’", "'")
        kind = _kind_of(words, sentence)
        if sets and kind not in (*BINDING, "preference") and _ORDERS.match(words):
            kind = "rule"
        kind = kind if heading is None or kind in BINDING else heading
        told = next((subject for clause, subject in stated.items() if clause in sentence.replace("’", "'")), "")
        if told and not (kind and kind in BINDING):
            kind = "fact" if told in ("name", "home", "origin", "work", "age") else "preference"
        if kind:
            subject = told if told and kind not in BINDING else _subject(kind, words)
            shown = truncate(sentence, _ENTRY_CHARS)
            found.append(Entry(kind, shown, receipt, writer, subject, marked=heading is not None))
    return found


def _sentences(text: str) -> Iterator[tuple[str, Kind | None]]:
    """The sentences of a text, each with the kind that its line or the heading of its list gives.

    Code and what is quoted line by line are not the writer's words.
    """
    in_code, above = False, None
    for line in text.splitlines():
        plain = line.strip()
        if plain.startswith("```"):
            in_code = not in_code
        if in_code or plain.startswith(("```", ">")) or not plain:
            above = above if not plain else None
            continue
        item = _ITEM.match(plain)
        plain = plain[item.end() :] if item else plain
        heading, rest = _heading(plain)
        if not rest:
            above = heading
            continue
        above = above if item else None
        plain = rest if heading and heading not in _NAMED_BY_LABEL else plain
        yield from ((each, heading or above) for each in _split(plain))


_NAMED_BY_LABEL: Final = ("limit", "deadline")
"""Kinds whose label says what is limited or due; of the others it says the kind alone."""


def _heading(line: str) -> tuple[Kind | None, str]:
    """The kind that a line announces before its colon, and what follows."""
    place = min((found for mark in ":：" if (found := line.find(mark)) >= 0), default=-1)
    if place < 0:
        return None, line
    begins = line[:place].strip(" *#_")[-80:]
    rest = line[place + 1 :].strip()
    named = _HEADING.fullmatch(begins) if rest else _HEADING.search(begins)
    kind = (named.lastgroup or "").removesuffix("_zh") if named else None
    return kind, rest  # type: ignore[return-value]  # its groups are kinds


def _split(line: str) -> list[str]:
    """The sentences of a line; an abbreviation ends none."""
    found: list[str] = []
    for part in _BREAK.split(line):
        if found and _UNFINISHED.search(found[-1][-8:]):
            found[-1] = f"{found[-1]} {part}"
        elif part.strip():
            found.append(part.strip())
    return found


def _kind_of(words: str, sentence: str) -> Kind | None:
    """The kind of a sentence; None where it says nothing to keep. A polite question may order something."""
    if _QUESTION.search(words) and not (_POLITE.match(words) and _RULE.search(words)):
        return None
    bounds, dated = _BOUND.search(words) and _NUMBER.search(words), _DATE.search(words)
    checks: tuple[tuple[object, Kind], ...] = (
        (bounds, "limit"),
        (_RULE.search(words), "rule"),
        (dated and _DUE.search(words), "deadline"),
        (_OPEN.search(words), "open_step"),
        (_DECIDES.search(words), "decision"),
        (_PREFERS.search(words), "preference"),
        (_has_identifier(sentence), "identifier"),
        (dated or (_IS.search(words) and (_NUMBER.search(words) or _NAME.search(sentence))), "fact"),
        (re.match(r"(?:my|our|the) \S+ (?:is|are)\b", words) or re.search("是|叫", words), "fact"),
    )
    return next((kind for says, kind in checks if says), None)


def _has_identifier(sentence: str) -> bool:
    """Whether a word of it is a code, an address, a link, a path or a long number; one too long to be shown is data."""
    for word in sentence.split():
        if len(word) > _ENTRY_CHARS:
            continue
        each = word.strip(".,;:!?()[]\"'“”，。；：（）")
        digits = sum(map(str.isdigit, each))
        letters = any(char.isascii() and char.isalpha() for char in each)
        if "@" in each[1:] or "://" in each or (digits and (digits >= 5 or (letters and len(each) >= 3))):
            return True
    return False


# What an entry is about: a newer one about the same takes its place.

_LEAD = re.compile(
    r"(?:(?:quick |small )?(?:update|correction|change|note|fyi)[:,：，]? |(?:actually|no|sorry|ok|okay|well|so|and|"
    r"but|now|also|please|instead)[,:，]? |(?:更正|更新|不对|其实|现在|另外|对了)[:：，,]?)"
)
_COPULA = re.compile(
    r" (?:is|are|was|were|will be|has changed to|changed to|(?:has )?moved to|is now|becomes?)(?: now)? |"
    r"(?:现在)?(?:改为|改成|变成|变为|换成|是|为)| = |[:：] "
)
_ARTICLES = re.compile(
    r"\b(?:the|a|an|my|our|your|new|current|total|latest|updated|now|still|overall)\b|我们的?|我的?|现在的?|新的?|目前的?|总"
)
_VAGUE = re.compile(
    r"(?:(?:it|this|that|there|what|he|she|they|we|you|i|these|those|which|who|here|everything|steps?|one|the)\b ?|"
    r"[这那它他她你您](?:个|们|里)?|大家)+"
)
_CONDITION = re.compile(r"(?:if|when|whenever|because|since|as|whether|unless|while|after|before)\b|如果|当|因为|要是")
_QUANTITY = re.compile(
    rf"(?:(?<=under )|(?<=below )|(?<=above )|(?<=over )|(?<=most )|(?<=least )|(?<=than )|(?<=before )|(?<=after )|"
    rf"(?<=by )|(?<=until )|(?<=within )|(?<=to )|(?<=exceed )|(?<=at )|(?<=超过)|(?<=低于)|(?<=最多)|(?<=至少)|"
    rf"(?<=上午)|(?<=下午)|(?<=晚上)|(?<=早上)|(?<=[$€£¥]))[$€£¥]?"
    rf"(?:\d[\d.,:]*|{NUMBER_WORDS}(?:[ -]{NUMBER_WORDS}){{0,4}}|"
    r"[一二两三四五六七八九十百千万]{1,8})(?: ?(?:am|pm|o'clock|点|元|块))?"
)
_SPENDING = re.compile(
    r"\b(?:budget|spend|spending|expenses?|costs?)\b|预算|花费|开销|费用",
)
_WORD = re.compile(r"[a-z']+")
_NO_SCOPE = re.compile(
    r"an?|any|at|be|below|budgets?|but|cap|ceiling|constraint|costs?|dollars|do|don't|euros?|exceed|expenses?|for|from|"
    r"hard|have|i|in|is|it|keep|less|limit|max|maximum|more|most|must|my|never|new|no|not|now|of|ok|on|only|or|our|over|"
    r"please|quick|spend|spending|stay|than|that|the|them|they|to|total|under|up|update|usd|eur|we|will|within|you|your|"
    rf"{NUMBER_WORDS}"
)
"""Words of a limit on spending that do not say on what."""


def _subject(kind: Kind, words: str) -> str:
    """What a sentence is about; empty where nothing else would take its place but the same words."""
    text = _LEAD.sub("", words, count=1).rstrip(" .!。！")
    if kind == "limit" and _SPENDING.search(text) and text.isascii():
        scope = sorted({word for word in _WORD.findall(text) if not _NO_SCOPE.fullmatch(word)})
        if len(scope) <= 3:
            return " ".join(["spending", *scope])
    if found := _COPULA.search(text):
        about = " ".join(_ARTICLES.sub(" ", text[: found.start()]).split())
        if (
            about
            and not _VAGUE.fullmatch(about)
            and not _CONDITION.match(about)
            and len(about.split()) <= 5
            and len(about) <= 40
            and kind != "rule"
        ):
            return about
    masked = _QUANTITY.sub("#", text)
    return masked if masked != text else ""


# What a sentence changes where it says so in other words: a setting of the answers, or a value that moved.

_SETTINGS: Final = (
    (
        "time zone",
        r"\b(?:utc|gmt|cet|cest|[ecmp][sd]t|[a-z]+/[a-z]+_[a-z]+|(?:europe|asia|america|africa|australia)/[a-z]+|"
        r"(?:pacific|eastern|central|mountain|greenwich|atlantic|local|universal)(?: standard| daylight)? time)\b|"
        r"(?:北京|东京|纽约|伦敦|太平洋|当地|本地|世界)时间|时区",
    ),
    ("units", r"\b(?:metric|imperial|si units|celsius|fahrenheit)\b|公制|英制|摄氏|华氏"),
    (
        "style",
        r"\b(?:terse|concise|brief|short|succinct|long|detailed|thorough|verbose|playful|warm|friendly|formal|informal|"
        r"casual|light|serious|dry|plain|technical|neutral|polite|direct|humorous|professional)\b.{0,40}"
        r"\b(?:answers|replies|responses|tone|wording)\b|\b(?:answers|replies|responses|tone|wording)\b.{0,40}\b(?:terse|"
        r"concise|brief|short|succinct|long|detailed|thorough|verbose|playful|warm|friendly|formal|informal|casual|"
        r"light|serious|dry|plain|technical|neutral|polite|direct|humorous|professional)\b|"
        r"(?:回答|回复|语气|措辞).{0,8}(?:简短|简洁|详细|正式|随意|轻松|活泼|友好|幽默|专业|客气)",
    ),
    (
        "language",
        r"\b(?:answer|reply|respond|speak|write|talk)\b.{0,30}\b(?:english|german|french|spanish|italian|portuguese|"
        r"chinese|japanese|korean|russian|dutch|polish|arabic|hindi|turkish)\b|"
        r"用(?:中文|汉语|英文|英语|日文|日语|德语|法语|西班牙语|韩语|俄语).{0,4}(?:回答|回复|写|说)?",
    ),
)
_SETTING = [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _SETTINGS]
_ORDERS = re.compile(
    r"(?:for [\w ]{1,30}, )?(?:please |now )?(?:only |just )?(?:show|report|put|write|make|give|use|display|list|state|"
    r"print|stick|switch|keep|answer|reply|respond|speak)\b|请?(?:用|把|以|按)"
)
_FOR = re.compile(
    r"\b(?:for|when|whenever|if) ([a-z][a-z' -]{2,40})|(?:对|给|在|当)([^，。]{1,12}?)(?:时|里|中|，)", re.IGNORECASE
)
_CHANGE = re.compile(
    r"(?<!^)\bnow\b|\b(?:update|correction|change)[,:]|\b(?:no longer|instead|moved|changed|rotat(?:ed|ion)|switched|"
    r"rebased|renamed|replaced|retired|rescheduled|postponed|(?:the|our|my) (?:new|latest|updated|previous|old|former)|"
    r"^new|old|previous)\b|现在|目前|改(?:为|成|到|用|由|叫|在)|换成|换了|变成|更新|更正|不再|推迟|提前|新的",
    re.IGNORECASE,
)
_ADDS = re.compile(
    r"\b(?:an?(?:other)? new|another|second|also|too|as well|additional|both|besides)\b|另外|另一|也|还有|再加",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z0-9][\w./-]{2,}[A-Za-z0-9]")
_PROPER = re.compile(
    r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b|(?<=[a-z] )[A-Z][a-z]+\b|"
    r"^[A-Z][a-z]+(?= (?:now )?(?:is|owns|has|will|takes|handles|runs)\b)"
)
_AMOUNT = re.compile(
    rf"[$€£¥]\s?\d[\d.,]*|(?:\b\d[\d.,]*|\b{NUMBER_WORDS}(?:[ -]{NUMBER_WORDS}){{0,4}})[ -]?"
    r"(?:dollars|euros?|pounds|usd|eur|yuan|元|块)|"
    r"[一二两三四五六七八九十百千万]{1,8}(?:元|块)",
    re.IGNORECASE,
)
_VERB = re.compile(r"(?:,? (?:is|are|was|were|has|have|had|will|can|should)\b|(?:是|已|的|有))")
_COMMON = re.compile(
    r"the|and|for|are|was|were|has|have|had|with|that|this|from|into|onto|now|new|old|our|your|their|his|her|its|will|"
    r"would|should|can|could|must|not|never|always|all|any|every|each|out|off|over|under|but|than|then|when|what|which|"
    r"who|whom|whose|where|there|here|been|being|also|only|just|about|after|before|until|between|please|today|tomorrow|"
    r"week|month|year|day|date|time|dollars|euros|users?|keep|make|used?|stay|step|next|update|changed?|moved|previous|"
    r"longer|currently|current|latest|"
    r"现在|改为|改成|改到|换成|我们|今天|明天|时间|日期|是在|的是|不要|必须|以后|目前|更新|变成|不再|新的|已经"
)
"""Words that do not say what a sentence is about."""


def _sets(text: str) -> frozenset[str]:
    """The settings of answers that a sentence names a value of."""
    return frozenset(name for name, pattern in _SETTING if pattern.search(text))


def _settings(entry: Entry) -> frozenset[str]:
    """The settings of answers that an entry sets."""
    return _sets(entry.text) if entry.kind in (*BINDING, "preference") else frozenset()


@lru_cache(maxsize=1024)
def _scope(text: str) -> frozenset[str]:
    """The words of what an order is for; none where it is for all."""
    found = (each for groups in _FOR.findall(text) for each in groups)
    return frozenset(chain.from_iterable(map(_content, found)))


@lru_cache(maxsize=1024)
def _values(text: str) -> Mapping[str, frozenset[str]]:
    """The values in a sentence by their form: codes of one shape, dates, names, amounts."""
    found: dict[str, set[str]] = {}
    for match in _CODE.finditer(text):
        code = match.group()
        if any(map(str.isdigit, code)) and any(map(str.isalpha, code)):
            space, slash, rest = code.rpartition("/")
            shape = space + slash + re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", rest))
            found.setdefault(shape, set()).add(code.lower())
    for form, pattern in (("date", _DATE), ("name", _PROPER), ("amount", _AMOUNT)):
        if values := {match.group().lower() for match in pattern.finditer(text)}:
            found[form] = values if form != "name" else {each for each in values if not _DATE.search(each)}
    return {form: frozenset(values) for form, values in found.items()}


def _new_values(text: str) -> Mapping[str, frozenset[str]]:
    """The values that a sentence says have changed; a code of which it says something else is none."""
    if not _CHANGE.search(text) or _ADDS.search(text):
        return {}
    told = {match.group().lower() for match in _CODE.finditer(text) if _VERB.match(text[match.end() :])}
    return {form: values - told for form, values in _values(text).items()}


@lru_cache(maxsize=1024)
def _content(text: str) -> frozenset[str]:
    """The stems of the words that say what a sentence is about; of Chinese its pairs of characters."""
    found = set[str]()
    for code in _CODE.findall(text):
        if "/" in code:
            found.add(code.partition("/")[0].lower())
    for word in re.findall(r"[a-z]{3,}", text.lower()):
        if not _COMMON.fullmatch(word) and not _BOUND.fullmatch(word):
            found.add(re.sub(r"^re(?=\w{4})|(?:ations?|ing|ly|ed|ers?|es|s|e)$", "", word))
    if _SPENDING.search(text.lower()):
        found.add("spending")
    for run in re.findall(r"[\u4e00-\u9fff]{2,}", text):
        pairs = (run[place : place + 2] for place in range(len(run) - 1))
        found.update(pair for pair in pairs if not _COMMON.fullmatch(pair))
    return frozenset(found)


# The answers of the agent, and the calls of tools.


def _of_answer(text: str, receipt: str) -> list[Entry]:
    """What an answer says with a date, an amount or an identifier: a result, and never a rule."""
    found = []
    for sentence, _ in _sentences(text):
        if _has_identifier(sentence) or _DATE.search(sentence):
            found.append(Entry("result", truncate(sentence, _ENTRY_CHARS // 2), receipt, "agent"))
    return found


_IS_ID = re.compile(r"(?:^|_)(?:id|ids|number|no|code|ref|reference|key|uuid|sku|iban|email|phone)$", re.IGNORECASE)
_TELLING = re.compile(
    r"stat(?:us|e)|amount|total|price|balance|cost|date|time|name|count|city|address|currency|quantity|due|owner|limit|"
    r"budget",
    re.IGNORECASE,
)


def of_call(
    name: str, arguments: Mapping[str, Any], text: str, status: str, receipt: str, language: str
) -> list[Entry]:
    """The entry of a call with its result as it was shown: its fields, or the beginning of a text without any."""
    if not name or name == RECALL:
        return []
    told = ", ".join(f"{field}={value}" for field, value in _fields(arguments).items())
    call, subject = f"{name}({told})", f"{name} {as_json(arguments)}"
    if status == REJECTED:
        return [Entry("decision", task_text("digest_rejected", language, call=call), receipt, "operator", subject)]
    if status == "error":
        failed = task_text("digest_failed", language, call=call, error=_beginning(text))
        return [Entry("result", failed, receipt, "tool", subject)]
    given = _fields(structured(text.partition("\n\n")[0] if text[:1] in "{[" else text))
    if not given:
        return [Entry("result", f"{call} → “{_beginning(text)}”", receipt, "tool", subject)]
    shown = ", ".join(f"{field} {value}" for field, value in given.items())
    kind: Kind = "identifier" if any(map(_IS_ID.search, given)) else "fact"
    return [Entry(kind, f"{call} → {shown}", receipt, "tool", subject, fields=given)]


def _beginning(text: str) -> str:
    plain = " ".join(text[: 2 * _RESULT_CHARS].split())
    return plain if len(plain) <= _RESULT_CHARS else f"{plain[:_RESULT_CHARS]}…"


def _fields(value: Any) -> dict[str, str]:
    """The telling fields of a value: identifiers first, then states, amounts and dates, then others; no long text."""
    if not isinstance(value, Mapping | list):
        return {}
    found: dict[str, str] = {}
    for leaf in leaves(value):
        text = as_json(leaf.value) if isinstance(leaf.value, bool) else " ".join(str(leaf.value).split())
        if leaf.name and 0 < len(text) <= _FIELD_CHARS and leaf.name not in found:
            found[leaf.name] = text
        if len(found) >= 10 * _FIELDS:
            break
    ranked = sorted(found, key=lambda name: 0 if _IS_ID.search(name) else 1 if _TELLING.search(name) else 2)
    kept = {*ranked[:_FIELDS]}
    return {name: text for name, text in found.items() if name in kept}
