"""What a session's prompt keeps at 10, 20 and 30 % of its characters, by the probes of `compaction-conformance-kit`.

Each of five rounds adds small talk and shows the history again, as a session that goes on does: the log stays whole,
and the digest goes on from the last one. Run with `make bench-digest`.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from compaction_kit import run_conformance
from compaction_kit.canaries import Canary, CanaryType
from compaction_kit.compacted import CompactedContext
from compaction_kit.corpus import build_random_session
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
from compaction_kit.session import Turn, build_seeded_session
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from segue.nodes.context import is_digest
from segue.nodes.digest import Digest, digest_in
from segue.nodes.history import Window, compact

ROUNDS, SMALL_TALK, RESULT_CHARS = 5, 6, 4_000
RANDOM, SEMANTIC = range(1, 13), range(1, 5)


class Prompts:
    """Compacts as Segue's prompts do: the first round reads the session, later ones only add to it."""

    name = "segue"

    def __init__(self) -> None:
        self.messages: list[AnyMessage] = []
        self.system = ""
        self.digest: Digest | None = None
        self.shown = Digest()

    def compact(self, turns: list[Turn], round_num: int = 1, budget_chars: int | None = None) -> CompactedContext:
        said = [(turn.role, turn.text) for turn in turns] if round_num == 1 else list(_small_talk(round_num))
        for role, text in said:
            if role == "system":
                self.system = text
            else:
                made = HumanMessage if role == "user" else AIMessage
                self.messages.append(made(text, id=f"m{len(self.messages)}"))
        most = budget_chars or 0
        for tokens in range(most // 2, 0, -max(1, most // 200)):
            found = compact(self.messages, tokens, RESULT_CHARS, digest=self.digest)
            text = self._text(found)
            if len(text) <= most:
                break
        self.digest = found.digest
        self.shown = digest_in(found.shown[0]) if is_digest(found.shown[0]) else Digest()
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    def _text(self, found: Window) -> str:
        return "\n".join([self.system, *(message.text for message in found.shown)])


def _small_talk(round_num: int) -> Iterator[tuple[str, str]]:
    for number in range(SMALL_TALK):
        yield "user", f"Small matter {round_num}.{number}, please."
        yield "assistant", "Done."


def kept(budget: float) -> str:
    """The share that is kept of each kind in the kit's own session, and in the random ones."""
    own = run_conformance(build_seeded_session(), Prompts(), rounds=ROUNDS, budget_fraction=budget)
    rates = {kind: own.survival_curve(kind)[-1] for kind in CanaryType}
    lost = Counter[str]()
    total = 0
    over = sum(not each.within_budget for each in own.rounds)
    for seed in RANDOM:
        session, canaries = build_random_session(seed)
        run = run_conformance(session, Prompts(), rounds=ROUNDS, canaries=canaries, budget_fraction=budget)
        total += len(canaries)
        lost.update(each.type.value for each in canaries if not run.rounds[-1].survived[each.id])
        over += sum(not each.within_budget for each in run.rounds)
    shown = ", ".join(f"{kind.value} {rate:.0%}" for kind, rate in rates.items())
    return f"{shown}; random sessions keep {total - lost.total()} of {total} {dict(lost) or ''}; {over} rounds over it"


def conflicts(budget: float) -> str:
    """Whether the latest of two values is kept, and what is said of the older one where it is shown."""
    count = Counter[str]()
    for build in (build_semantic_session, build_semantic_heldout_session):
        for seed in SEMANTIC:
            session, canaries, about = build(seed)
            prompts = Prompts()
            run = run_conformance(session, prompts, rounds=ROUNDS, canaries=canaries, budget_fraction=budget)
            by_id: dict[str, Canary] = {each.id: each for each in canaries}
            for place in about["conflicts"]:
                count["changed"] += 1
                count[_outcome(by_id[place], run.rounds[-1].context.text, prompts.shown)] += 1
            for pair in about["distinct_pairs"]:
                count["pairs"] += 1
                count["pairs kept"] += all(run.rounds[-1].survived[each] for each in pair)
    return ", ".join(f"{name} {number}" for name, number in sorted(count.items()))


def _outcome(canary: Canary, text: str, digest: Digest) -> str:
    def has(words: str, needed: Any) -> bool:
        return all(each.lower() in words.lower() for each in needed)

    if not has(text, canary.required_tokens):
        return "latest lost"
    for entry in digest.entries:
        older = any(each.lower() in entry.text.lower() for each in canary.superseded_tokens)
        if any(each.lower() in entry.before.lower() for each in canary.superseded_tokens):
            return "latest kept, older named as replaced"
        if older and entry.but_see:
            return "latest kept, older points to it"
        if older:
            return "latest kept, older beside it"
    shown = any(each.lower() in text.lower() for each in canary.superseded_tokens)
    return "latest kept, older still among the messages" if shown else "latest kept, older gone"


def main() -> None:
    for budget in (0.3, 0.2, 0.1):
        print(f"{budget:.0%}: {kept(budget)}")
    for budget in (0.6, 0.3):
        print(f"changed values at {budget:.0%}: {conflicts(budget)}")


if __name__ == "__main__":
    sys.exit(main())
