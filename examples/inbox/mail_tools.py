"""Tools of an inbox: mail is read from inbox.mbox, and what is sent is appended to outbox.mbox, in MAIL_FOLDER."""

import mailbox
import os
from contextlib import AbstractContextManager, closing
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated

from pydantic import Field

import segue

CONTACTS = {"Ann": "ann@example.com", "Bob": "bob@example.com"}
Address = Annotated[str, Field(pattern=r"[\w.+-]+@[\w.-]+\.\w+", description="An e-mail address")]


def box(name: str) -> AbstractContextManager[mailbox.mbox]:
    return closing(mailbox.mbox(Path(os.environ.get("MAIL_FOLDER", ".")) / f"{name}.mbox"))


@segue.tool(read_only=True, keywords=["mail", "inbox", "邮件"])
def read_inbox() -> list[dict[str, str]]:
    """Read all messages of the inbox."""
    with box("inbox") as inbox:
        return [
            {"from": str(mail["From"]), "subject": str(mail["Subject"]), "body": str(mail.get_payload()).strip()}
            for mail in inbox
        ]


@segue.tool(read_only=True, trusted=True, keywords=["address", "地址"])
def find_address(name: str) -> str:
    """Look an address up in your own address book."""
    if name not in CONTACTS:
        raise ValueError(f"{name} is not in the address book; it has {', '.join(CONTACTS)}.")
    return CONTACTS[name]


def was_sent(to: str, call: segue.CallContext) -> object:
    """Find out after a crash whether this call took effect."""
    with box("outbox") as outbox:
        sent = {mail["X-Call"] for mail in outbox}
    return f"Sent to {to}." if call.idempotency_key in sent else segue.NOT_DONE


@segue.tool(
    approve="untrusted",
    content=["subject", "body"],
    check=was_sent,
    keywords=["send", "write", "reply", "发送", "回复"],
)
def send_mail(to: Address, body: str, call: segue.CallContext, subject: str = "") -> str:
    """Send an e-mail."""
    message = EmailMessage()
    message["To"], message["Subject"], message["X-Call"] = to, subject, call.idempotency_key
    message.set_content(body)
    with box("outbox") as outbox:
        outbox.add(message)
    return f"Sent to {to}."
