"""Where the values of a call come from, whether a person has to be asked, and what a call discloses."""

import re
from binascii import a2b_base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from html import unescape
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import unquote_plus

from .record_choice import RECORDS, RecordChoice, is_named_in, records_of
from .value_forms import (
    Day,
    Leaf,
    TextForms,
    clocks,
    days,
    forms_of,
    identifiers,
    is_day_in,
    is_joined,
    is_link_in,
    is_moment,
    kept_for_short,
    leaves,
    letters_in,
    number_of,
    numbers_alone,
    plain,
    structured,
    words_of,
)

if TYPE_CHECKING:
    from .call_rules import CallTerms


# Whether an argument of a call discloses a secret result.

LETTERS: Final = 4
"""Letters of a secret text that is looked for; a shorter one may be there by accident."""
SECRET_DIGITS: Final = 3
"""Digits of a secret number that is looked for."""
DEEP: Final = 2
"""Encodings in one another that are undone."""
_BASE64: Final = tuple(map(re.compile, (r"[A-Za-z0-9+/]{6,}", r"[A-Za-z0-9_-]{6,}", r"[A-Za-z0-9]{6,}")))
_STANDARD: Final = str.maketrans("-_", "+/")
_HEXADECIMAL: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){4,}")
CODE: Final = 5
"""Characters of a word with digits that two texts have in common where one discloses the other."""


def discloses(argument: Any, secret: Any, known: Collection[TextForms]) -> bool:
    """Whether an argument has a value of a secret result, or a part of it, that is in none of the `known` texts."""
    texts = [str(leaf.value) for leaf in leaves(argument) if not isinstance(leaf.value, bool)]
    return any(_discloses(text, secret, known) for text in decoded([*texts, *_keys(argument)]))


def _keys(argument: Any) -> Iterator[str]:
    """The keys of objects inside of an argument: what they say goes out, too."""
    waiting = [argument]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield from map(str, part)
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part


def decoded(texts: Iterable[str]) -> frozenset[str]:
    """The texts, and what they say without the encodings of links, HTML, Base64 and hexadecimal digits.

    Two encodings may be one in the other.
    """
    found = latest = frozenset(texts)
    for _ in range(DEEP):
        latest = frozenset(each for text in latest for each in _decodings(text)) - found
        found |= latest
    return found


def _decodings(text: str) -> Iterator[str]:
    """What a text says in each encoding that it may have parts of."""
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "&" in text:
        yield unescape(text)
    for pattern in _BASE64:
        yield "\n".join(filter(None, map(_from_base64, pattern.findall(text))))
    yield "\n".join(bytes.fromhex(part).decode(errors="ignore") for part in _HEXADECIMAL.findall(text))


def _from_base64(part: str) -> str:
    """The text of a part, whichever of the two alphabets it has; empty for bytes that are none."""
    digits = part.translate(_STANDARD)
    digits = digits[:-1] if len(digits) % 4 == 1 else digits
    read = a2b_base64(digits + "=" * (-len(digits) % 4)).decode(errors="ignore")
    return read if " ".join(read.split()).isprintable() else ""


def _discloses(text: str, secret: Any, known: Collection[TextForms]) -> bool:
    said, hidden = forms_of(text), forms_of(_text(secret))
    if any(_contains(text, each) for each in known):
        return False
    ours = frozenset[str]().union(*(_codes(each) | each.identifiers for each in known))
    if ((_codes(said) | said.identifiers) & (_codes(hidden) | hidden.identifiers)) - ours:
        return True
    is_part = letters_in(said.text) >= LETTERS and hidden.holds(said.text)
    return is_part or hidden.shares(words_of(said.text)) or _has_field(said, secret, known)


def _has_field(said: TextForms, secret: Any, known: Collection[TextForms]) -> bool:
    """Whether a text has a field of the secret."""
    for leaf in leaves(structured(secret)):
        if _is_field_in(leaf, said) and not any(_contains(str(leaf.value), each) for each in known):
            return True
    return False


def _is_field_in(leaf: Leaf, said: TextForms) -> bool:
    if isinstance(leaf.value, bool):
        return False
    if number := number_of(leaf.value):
        return len(number.strip("-0.").replace(".", "")) >= SECRET_DIGITS and number in said.numbers
    text = plain(str(leaf.value))
    return letters_in(text) >= LETTERS and text in said.text


def _contains(text: str, known: TextForms) -> bool:
    return bool(text.strip()) and (
        known.holds(plain(text)) or (bool(number_of(text)) and number_of(text) in known.numbers)
    )


def _codes(forms: TextForms) -> frozenset[str]:
    """The words with digits, such as codes and account numbers."""
    return frozenset(word for word in forms.vocabulary if len(word) >= CODE and any(map(str.isdigit, word)))


# Where the values of a call come from, and whether a person has to be asked about them.

SourceKind = Literal["user", "quoted", "agent", "tool", "mcp", "memory", "file", "agent-other", "description", "model"]
Policy = Literal["never", "always", "untrusted"]
"""When a person is asked about a call: never, always, or where untrusted text may have decided it."""
Hiding = bool | Literal["summary"]
"""Whether a model does not see a tool's results: it sees a reference, and with `summary` a summary."""

DISTINCTIVE: Final = 4
"""Letters of a value that is looked for in a text; a shorter one may be there by accident."""
DIGITS: Final = 3
"""Digits of a number that is looked for in a text."""
ACCOUNT_DIGITS: Final = 8
"""Digits of a number in a text that nobody computes."""
LEAST_RIGHTS: Final = ("read", "reader", "read-only", "readonly", "view", "viewer")
"""Values of a permission that a model may choose as it may choose a short code: none gives less."""


@dataclass(frozen=True)
class Source:
    """What a value came from; `name` is the tool, server, file or memory, `call` the number of its call in the task.

    `quoted` is what a person quoted or forwarded. `description` is the text of a tool that comes from elsewhere;
    `model` is a value that nothing which entered the task contains.
    """

    kind: SourceKind
    name: str = ""
    call: int = 0
    trusted: bool = False

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """The source in the form that `json` gives."""
        return cls(stored["kind"], str(stored["name"]), int(stored["call"]), bool(stored["trusted"]))


USER: Final = Source("user", trusted=True)
AGENT: Final = Source("agent", trusted=True)


@dataclass(frozen=True)
class SourcedText:
    """A value that entered the session, with what it came from; `secret` is the call whose secret result it is.

    `hidden`: no model saw it. By its `ref` calls take it. `own` are the fields that nobody else writes.
    """

    value: Any
    sources: tuple[Source, ...]
    secret: Source | None = None
    hidden: bool = False
    ref: str = ""
    own: frozenset[str] = frozenset()

    @cached_property
    def forms(self) -> TextForms:
        return forms_of(_text(self.value))

    @cached_property
    def _leaves(self) -> list[Leaf]:
        return [*leaves(structured(self.value))]

    @cached_property
    def _fields(self) -> Mapping[str, list[Leaf]]:
        """Its fields by their plain text, and by their number."""
        found: dict[str, list[Leaf]] = {}
        for leaf in self._leaves:
            for form in _forms_of_field(leaf.value):
                found.setdefault(form, []).append(leaf)
        return found

    def fields(self, name: str, value: Any) -> Iterator[Leaf]:
        """The fields that have the value of an argument."""
        for form in _forms_of_field(value):
            yield from (leaf for leaf in self._fields.get(form, ()) if _same(leaf.name, leaf.value, name, value))

    def contains(self, name: str, value: Any) -> bool:
        """Whether it has the value: as a field of its own, distinctive in a text, or a number of an untrusted one."""
        if isinstance(value, bool):
            return False
        if any(self.fields(name, value)):
            return True
        if _is_distinctive(value):
            return _is_in_text(value, self.forms)
        return not self.trusted and number_of(value) in self._written_numbers

    def choice(self, said: TextForms, writers: Collection[str] = ()) -> RecordChoice:
        """Its records, among which a person's words may choose; `writers` are the people whose records they ask for."""
        return RecordChoice(self.records, self.own, said, " ".join(source.name for source in self.sources), writers)

    @cached_property
    def records(self) -> list[Mapping[str, Any]]:
        return records_of(self._leaves)

    def with_day(self, moment: str) -> Iterator[Leaf]:
        """The fields that are a moment of the same day."""
        wanted = days(moment)
        for leaf in self.texts:
            if is_moment(plain(leaf.value)) and _has_day(days(plain(leaf.value)), wanted):
                yield leaf

    @cached_property
    def texts(self) -> list[Leaf]:
        """Its fields that are texts."""
        return [leaf for leaf in self._leaves if isinstance(leaf.value, str)]

    @cached_property
    def _written_numbers(self) -> frozenset[str]:
        """The numbers in its texts; a field that is a number says nothing of an argument with another name."""
        return frozenset[str]().union(*(numbers_alone(leaf.value) for leaf in self.texts))

    @property
    def trusted(self) -> bool:
        return all(source.trusted for source in self.sources)


Finding = Literal["values", "unasked", "unknown_sources", "secret", "clean", "plan", "sources", "rule"]
"""What is found of a call.

A person is asked: its `values` come from untrusted text, it was `unasked` for before that was read, what was read is
not known (`unknown_sources`), or it has a value of a `secret` result. They need not be: nothing untrusted was read
(`clean`), a `plan` from before that has the call, its `sources` are the person or trusted, or a `rule` allows it.
"""
DOUBTS: Final[Collection[str]] = ("values", "unasked", "unknown_sources", "secret")
"""The findings by which a person is asked."""


@dataclass(frozen=True)
class Assessment:
    """The sources of each argument of a call, and whether a person is asked about it: for the `doubted` arguments."""

    sources: Mapping[str, tuple[Source, ...]]
    finding: Finding
    doubted: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        """The form in a call and in a question: {sources, finding, doubted}."""
        sources = {name: [source.json() for source in found] for name, found in self.sources.items()}
        return {"sources": sources, "finding": self.finding, "doubted": [*self.doubted]}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """The assessment in the form that `json` gives."""
        sources = {name: tuple(map(Source.of, found)) for name, found in stored["sources"].items()}
        return cls(sources, stored["finding"], tuple(stored["doubted"]))


Taken = Mapping[str, Collection[str]]
"""The refs of the results that each argument of a call takes values of."""
NONE: Final[Taken] = {}


class SeenText:
    """What entered a session until now: a person's words, the agent's prompt, and labelled values."""

    def __init__(self, said: Iterable[str], prompt: str, entered: Iterable[SourcedText]) -> None:
        self._said = forms_of("\n".join(said))
        self._prompt = forms_of(prompt)
        self._entered = [*entered]
        self._choices: dict[int, RecordChoice] = {}

    @property
    def untrusted(self) -> bool:
        """Whether a model read untrusted text."""
        return not all(each.trusted or each.hidden for each in self._entered)

    def assess(
        self, arguments: Mapping[str, Any], terms: "CallTerms", planned: bool = False, taken: Taken = NONE
    ) -> Assessment:
        """The sources of a call's arguments, and by the first rule that applies what is found of it.

        `planned`: a plan from before any untrusted text was read has the call.

        A call that a person's words ask for may carry untrusted text in arguments that are only text, as long as it
        holds no link, address or account number; and numbers, dates and times that are in nothing untrusted.

        Where no model read untrusted text, and in a planned call, only what it has `taken` by reference is in doubt.
        """
        sources, untrusted = self._sources(arguments, terms, taken), self.untrusted
        # 1. secret: an argument has a value of a secret result, and no rule allows it.
        if secrets := self._unallowed_secrets(arguments, terms, taken):
            shown = {name: tuple(dict.fromkeys((*secrets.get(name, ()), *found))) for name, found in sources.items()}
            return Assessment(shown, "secret", (*secrets,))
        # 2. values: an argument comes from untrusted text, and no rule allows it.
        judged = taken if planned or not untrusted else arguments
        theirs = [name for name in judged if self._is_doubted(name, arguments[name], sources[name], terms)]
        theirs = [name for name in theirs if not (planned and self._is_of_named_record(name, arguments[name]))]
        allowed = [name for name, value in arguments.items() if self._is_allowed(name, value, terms)]
        if doubted := tuple(name for name in theirs if name not in allowed):
            return Assessment(sources, "values", doubted)
        # 3. clean: nothing untrusted was read.
        if not untrusted:
            return Assessment(sources, "clean")
        # 4. plan: a plan from before that has the call.
        if planned:
            return Assessment(sources, "plan")
        # 5. sources: the person's words ask for the call, and its values are theirs or trusted.
        if not theirs and self._is_asked_for(arguments, sources, terms):
            return Assessment(sources, "sources")
        # 6. rule: a rule of the agent allows an argument. 7. unasked: no reason to make the call was found.
        return Assessment(sources, "rule" if allowed else "unasked")

    def _is_asked_for(
        self, arguments: Mapping[str, Any], sources: Mapping[str, Sequence[Source]], terms: "CallTerms"
    ) -> bool:
        """Whether the person's words ask for a call, and one of its values is trusted; a text, if they wrote it."""
        if not terms.is_named_in(self._said):
            return False
        for name, value in arguments.items():
            if name in terms.content and (sources[name] != (USER,) or not _is_distinctive(value)):
                continue
            if any(source.trusted for source in sources[name]):
                return True
        return not arguments

    def secrets(
        self, arguments: Mapping[str, Any], terms: "CallTerms", taken: Taken = NONE
    ) -> Mapping[str, tuple[Source, ...]]:
        """The arguments that have a value of a secret result of another tool, with these; not what the person wrote."""
        held = [each for each in self._entered if each.secret is not None and each.secret.name != terms.secret_tool]
        known = (self._said, self._prompt)
        found = {
            name: tuple(
                each.secret
                for each in held
                if each.secret and (each.ref in taken.get(name, ()) or discloses(value, each.value, known))
            )
            for name, value in (arguments.items() if held else ())
        }
        return {name: sources for name, sources in found.items() if sources}

    def _unallowed_secrets(
        self, arguments: Mapping[str, Any], terms: "CallTerms", taken: Taken
    ) -> dict[str, tuple[Source, ...]]:
        found = self.secrets(arguments, terms, taken).items()
        return {name: sources for name, sources in found if not terms.allows(name, arguments[name], secret=True)}

    def untrusted_sources(
        self, arguments: Mapping[str, Any], terms: "CallTerms", taken: Taken = NONE
    ) -> tuple[Source, ...]:
        """The untrusted sources of a call's arguments."""
        found = (source for each in self._sources(arguments, terms, taken).values() for source in each)
        return tuple(dict.fromkeys(source for source in found if not source.trusted))

    def _sources(self, arguments: Mapping[str, Any], terms: "CallTerms", taken: Taken) -> dict[str, tuple[Source, ...]]:
        """The sources of each argument; those of a value that was taken by reference are known, however short it is."""
        found = {
            name: (USER,)
            if self._chose(value, terms.choices.get(name, ()))
            else self.sources(name, value, terms.defaults)
            for name, value in arguments.items()
        }
        for name, refs in taken.items():
            theirs = [source for each in self._entered if each.ref in refs for source in each.sources]
            known = [of for source in found.get(name, ()) for of in (theirs if source.kind == "model" else [source])]
            found[name] = tuple(dict.fromkeys(known))
        return found

    def _chose(self, value: Any, choices: Sequence[Any]) -> bool:
        """Whether a person's words begin as this value does, and as no other one of a closed list: "read" is `r`."""
        words = self._said.vocabulary if value in choices else ()
        named = [each for each in choices if any(word.startswith(plain(str(each))) for word in words)]
        return named == [value]

    def _is_allowed(self, name: str, value: Any, terms: "CallTerms") -> bool:
        """Whether a rule lets untrusted text go into an argument."""
        if terms.allows(name, value):
            return True
        if not (isinstance(value, str) and terms.follows_links(name)):
            return False
        asked = terms.is_named_in(self._said)
        texts = (text for each in self._entered for text in each.texts if is_link_in(value, text.value))
        return any(asked or self._is_of_named(text) for text in islice(texts, RECORDS))

    def _is_doubted(self, name: str, value: Any, found: Sequence[Source], terms: "CallTerms") -> bool:
        texts = [leaf.value for leaf in leaves(value) if isinstance(leaf.value, str)]
        if name in terms.content:
            return any(map(self._carries_address, texts))
        if found == (USER,):
            return False
        taken = any(not source.trusted and source.kind != "model" for source in found)
        written = (leaf for leaf in texts if _is_wording(leaf) or self._is_read(leaf))
        return taken or any(self._model in self._of_leaf(name, leaf) for leaf in written)

    def _is_read(self, leaf: str) -> bool:
        """Whether untrusted text has a short word, such as a name of three letters."""
        word = plain(leaf)
        return word.isalpha() and any(word in each.forms.vocabulary for each in self._entered if not each.trusted)

    def _carries_address(self, text: str) -> bool:
        """Whether a text has a link, address or account number that neither the person nor anything trusted has."""
        new = identifiers(text) - self._said.identifiers - self._prompt.identifiers
        trusted = (each.forms.identifiers for each in self._entered if each.trusted) if new else ()
        return bool(new.difference(*trusted))

    def sources(self, name: str, value: Any, defaults: Mapping[str, Any] | None = None) -> tuple[Source, ...]:
        """What an argument's value came from, the sources of its parts together."""
        if defaults and name in defaults and defaults[name] == value:
            return (AGENT,)
        return tuple(dict.fromkeys(of for leaf in leaves(value, name) for of in self._of_leaf(leaf.name, leaf.value)))

    def _of_leaf(self, name: str, leaf: Any) -> Iterable[Source]:
        if _is_in(leaf, self._said, own_words=True):
            return (USER,)
        if _is_in(leaf, self._prompt):
            return (AGENT,)
        words = _words_everywhere(leaf)
        likely = (each for each in self._entered if each.value and words <= each.forms.vocabulary)
        holders = [each for each in likely if each.contains(name, leaf)]
        if holders:
            return self._of_holders(name, leaf, holders)
        if isinstance(leaf, str) and is_moment(plain(leaf)):
            return self._of_moment(leaf)
        return self._of_parts(leaf) if isinstance(leaf, str) else (self._model,)

    def _of_holders(self, name: str, leaf: Any, holders: Sequence[SourcedText]) -> Iterable[Source]:
        """The sources that hold the whole value; one that the person named a record of is theirs to choose from."""
        if any(each.trusted for each in holders):
            holders = [each for each in holders if each.trusted]
        chosen = any(self._is_chosen(each, each.fields(name, leaf)) for each in holders)
        chosen = chosen or (isinstance(leaf, str) and bool(identifiers(leaf)) and identifiers(leaf) <= self._meant)
        return [replace(source, trusted=source.trusted or chosen) for each in holders for source in each.sources]

    def _is_chosen(self, text: SourcedText, fields: Iterable[Leaf]) -> bool:
        """Whether the person's words choose a record of a result that has one of the fields."""
        return any(self._choice(text).has(field) for field in islice(fields, RECORDS))

    def _choice(self, text: SourcedText) -> RecordChoice:
        if id(text) not in self._choices:
            self._choices[id(text)] = text.choice(self._said, self._writers)
        return self._choices[id(text)]

    @cached_property
    def _writers(self) -> frozenset[str]:
        """The addresses of the people whose records the person asks for, by fields that nobody else writes."""
        known = (each.choice(self._said) for each in self._entered if each.own)
        return frozenset[str]().union(*(choice.addresses_named_as_writers for choice in known))

    @cached_property
    def _meant(self) -> frozenset[str]:
        """The addresses in the field that the person asks for of a record that they name; none if two records fit."""
        found = list[frozenset[str]]()
        for each in self._entered:
            choice, records = self._choice(each), each.records[:RECORDS]
            names = [
                name for name in dict.fromkeys(name for of in records for name in of) if choice.asks_for_field(name)
            ]
            for record in records if names else ():
                if choice.is_named_as_a_whole(record):
                    found += [identifiers(_text(record[name])) for name in names if name in record]
        return found[0] if len(set(found)) == 1 else frozenset()

    def _is_of_named_record(self, name: str, value: Any) -> bool:
        """Whether each part of a value is a field of a record that the person named, be it an address."""
        for part in leaves(value, name):
            named = (
                self._choice(each).names(field)
                for each in self._entered
                for field in islice(each.fields(part.name, part.value), RECORDS)
            )
            if not any(named):
                return False
        return True

    def _is_of_named(self, field: Leaf) -> bool:
        """Whether a field is one of a record that the person named."""
        if field.record is None:
            return False
        return is_named_in(field.record.values(), self._said)

    def _of_moment(self, leaf: str) -> Iterable[Source]:
        """The sources of a date with a time that no text has like this: those of the date, and of the time."""
        text = plain(leaf)
        day = [USER] if is_day_in(days(text), self._said) else [*self._with_day(text)]
        time = [USER] if clocks(text) <= self._said.clocks else [self._model]
        return [*(day or [self._model]), *time]

    def _with_day(self, moment: str) -> Iterator[Source]:
        for each in self._entered:
            if _has_day(each.forms.days, days(moment)):
                chosen = self._is_chosen(each, each.with_day(moment))
                yield from (replace(source, trusted=source.trusted or chosen) for source in each.sources)

    def _of_parts(self, leaf: str) -> Iterable[Source]:
        """The sources of the parts of a text: what shares an address or several words with it; the rest is written."""
        words, inside = words_of(plain(leaf)), identifiers(leaf)
        found = [USER] if self._said.shares(words) or inside & self._said.identifiers else []
        for each in self._entered:
            if each.forms.shares(words) or inside & each.forms.identifiers:
                found += each.sources
        return [*found, self._model]

    @property
    def _model(self) -> Source:
        return Source("model", trusted=not self.untrusted)


def _has_day(found: Iterable[Day], wanted: Collection[Day]) -> bool:
    return any(day.fits(other) for day in wanted for other in found)


def _words_everywhere(leaf: Any) -> frozenset[str]:
    """The words of a value that each text has which holds it; none of one that has other forms."""
    if not isinstance(leaf, str) or number_of(leaf) or identifiers(leaf) or is_moment(plain(leaf)):
        return frozenset()
    return frozenset(words_of(plain(leaf)))


def _is_wording(leaf: str) -> bool:
    """Whether a text is no number, date, time or short code; a long number may be an account."""
    text, number = plain(leaf), number_of(leaf)
    if number:
        return len(number) >= ACCOUNT_DIGITS and not number.startswith("-") and "." not in number
    is_code = letters_in(text) < DISTINCTIVE or text in LEAST_RIGHTS
    return not (is_moment(text) or is_code or clocks(text) == {text})


def _is_in(leaf: Any, text: TextForms, own_words: bool = False) -> bool:
    """Whether a text has the value; in a person's own words short ones count, and words that stand apart."""
    if isinstance(leaf, bool):
        return False
    if not isinstance(leaf, str):
        return number_of(leaf) in text.numbers and (own_words or _is_distinctive(leaf))
    if not leaf.strip():
        return True
    if inside := identifiers(leaf):
        whole = len(inside) == 1 and len(words_of(plain(leaf))) <= len(words_of(plain(next(iter(inside))))) + 1
        return whole and inside <= text.identifiers
    if is_joined(leaf):
        return (own_words or _is_distinctive(leaf)) and text.quotes(plain(leaf))
    if own_words:
        return _said_so(leaf, text)
    return _is_distinctive(leaf) and text.holds(plain(leaf))


def _said_so(leaf: str, text: TextForms) -> bool:
    """Whether a person said it: in these words, as a date and a time, as a number, or in these words apart."""
    normal = plain(leaf)
    if is_moment(normal):
        return is_day_in(days(normal), text) and clocks(normal) <= text.clocks
    if text.holds(normal) or ((number := number_of(leaf)) and number in text.numbers):
        return True
    told = [word for word in words_of(normal) if len(word) >= 3 and not word.isdigit()]
    return bool(told) and sum(map(len, told)) >= DISTINCTIVE and text.vocabulary.issuperset(told)


def _is_distinctive(leaf: Any) -> bool:
    """Whether a value that two texts have is no accident."""
    return _is_distinctive_text(leaf if isinstance(leaf, str) else number_of(leaf))


@kept_for_short
def _is_distinctive_text(leaf: str) -> bool:
    if number := number_of(leaf):
        return len(number.strip("-0.").replace(".", "")) >= DIGITS
    text = plain(leaf)
    return letters_in(text) >= DISTINCTIVE and clocks(text) != {text}


def _is_in_text(leaf: Any, text: TextForms) -> bool:
    if isinstance(leaf, str) and is_moment(plain(leaf)):
        wanted = plain(leaf)
        dated = any(day.fits(other) for day in days(wanted) for other in text.days)
        return dated and (text.holds(wanted) or clocks(wanted) <= text.clocks)
    if number := number_of(leaf):
        return number in text.numbers
    return _is_in(leaf, text)


def _same(field: str, inner: Any, name: str, leaf: Any) -> bool:
    """Whether a field of a result is the value; numbers and short texts are where the names resemble each other."""
    if isinstance(inner, bool) or isinstance(leaf, bool):
        return False
    alike = name.strip("_").endswith(field.strip("_")) or field.strip("_").endswith(name.strip("_"))
    if isinstance(inner, str) and isinstance(leaf, str):
        return plain(inner) == plain(leaf) and bool(leaf.strip()) and (alike or _is_distinctive(leaf))
    return alike and bool(number_of(leaf)) and number_of(leaf) == number_of(inner)


def _forms_of_field(value: Any) -> Iterable[str]:
    """The forms by which the fields of a result are looked up."""
    if isinstance(value, bool):
        return ()
    return {plain(value), number_of(value)} - {""} if isinstance(value, str) else {number_of(value)} - {""}


def _text(value: Any) -> str:
    """The texts and numbers of a value, a line each."""
    return value if isinstance(value, str) else "\n".join(str(leaf.value) for leaf in leaves(value))
