"""Answers of persons, as the audit log has them."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ..core.audit import Act
from ..core.question import WAIT
from ..core.records import Json

_VERDICTS = {"approve": "approved", "edit": "edited", "reject": "rejected"}


def answer_act(question: Json, value: Any) -> Act | None:
    """What somebody decided who answered a question: of each call the verdict; None where no person was asked.

    `shown` is the digest of the question that was asked. Verdicts that differ are an edit if one is, else an approval.
    """
    if question["kind"] == WAIT:
        return None
    shown = sha256(json.dumps(question, sort_keys=True, default=str).encode()).hexdigest()
    about = {"interrupt_id": question["interrupt_id"], "shown": shown}
    if question["kind"] != "approval":
        return Act("answered", about)
    names = {call["index"]: call["name"] for call in question["calls"]}
    calls = [_call(verdict, names) for verdict in value["verdicts"]]
    given = {call["verdict"] for call in calls}
    action = next(iter(given)) if len(given) == 1 else "edited" if "edited" in given else "approved"
    return Act(action, {**about, "calls": calls})


def _call(verdict: Mapping[str, Any], names: Mapping[int, str]) -> Json:
    about = {"index": verdict["index"], "name": names.get(verdict["index"], "")}
    always = {"always": verdict["always"]} if verdict.get("always") else {}
    return {**about, "verdict": _VERDICTS[verdict["verdict"]], **always}
