"""Names of memory files and of users' folders, which are safe on every file system."""

import hashlib
import re

from ..core.errors import InvalidMemory

DEEPEST = 4
"""Folders and file in a name."""
LONGEST = 200
"""UTF-8 bytes of a folder or a file."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)\s*(\..*)?", re.IGNORECASE)
"""Devices of Windows, with any suffix."""
_FORBIDDEN = re.compile(r'[<>:"\\|?*]')
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_@+.-")


def parts_of(name: str) -> list[str]:
    """The folders and the file of a memory file's name, such as `logs.md` or `coding/logs.md`.

    Raises:
        InvalidMemory: naming what is wrong with it.
    """
    parts = name.split("/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        raise _invalid(name, "it is an absolute path")
    if ".." in parts:
        raise _invalid(name, "it has '..'")
    if len(parts) > DEEPEST:
        raise _invalid(name, "it has more than 4 parts")
    for part in parts:
        if fault := _fault(part):
            raise _invalid(name, fault)
    return parts


def _fault(part: str) -> str:
    """Why a folder or a file cannot be called so; empty if it can."""
    if not part:
        return "a part of it is empty"
    if not part.isprintable() or _FORBIDDEN.search(part):
        return "it has a character that file names cannot have"
    if part.startswith((".", " ")) or part.endswith((".", " ")):
        return "a part of it begins or ends with a dot or a space"
    if _RESERVED.fullmatch(part):
        return "Windows reserves it for a device"
    return "a part of it is longer than 200 bytes" if len(part.encode()) > LONGEST else ""


def _invalid(name: str, fault: str) -> InvalidMemory:
    return InvalidMemory(
        "The memory file {name} cannot be used: {fault}. Use a relative path such as logs.md.",
        name=repr(name[:80]),
        fault=fault,
    )


def folder_of(user_id: str) -> str:
    """The folder of a user's files: no two users share one, not even where case does not count."""
    plain = "".join(f"%{byte:02x}" if chr(byte) not in _PLAIN else chr(byte) for byte in _bytes(user_id))
    if _fault(plain) or len(plain) > LONGEST:
        return "%-" + hashlib.sha256(_bytes(user_id)).hexdigest()
    return plain


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
