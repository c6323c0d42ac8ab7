"""Tools that are always allowed, over HTTP."""

from pathlib import Path

from segue import tool
from segue.core.agents import Agent
from segue.server.settings import ServerSettings
from tests.fakes import ScriptedChatModel, answer, call_tool

from .serving import Served, chat, ending, follow


@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"refunded {amount}"


def test_a_tool_is_allowed_for_a_session_and_that_is_listed_and_revoked(tmp_path: Path) -> None:
    refunds = [call_tool(("refund", {"amount": amount})) for amount in (1, 2, 3)]
    model = ScriptedChatModel([refunds[0], answer("one"), refunds[1], answer("two"), refunds[2]])
    shop = Agent(agent_id="shop", model=model, tools=(refund,), mode="react")
    with Served(tmp_path / "segue.db", ServerSettings(), agents=[shop]) as served, served.client() as client:
        asked = ending(chat(client, "refund", agent_id="shop", session_id="s"))
        verdicts = {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]}
        assert client.post(f"/api/tasks/{asked['task_id']}/answer", json=verdicts).status_code == 202
        assert ending([form for _, form in follow(client, asked["task_id"])])["answer"] == "one"
        again = chat(client, "refund", agent_id="shop", session_id="s")
        assert ending(again)["answer"] == "two"
        assert [form["name"] for form in again if form["type"] == "call_permitted"] == ["refund"]
        path = "/api/sessions/s/permissions"
        (listed,) = client.get(path).json()["items"]
        named = {"session_id": "s", "agent_id": "shop", "tool": "refund", "scope": "session"}
        assert listed == {**named, "task_id": asked["task_id"], "granted_at": listed["granted_at"]}
        assert client.get("/api/permissions").json()["items"] == [listed]
        assert client.delete(path, params={"tool": "mail"}).json() == {"revoked": 0}
        assert client.delete(path, params={"tool": "refund"}).json() == {"revoked": 1}
        assert client.get(path).json()["items"] == []
        assert ending(chat(client, "refund", agent_id="shop", session_id="s"))["status"] == "waiting"
