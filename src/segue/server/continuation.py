"""How a request is recognised: the conversation that it continues, its earlier attempts, and forks."""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from ..core.errors import InvalidMessage, TaskError, TaskUnfinished, ThreadBusy, ThreadExists
from ..core.events import ApprovalRequested, QuestionAsked, Resumed
from ..core.message import kind_of, media_type_of
from ..core.records import Json, KnownRequest, RequestKey, Task
from ..core.task import ACTIVE, ENDED, TaskStatus
from ..prompts.catalogue import language_of
from ..prompts.protocols import asks_to_continue, go_on_request, left_out_notice, reply_notice
from ..prompts.verdicts import own_words
from ..runtime.reply import BREAK, project
from .requests import ChatMessage, File, refuse_files
from .service import Begun, Service
from .settings import CLIENT_SECONDS
from .tenants import Tenant

_FORK = "fork/"
"""Begins the key of the fork that a request begins its task in; no other begins so."""
_NEW = ("user", "tool")
"""Whose messages a client adds to a conversation."""


class ClientMessage(NamedTuple):
    """A message as a client sends it.

    `references` are the digests of a user's files, the ids of an assistant's calls, or the id of the call that a
    tool's message has the result of.
    """

    role: str
    text: str
    references: tuple[str, ...]


Messages = tuple[ClientMessage, ...]


@dataclass(frozen=True)
class Conversation:
    """What a client sends each time: everything that was said, and the new message last."""

    name: str
    """The session that the client names; empty if none."""
    parties: Sequence[str]
    """Who talks with whom: the person of the key, the user, the agent and the mode."""
    said: Messages
    instructions: Sequence[str]
    """The texts of its system messages."""
    files: Mapping[str, File] = field(default_factory=dict)
    """By digest."""
    note: str = ""
    """What the agent is told before the new message."""
    is_chat: bool = False
    """Whether the name is that of one chat, so that another first message is an edit of the first one."""
    cache_key: str = ""
    """What the client calls it to have its prompts cached; chats may share that."""

    @classmethod
    def of(
        cls,
        messages: Sequence[ChatMessage],
        name: str = "",
        parties: Sequence[str] = (),
        *,
        is_chat: bool = False,
        cache_key: str = "",
    ) -> Self:
        """The conversation of a request's messages."""
        spoken = [(each, _by_digest(each.files)) for each in messages if each.role in (*_NEW, "assistant")]
        if not spoken:
            raise InvalidMessage("The last message must come from the user or from a tool.")
        refuse_files([file for each, files in spoken if each.role == "tool" for file in files.values()])
        said = tuple(ClientMessage(each.role, each.text, (*_calls_of(each), *files)) for each, files in spoken)
        system = [each.text for each in messages if each.role in ("system", "developer")]
        files = {digest: file for _, found in spoken for digest, file in found.items()}
        return cls(name, parties, said, system, files, is_chat=is_chat, cache_key=cache_key)

    @property
    def message(self) -> str:
        """What is new: the user's messages after the last answer, or that it is to go on."""
        if self.is_continued:
            return go_on_request(language_of(self.said[-1].text))
        return self.note + "\n\n".join(said.text for said in self._new if said.role == "user")

    def message_without(self, stored: str) -> str:
        """The new message without what its client put behind the one that its task has, which is `stored` with that.

        A client such as aider puts its instructions behind the new message, and leaves them out the next time.
        """
        message, own = self.message.rstrip(), own_words(stored).strip()
        asked = [said.text.strip() for said in self.earlier if said.role == "user"]
        begin = next((text for text in reversed(asked) if _is_related(stored, text)), "")
        added = own.removeprefix(f"{begin}\n\n")
        is_left_out = begin and added != own and not any(added in text for text in asked)
        return message.removesuffix(f"\n\n{added}").rstrip() if is_left_out else message

    @property
    def is_continued(self) -> bool:
        """Whether the last message is the answer, which its client wants to go on."""
        return self.said[-1].role == "assistant"

    @property
    def results(self) -> dict[str, str]:
        """The results that are new, by the ids of their calls."""
        return {said.references[0]: said.text for said in self._new if said.role == "tool"}

    @property
    def _new(self) -> Messages:
        return self.said[len(self.earlier) :]

    @property
    def new_files(self) -> list[File]:
        """The files of the new message."""
        digests = [digest for said in self._new if said.role == "user" for digest in said.references]
        return [self.files[digest] for digest in digests]

    def readable(self, accepted: Collection[str]) -> Self:
        """The conversation without the files of earlier messages that a model does not read: a note names them."""
        kept = {digest for digest in self.said[-1].references if self.said[-1].role == "user"}
        left_out = {digest: file for digest, file in self.files.items() if digest not in kept}
        left_out = {digest: file for digest, file in left_out.items() if _kind_of(file) not in ("text", *accepted)}
        if not left_out:
            return self
        said = tuple(
            each._replace(references=tuple(known for known in each.references if known not in left_out))
            for each in self.said
        )
        files = {digest: file for digest, file in self.files.items() if digest not in left_out}
        names = [file[0] if isinstance(file, tuple) else file.url for file in left_out.values()]
        language = language_of(self.said[-1].text)
        note = "".join(f"{left_out_notice(name, language)}\n\n" for name in names)
        return replace(self, said=said, files=files, note=note)

    @property
    def earlier(self) -> Messages:
        """Everything before the new message."""
        return _without_last(self.said, *_NEW)

    @property
    def asked_before(self) -> Messages:
        """What the request before this one held: everything before the last answer."""
        return _without_last(self.earlier, "assistant")

    @property
    def last_answer(self) -> str:
        """The answer before the new message, as the client shows it."""
        return "\n\n".join(said.text for said in self.earlier[len(self.asked_before) :])

    def shows(self, question: str) -> bool:
        """Whether the answer before the new message ends with a question as it was sent, whatever its white space."""
        return plain(self.last_answer).endswith(plain(question))

    def lacks_rest(self, answer: str) -> bool:
        """Whether the answer before the new message is only the beginning of this one."""
        shown, whole = plain(self.last_answer), plain(answer)
        return len(shown) < len(whole) and whole.startswith(shown)

    def until(self, place: int) -> Self:
        """The conversation as if the answer at that place were the last one before the new message."""
        return replace(self, said=(*self.said[: place + 1], *self.said[max(place + 1, len(self.earlier)) :]))

    def after(self, place: int) -> Self:
        """What was said after that place, with the files of that."""
        said = self.said[place + 1 :]
        digests = {digest for each in said for digest in each.references}
        files = {digest: file for digest, file in self.files.items() if digest in digests}
        return replace(self, said=said, files=files)

    def answered_after(self, place: int) -> dict[int, int]:
        """The places of the user's messages after a place that have an answer, each with the place of its end."""
        found, at = dict[int, int](), -1
        for end, each in enumerate(self.earlier):
            if each.role == "assistant" and at > place:
                found[at] = end
            elif each.role != "assistant":
                at = end if each.role == "user" else -1
        return found

    def answers(self, place: int) -> tuple[str, ...]:
        """The texts of the answers before that place."""
        texts = (plain(said.text) for said in self.said[:place] if said.role == "assistant")
        return tuple(text for text in texts if text)

    def key_of_answer(self, text: str) -> str:
        """What the keys begin with under which the tasks are found that gave an answer."""
        return f"answer:{self._digest(plain(text))}#"

    @property
    def key_of_chat(self) -> str:
        """What the keys begin with under which its tasks are found by its name; empty without one."""
        name = self.name or self.cache_key
        return f"chat:{self._digest(name)}#" if name else ""

    def text_before(self, notices: Sequence[str]) -> str | None:
        """The beginning of an answer that ends with a notice, where the new message asks for its rest; else None.

        What an earlier such message got is part of it.
        """
        said, texts = self.earlier, list[str]()
        asks = self.is_continued or (not self.new_files and asks_to_continue(self.message))
        while asks and said and said[-1].role == "assistant":
            text = without_thoughts(said[-1].text)
            notice = next((each for each in notices if plain(text).endswith(plain(each))), None)
            if notice is None:
                break
            parts = text.split(notice)  # several where the client appended the rest
            texts.insert(0, "".join(part.removeprefix(BREAK).removesuffix(BREAK) for part in parts))
            asks, said = len(said) > 1 and asks_to_continue(said[-2].text), said[:-2]
        return "".join(texts) if texts else None

    def key(self, said: Messages) -> str:
        """What the idempotency keys of requests with these messages begin with."""
        return f"completion:{self._digest(said)}#"

    @property
    def session_id(self) -> str:
        """What its session is called: as the client says, else by how it begins."""
        return self.name or f"chat-{self._digest(self.said)[:16]}"

    def _digest(self, said: Messages | str) -> str:
        form = json.dumps([self.name, self.parties, said], ensure_ascii=True)
        return hashlib.sha256(form.encode()).hexdigest()

    @property
    def first_message(self) -> str:
        """The new message for a session that knows nothing of what was said before."""
        context = ""
        if self.earlier:
            lines = "\n".join(f"{said.role}: {said.text}" for said in self.earlier if said.text)
            context = f"<conversation>\n{lines}\n</conversation>\n\n"
        return context + self.message


_THOUGHT = re.compile(r"\s{0,100}<(think|details)\b[^>]{0,200}>", re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """An answer without the thoughts that a client keeps in front of it."""
    place = 0
    while opened := _THOUGHT.match(text, place):
        closing = f"</{opened[1]}>"
        end = text.find(closing, opened.end())
        if end < 0:
            break
        place = end + len(closing)
    return text[place:].lstrip() if place else text


def plain(text: str) -> str:
    """An answer whatever its white space, without the thoughts in front of it."""
    return _words(without_thoughts(text))


def _words(text: str) -> str:
    return " ".join(text.split())


def _by_digest(files: Sequence[File]) -> dict[str, File]:
    contents = [file[1] if isinstance(file, tuple) else file.url.encode() for file in files]
    return {hashlib.sha256(content).hexdigest(): file for content, file in zip(contents, files, strict=True)}


def _kind_of(file: File) -> str:
    if not isinstance(file, tuple):
        return "image"
    return kind_of(media_type_of(file[1]) or "text/plain")


def _calls_of(message: ChatMessage) -> Sequence[str]:
    """The calls that an assistant's message makes, or the one that a tool's message has the result of."""
    if message.role == "tool":
        return (message.tool_call_id or "",)
    return [call.id for call in message.tool_calls or ()]


def _without_last(said: Messages, *roles: str) -> Messages:
    """The messages without those of the roles at the end."""
    end = len(said)
    while end and said[end - 1].role in roles:
        end -= 1
    return said[:end]


# The task whose answer comes before the new message: found by what a client cannot change.

_KNOWN = 20
"""Tasks that are looked at of those that gave the same answer."""


class Found(NamedTuple):
    """The task that gave an answer, the event after which its request continued it, and the place of the answer."""

    task: Task
    after: int
    place: int
    is_only: bool = True
    """Whether no other conversation had the same answer to the same messages."""


@dataclass(frozen=True)
class Answers:
    """The answers that clients were sent, by which their next requests are recognised, whatever else they rewrite."""

    service: Service
    tenant: Tenant
    conversation: Conversation

    async def note(
        self, text: str, task: Task, after: int, before: Sequence[str] = (), *, is_stored: bool = True
    ) -> None:
        """Note that the conversation's client is sent this answer of a task, whose request continued it after an event.

        An answer that goes on is one with what was there. `before` are the texts that the client is sent before it as
        messages of their own.
        """
        said = self.conversation
        if said.is_continued:
            said, text = replace(said, said=said.asked_before), said.last_answer + text
        if not plain(text):
            return
        attempts = Attempts(self.service, self.tenant.stored(said.key_of_answer(text)))
        last = await attempts.last()
        if last and last.task_id == task.task_id:
            return
        stored: Json = {} if is_stored else {"store": False}
        await self.service.app.tasks.note(task, _delivery(task, stored))
        answers, sent = said.answers(len(said.said)), tuple(filter(None, map(plain, before)))
        follows = _chain(sent[-1:]) or await self._last_sent(answers)
        about: Json = {"after": after, "chain": _chain((*answers, *sent)), "follows": follows}
        name = attempts.key(attempts.number(last) + 1)
        await self.service.app.tasks.note(task, RequestKey(name, "", about | stored))

    async def find(self) -> Found | None:
        """The task of the last answer that is known.

        An answer that the client made itself is passed over. A task that its session has not gone on from comes first.
        """
        said = self.conversation.said
        for place in reversed(range(len(said))):
            if said[place].role == "assistant" and plain(said[place].text) and (found := await self._at(place)):
                return found
        return None

    async def unread(self, before: Found | None) -> Found | None:
        """The task of the last answer, of which the client has only the beginning, or nothing as it stopped or lost it.

        It is the newest of the chat, or of the session of the last answer that is known, and has the same message.
        Chats may share a cache key: a task that is found by one was asked all that the client says up to there, and its
        answer was not delivered.
        """
        said, place = self.conversation.said, len(self.conversation.earlier) - 1
        asked = [at for at, each in enumerate(said[:-1]) if each.role == "user"]
        if not asked:
            return None
        tasks = await self.tasks_of_chat()
        newest = await self.service.app.tasks.newest(before.task.session_id) if before else None
        answered = self.conversation.answered_after(before.place if before else -1)
        if before is None:
            answered = dict([*answered.items()][-1:])
        is_named = bool(self.conversation.name)
        for task in tasks if newest is None else [newest, *tasks]:
            if before and task.task_id == before.task.task_id:
                continue
            is_sure = is_named or task is newest
            for at in reversed(asked):
                is_shown = at in answered
                if not (is_shown or at > place) or not _is_related(task.message, said[at].text):
                    continue
                is_left = await self.was_left(task, at)
                if is_sure or (await self._was_asked(task, at) and (is_shown or is_left)):
                    end = answered.get(at, at)
                    text = plain("\n\n".join(each.text for each in said[at + 1 : end + 1]))
                    if (is_left and not text) or await self.has_begun(task, text):
                        return Found(task, 0, end)
        return None

    async def _was_asked(self, task: Task, place: int) -> bool:
        """Whether all that its client said after the last answer and up to a place was said to a task.

        The session's earlier tasks, which the client left too, were asked the beginning of that.
        """
        until = replace(self.conversation, said=self.conversation.said[: place + 1], note="")
        if _words(task.message) in (_words(until.message), _words(until.first_message)):
            return True
        rest = _words(until.message)
        for each in await self.service.app.tasks.list(session_id=task.session_id, limit=_KNOWN):
            if rest == _words(each.message):
                return True
            end = f" {_words(each.message)}"
            if not rest.endswith(end):
                break
            rest = rest.removesuffix(end)
        return False

    async def was_left(self, task: Task, place: int) -> bool:
        """Whether a client did not read the answer to its message at a place: it was not sent it, or says so."""
        after = self.conversation.said[place + 1].text
        return after.lstrip().startswith(_LEFT) or not await self.service.app.tasks.known(_delivery(task))

    async def has_begun(self, task: Task, shown: str) -> bool:
        """Whether what a client shows is the beginning of a task's answer, which it did not read to the end.

        A task that its client stopped has stopped then. A notice may follow what a task with an error wrote.
        """
        task = await self.service.stopped(task.task_id)
        if task.status == TaskStatus.WAITING or not (shown or task.requested == "stop"):
            return False
        result = task.result or {}
        if task.status == TaskStatus.ERROR:
            written = plain(str(result.get("preamble") or ""))
            return shown.startswith(written) or written.startswith(shown)
        written = result.get("answer") or project(await self.service.app.tasks.events(task.task_id)).partial
        return task.status in ACTIVE or plain(str(written)).startswith(shown)

    async def newest(self) -> Found | None:
        """The newest task of the chat that the client names; None without a name."""
        task = next(iter(await self.tasks_of_chat()), None)
        return Found(task, 0, len(self.conversation.earlier) - 1) if task else None

    async def tasks_of_chat(self) -> list[Task]:
        """The last tasks of the sessions of the chat that the client names, its forks among them, the newest first."""
        if not self.conversation.key_of_chat:
            return []
        attempts = Attempts(self.service, self._key_of_chat)
        sessions = dict.fromkeys(known.session_id for known in await attempts.newest())
        newest = [await self.service.app.tasks.newest(session_id) for session_id in sessions]
        return [task for task in newest if task]

    def named(self, key: RequestKey | None) -> RequestKey | None:
        """The key of a request that begins a task, which is found by the name of its chat, too."""
        if key is None or not self.conversation.key_of_chat:
            return key
        return replace(key, also=RequestKey(f"{self._key_of_chat}{time.time_ns()}", "", key.about, key.also))

    @property
    def _key_of_chat(self) -> str:
        return self.tenant.stored(self.conversation.key_of_chat)

    async def _at(self, place: int) -> Found | None:
        """The task of the answer at a place.

        Of several it is the one of the same conversation: what was answered before it is the same, or what was asked.
        Without the chat's name, an answer that several sessions may have given is no one's.
        """
        said, is_named = self.conversation.said, bool(self.conversation.name)
        attempts = Attempts(self.service, self.tenant.stored(self.conversation.key_of_answer(said[place].text)))
        answers = self.conversation.answers(place)
        noted = await attempts.newest(_KNOWN)
        chain, follows = _chain(answers), await self._last_sent(answers) if noted else ""
        asked = next((each.text for each in reversed(said[:place]) if each.role == "user"), "")
        ranked: list[tuple[int, bool, Found]] = []
        for known in noted:
            task = await self.service.app.task(known.task_id)
            is_same, is_related = known.about.get("chain") == chain, _is_related(task.message, asked)
            is_next = not answers or known.about.get("follows") == follows
            if not (is_named or (is_related and is_next) or (is_same and answers)):
                continue  # such as "Done.", of any conversation
            newest = await self.service.app.tasks.newest(task.session_id)
            is_last = newest is not None and newest.task_id == task.task_id
            found = Found(task, int(known.about.get("after", 0)), place)
            ranked.append((2 * is_related + is_same, is_last, found))
        if not ranked:
            return None
        rank, _, best = max(ranked, key=lambda each: each[:2])
        sessions = {found.task.session_id for other, _, found in ranked if other == rank}
        return best if is_named or len(sessions) == 1 else None

    async def _last_sent(self, answers: Sequence[str]) -> str:
        """The digest of the last of some answers that was one of the service; empty where the client made up all."""
        for text in answers[: -_KNOWN - 1 : -1]:
            if await Attempts(self.service, self.tenant.stored(self.conversation.key_of_answer(text))).last():
                return _chain((text,))
        return ""


_LEFT = "<turn_aborted>"
"""How codex begins what it says after a message whose answer it did not read to the end."""


def _delivery(task: Task, about: Json | None = None) -> RequestKey:
    """The name by which it is noted that the client of a task was sent an answer."""
    return RequestKey(f"delivered:{task.task_id}", "", about or {})


def _chain(answers: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(answers).encode()).hexdigest() if answers else ""


_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_FEWEST = 3
"""Words that a part of a message needs to stand for the whole."""


def _is_related(stored: str, sent: str) -> bool:
    """Whether a message and what a client now says that it was have the same words of the person.

    Few words are the same ones if they are all, or stood above what the client put behind them.
    """
    if sent.strip() and own_words(stored).startswith(f"{sent.strip()}\n\n"):
        return True
    part, whole = sorted((_WORD.findall(own_words(text).casefold()) for text in (stored, sent)), key=len)
    if len(part) < _FEWEST:
        return bool(part) and part == whole
    return f" {' '.join(part)} " in f" {' '.join(whole)} "


async def asks(service: Service, task: Task, conversation: Conversation) -> bool:
    """Whether a task waits with the question that a conversation ends with."""
    if task.status != TaskStatus.WAITING:
        return False
    return conversation.shows(reply_notice(await service.app.question(task.task_id), task.reply_language))


_POLL_SECONDS = 0.05
_UNFINISHED_TRIES = 20
"""After these, a task that stays unfinished is no other request's, which the next try sees."""


async def in_turn(begin: Callable[[], Awaitable[Begun]]) -> Begun:
    """Begin what another request of the same chat may be in the way of: it is waited for, as long as a client waits."""
    deadline, tries = time.monotonic() + CLIENT_SECONDS, 0
    while True:
        tries += 1
        try:
            return await begin()
        except (ThreadBusy, TaskUnfinished, ThreadExists) as error:
            if time.monotonic() > deadline or (tries > _UNFINISHED_TRIES and isinstance(error, TaskUnfinished)):
                raise
        await asyncio.sleep(_POLL_SECONDS)


TRY_SECONDS = CLIENT_SECONDS + 10
"""How long a request that is sent again may be a retry."""


@dataclass(frozen=True)
class Attempts:
    """The attempts of one request, whose idempotency keys are a prefix and a number, from 0; some may be deleted."""

    service: Service
    prefix: str

    def key(self, number: int) -> str:
        return f"{self.prefix}{number}"

    def number(self, attempt: KnownRequest | None) -> int:
        """The number of an attempt; -1 of none."""
        return int(attempt.key.removeprefix(self.prefix)) if attempt else -1

    async def last(self) -> KnownRequest | None:
        """What the newest attempt did."""
        return next(iter(await self.newest(1)), None)

    async def newest(self, limit: int = 100) -> Sequence[KnownRequest]:
        """What the newest attempts did, the last one first."""
        return await self.service.app.tasks.last_requests(self.prefix, limit)


async def is_awaited(service: Service, task: Task, name: str, retries: int, *, over: bool) -> bool:
    """Whether the client of a request may not have its answer.

    That is so if the request may have ended since the first of the client's `retries`. Without those it is so for a
    few minutes if the request is not `over` or was interrupted, as by a service that was killed, unless this process
    has delivered what has this `name`.
    """
    age = time.time() - task.updated_at
    if retries and age <= retries * TRY_SECONDS:
        return True
    if service.has_delivered(name) or age > TRY_SECONDS:
        return False
    return not over or await _was_interrupted(service, task)


async def _was_interrupted(service: Service, task: Task) -> bool:
    types = {type(event) for event in await service.app.tasks.events(task.task_id)}
    return Resumed in types and types.isdisjoint((QuestionAsked, ApprovalRequested))


async def rejoin(service: Service, tenant: Tenant, task: Task) -> Task:
    """The task, which is resumed if it was paused, interrupted or failed."""
    if task.status in (*ENDED, TaskStatus.WAITING) or await service.app.tasks.runs_elsewhere(task.task_id):
        return task
    try:
        with service.starting_task(tenant, task.session_id):
            return (await service.app.tasks.resume(task.task_id))[0]
    except TaskError:  # it runs or was resumed meanwhile, or its session has gone on without it
        return await service.app.task(task.task_id)


async def end_stopped(service: Service, task: Task) -> None:
    """End a task whose client left: the history has what it did, and no call that it had decided runs any more."""
    if (await service.stopped(task.task_id)).requested == "stop":
        with suppress(TaskError):  # it has its answer
            await service.app.cancel(task.task_id)


async def fork_after(service: Service, tenant: Tenant, task: Task, key: RequestKey) -> str:
    """The stored name of a new session that is as a session was when the task had ended.

    The same request again, by its key, has the same one, unless something was sent to it since.
    """
    named = replace(key, key=f"{_FORK}{key.key}", digest="", also=None)
    if known := await service.app.tasks.known(named):
        newest = await service.app.tasks.newest(known.session_id)
        if newest and newest.copy_of == task.task_id:
            return known.session_id
    snapshots = await service.app.sessions.snapshots(task.session_id, -1)
    ends = [each for each in snapshots if each.task_id == task.task_id and not each.inside]
    if not ends:
        raise TaskError(
            "The snapshots before this message of session '{session_id}' were pruned: start a new conversation.",
            session_id=task.session_id,
        )
    thread_id, new = await unused_session(service, tenant, tenant.shown(task.session_id)), None if known else named
    await service.once(new, service.app.sessions.fork(task.session_id, ends[0].checkpoint_id, thread_id, key=new))
    made = await service.app.tasks.known(new)
    return made.session_id if made else thread_id


async def unused_session(service: Service, tenant: Tenant, session_id: str) -> str:
    """The stored name of a session that does not exist: the given one, else with a number."""
    name, number = session_id, 1
    sessions, tasks = service.app.sessions, service.app.tasks
    while await tasks.newest(tenant.stored(name)) or await sessions.settings(tenant.stored(name)):
        number += 1
        name = f"{session_id}.{number}"
    return tenant.stored(name)
