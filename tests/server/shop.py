"""What an agent of a shop says and does, for clients of every interface."""

from typing import Any

from segue.core.errors import ModelUnreachable
from segue.tools.registry import tool
from tests.fakes import answer, call_tool, choose

FRUITS = ("apples", "pears", "plums", "kiwis")


@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"refunded {amount}"


def reply(messages: Any) -> str:
    """List the fruits that were named, or call the tool that is asked for."""
    text = "\n".join(str(message.content) for message in messages)
    if "## Branches" in text:
        asked = choose("ask_user", question="Which colour?")
        return choose("final_answer", answer="It is blue.") if '"success": "blue"' in text else asked
    if "please fail" in text:
        raise ModelUnreachable("the endpoint is down")
    if "refund twice" in text and "refunded 500" not in text:
        return call_tool(("refund", {"amount": 500 if "refunded 5" in text else 5}), thought="I refund.")
    if any(end in text for end in ("refunded", "held one", "rejected by the person", "shown the cart")):
        return answer("Settled, 好的.", thought="That is all.")
    for name, arguments in (("hold", {"name": "one"}), ("refund", {"amount": 5}), ("show", {"page": "cart"})):
        if f"please {name}" in text:
            return call_tool((name, arguments), thought=f"I {name}.")
    return answer(f"Heard {', '.join(fruit for fruit in FRUITS if fruit in text)}.")
