"""Rules for arguments that untrusted text may fill without a question, and the terms that describe a call."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, model_validator

from .value_forms import TextForms, plain

ANYTHING: Final = "*"
MOST: Final = 500
"""Characters of a value that a rule can match."""
_PART: Final = r"[\w.+-]*"
"""What a `*` inside of a value stands for: no sign that separates addresses, or parts of one."""
_HOST: Final = re.compile(r"[\w.-]+")


class AllowRule(BaseModel):
    """Where untrusted text may go without a question: into an argument of a tool, if its value is one of these."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tool: str
    """The tool's name."""
    argument: str
    """The argument's name."""
    values: tuple[str, ...] = ()
    """Values such as `*@example.org`: a `*` stands for letters, digits and `. _ + -`; alone, for any value."""
    hosts: tuple[str, ...] = ()
    """Hosts of links; `*.example.org` matches subdomains."""
    paths: tuple[str, ...] = ()
    """Folders that contain the path."""
    links: bool = False
    """Links that a result contains unchanged, in calls that the person asks for or of a record that they name."""
    secret: bool = False
    """Also allow values of secret results."""

    @model_validator(mode="after")
    def _allows_something(self) -> Self:
        if not (self.values or self.hosts or self.paths or self.links):
            raise ValueError('give values, hosts, paths or links; values = ["*"] is any value')
        return self

    def covers(self, value: Any) -> bool:
        """Whether the value of an argument, or each of a list, is one of these."""
        if ANYTHING in self.values:
            return True
        each = value if isinstance(value, list | tuple) else [value]
        return bool(each) and all(isinstance(part, str | int | float) and self._covers(str(part)) for part in each)

    def _covers(self, text: str) -> bool:
        return len(text) <= MOST and (
            any(_matches(pattern, text) for pattern in self.values)
            or any(_is_at(host, text) for host in self.hosts)
            or any(_is_in(folder, text) for folder in self.paths)
        )


def _matches(pattern: str, text: str) -> bool:
    parts = (re.escape(part) for part in pattern.lower().split("*"))
    return bool(re.fullmatch(_PART.join(parts), text.lower()))  # casefold() takes straße.de for strasse.de


def _is_at(host: str, text: str) -> bool:
    """Whether a link leads to the host; one that programs read in different ways leads nowhere."""
    if "\\" in text or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
    except ValueError:
        return False
    found = (parts.hostname or "").rstrip(".")
    if parts.scheme not in ("", "http", "https") or "@" in parts.netloc or not _HOST.fullmatch(found):
        return False
    wanted = host.lower()
    return found.endswith(wanted[1:]) if wanted.startswith("*.") else found == wanted


def _is_in(folder: str, text: str) -> bool:
    """Whether a path is in the folder, wherever links on the disk lead."""
    path, inside = PurePosixPath(text), PurePosixPath(folder)
    is_plain = "\\" not in text and text.isprintable() and ".." not in PurePosixPath(unquote(text)).parts
    return is_plain and path != inside and path.is_relative_to(inside)


# What a tool and its agent say of a call: the words that ask for it, its arguments, and the rules for these.

STEM: Final = 4
"""Letters of a verb that may have another ending."""


_ASKING: Final[Mapping[str, Sequence[str]]] = {
    "send": (
        *("write", "reply", "^mail", "^email", "^e-mail", "^let … know", "^tell …", "^drop … a line"),
        *("发送", "发一封", "发邮件", "写信", "写一封", "回复"),
    ),
    "reply": ("^answer", "respond", "回复", "答复"),
    "forward": ("转发",),
    "delete": ("remove", "erase", "^get rid", "删除", "删掉", "删了"),
    "archive": ("归档", "存档"),
    "mark": ("标记", "标为"),
    "move": ("reschedule", "postpone", "^put", "^push", "^shift", "移动", "移到", "改到", "推迟", "提前"),
    "cancel": ("^call off", "^drop", "取消"),
    "create": ("^add", "^schedule", "^set up", "^put", "创建", "新建", "添加", "安排"),
    "add": ("^put", "添加", "加入"),
    "invite": ("^add", "邀请"),
    "share": ("^give", "共享", "分享"),
    "rename": ("^call", "重命名", "改名", "命名"),
    "pay": ("^settle", "支付", "付款", "付清"),
    "transfer": ("^send", "转账", "汇款"),
    "book": ("reserve", "预订", "预约"),
    "update": ("change", "adjust", "修改", "更新"),
}
"""Words of English and Chinese that ask for what a verb of a tool's name says.

After `^` they do so where a clause begins; `…` is whoever is not the agent's own user.
"""
_CLAUSE: Final = r"(?:^|[.!?,;:，。；：] ?|\b(?:please|and|then|to|just) )"


def asking_words(verb: str) -> Sequence[str]:
    """The verb, and other words that ask for the same."""
    return (verb, *_ASKING.get(verb, ()))


@dataclass(frozen=True)
class CallTerms:
    """What its tool and agent say of a call: the words that ask for it, the arguments that are only text, and rules.

    `secret_tool` is the tool if its results are secret: what it gave may go into its own calls. `allowed` are the rules
    for arguments of the tool, `choices` the values of those that have a closed list of them.
    """

    words: Collection[str] = ()
    content: Collection[str] = ()
    defaults: Mapping[str, Any] | None = None
    secret_tool: str = ""
    allowed: Sequence[AllowRule] = ()
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def allows(self, name: str, value: Any, *, secret: bool = False) -> bool:
        """Whether a rule lets untrusted, or secret, text go into an argument with this value."""
        rules = (rule for rule in self.allowed if rule.argument == name and (rule.secret or not secret))
        return any(rule.covers(value) for rule in rules)

    def follows_links(self, name: str) -> bool:
        """Whether a rule lets links go into an argument that a result has."""
        return any(rule.links for rule in self.allowed if rule.argument == name)

    def is_named_in(self, words: TextForms) -> bool:
        """Whether a person's words ask for such a call."""
        return any(_asks(word, words) for word in self.words)


_ENDING: Final = r"(?:e|e?s|[a-z]?e?d|[a-z]?ing|a?tions?|ions?|ments?)?"
"""Endings of a verb, so that "share" is not in "shark"."""


def _asks(word: str, said: TextForms) -> bool:
    """Whether a word occurs, also with another ending; a Chinese one, or several, as it is."""
    if word.startswith("^"):
        phrase = re.escape(word[1:]).replace(r"\ …", r" (?!me\b|us\b)\S[^.!?;]{0,60}?")
        return bool(re.search(rf"{_CLAUSE}{phrase}(?!\w)", said.text))
    asked = plain(word)
    if not asked.isascii() or " " in asked:
        return asked in said.text
    stem = asked.rstrip("e") if len(asked) > STEM else asked
    forms = re.compile(re.escape(stem) + _ENDING)
    return any(own == asked or (len(stem) >= STEM and forms.fullmatch(own)) for own in said.vocabulary)
