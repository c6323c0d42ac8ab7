"""The one folder that the data tools read: its files, and which of them a name means."""

import filecmp
import io
import os
import re
import shutil
import stat
import unicodedata
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from segue.core.errors import ConfigurationError
from segue.prompts.data import listing, phrase
from segue.prompts.language import Language, language_of

from .vocabulary import nearest

SUFFIXES = (".csv", ".tsv", ".parquet")
MOST_BYTES = 500 * 1024 * 1024
DEFAULT_FOLDER = "data"
CHARTS = "charts"
"""The folder in the data folder that charts are written to."""
_LONGEST_NAME = 100


@dataclass(frozen=True)
class DataFile:
    """A file of the folder; `changed` distinguishes its versions, `refusal` names the phrase why it may not be read."""

    name: str
    path: Path
    size: int = 0
    changed: int = 0
    refusal: str = ""

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def is_parquet(self) -> bool:
        return self.name.lower().endswith(".parquet")


@dataclass(frozen=True)
class DataFolder:
    """Where data is read from and charts are written to."""

    path: Path
    charts: Path

    @classmethod
    def of(
        cls, folder: str | Path = "", charts: str | Path = "", environ: Mapping[str, str] = os.environ
    ) -> "DataFolder":
        """The folders as given, else as `SEGUE_DATA` and `SEGUE_CHARTS` say, else `./data` and `charts` in it."""
        path = Path(folder or environ.get("SEGUE_DATA") or DEFAULT_FOLDER).expanduser()
        return cls(path, Path(charts or environ.get("SEGUE_CHARTS") or path / CHARTS).expanduser())

    def files(self) -> list[DataFile]:
        """The files that may be read, by name."""
        return [file for file in self._entries() if not file.refusal]

    def find(self, name: str | None, language: Language | None = None) -> DataFile:
        """The file of that name, with or without its ending; without a name the only one there is.

        Raises:
            ValueError: there is none of that name, or it may not be read; the message lists those that may.
        """
        files = self.files()
        names = [file.name for file in files]
        if not name:
            return self._only_one(files, language or "en")
        reader = language or language_of(name)
        if not _is_name(name):
            shown = "".join(char if char.isprintable() else "�" for char in name[:80])
            raise ValueError(phrase("no_path", reader, name=shown, names=listing(names, reader)))
        requested = _normalized(name)
        found = [file for file in self._entries() if _normalized(file.name) == requested]
        found = found or [file for file in files if _normalized(file.stem) == requested]
        if len(found) == 1 and not found[0].refusal:
            return found[0]
        if len(found) == 1:
            raise ValueError(phrase(found[0].refusal, reader, name=found[0].name, most=MOST_BYTES >> 20))
        names = [file.name for file in found] or names
        hint = nearest(name, names, reader)
        raise ValueError(phrase("no_file", reader, name=name[:80], hint=hint, names=listing(names, reader)))

    def _only_one(self, files: list[DataFile], language: Language) -> DataFile:
        if len(files) == 1:
            return files[0]
        if files:
            raise ValueError(phrase("which_file", language, names=listing([file.name for file in files], language)))
        raise ValueError(phrase("no_folder", language, folder=self.path.name))

    def _entries(self) -> list[DataFile]:
        """The data files by name, also those that may not be read."""
        try:
            root = self.path.resolve(strict=True)
            return [_entry(root, name) for name in sorted(os.listdir(root)) if _is_listed(name)]
        except OSError:
            return []


def _entry(root: Path, name: str) -> DataFile:
    try:
        real = (root / name).resolve(strict=True)
        facts = real.stat()
    except (OSError, RuntimeError):
        return DataFile(name, root, refusal="file_closed")
    if not real.is_relative_to(root):
        return DataFile(name, root, refusal="file_link")
    if not stat.S_ISREG(facts.st_mode):
        return DataFile(name, root, refusal="file_kind")
    if facts.st_size > MOST_BYTES:
        return DataFile(name, root, refusal="file_large")
    return DataFile(name, real, facts.st_size, facts.st_mtime_ns)


def _normalized(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip()).casefold()


def _is_listed(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".") and _is_name(name)


def _is_name(name: str) -> bool:
    """Whether a text can only name something in the folder itself."""
    return ".." not in name and re.search(r"[/\\\x00-\x1f\x7f]|^~|^[A-Za-z]:", name) is None


def import_file(source: str | Path, folder: str | Path) -> str:
    """Copy a person's file into a data folder, which is created if it is missing; returns its name there.

    A file that is already there with the same content is kept; if the content differs, the copy gets a number.

    Raises:
        ConfigurationError: it is not a CSV or Parquet file that can be read, or the folder cannot be written to.
    """
    path, target = Path(source).expanduser(), Path(folder).expanduser()
    _check_importable(path)
    with _writing(path, target):
        if path.resolve().parent == target.resolve() and not path.is_symlink() and _is_listed(path.name):
            return path.name
        with path.open("rb") as read:
            return _stored(read, path.name, target)


def store_file(name: str, content: bytes, folder: str | Path) -> str:
    """As `import_file`, for content that was sent under a name; of a path only the last part counts."""
    path, target = Path(re.split(r"[/\\]", name)[-1]), Path(folder)
    _check_ending(path)
    with _writing(path, target):
        return _stored(io.BytesIO(content), path.name, target)


@contextmanager
def _writing(path: Path, target: Path) -> Iterator[None]:
    try:
        target.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigurationError(
            "The file {path} cannot be copied to {target}: {reason}.",
            path=path,
            target=target,
            reason=error.strerror or error,
        ) from error


def _stored(content: BinaryIO, name: str, target: Path) -> str:
    part = target / f".{uuid.uuid4().hex}.part"
    try:
        with part.open("xb") as write:
            shutil.copyfileobj(content, write, 1 << 20)
        return _placed(part, target, _clean_name(name))
    finally:
        with suppress(OSError):
            part.unlink()


def _check_importable(path: Path) -> None:
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:
        raise ConfigurationError("There is no file {path}: check its name.", path=path) from error
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigurationError("{path} is not a regular file: name a CSV or Parquet file.", path=path)
    _check_ending(path)
    if facts.st_size > MOST_BYTES:
        raise ConfigurationError(
            "{path} is larger than {most} MB: split it, or save it as Parquet.", path=path, most=MOST_BYTES >> 20
        )


def _check_ending(path: Path) -> None:
    if not path.name.lower().endswith(SUFFIXES):
        raise ConfigurationError(
            "{path} cannot be read as data: save it as {suffixes} and name that file.",
            path=path,
            suffixes=", ".join(SUFFIXES),
        )


def _clean_name(name: str) -> str:
    stem, _, ending = unicodedata.normalize("NFC", name).rpartition(".")
    clean = re.sub(r"[^\w .()（）-]+|\.{2,}", "_", stem).strip(" .")[:_LONGEST_NAME]
    return f"{clean or 'data'}.{ending.lower()}"


def _placed(part: Path, folder: Path, name: str) -> str:
    """Give the copy its name atomically, and never replace another file."""
    stem, _, ending = name.rpartition(".")
    number = 1
    while True:
        chosen = name if number == 1 else f"{stem}-{number}.{ending}"
        try:
            os.link(part, folder / chosen)
            return chosen
        except FileExistsError:
            if not (folder / chosen).is_symlink() and filecmp.cmp(part, folder / chosen, shallow=False):
                return chosen
            number += 1
        except OSError:  # a file system without hard links
            if not (folder / chosen).exists():
                os.replace(part, folder / chosen)
                return chosen
            number += 1
