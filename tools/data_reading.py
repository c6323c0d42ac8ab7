"""How a CSV file is written: its encoding, its separator and its columns' names."""

import codecs
import csv
import io
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .data_files import DataFile
from .data_words import Language, told

MOST_COLUMNS = 1_000
_HEAD = 1 << 18
"""Characters in which the first line has to end."""
_CHUNK = 1 << 20
_SEPARATORS = (",", "\t", ";", "|")
_GLOB = re.compile(r"[*?\[\]{}]")
_LONGEST = 200


@dataclass(frozen=True)
class CsvForm:
    encoding: str
    separator: str
    names: tuple[str, ...]
    skip: int = 0
    """Blank lines before the one with the names."""


def read_form(file: DataFile, language: Language, most: int | None = None) -> CsvForm:
    """Find out how the file is written, from all of it or from the first `most` bytes.

    Raises:
        ValueError: it is empty, no text in a known encoding, or its first line names no columns.
    """
    if file.size == 0:
        raise ValueError(told(language, f"文件「{file.name}」是空的。", f"The file «{file.name}» is empty."))
    encoding = _encoding(file, language, most)
    with file.path.open(encoding=encoding, newline="") as text:
        head = text.read(_HEAD)
    separator = _separator(next((line for line in head.splitlines() if line.strip()), ""))
    skip, first = _first_row(head, separator)
    if not first or len(first) > MOST_COLUMNS:
        raise ValueError(
            told(
                language,
                f"文件「{file.name}」的第一行应写列名（最多 {MOST_COLUMNS} 列）。",
                f"The first line of «{file.name}» has to name the columns, {MOST_COLUMNS} at most.",
            )
        )
    return CsvForm(encoding, separator, tuple(_distinct(first)), skip)


def _first_row(head: str, separator: str) -> tuple[int, list[str]]:
    """The first row that says anything, and how many lines stand before it."""
    rows, before = csv.reader(io.StringIO(head, newline=None), delimiter=separator), 0
    try:
        for row in rows:
            if any(map(str.strip, row)):
                return before, row
            before = rows.line_num
    except csv.Error:
        pass
    return 0, []


def _encoding(file: DataFile, language: Language, most: int | None) -> str:
    with file.path.open("rb") as raw:
        head = raw.read(4)
    if head.startswith(codecs.BOM_UTF8):
        candidates: Sequence[str] = ("utf-8-sig",)
    elif head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        candidates = ("utf-16",)
    else:
        candidates = ("utf-8", "gb18030")
    for encoding in candidates:
        if _is_written_in(file.path, encoding, most):
            return encoding
    raise ValueError(
        told(
            language,
            f"文件「{file.name}」不是 UTF-8、UTF-16 或 GB18030 编码的文本：请另存为 UTF-8 的 CSV。",
            f"The file «{file.name}» is no text in UTF-8, UTF-16 or GB18030: save it as CSV in UTF-8.",
        )
    )


def _is_written_in(path: Path, encoding: str, most: int | None) -> bool:
    decoder, read = codecs.getincrementaldecoder(encoding)(), 0
    try:
        with path.open("rb") as raw:
            while chunk := raw.read(_CHUNK):
                if "\0" in decoder.decode(chunk):
                    return False
                read += len(chunk)
                if most is not None and read >= most:
                    return True
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _separator(line: str) -> str:
    bare = re.sub(r'"[^"]*"', "", line)
    return max(_SEPARATORS, key=bare.count)


def _distinct(names: Sequence[str]) -> Iterator[str]:
    """The names without blanks around them; those that are empty or there twice get a number."""
    taken: set[str] = set()
    for place, name in enumerate(names, start=1):
        clean = " ".join(name.replace("\ufeff", "").split())[:_LONGEST] or f"column{place}"
        chosen, number = clean, 2
        while chosen.casefold() in taken:
            chosen, number = f"{clean}_{number}", number + 1
        taken.add(chosen.casefold())
        yield chosen


@contextmanager
def readable(file: DataFile, encoding: str = "utf-8", most: int | None = None) -> Iterator[Path]:
    """A path that the engine reads as this one file: in UTF-8, and without signs that it takes for a pattern.

    Of a CSV file that has to be copied, `most` characters will do.
    """
    if encoding.startswith("utf-8") and not _GLOB.search(str(file.path)):
        yield file.path
        return
    with tempfile.TemporaryDirectory(prefix="segue-data-") as folder:
        copy = Path(folder) / ("data.parquet" if file.is_parquet else "data.csv")
        if file.is_parquet:
            shutil.copyfile(file.path, copy)
        else:
            _rewrite(file.path, copy, encoding, most)
        yield copy


def _rewrite(path: Path, copy: Path, encoding: str, most: int | None) -> None:
    with path.open(encoding=encoding, newline="") as read, copy.open("w", encoding="utf-8", newline="") as write:
        if most is None:
            shutil.copyfileobj(read, write, _CHUNK)
        else:
            text = read.read(most)
            write.write(text if len(text) < most else text[: text.rfind("\n") + 1])
