"""Text files that are replaced as a whole."""

import os
from pathlib import Path


def replace_text(file: Path, text: str) -> Path:
    """Write a file beside it and put it in its place, so that a crash leaves the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)
    return file
