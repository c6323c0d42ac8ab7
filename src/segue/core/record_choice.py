"""Which records of a result a person's words choose: by their name, their order, or all of a kind."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from .value_forms import (
    MONTH_NAMES,
    MONTHS,
    SHORT,
    WEEKDAYS,
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
"""Letters of the longer half of it otherwise."""
IN_PART: Final = 5
"""Letters of words in a field by which a person names the record, if no other one has them."""
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
_DATES: Final = frozenset((*MONTHS, *MONTH_NAMES, *WEEKDAYS))
_COMMON: Final = _DATES.union(
    re.findall(
        r"[a-z]+",
        """
        about after again all and answer any archive are before but can cancel com could create delete did email
        event every file first folder for forward from get had has have her here him his how into invite its
        know last let like mail make message more move need net new next not now old only open org other our out
        over please put remove rename reply say send share she should some tell than thank thanks that the them
        then there these they this those today tomorrow too use via want was when where which who will with
        would write yes you your
        """,
    )
)
"""Words that name no record in a text of others."""
_LEGAL_FORMS: Final = frozenset(("corp", "gmbh", "inc", "limited", "llc", "ltd", "mbh", "plc", "pte", "sarl", "srl"))
_CHINESE_FORM: Final = re.compile(r"(?:股份|责任)?有限(?:责任)?公司$|集团$")
_WRITERS: Final = ("from", "sender", "author", "organizer")
"""Fields with the one who wrote a record; the address in it is that of its account, not a name that they chose."""
_NOT_OF_WRITERS: Final = ("to", "cc", "bcc", "recipients", "attendees", "participants", "body", "text", "content")
"""Fields with addresses of others."""
_ATTENDEES: Final = ("attendees", "participants", "guests", "invitees")
"""Names of the same field."""
_GUESTS: Final = "|".join(_ATTENDEES)
_PEOPLE: Final = re.compile(
    rf"\bsame (?:{_GUESTS})\b|\b(?:{_GUESTS}) (?:as|of) |(?:相同|同样)的(?:参加者|参会者|与会者|参与者)"
)
_NEAR: Final = 4
"""Words after an order, or after "all", of which one says what the records are."""
CHINESE_NEAR: Final = 8
_ENDING: Final = re.compile(r"\.[a-zA-Z][a-zA-Z0-9]{1,4}$")
"""That of a file's name."""
_WORD: Final = re.compile(r"[^\W_]+")
_KINDS: Final = (
    ("mail", "message", "inbox", "邮件"),
    ("file", "document", "folder", "文件"),
    ("event", "appointment", "meeting", "calendar", "日程", "会议"),
    ("invoice", "bill", "发票", "账单"),
)
"""Words for the same kind of record; one of them is in the name of the tool that returns them."""
_CHINESE_KINDS: Final = frozenset(name for kind in _KINDS for name in kind if has_chinese(name))
_CHINESE_RUN: Final = re.compile(r"[\u3400-\u9fff]{2,}")
"""A name or phrase of Chinese characters."""
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

    `own` are the fields that nobody else writes, `origin` names the tool. `writers` are the addresses of the people
    whose records the person asks for, such as "Ann's mail", from fields that nobody else writes.
    """

    records: Sequence[Record]
    own: Collection[str]
    said: TextForms
    origin: str = ""
    writers: Collection[str] = ()

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
        if self._is_by_order(record) or self._is_one_of_all(record) or self._is_of_writer(record):
            return True
        return self.names(field)

    def names(self, field: Leaf) -> bool:
        """Whether the person's words name the field's record, and no other one with another value as well."""
        name, record, is_own = field.name, field.record, field.name in self.own
        if record is None or len(self.records) > RECORDS or any(map(_leads_up, record.values())):
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
        most = max((sum(map(letters_in, words)) for words in found), default=0)
        is_enough = most >= IN_PART or (most >= NAMED and any(map(has_chinese, self._told[id(record)].others)))
        return most >= PARTLY_NAMED or (is_enough and self._is_alone(record))

    def _is_alone(self, record: Record) -> bool:
        """Whether no other record has a name with the same words of the person."""
        told = self._told[id(record)].others
        return sum(bool(told & other.others) for other in self._told.values()) == 1

    def _own_words(self, record: Record) -> frozenset[str]:
        """The person's words in the names that nobody else writes."""
        found = (self._words(record[name], NAME) for name in self.own if name in record)
        return frozenset[str]().union(*found, self._whole(record))

    def _others_words(self, record: Record) -> frozenset[str]:
        """The person's words in other names."""
        found = (self._words(value, NAME) for name, value in record.items() if name not in self.own)
        return frozenset[str]().union(*found) - _COMMON

    def _whole(self, record: Record) -> frozenset[str]:
        """The fields that nobody else writes and that the person's words have as a whole, such as a number."""
        values = (plain(str(record[name])) for name in self.own if isinstance(record.get(name), str))
        return frozenset(value for value in values if len(value) >= NAMED and self.said.quotes(value))

    def _words(self, value: Any, least: int) -> frozenset[str]:
        if not isinstance(value, str) or is_moment(plain(value)):
            return frozenset()
        words = words_of(plain(_ENDING.sub("", last_part(value))))
        if len(words) > FIELD_WORDS:
            return frozenset()
        words += sorted(_folders_of(value) - self._folders_of_all)
        found = {word for word in words if len(word) >= least and word in self.said.vocabulary}
        names = (_CHINESE_FORM.sub("", run) for run in _CHINESE_RUN.findall(plain(value)))
        found |= {name for name in names if name in self.said.text and name not in _CHINESE_KINDS}
        return frozenset(found)

    @cached_property
    def _folders_of_all(self) -> frozenset[str]:
        """The words of the folders that all paths are in: these tell none of them from another."""
        texts = (value for record in self.records for value in record.values() if isinstance(value, str))
        found = [_folders_of(value) for value in texts if path_end(value) != value]
        return frozenset.intersection(*found) if len(found) > 1 else frozenset()

    @cached_property
    def addresses_named_as_writers(self) -> frozenset[str]:
        """The addresses, in fields that nobody else writes, of the people whose records the person asks for."""
        found = frozenset[str]()
        for record in self.records[:RECORDS]:
            if not any(map(self._is_writer, self._told[id(record)].own)):
                continue
            for name in self.own:
                value = record.get(name)
                if isinstance(value, str) and self.names(Leaf(name, value, record)):
                    found |= identifiers(value)
        return found

    def _is_writer(self, name: str) -> bool:
        """Whether the person asks for what somebody wrote: "Ann's mail", "the mail from Ann"."""
        word = re.escape(name)
        asked = (
            rf"\b(?:from|by) {word}\b|\b{word}(?: [^\W_]+)?['’]s |来自 ?{word}|{word} ?(?:发来)?的 ?(?:邮件|信|文件)"
        )
        return bool(re.search(asked, self.said.text))

    def _is_of_writer(self, record: Record) -> bool:
        """Whether it is the only record of somebody whose record the person asks for."""
        theirs = [each for each in self.records if _writer_of(each) in self.writers] if self.writers else []
        return len(theirs) == 1 and theirs[0] is record

    def asks_for_field(self, name: str) -> bool:
        """Whether the field is that of the people whom the person asks for: "the same attendees as …"."""
        return name in _ATTENDEES and bool(_PEOPLE.search(self.said.text))

    def is_named_as_a_whole(self, record: Record) -> bool:
        """Whether the person says all of a record's name."""
        names = (plain(value) for value in record.values() if isinstance(value, str) and len(value) <= SHORT)
        return any(letters_in(each) >= PARTLY_NAMED and self.said.holds(each) for each in names if "@" not in each)

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
                ordered = [each[names[0]] for each in self._records_with_own]
                best = max(ordered) if is_most else min(ordered)
                if ordered.count(best) == 1:
                    found.append(self._records_with_own[ordered.index(best)])
        return found

    def _is_ordered_by(self, name: str, is_kind: Any) -> bool:
        values = [record.get(name) for record in self._records_with_own]
        if is_kind:
            return all(isinstance(value, str) and is_kind(plain(value)) for value in values)
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

    @cached_property
    def _records_with_own(self) -> list[Record]:
        """Those with a field that nobody else writes; the others are parts of them."""
        return [record for record in self.records if any(name in record for name in self.own)]

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

    Of a path its last part counts, too; of a file's name not the ending, and of a company's not its legal form.
    """
    texts = (value for value in values if isinstance(value, str))
    for name in (form for text in texts for form in dict.fromkeys((text, last_part(text)))):
        words = dict.fromkeys(words_of(plain(name.rpartition(".")[0] or name)))
        told = [word for word in words if len(word) >= NAME and word not in _LEGAL_FORMS and not _is_of_date(word)]
        named = sum(len(word) for word in told if word in said.vocabulary)
        whole = sum(map(len, told))
        enough = named >= NAMED if named == whole else named >= PARTLY_NAMED and 2 * named >= whole
        if enough and len(told) <= FIELD_WORDS:
            return True
    return False


def _is_of_date(word: str) -> bool:
    """Whether a word is a year, or the name of a month or a day."""
    return word in _DATES or (word.isdigit() and len(word) <= NAMED)


def path_end(text: str) -> str:
    """The last part of a path; any other text as it is."""
    is_path = "/" in text and " " not in text.partition("/")[0] and "://" not in text
    return text.rstrip("/").rpartition("/")[2] if is_path else text


def last_part(text: str) -> str:
    """The last part of a path as words; any other text as it is, with spaces for `_`."""
    return path_end(text).replace("_", " ")


def _folders_of(text: str) -> frozenset[str]:
    """The words of the folders in a path."""
    return frozenset(words_of(plain(text.removesuffix(path_end(text)))))


def _leads_up(value: Any) -> bool:
    """Whether a path leads out of a folder that it names."""
    return isinstance(value, str) and ".." in value.split("/")


def _writer_of(record: Record) -> str:
    """The address of the one who wrote a record; empty where it may be that of another one."""
    found = set[str]()
    for name, value in record.items():
        if isinstance(value, str) and name not in _NOT_OF_WRITERS and "@" in (text := plain(value)):
            found |= identifiers(value) if text.count("@") == 1 else {"", text}
    fields = (identifiers(str(record.get(name, ""))) for name in _WRITERS)
    return next(iter(found)) if len(found) == 1 and any(found == each for each in fields) else ""
