"""The analyst's own tool: it keeps findings as Markdown files in FINDINGS."""

import os
import re
from pathlib import Path

import segue


@segue.tool(idempotent=True, keywords=["save", "note", "保存"])
def save_finding(title: str, text: str = "") -> str:
    """Save a finding with its figures, in place of one with the same title."""
    folder = Path(os.environ.get("FINDINGS", "findings"))
    folder.mkdir(exist_ok=True)
    file = folder / f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-') or 'finding'}.md"
    file.write_text(f"# {title}\n\n{text}\n", encoding="utf-8")
    return f"Saved as {file.name}."
