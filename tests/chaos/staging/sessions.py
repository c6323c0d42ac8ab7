"""The sessions in which each tool is called once, recorded with a scripted model."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

import segue
from tests.fakes import ScriptedChatModel

AGENTS = Path(__file__).with_name("agents.toml")


@dataclass(frozen=True)
class Case:
    """A tool, the world that it changes, and what is wrong with it: the `kind` first of all, and `also` others."""

    tool: str
    world: str
    arguments: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    advice: str = ""
    also: tuple[str, ...] = ()

    @property
    def worlds(self) -> str:
        """What `--world` takes."""
        return f"tests.chaos.staging.worlds:{self.world}"


HALF = ("hidden_effect",)
"""It fails after an effect where the disk is full between two changes, or where no answer arrives."""
CASES = (
    Case("charge", "Service", {"order": 7, "amount": 20}, "not_idempotent"),
    Case("add_note", "Files", {"customer": "Ada", "text": "called"}, "not_idempotent"),
    Case("book_seat", "Database", {"seat": "12A"}, "not_idempotent", also=HALF),
    Case("ship", "Service", {"order": 7}, "check_too_early", also=HALF),
    Case("open_ticket", "Database", {"title": "Lamp"}, "undo_incomplete"),
    Case("publish", "Files", {"name": "march", "text": "All is well."}, "undo_incomplete", also=HALF),
    Case("find_customer", "Database", {"name": "Ada"}, "writes_although_read_only"),
    Case("take_number", "Database", {}, "result_differs"),
    Case("list_payments", "Service", {}, "no_timeout"),
    Case("send_invoice", "Service", {"customer": "ada"}, "hidden_effect"),
    Case("order_parts", "Service", {"part": "lamp"}, "hidden_effect"),
    Case("transfer", "Accounts", {"amount": 30}, "invariant", also=HALF),
    Case("pay", "Service", {"order": 7, "amount": 20}),
    Case("take_stock", "Postgres", {"item": "lamp", "count": 2}),
    Case("register", "Database", {"name": "Ada"}),
    Case("log_visit", "Files", {"visitor": "Ada"}),
    Case("send_mail", "Service", {"to": "ada", "text": "Hello."}),
    Case("enqueue", "Files", {"job": "print"}),
    Case("set_status", "Database", {"name": "Ada", "status": "gold"}, advice="could_be_idempotent"),
    Case("dispatch", "Service", {"order": 7}, advice="could_be_idempotent"),
    Case("file_ticket", "Database", {"title": "Lamp"}),
    Case("count_payments", "Service", {}),
    Case("order_supplies", "Service", {"what": "paper"}),
    Case("save_document", "Files", {"name": "plan", "text": "First."}),
)

MORE = (
    Case("subscribe", "Office", {"name": "Ada"}, "no_effect"),
    Case("post_comment", "Office", {"text": "Well done."}, "no_effect"),
    Case("schedule_call", "Office", {"customer": "Ada"}, "no_effect"),
    Case("archive", "Office", {"name": "march"}, "no_effect"),
    Case("record_sale", "Office", {"item": "lamp"}, "no_effect"),
    Case("charge_fee", "Office", {"customer": "Ada"}, "hidden_effect"),
    Case("order_flowers", "Service", {"kind": "roses"}, "hidden_effect"),
    Case("rent_room", "Office", {"room": "2b"}, "left_behind", also=HALF),
    Case("update_index", "Office", {"word": "lamp"}, "left_behind", also=HALF),
    Case("save_report", "Office", {"name": "march", "text": "All is well."}, "left_behind", also=HALF),
    Case("export_rows", "Office", {"name": "march"}, "left_behind", also=HALF),
    Case("grant_points", "Office", {"customer": "Ada", "points": 5}, "not_idempotent"),
    Case("rename_customer", "Office", {"name": "Ada", "new": "Eva"}, "not_idempotent"),
    Case("move_document", "Office", {"name": "notes.txt", "to": "old.txt"}, "undo_incomplete"),
    Case("next_job", "Office", {}, "writes_although_read_only"),
    Case("issue_voucher", "Office", {"customer": "Ada"}, "result_differs"),
    Case("split_stock", "Accounts", {"count": 30}, "invariant", also=HALF),
    Case("enrol", "Office", {"name": "Bob"}, "check_too_early"),
    Case("log_entry", "Office", {"text": "called"}),
    Case("run_program", "Office", {"word": "hello"}, advice="could_be_idempotent"),
    Case("zip_report", "Office", {"name": "march", "text": "All is well."}),
    Case("copy_both", "Office", {"name": "Ada"}),
    Case("hand_over", "Office", {"job": "print"}),
    Case("link_latest", "Office", {"name": "notes.txt"}),
    Case("file_defect", "Office", {"number": 7}, advice="could_be_idempotent"),
    Case("make_download", "Office", {"name": "march"}),
    Case("add_member", "Office", {"name": "Ada"}),
    Case("delete_document", "Office", {"name": "notes.txt"}),
    Case("count_words", "Office", {"name": "notes.txt"}),
)
"""Tools of other kinds, written before the rules that they are found by."""

FRAGILE = {
    "workers": Case("admit", "Database", {"name": "Ada"}, "not_idempotent"),
    "reset": Case("order_paint", "Service", {"colour": "red"}, "hidden_effect"),
    "disk": Case("write_twice", "Files", {"name": "a.txt", "text": "One."}, "hidden_effect"),
    "exception": Case("order_ink", "Service", {"colour": "black"}, "hidden_effect"),
    "check-fails": Case("order_lamp", "Service", {"what": "lamp"}, "check_too_early"),
    "check-stale": Case("order_desk", "Service", {"what": "desk"}, "check_too_early"),
    "clock-forward": Case("order_lunch", "Service", {"dish": "soup"}, "not_idempotent"),
    "slow": Case("order_glue", "Service", {"kind": "hot"}, "hidden_effect"),
}
"""Tools that one fault shows."""


async def record(database: Path, cases: "tuple[Case, ...]" = CASES) -> None:
    """Hold the session of each case, in which the tool really runs once; its name is that of the tool."""
    agents = {agent.agent_id: agent for agent in segue.load_agents(AGENTS)}
    async with segue.open(database, agents=[_scripted(agents[case.tool], case) for case in cases]) as app:
        for case in cases:
            await app.ask(f"Please {case.tool}", session_id=case.tool, agent=case.tool)


def _scripted(agent: segue.Agent, case: Case) -> segue.Agent:
    call = {"name": case.tool, "args": case.arguments, "id": "1"}
    return agent.model_copy(update={"model": ScriptedChatModel([AIMessage("", tool_calls=[call]), AIMessage("Done.")])})
