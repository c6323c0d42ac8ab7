"""Which records of a result a person's words choose: by their name, their order, or all of a kind."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from .value_forms import (
    SHORT,
    Leaf,
    TextForms,
    has_chinese,
    identifiers,
    is_joined,
    is_moment,
    letters_in,
    plain,
    words_of,
)

Record = Mapping[str, Any]

NAMED: Final = 4
"""Letters of a field by which a person names the record that it is in, if they say all of it."""
PARTLY_NAMED: Final = 6
"""Letters of it otherwise."""
NAME: Final = 3
"""Letters of a word, such as a first name, by which a person names a record in a field that nobody else writes."""
FIELD_WORDS: Final = 12
"""Words of a field that is a name; a longer one is a text."""
RECORDS: Final = 1_000
"""Records among which a person may have chosen one."""

_NEWEST: Final = r"\b(?:newest|latest|most recent|last) |最新|最近|最后"
_ORDERS: Final = (
    (is_moment, True, re.compile(_NEWEST)),
    (is_moment, False, re.compile(r"\b(?:oldest|earliest) |最旧|最早|最老")),
    (None, True, re.compile(r"\b(?:largest|biggest) |最大")),
    (None, False, re.compile(r"\bsmallest |最小")),
)
"""What a field is, a moment or else a number, whether the most of it is meant, and the words that say so."""
_REPLY: Final = re.compile(rf"(?:\b(?:reply|answer|respond)(?: to)?(?: (?:the|my))? |回复|答复)(?:{_NEWEST})")
_ALL: Final = re.compile(r"\b(?:all|every|each) |所有|全部")
_COMMON: Final = frozenset(
    ("about", "from", "have", "into", "mail", "please", "that", "them", "there", "they", "this", "will", "with", "your")
)
"""Words that name no record in a text of others."""
_NEAR: Final = 4
"""Words after an order, or after "all", of which one says what the records are."""
CHINESE_NEAR: Final = 8
_WORD: Final = re.compile(r"[^\W_]+")
_KINDS: Final = (
    ("mail", "message", "inbox", "邮件"),
    ("file", "document", "folder", "文件"),
    ("event", "appointment", "meeting", "calendar", "日程", "会议"),
    ("invoice", "bill", "发票", "账单"),
)
"""Words for the same kind of record; one of them is in the name of the tool that returns them."""
_STATES: Final = {"unread": "未读", "open": "未付", "unpaid": "未付", "overdue": "逾期", "draft": "草稿"}


@dataclass(frozen=True)
class _Told:
    """The person's words in a record's names: in those that nobody else writes, and in the others."""

    own: frozenset[str]
    others: frozenset[str]
    is_quoted: bool
    """Whether the name of a file is in the words as it is."""

    def is_rivalled_by(self, other: "_Told") -> bool:
        """Whether another record may be meant as well.

        Of names that nobody else writes, the one with more of the words counts; of others only the name of a file as it
        is, since whoever writes them may have put more of the words into them.
        """
        if self.own & other.own and not other.own < self.own:
            return True
        return bool(self.others & other.others) and (other.is_quoted or not self.is_quoted)


@dataclass(frozen=True)
class RecordChoice:
    """The records of one result, and the words of a person who may have chosen among them.

    `own` are the fields that nobody else writes, `origin` names the tool.
    """

    records: Sequence[Record]
    own: Collection[str]
    said: TextForms
    origin: str = ""

    def has(self, field: Leaf) -> bool:
        """Whether a field is one of a record that the person chose.

        An address, link or account number that others wrote is not chosen by a name: they wrote the name, too. A person
        who asks for a reply to the newest record means the address in it, whosoever it is.
        """
        record = field.record
        if record is None or len(self.records) > RECORDS:
            return False
        is_own = field.name in self.own
        if not is_own and identifiers(str(field.value)):
            return bool(_REPLY.search(self.said.text)) and self._is_by_order(record)
        chosen = self._is_by_order(record) or self._is_one_of_all(record)
        return chosen or self.names(field)

    def names(self, field: Leaf) -> bool:
        """Whether the person's words name the field's record, and no other one with another value as well."""
        name, record, is_own = field.name, field.record, field.name in self.own
        if record is None or len(self.records) > RECORDS:
            return False
        if not (is_named_in(record.values(), self.said) or self._is_partly_named(record, is_own)):
            return False
        told = self._told[id(record)]
        return not any(
            told.is_rivalled_by(self._told[id(other)]) and other.get(name) != record.get(name) for other in self.records
        )

    @cached_property
    def _told(self) -> Mapping[int, "_Told"]:
        """What the person's words say of each record."""
        return {
            id(record): _Told(self._own_words(record), self._others_words(record), self._is_quoted(record))
            for record in self.records
        }

    def _is_quoted(self, record: Record) -> bool:
        """Whether the person's words have the name of a file as it is."""
        names = (plain(path_end(value)) for value in record.values() if isinstance(value, str) and len(value) <= SHORT)
        return any(is_joined(name) and self.said.quotes(name) for name in names)

    def _is_partly_named(self, record: Record, is_own: bool) -> bool:
        if is_own and any(self._words(record[name], NAME) for name in self.own if name in record):
            return True
        if self._whole(record):
            return True
        found = (self._words(value, NAMED) - _COMMON for value in record.values())
        return any(sum(map(letters_in, words)) >= PARTLY_NAMED for words in found)

    def _own_words(self, record: Record) -> frozenset[str]:
        """The person's words in the names that nobody else writes."""
        found = (self._words(record[name], NAME) for name in self.own if name in record)
        return frozenset[str]().union(*found, self._whole(record))

    def _others_words(self, record: Record) -> frozenset[str]:
        """The person's words in other names."""
        found = (self._words(value, NAMED) for name, value in record.items() if name not in self.own)
        return frozenset[str]().union(*found) - _COMMON

    def _whole(self, record: Record) -> frozenset[str]:
        """The fields that nobody else writes and that the person's words have as a whole, such as a number."""
        values = (plain(str(record[name])) for name in self.own if isinstance(record.get(name), str))
        return frozenset(value for value in values if len(value) >= NAMED and self.said.quotes(value))

    def _words(self, value: Any, least: int) -> frozenset[str]:
        if not isinstance(value, str):
            return frozenset()
        words = words_of(plain(last_part(value)))
        if len(words) > FIELD_WORDS:
            return frozenset()
        found = {word for word in words if len(word) >= least and word in self.said.vocabulary}
        if has_chinese(value) and self.said.holds(plain(value)):
            found.add(plain(value))
        return frozenset(found)

    def _is_by_order(self, record: Record) -> bool:
        """Whether it is the newest, oldest, largest or smallest, by the only such field that nobody else writes."""
        return any(record is first for first in self._firsts)

    @cached_property
    def _firsts(self) -> list[Record]:
        """The records that are meant by their order."""
        found = []
        for is_kind, is_most, words in _ORDERS:
            names = [name for name in self.own if self._is_ordered_by(name, is_kind)] if self._means(words) else []
            if len(names) == 1:
                ordered = [each[names[0]] for each in self.records]
                best = max(ordered) if is_most else min(ordered)
                if ordered.count(best) == 1:
                    found.append(self.records[ordered.index(best)])
        return found

    def _is_ordered_by(self, name: str, is_kind: Any) -> bool:
        values = [record.get(name) for record in self.records]
        if is_kind:
            return all(isinstance(value, str) and is_kind(plain(value)) for value in values)
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

    def _means(self, words: re.Pattern[str]) -> bool:
        """Whether the words are said of this tool's records: "the newest mail" is no file."""
        tool = plain(self.origin)
        for found in words.finditer(self.said.text):
            following = self.said.text[found.end() :]
            near = {word.removesuffix("s") for word in _WORD.findall(following)[:_NEAR]}
            near |= {name for kind in _KINDS for name in kind if has_chinese(name) and name in following[:CHINESE_NEAR]}
            near |= {other for kind in _KINDS if near.intersection(kind) for other in kind}
            if any(len(word) >= NAMED and word in tool for word in near):
                return True
        return False

    def _is_one_of_all(self, record: Record) -> bool:
        """Whether the person asked for all records of a kind, which is a field of this one."""
        if not self._are_all_meant:
            return False
        kinds = ((name, value) for name, value in record.items() if name in self.own or not self.own)
        return any(self._is_kind(name, value) for name, value in kinds)

    @cached_property
    def _are_all_meant(self) -> bool:
        return self._means(_ALL)

    def _is_kind(self, name: str, value: Any) -> bool:
        state = plain(name if value is True else str(value))
        if state in _STATES and _STATES[state] in self.said.text:
            return True
        if value is True:
            return state in self.said.vocabulary
        return isinstance(value, str) and is_named_in([value], self.said)


def records_of(found: Iterable[Leaf]) -> list[Record]:
    """The records that fields are in, each once."""
    return [*{id(field.record): field.record for field in found if field.record is not None}.values()]


def is_named_in(values: Iterable[Any], said: TextForms) -> bool:
    """Whether a person's words name a short text among the values: all of its words, or the longer half.

    Of a path its last part counts, too, and of a file's name not the ending.
    """
    texts = (value for value in values if isinstance(value, str))
    for name in (form for text in texts for form in dict.fromkeys((text, last_part(text)))):
        told = [word for word in words_of(plain(name.rpartition(".")[0] or name)) if len(word) >= NAME]
        named = sum(len(word) for word in told if word in said.vocabulary)
        whole = sum(map(len, told))
        enough = named >= NAMED if named == whole else named >= PARTLY_NAMED and 2 * named >= whole
        if enough and len(told) <= FIELD_WORDS:
            return True
    return False


def path_end(text: str) -> str:
    """The last part of a path; any other text as it is."""
    is_path = "/" in text and " " not in text.partition("/")[0] and "://" not in text
    return text.rstrip("/").rpartition("/")[2] if is_path else text


def last_part(text: str) -> str:
    """The last part of a path as words; any other text as it is, with spaces for `_`."""
    return path_end(text).replace("_", " ")
