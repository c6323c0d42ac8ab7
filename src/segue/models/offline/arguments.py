"""What the offline planner reads: words, numbers and arithmetic in a text, a tool's specification, its arguments."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from segue.prompts.language import only_closed

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
    "帮我|帮忙|然后|接着|请问|请帮|给我|告诉我|我想要?|我要|我们|怎么样|什么时候|什么|怎么|如何|多少|哪些|哪个|有没有|是不是|可以|一下|一些|一个|一共|"
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
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
ORDINAL = re.compile(rf"第(\d+|[一二三四五六七八九十]+)个?|\b({'|'.join(_ORDINALS)})\b\s*", re.IGNORECASE)
_JOINT = re.compile(r"\b(?:and|then)\b|(?<!\d),|,(?!\d)|[，;；、。\n]|和|然后|再|以及", re.IGNORECASE)
"""What stands between two clauses."""
_MOST_CLAUSES = 10
_NEAR = 12
"""Characters between a number and the word that says which argument it is."""

Reading = dict[str, list[Found]]
"""By parameter the values that a text gives it, with their places."""


def read_arguments(card: Card, text: str) -> Reading:
    """What a text says of a tool's arguments."""
    found = {p.name: _values(p, card, text) for p in card.parameters if p.kind != "language"}
    quoted = quotations(text)
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
    needed = [parameter.name for parameter in parameters if parameter.required and parameter.name not in given]
    if len(left) == len(needed) == 1 and not _UNIT.match(text, next(iter(left)).end):
        given[needed[0]] = [*left]
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
