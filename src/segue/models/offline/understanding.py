"""What the offline planner reads: words, numbers and arithmetic in a text, a tool's specification, its arguments."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from ...prompts.catalogue import only_closed

CJK = r"\u3400-\u9fff"
_QUOTED = re.compile(r"「[^」]+」|『[^』]+』|《[^》]+》|“[^”]+”|\"[^\"]+\"")
_NEGATED = re.compile(
    r"(?:\b(?:not|don't|never|without|no)\b(?!\s+(?:more|less|fewer|over|only))(?:\s+[\w']+){0,2}\s+"
    rf"|(?:不要|不用|不需要|不想|无需|不含|不包括|(?<![特分区级类个])别)(?!忘)[{CJK}]{{0,3}})$",
    re.IGNORECASE,
)
_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2}
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "k": 1000}
_ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])(?<![A-Za-z]-)(\d+(?:,\d{3})*(?:\.\d+)?)([百千万](?![米克瓦])|k(?![a-z]))?"
    r"|(?<![第周期])((?:[零二两三四五六七八九]|一(?![些下般起共定样直点个切边种位])|十(?!分))[零一二两三四五六七八九十百千万]*)"
    rf"|\b({'|'.join(_ENGLISH)})\b",
    re.IGNORECASE,
)
_PLAIN_NUMBER = re.sub(r"\((?!\?)", "(?:", _NUMBER.pattern)
_OPERATOR = (
    r"\*\*|[-+*/^×÷]|%(?:\s*of\b)?|(?<=\d)\s*x(?=\s*\d)|乘以?|除以|加上?|减去?|plus\b|minus\b|times\b"
    r"|(?:divided|multiplied) by|to the power of|square root of|根号|的[平立]方|次方"
)
_ARITHMETIC = re.compile(rf"(?:(?:{_OPERATOR}|{_PLAIN_NUMBER}|[()（）]|的(?=\s*\d))\s*)+", re.IGNORECASE)
_OPEN_END = re.compile(r"(?<![-+*/^×÷\s])[-+*/^×÷\s]+$")
_DATE = re.compile(r"[\d.]+(?:\s*[-/]\s*[\d.]+)+")

_FILLING_ENGLISH = frozenset(
    re.findall(
        r"\S+",
        """
a about above all also am an and any are as at be below but by can check compare could day did do does find for from
get give go had has have hello help here hey hi how i i'd i'm if in including into is it its just know least less let
let's like list look make many may me more most much my need now of on one or our out over plan please query same
search see should show so some start take tell than thank thanks that the their them then there these they this those
to too trip try under up us use using want was we were what what's when where which who will with within would you your
""",
    )
)
_FILLING_CHINESE = re.compile(
    "帮我|帮忙|然后|接着|请问|到哪里|哪里|哪儿|查询|查一下|查看|请帮|给我|告诉我|我想要?|我要|我们|怎么样|什么时候|什么|怎么|如何|多少|哪些|哪个|有没有|是不是|可以|一下|一些|一个|一共|"
    "不超过|不低于|以内|以上|以下|至少|最多|高于|低于|包括|以及|还有|那么|如果|现在|推荐|关于|之内|需要|进行|看看|算算|等于|换成|改成|改为|"
    "谢谢|你好|您好|知道|比较|对比|分别|[的了呢吗吧啊呀和与在是有那这请帮我你您它他她们也都再就把给从到去为对或及等能会还要用又几看让想查个做次日月年]"
)


@dataclass(frozen=True)
class Found:
    """A value and its position."""

    start: int
    end: int
    value: Any


@lru_cache(maxsize=4096)
def _pattern(word: str) -> re.Pattern[str]:
    """Match a word: Latin edges are word boundaries and tolerate a plural, Chinese ones match anywhere."""
    body = r"[\s_-]+".join(re.escape(part) for part in re.split(r"[\s_-]+", word.strip()) if part)
    left = r"(?<![A-Za-z_])" if re.match(r"[A-Za-z]", word) else ""
    right = r"(?![A-Za-z0-9_])" if re.search(r"[A-Za-z0-9]$", word) else ""
    if re.search(r"[A-Za-z]{2}(?:ies|y)$", word):
        body = re.sub(r"(?:ies|y)$", "(?:ies|ys?)", body)
    elif re.search(r"[A-Za-z]$", word):
        body = re.sub(r"(?<=\w\w[^s\W])s$", "", body) + "(?:es|s)?"
    return re.compile(left + (body or "(?!)") + right, re.IGNORECASE)


def occurrences(text: str, words: Iterable[str], negated: bool = False) -> list[Found]:
    """Where words occur: only after a negation, or only without one."""
    return [
        Found(hit.start(), hit.end(), word)
        for word in words
        for hit in _pattern(word).finditer(text)
        if bool(_NEGATED.search(text[max(0, hit.start() - 60) : hit.start()])) == negated
    ]


def known_values(text: str, values: Mapping[Any, Any]) -> list[Found]:
    """The values whose words occur, in the order of the text; of two that overlap the longer one counts."""
    taken: list[Found] = []
    for word in sorted(map(str, values), key=lambda word: (-len(word), word)):
        for hit in occurrences(text, [word]):
            if all(hit.end <= other.start or hit.start >= other.end for other in taken):
                taken.append(hit)
    named = {str(word): value for word, value in values.items()}
    return [Found(hit.start, hit.end, named[hit.value]) for hit in sorted(taken, key=lambda hit: hit.start)]


def places(hits: Iterable[Found]) -> frozenset[int]:
    """The indexes of all characters that the hits cover."""
    return frozenset(place for hit in hits for place in range(hit.start, hit.end))


def masked(text: str, covered: Iterable[int]) -> str:
    """The text with the given characters blanked; everything else keeps its place."""
    blank = set(covered)
    return "".join("\0" if place in blank else char for place, char in enumerate(text))


def quotations(text: str) -> list[Found]:
    """The quoted texts; a place includes its quotation marks."""
    spans = (hit.span() for hit in _QUOTED.finditer(only_closed(text)))
    return [Found(start, end, text[start + 1 : end - 1].strip()) for start, end in spans]


def numbers(text: str) -> list[Found]:
    """The numbers of a text: Arabic, Chinese, and English words up to twelve."""
    return [Found(hit.start(), hit.end(), _value(hit)) for hit in _NUMBER.finditer(text)]


def _value(hit: re.Match[str]) -> int | float:
    arabic, scale, chinese, english = hit.groups()
    if english:
        return _ENGLISH.index(english.lower())
    if chinese:
        return _chinese(chinese)
    value = float(arabic.replace(",", "")) * _SCALES.get((scale or "").lower(), 1)
    return int(value) if value.is_integer() else value


def _chinese(numeral: str) -> int:
    total = section = digit = 0
    for char in numeral:
        if char == "万":
            total, section, digit = (total + section + digit) * 10_000, 0, 0
        elif char in _SCALES:
            section, digit = section + (digit or 1) * _SCALES[char], 0
        else:
            digit = _DIGITS[char]
    return total + section + digit


def arithmetic(text: str) -> Found | None:
    """The longest arithmetic expression of a text, with its numbers in digits; a date or a range is not one."""
    hits = [(hit.start(), _OPEN_END.sub("", hit[0])) for hit in _ARITHMETIC.finditer(text)]
    hits = [hit for hit in hits if re.search(_OPERATOR, hit[1], re.IGNORECASE) and _NUMBER.search(hit[1])]
    start, written = max(hits, key=lambda hit: len(hit[1]), default=(0, ""))
    end = start + len(written)
    if not written or (_DATE.fullmatch(written) and unused(text, range(start, end))):
        return None
    digits = _NUMBER.sub(lambda number: number[0] if number[1] else str(_value(number)), written)
    return Found(start, end, re.sub(r"%\s*of", "/100*", digits, flags=re.IGNORECASE))


def unused(text: str, used: Iterable[int]) -> list[Found]:
    """The parts of a text that say something and were not used; words that follow each other make up one part."""
    rest = _FILLING_CHINESE.sub(lambda hit: "\0" * len(hit[0]), masked(text, used))
    found: list[Found] = []
    for hit in re.finditer(rf"[{CJK}]+|[^\W_{CJK}][\w'.-]*(?<![.])", rest):
        if hit[0].lower() in _FILLING_ENGLISH or (len(hit[0]) == 1 and (not hit[0].isnumeric() or hit[0] == "一")):
            continue
        joined = found and not rest[found[-1].end : hit.start()].strip(" ")
        start = found.pop().start if joined else hit.start()
        found.append(Found(start, hit.end(), text[start : hit.end()]))
    return found


_SAYS_NOTHING = frozenset(re.findall(r"\w+", "get list find search query fetch look make the and for how many min max"))


_PARTICLES = ("up", "out", "in", "on", "off", "over", "back")
"""With these a verb is written as one word in a name, and as two in a sentence: `lookup`, "look up"."""
_IS_ID = re.compile(r"(?:^|_)(?:id|no|nr|num|number)$")
_OF_IDS = ("number", "编号", "号码")
_GENERIC = frozenset(["查询", "获取", "返回", "显示", "列出", "搜索", "查看", "根据", "指定", "一个", "所有", "信息"])
"""What descriptions of any tool say."""


def _spellings(word: str) -> tuple[str, ...]:
    """A word of a name, and the two that it may be in a sentence."""
    ends = (p for p in _PARTICLES if word.lower().endswith(p) and len(word) > len(p) + 2)
    return (word, *(f"{word[: -len(p)]} {p}" for p in ends))


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool.

    `kind` is the JSON type, or the format `arithmetic` or `language`; `values` are its enum (`closed`) or examples, by
    the word that stands for each; of an `aliased` one every word is known.
    """

    name: str
    label: str
    kind: str
    many: bool = False
    required: bool = False
    values: Mapping[Any, Any] = field(default_factory=dict)
    closed: bool = False
    aliased: bool = False
    pattern: str = ""
    keywords: tuple[str, ...] = ()

    @property
    def bound(self) -> str:
        """Which end of a range the name says it is."""
        return next((part for part in self.name.lower().split("_") if part in ("min", "max")), "")

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The keywords, then the words of the name and the label."""
        found = re.findall(rf"[A-Za-z]{{3,}}|[{CJK}]{{2}}", f"{self.name.replace('_', ' ')} {self.label}")
        found += _OF_IDS if _IS_ID.search(self.name.lower()) else ()
        return (*self.keywords, *(word for word in found if word.lower() not in _SAYS_NOTHING))

    @property
    def switches(self) -> tuple[str, ...]:
        """The words that set a boolean: its keywords, else those of its name; a label may name the opposite, too."""
        return self.keywords or tuple(word for word in self.name.split("_") if len(word) > 2)

    @property
    def is_number(self) -> bool:
        return self.kind in ("integer", "number") and not self.closed

    @property
    def is_free(self) -> bool:
        """Whether any text will do."""
        return self.kind == "string" and not self.pattern and not self.closed


@dataclass(frozen=True)
class Card:
    """What is known of a tool; each of `keywords` names it, and so do all of `words` together."""

    name: str
    title: str
    description: str
    keywords: tuple[str, ...]
    words: tuple[str, ...]
    read_only: bool
    parameters: tuple[Parameter, ...]
    needs_approval: bool = False

    @property
    def spoken(self) -> str:
        """A word of a message that names it."""
        return self.name if self.words or self.name in self.keywords else next(iter(self.keywords), self.name)

    @property
    def is_harmless(self) -> bool:
        """Whether it may be tried where a message does not name it: it changes nothing, or a person decides first."""
        return self.read_only or self.needs_approval

    @cached_property
    def topic(self) -> tuple[str, ...]:
        """What it is about: words of its name, its title, its arguments and its description's first line."""
        first = self.description.partition("\n")[0]
        text = " ".join([self.title, first, *(p.name for p in self.parameters)])
        latin = re.findall(r"[A-Za-z][a-z]+|[A-Z]+", f"{self.name} {text}")
        chinese = [pair for run in re.findall(rf"[{CJK}]+", text) for pair in map("".join, pairwise(run))]
        said = _FILLING_ENGLISH | _SAYS_NOTHING
        words = [word for word in latin if len(word) > 2 and word.lower() not in said]
        words += [pair for pair in chinese if pair not in _GENERIC and not _FILLING_CHINESE.search(pair)]
        return tuple(dict.fromkeys(words))

    @property
    def is_exact(self) -> bool:
        """Whether words that it does not know may be an argument that it would leave out."""
        return any(p.aliased and p.kind == "string" and not (p.required or p.closed) for p in self.parameters)

    @property
    def required(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.required)


def read_card(spec: Mapping[str, Any]) -> Card:
    """Read an OpenAI function specification with its `segue` key."""
    function, marks = spec["function"], spec["segue"]
    name, title = function["name"], str(marks.get("title") or function["name"])
    schema, given = function.get("parameters") or {}, tuple(marks.get("keywords", ()))
    spelled = re.findall(r"[A-Za-z][a-z]+|[A-Z]+", name)
    return Card(
        name=name,
        title=title,
        description=str(function.get("description") or "").strip(),
        keywords=(*given, *({name, *title.split(" · ")} - {*spelled})),
        words=() if given else tuple(word for word in spelled if word.lower() not in _SAYS_NOTHING),
        read_only=bool(marks.get("read_only")),
        needs_approval=bool(marks.get("needs_approval")),
        parameters=tuple(
            _parameter(name, body, name in schema.get("required", ()))
            for name, body in schema.get("properties", {}).items()
        ),
    )


def _merged(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with the first of its alternatives that is not null folded in."""
    for key in ("anyOf", "oneOf", "allOf"):
        if real := [inner for inner in schema.get(key, ()) if inner.get("type") != "null"]:
            return {**_merged(real[0]), **{name: value for name, value in schema.items() if name != key}}
    kinds = schema.get("type")
    return {**schema, "type": next((k for k in kinds if k != "null"), "") if isinstance(kinds, list) else kinds or ""}


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> Parameter:
    outer = _merged(schema)
    many = outer["type"] == "array"
    inner = _merged(outer.get("items") or {}) if many else outer
    examples = [*outer.get("examples", ()), *(inner.get("examples", ()) if many else ())]
    samples = [leaf for item in examples for leaf in (item if isinstance(item, list) else [item])]
    values = inner.get("enum") or (samples if inner["type"] == "string" else [])
    form, aliases = inner.get("format", ""), _aliases(outer.get("aliases"), inner["type"])
    return Parameter(
        name=name,
        label=str(outer.get("description") or outer.get("title") or name).strip(),
        kind=form if form in ("arithmetic", "language") else inner["type"] or ("string" if values else ""),
        many=many,
        required=required,
        values=aliases or {v: v for v in values if isinstance(v, str | int | float)},
        closed="enum" in inner,
        aliased=bool(aliases),
        pattern=inner.get("pattern", ""),
        keywords=tuple(outer.get("keywords", ())),
    )


def _aliases(given: Any, kind: str) -> dict[Any, Any]:
    """The value that each word stands for, of {value: [words]}; a foreign schema may mean something else by the key."""
    pairs = given.items() if isinstance(given, Mapping) else ()
    found = {word: value for value, words in pairs if isinstance(words, list) for word in words}
    return {word: int(value) for word, value in found.items() if value.isdecimal()} if kind == "integer" else found


_SIDES = {
    "max": (
        r"(?:不超过|最多|低于|小于|\b(?:under|below|(?:no more|less) than|at most|up to|within))\W*$",
        r"\s*(?:元|块|yuan|CNY)?\s*(?:以内|以下|之内|or less|at most)",
    ),
    "min": (
        r"(?:至少|不低于|超过|高于|大于|\b(?:over|above|(?<!no )more than|at least))\W*$",
        r"\s*(?:元|块|yuan|CNY)?\s*(?:以上|起|or more|at least)",
    ),
}
"""What comes before and after a number that is the end of a range."""
_RANGE = re.compile(r"\s*(?:-|~|–|至|到|to|and)\s*", re.IGNORECASE)
_UNIT = re.compile(rf"[\s-]*[A-Za-z{CJK}]")
_MEASURE = re.compile(r"[\s-]*[A-Za-z个件份张台天日周月年元块次人位小分秒]")
"""The units of a number that is no id; any other Chinese character behind an id begins the next word."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
ORDINAL = re.compile(rf"第(\d+|[一二三四五六七八九十]+)个?|\b({'|'.join(_ORDINALS)})\b\s*", re.IGNORECASE)
_JOINT = re.compile(r"\b(?:and|then)\b|(?<!\d),|,(?!\d)|[，;；、。\n]|和|然后|再|以及", re.IGNORECASE)
"""What stands between two clauses."""
_STOP = re.compile(r"[.:?!：？！]")
_MOST_CLAUSES = 10
_NEAR = 12
"""Characters between a number and the word that says which argument it is."""

_IS = re.compile(r" ?([=:：]) ?")
"""What stands between an argument's name and its value."""
_ONE_WORD = re.compile(r"[^\s\0,;，；。、]+")
_ONE_CLAUSE = re.compile(r"[^\n\0,;，；。、]+")

Reading = dict[str, list[Found]]
"""By parameter the values that a text gives it, with their places."""


def read_arguments(card: Card, text: str) -> Reading:
    """What a text says of a tool's arguments."""
    found = {p.name: _values(p, card, text) for p in card.parameters if p.kind != "language"}
    found |= (assigned := _assigned([p for p in card.parameters if p.is_free and not found[p.name]], text))
    taken = places(hit for hits in assigned.values() for hit in hits)
    quoted = [hit for hit in quotations(text) if hit.start not in taken]
    rest = masked(text, places(hit for hits in [*found.values(), quoted] for hit in hits))
    found |= _numbers([p for p in card.parameters if p.is_number and not p.pattern and not found[p.name]], rest)
    for parameter in card.parameters:
        if parameter.kind == "arithmetic" and (expression := arithmetic(text)):
            found[parameter.name] = [expression]
        elif parameter.kind == "boolean":
            found[parameter.name] = [replace(hit, value=True) for hit in occurrences(rest, parameter.switches)][:1]
        elif quoted and parameter.is_free and parameter.required and not found[parameter.name]:
            found[parameter.name] = [quoted.pop(0)]
    return {name: hits for name, hits in found.items() if hits}


def _assigned(parameters: Sequence[Parameter], text: str) -> Reading:
    """The texts that are given by name: `name=billing` is one word, `name: the billing service` goes on to a comma."""
    hits = [(hit, parameter) for parameter in parameters for hit in occurrences(text, [parameter.name])]
    quoted, given = {hit.start: hit for hit in quotations(text)}, Reading()
    for hit, parameter in hits:
        sign = _IS.match(text, hit.end)
        if sign is None or parameter.name in given:
            continue
        start = sign.end()
        if start in quoted:
            given[parameter.name] = [quoted[start]]
            continue
        end = min((other.start for other, _ in hits if other.start >= start), default=len(text))
        words = (_ONE_WORD if sign[1] == "=" else _ONE_CLAUSE).match(text, start, end)
        value = words[0].rstrip(" .!?") if words else ""
        if value := value[:-7].rstrip() if value.lower().endswith(" please") else value:
            given[parameter.name] = [Found(start, start + len(value), value)]
    return given


def readings(card: Card, text: str) -> list[Reading]:
    """What a text says of a tool's arguments, for each of its clauses where each gives the same ones.

    "3 days in Beijing and 2 days in Chengdu" gives two readings, "Beijing and Chengdu for 3 days" one.
    """
    if len(joints := [*_JOINT.finditer(text)]) >= _MOST_CLAUSES:
        return [read_arguments(card, text)]
    ends = [0, *(at for joint in joints for at in joint.span()), len(text)]
    clauses = [range(start, end) for start, end in zip(ends[::2], ends[1::2], strict=True)]
    each = [read_arguments(card, masked(text, {*range(len(text))} - {*clause})) for clause in clauses]
    each = [reading for reading in each if reading]
    names = {frozenset(reading) for reading in each}
    if len(each) > 1 and len(names) == 1 and len(each[0]) > 1 and all(p.name in each[0] for p in card.required):
        return each
    return [read_arguments(card, text)]


def ordinal(text: str) -> tuple[Found, int] | None:
    """The words of a text that point at one of several things named before, and its place among them."""
    if hit := ORDINAL.search(text):
        words = hit[1] or hit[2]
        place = _ORDINALS.index(words.lower()) if hit[2] else (numbers(words) or [Found(0, 0, 0)])[0].value - 1
        return Found(*hit.span(), hit[0]), place
    return None


def _values(parameter: Parameter, card: Card, text: str) -> list[Found]:
    """Values that the schema lists or describes; where parameters share them, the one behind a keyword of this one.

    A tool that only reads and whose parameters have no keywords takes them in the order of the text.
    """
    hits = _matches(parameter.pattern, text) if parameter.pattern else known_values(text, parameter.values)
    alike = [p for p in card.parameters if (p.pattern, p.values) == (parameter.pattern, parameter.values)]
    if len(alike) < 2:
        return hits
    if card.read_only and len(hits) == len(alike) and not any(p.keywords for p in alike):
        return [hits[alike.index(parameter)]]
    ends = {place.end for place in occurrences(text, parameter.keywords)}
    return [hit for hit in hits if not ends.isdisjoint((hit.start, hit.start - 1))][:1]


def _matches(pattern: str, text: str) -> list[Found]:
    body = pattern.removeprefix("^").removesuffix("$")
    try:
        hits = re.finditer(rf"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])", text)
    except re.error:  # a dialect that Python does not read
        return []
    return [Found(hit.start(), hit.end(), hit[0]) for hit in hits if hit[0]]


def _numbers(parameters: Sequence[Parameter], text: str) -> Reading:
    """Give each parameter the number that is nearest to one of its words, or its end of a range.

    A number that is left over, without a unit, is the required parameter's that is.
    """
    left, given = {number: _side(number, text) for number in numbers(text)}, Reading()
    for first, second in pairwise([*left]):
        if _RANGE.fullmatch(text[first.end : second.start]):
            left |= {first: "min", second: "max"}
    gaps = [(_gap(p, n, side, text), n.start, p.name, n) for p in parameters for n, side in left.items()]
    for gap, _, name, number in sorted(gaps, key=lambda each: each[:3]):
        if gap <= _NEAR and number in left and name not in given:
            given[name] = [number]
            del left[number]
    needed = [parameter for parameter in parameters if parameter.required and parameter.name not in given]
    if len(left) == len(needed) == 1:
        end = next(iter(left)).end
        is_id = _IS_ID.search(needed[0].name.lower())
        if not (_MEASURE.match(text, end) if is_id else _UNIT.match(text, end)):
            given[needed[0].name] = [*left]
    return given


def _side(number: Found, text: str) -> str:
    """Which end of a range a number is."""
    before, after = text[max(0, number.start - 15) : number.start], text[number.end :]
    return next((s for s, (ahead, behind) in _SIDES.items() if re.search(ahead, before) or re.match(behind, after)), "")


def _gap(parameter: Parameter, number: Found, side: str, text: str) -> int:
    """The characters between a number and the nearest of the parameter's words; a word behind it is its unit."""
    if parameter.bound and parameter.bound != (side or "max"):
        return _NEAR + 1
    gaps = [_NEAR if parameter.bound and side else _NEAR + 1]
    for word in occurrences(text, parameter.words):
        if word.start >= number.end and re.fullmatch(r"[\s个-]*", text[number.end : word.start]):
            gaps.append(0)
        elif word.end <= number.start and not re.search(r"[,，。;；\d]", text[word.end : number.start]):
            gaps.append(number.start - word.end + 1)
    return min(gaps)


# The tools that a message asks for, their arguments, and the parts of the message that were not used.

MOST_CALLS = 10
"""Calls of one tool at most, where a text names several values for one argument."""
MOST_IMPLIED = 2
"""Tools at most that a message calls which gives values alone."""
_MOST_EFFECTS = 3
"""Tools that are named at most where they may have effects."""
_MOST_DESCRIBED = 500
"""Characters of a message that is compared with the descriptions of tools."""
_REMEMBERED_TURNS = 4
_TENTATIVE = re.compile(
    r"\b(?:if|unless|whether|how (?:do|does|can|to)|what (?:if|happens)|should i|why)\b"
    r"|如果|要是|除非|要不要|该不该|怎么|如何|为什么|会怎样",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(
    r"\W*(?:(?:no|cancel|never ?mind|stop|don't|thanks?|ok|okay|hi|hello)\b|算了|不|别|取消|没|谢|好的|你好)"
    r"|.*(?:[?？\n]|[吗呢]\W*$)",
    re.IGNORECASE | re.DOTALL,
)
"""A message that is no answer to a question for a text."""
_LIST_NUMBER = re.compile(r"(?m)^[ \t]*\d{1,2}[.)、．]\s*(?=[^\d\s])")


@dataclass(frozen=True)
class Call:
    """A tool with the arguments it is to be called with."""

    card: Card
    arguments: Mapping[str, Any]

    def matches(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a recorded call is this one; the record may hold defaults besides."""
        return name == self.card.name and all(arguments.get(key) == value for key, value in self.arguments.items())


@dataclass(frozen=True)
class Fit:
    """A tool that a text names: where, and what is known of its arguments."""

    card: Card
    text: str
    named: frozenset[int]
    reading: Reading

    @property
    def used(self) -> frozenset[int]:
        """The places in the text that refer to the tool: its name, values, and words that label one or its default."""
        labels = (p.words if p.name in self.reading or p.required else p.keywords for p in self.card.parameters)
        words = itertools.chain.from_iterable(labels)
        values = (hit for hits in self.reading.values() for hit in hits)
        return self.named | places([*values, *occurrences(self.text, words)])

    @property
    def missing(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.card.required if parameter.name not in self.reading)

    @property
    def found(self) -> frozenset[int]:
        """The places of the values that the text itself gives."""
        return places(hit for hits in self.reading.values() for hit in hits)

    @property
    def values(self) -> dict[str, list[Any]]:
        """By parameter the distinct values, for one call each; all of them together where the parameter is a list."""
        given = [(p, [*dict.fromkeys(hit.value for hit in self.reading.get(p.name, ()))]) for p in self.card.parameters]
        return {p.name: [values] if p.many else values for p, values in given if values}

    @property
    def is_vague(self) -> bool:
        """Whether words that are not understood may change what it is called with."""
        takes_known_words = any(p.values and not p.closed for p in self.card.parameters)
        return not self.missing and (self.card.is_exact or (takes_known_words and not self.reading))

    @property
    def is_held(self) -> bool:
        """Whether it changes something, and it is not sure that it is to run, or with which of several values."""
        several = sum(len(values) > 1 for values in self.values.values()) > 1
        return not self.card.read_only and (several or bool(_TENTATIVE.search(self.text)))

    @property
    def calls(self) -> list[Call]:
        """A call for each combination of the values."""
        every = itertools.islice(itertools.product(*self.values.values()), MOST_CALLS)
        return [Call(self.card, dict(zip(self.values, one, strict=True))) for one in every]


@dataclass(frozen=True)
class Intent:
    """What a message asks for.

    `asks` lack required arguments. `unclear` might mean something else: parts of the message are not understood.
    `held` are tools that change something and were named by a question, a condition or
    an ambiguous message. `effects` are tools that would fit, if they were known to change nothing. `unused` are the
    parts of the message that nothing was made of.
    """

    calls: tuple[Call, ...] = ()
    asks: tuple[Fit, ...] = ()
    unclear: tuple[Fit, ...] = ()
    held: tuple[Card, ...] = ()
    effects: tuple[Card, ...] = ()
    unused: tuple[str, ...] = ()
    fits: tuple[Fit, ...] = ()

    @classmethod
    def of(cls, fits: Sequence[Fit], unused: Sequence[str] = ()) -> "Intent":
        unclear = [fit for fit in fits if unused and fit.is_vague]
        calls = [c for fit in fits if fit not in unclear and not (fit.missing or fit.is_held) for c in fit.calls]
        return cls(
            calls=tuple(call for place, call in enumerate(calls) if call not in calls[:place]),
            asks=tuple(fit for fit in fits if fit.missing),
            unclear=tuple(unclear),
            held=tuple(fit.card for fit in fits if not fit.missing and fit.is_held and fit not in unclear),
            unused=tuple(unused),
            fits=tuple(fits),
        )

    @property
    def is_empty(self) -> bool:
        return not (self.calls or self.asks or self.unclear or self.held or self.effects)


def interpret(cards: Sequence[Card], text: str, turns: Sequence[str], reply: str = "") -> Intent:
    """What the message asks for; `turns` are the earlier ones, `reply` is the latest answer.

    A line that names a tool begins a passage of its own. A message that only gives values continues what an earlier
    one asked for, or calls what takes all of them. Where nothing is named, the tool whose description has most of its
    words is used.
    """
    if calls := _written_out(cards, text):
        return Intent(calls)
    turns, fits, rest = turns[-_REMEMBERED_TURNS:], list[Fit](), list[str]()
    passages = _passages(cards, _LIST_NUMBER.sub("", text))
    for place, passage in enumerate(passages):
        found = _with_words(_fits(cards, passage, passages[:place], turns, reply), passage)
        fits += found
        rest += [part.value for part in unused(passage, frozenset[int]().union(*(fit.used for fit in found)))]
    own = Intent.of(fits, rest)
    if own.calls and not (rest and all(call.card.read_only for call in own.calls)):
        return own
    implied = None if own.held or (own.asks and not rest) else _implied(cards, text)
    follow_up = _follow_up(cards, text, turns) if turns and not own.calls else None
    intent = follow_up or implied or own
    return (_described(cards, text, rest) or intent) if intent.is_empty else intent


def _described(cards: Sequence[Card], text: str, rest: Sequence[str]) -> Intent | None:
    """What the tool does whose description has most of the message's words; None where none has, or several do."""
    if _TENTATIVE.search(text) or len(text) > _MOST_DESCRIBED:
        return None
    spoken = masked(text, places(quotations(text)))
    hits = [(card, occurrences(spoken, card.topic)) for card in cards]
    scores = [(len({hit.value.lower() for hit in found}), card, found) for card, found in hits]
    most = max((score for score, _, _ in scores), default=0)
    best = [(card, found) for score, card, found in scores if score == most]
    harmless = [(card, found) for card, found in best if card.is_harmless]
    if not most or len(harmless) > 1:
        return None
    if not harmless:
        return Intent(effects=tuple(card for card, _ in best)[:_MOST_EFFECTS], unused=tuple(rest))
    ((card, found),) = harmless
    fits = [Fit(card, text, places(found), reading) for reading in readings(card, text)]
    used = frozenset[int]().union(*(fit.used for fit in fits))
    intent = Intent.of(fits, [part.value for part in unused(text, used)])
    return None if intent.unclear else intent


def _implied(cards: Sequence[Card], text: str) -> Intent | None:
    """Calls of the tools that take everything a message says, which names none; None where that is not clear."""
    if harmless := _takers([card for card in cards if card.read_only], text):
        return Intent.of([fit for fits in harmless for fit in fits]) if len(harmless) <= MOST_IMPLIED else None
    others = _takers([card for card in cards if not card.read_only], text)
    if len(others) == 1 and others[0][0].card.needs_approval:
        return Intent.of(others[0])
    return Intent(effects=tuple(fits[0].card for fits in others)) if 0 < len(others) <= MOST_IMPLIED else None


def _takers(cards: Sequence[Card], text: str) -> list[list[Fit]]:
    """The tools that take everything a message says, with what they take."""
    taking = list[list[Fit]]()
    for card in cards:
        fits = [Fit(card, text, frozenset(), reading) for reading in readings(card, text)]
        used = frozenset[int]().union(*(fit.used for fit in fits))
        if all(fit.reading and not fit.missing for fit in fits) and not unused(text, used):
            taking.append(fits)
    return [fits for fits in taking if not any(other[0].found > fits[0].found for other in taking)]


def _written_out(cards: Sequence[Card], text: str) -> tuple[Call, ...]:
    """Calls in the form `name({"argument": value})`, in their order."""
    named, calls = {card.name: card for card in cards}, list[Call]()
    for hit in re.finditer(r"\b(\w+)\((?=\{)", text):
        try:
            arguments, end = json.JSONDecoder().raw_decode(text, hit.end())
        except ValueError:
            continue
        if hit[1] in named and text[end : end + 1] == ")":
            calls.append(Call(named[hit[1]], arguments))
    return tuple(calls)


def _passages(cards: Sequence[Card], text: str) -> list[str]:
    """The text, divided before each line that names a tool."""
    found = list[str]()
    for line in text.splitlines():
        if found and not any(_named(card, line) for card in cards):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def _named(card: Card, text: str) -> list[Found]:
    """Where a text names a tool: by a keyword, by all words of its name, or by arithmetic that it works out.

    One that only a negation names is declined; "the first city" is not a wish for cities.
    """
    words = [*((word,) for word in card.keywords), *map(_spellings, card.words)]
    if any(occurrences(text, each, negated=True) and not occurrences(text, each) for each in words):
        return []
    hits = occurrences(text, card.keywords)
    if card.words and all(occurrences(text, _spellings(word)) for word in card.words):
        hits += occurrences(text, itertools.chain.from_iterable(map(_spellings, card.words)))
    if any(parameter.kind == "arithmetic" for parameter in card.parameters) and (found := arithmetic(text)):
        hits.append(found)
    pointed = {hit.end() for hit in ORDINAL.finditer(text)}
    return [hit for hit in hits if hit.start not in pointed]


def _fits(cards: Sequence[Card], text: str, before: Sequence[str], turns: Sequence[str], reply: str) -> list[Fit]:
    """The tools that a passage names, without those that give way to another."""
    spoken = masked(text, places(quotations(text)))
    hits = {card.name: _named(card, spoken) for card in cards}
    spans = {(hit.start, hit.end) for found in hits.values() for hit in found}
    named = {name: places(hit for hit in found if not _is_within(hit, spans)) for name, found in hits.items()}
    fits = [Fit(card, text, named[card.name], r) for card in cards if named[card.name] for r in readings(card, text)]
    fits = [_with_known(fit, before, turns, reply) for fit in fits]
    return [fit for fit in fits if not any(_yields_to(fit, other) for other in fits)]


def _with_words(fits: Sequence[Fit], text: str) -> list[Fit]:
    """The fits; the one text that a tool lacks is what stands directly behind the tool's name: "restart billing".

    A tool that changes something, and about which no person decides, takes the next word alone, and none of a question.
    """
    used = frozenset[int]().union(*(fit.used for fit in fits))
    parts = unused(text, used)
    if len(parts) != 1:
        return [*fits]
    (part,), found = parts, list[Fit]()
    is_asked = bool(_NO_VALUE.match(text, part.start))
    for fit in fits:
        reading, end = fit.reading, max(fit.named, default=len(text)) + 1
        between = text[end : part.start]
        follows = end <= part.start and not any(end <= place < part.start for place in used - fit.used)
        is_next = between.strip().lower() in ("", "the") and " " not in part.value
        is_sure = fit.card.is_harmless or (is_next and not is_asked)
        if follows and is_sure and not _JOINT.search(between) and not _STOP.search(between):
            lacks = fit.missing if len(fit.missing) == 1 else ()
            reading = reading | {p.name: parts for p in lacks if p.is_free and not p.values}
        found.append(replace(fit, reading=reading))
    return found


def _is_within(hit: Found, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether a word is part of a longer one: "how many units" is not "how many"."""
    return any(start <= hit.start and hit.end <= end and end - start > hit.end - hit.start for start, end in spans)


def _yields_to(fit: Fit, other: Fit) -> bool:
    """Whether the evidence for a tool fits another one too, and fits that one better."""
    if fit.card.words and fit.named < other.named:  # `todo` in `add todo`
        return True
    if fit.missing:
        covered = fit.named < other.named if other.missing else fit.named <= other.used
        return covered or (not other.missing and any(p.kind == "arithmetic" for p in fit.missing))
    stronger = len(other.card.required) > len(fit.card.required) == 0 or (
        other.found > fit.found and not (fit.found and fit.named == other.named)
    )
    return bool(not other.missing and stronger and fit.card.parameters and fit.used < other.used)


def _with_known(fit: Fit, before: Sequence[str], turns: Sequence[str], reply: str) -> Fit:
    """The fit with what the passage leaves out: from earlier ones and, for a tool that only reads, earlier messages.

    "The first city" is the first one of the latest answer.
    """
    known, pointed = dict(fit.reading), ordinal(fit.text) if fit.card.read_only else None
    for parameter in fit.missing:
        if pointed and parameter.values:
            listed = [*dict.fromkeys(hit.value for hit in known_values(reply, parameter.values))]
            known[parameter.name] = [replace(pointed[0], value=value) for value in listed[pointed[1] :][:1]]
            continue
        earlier = reversed([*(turns if fit.card.read_only else ()), *before])
        readings = (read_arguments(fit.card, text).get(parameter.name) for text in earlier)
        if hits := next(filter(None, readings), None):
            known[parameter.name] = [replace(hit, start=0, end=0) for hit in hits]
    return replace(fit, reading={name: hits for name, hits in known.items() if hits})


def _follow_up(cards: Sequence[Card], text: str, turns: Sequence[str]) -> Intent | None:
    """The latest request again, with the message's values added or in place of its own; None if it is none.

    A tool that changes something takes only what it lacked.
    """
    earlier = (interpret(cards, turns[place], turns[:place]) for place in reversed(range(len(turns))))
    before = next((intent for intent in earlier if not intent.is_empty), Intent())
    fits = [again for fit in before.fits if (again := _continued(fit, text))]
    found = Intent.of(fits)
    return replace(found, calls=tuple(c for c in found.calls if c not in before.calls)) if found.calls else None


def _continued(fit: Fit, text: str) -> Fit | None:
    given = read_arguments(fit.card, text)
    lone = fit.missing[0] if len(fit.missing) == 1 and fit.missing[0].is_free else None
    if lone and lone.name not in given and 0 < len(text.strip()) <= 60 and not _NO_VALUE.match(text):
        given = {lone.name: [Found(0, len(text), text.strip())]}
    elif unused(text, Fit(fit.card, text, frozenset(), given).used) or not (fit.card.read_only or fit.missing):
        return None
    found = replace(fit, reading=fit.reading | given, text=text)
    return found if given and not found.missing else None
