"""Text files that are replaced as a whole."""

import errno
import os
from pathlib import Path

from ..core.errors import ConfigurationError


def replace_text(file: Path, text: str) -> Path:
    """Write a file beside it and put it in its place, so that a crash leaves the old one or the new one.

    Raises:
        ConfigurationError: it cannot be written.
    """
    beside = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, file)
    except OSError as error:
        raise _unwritable(file, error) from error
    return file


def check_writable(file: Path) -> None:
    """Refuse a file that could not be written later; nothing is created.

    Raises:
        ConfigurationError: its folder is a file or cannot be written, or it is a folder itself.
    """
    try:
        present = next(parent for parent in file.absolute().parents if parent.exists())
        problems = {
            errno.EISDIR: file.is_dir(),
            errno.ENOTDIR: not present.is_dir(),
            errno.EACCES: not os.access(present, os.W_OK),
        }
        for number in (number for number, found in problems.items() if found):
            raise OSError(number, os.strerror(number))
    except OSError as error:
        raise _unwritable(file, error) from error


def _unwritable(file: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        "The file {file} cannot be written: {reason}.", file=file, reason=error.strerror or str(error)
    )
