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
        *("write", "reply", "^mail", "^email", "^e-mail", "^let … know", "^tell …", "^drop … a line", "^drop … a note"),
        *(
            "^answer",
            "^get back to",
            "^reach out to",
            "^^ask …",
            "^^thank …",
            "^^inform …",
            "^^notify …",
            "^^message …",
        ),
        *("^^text …", "^^remind …", "^^congratulate …", "^^contact …", "^^confirm to …", "^^apologize to …"),
        *("发送", "发一封", "发封", "发邮件", "发个邮件", "发信", "发给", "写信", "写一封", "写封", "写个邮件"),
        *("回复", "回信", "答复", "通知", "转告", "告诉", "告知", "联系", "提醒", "问问", "问一下"),
    ),
    "reply": ("^answer", "respond", "^write back", "^get back to", "回复", "答复", "回信"),
    "forward": ("^send", "^share", "^pass on", "^pass … on", "转发", "转给", "发给"),
    "delete": (
        *("remove", "erase", "^get rid", "^^bin", "^^trash", "^^discard", "^^throw away", "^^throw out", "^^wipe"),
        *("删除", "删掉", "删了", "删去", "清除", "丢掉", "扔掉", "去掉"),
    ),
    "remove": ("delete", "erase", "^^take … off", "删除", "删掉", "移除", "去掉"),
    "archive": ("^^file away", "^^file … away", "^^put away", "归档", "存档"),
    "mark": ("^^flag", "标记", "标为", "标成", "设为"),
    "move": (
        *(
            "reschedule",
            "postpone",
            "^put",
            "^push",
            "^shift",
            "^change",
            "^^delay",
            "^^bring forward",
            "^^pull",
            "^^sort",
        ),
        *("移动", "移到", "改到", "推迟", "提前", "改期", "延后", "延期", "挪到", "调到", "放到", "放进"),
    ),
    "reschedule": (
        *("postpone", "^move", "^push", "^shift", "^change", "^^delay", "^^bring forward"),
        *("改到", "推迟", "提前", "改期", "延后", "延期", "挪到", "调到"),
    ),
    "cancel": ("delete", "remove", "^call off", "^drop", "^^skip", "取消", "删除", "删掉"),
    "create": (
        *("^add", "^schedule", "^set up", "^put", "^enter", "^^arrange", "^^book", "^^plan", "^^new", "^^block"),
        *("创建", "新建", "添加", "安排", "预约", "加一个", "建一个", "约一个", "加到"),
    ),
    "schedule": ("^set up", "^put", "^^plan", "^^arrange", "^^book", "安排", "预约"),
    "add": ("^put", "^^include", "添加", "加入", "加上"),
    "invite": ("^add", "^^ask … to join", "^^ask … to come", "^^include", "邀请", "加上", "叫上"),
    "share": ("^give", "^send", "^^let … see", "^^let … read", "^^let … edit", "^^show …", "共享", "分享", "发给"),
    "rename": ("^call", "^name", "^^give … name", "重命名", "改名", "命名", "更名", "改叫", "改成"),
    "pay": ("^settle", "支付", "付款", "付清", "结清", "付掉"),
    "transfer": ("^send", "转账", "汇款", "转给"),
    "book": ("reserve", "预订", "预约", "预定"),
    "reserve": ("^book", "预订", "预约", "预定"),
    "update": ("change", "adjust", "修改", "更新"),
    "post": ("publish", "^write", "发布"),
}
"""Words of English and Chinese that ask for what a verb of a tool's name says.

After `^` they do so where a clause begins, after `^^` only where a sentence does, or "please" or "and" stands before
them; `…` is whoever is not the agent's own user.
"""
_SENTENCE: Final = r"(?:^|[.!?,;:，。；：] ?|\b(?:please|and|then|just|(?:can|could|will|would) you) )"
_CLAUSE: Final = rf"(?:{_SENTENCE}|\bto )"


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
    """Whether a word occurs, also with another ending; a Chinese one, or several, as it is and not "告诉我"."""
    if word.startswith("^"):
        begins = _SENTENCE if word.startswith("^^") else _CLAUSE
        phrase = re.escape(word.lstrip("^")).replace(r"\ …", r" (?!me\b|us\b)\S[^.!?;]{0,60}?")
        return bool(re.search(rf"{begins}{phrase}(?!\w)", said.text))
    asked = plain(word)
    if not asked.isascii() or " " in asked:
        return bool(re.search(rf"{re.escape(asked)}(?!我(?!的))", said.text))
    stem = asked.rstrip("e") if len(asked) > STEM else asked
    forms = re.compile(re.escape(stem) + _ENDING)
    return any(own == asked or (len(stem) >= STEM and forms.fullmatch(own)) for own in said.vocabulary)
