"""A whole SQLite database in one file: written while it is in use, verified, and restored."""

import contextlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO, Any, BinaryIO, Self, cast

from segue.core.environment import sync_folder
from segue.core.errors import Clause, DatabaseUnavailable
from segue.core.json import Public

from .database import check_log, file_of, find_folder, translated
from .state import check_version

MANIFEST = "segue-backup.json"
FORMAT = 1
DATABASE, FILES, MEMORY = "database", "files", "memory"
"""The parts of a backup, as its members' names begin."""


@dataclass(frozen=True)
class Backup(Public):
    """What a backup has: its bytes, and of how many message and memory files."""

    file: str
    bytes: int
    files: int
    memory: int

    @classmethod
    def of(cls, file: Path, members: Iterable[str]) -> Self:
        """A backup in a file, by the names of its members."""
        parts = [name.partition("/")[0] for name in members]
        return cls(str(file), file.stat().st_size, parts.count(FILES), parts.count(MEMORY))


def _find_places(database: str, memory: Path) -> dict[str, Path]:
    """Where each part of a database is."""
    return {DATABASE: Path(file_of(database)), FILES: find_folder(database), MEMORY: memory}


def back_up(database: str, file: str | Path, memory: Path) -> Backup:
    """Write a database, which may be in use, with the files of its messages and its memory files into one file.

    `memory` is the folder of the memory files. The file is written whole or not at all, and is read again before it
    gets its name.
    """
    places, target = _find_places(database, memory), Path(file)
    if not places[DATABASE].is_file():
        raise DatabaseUnavailable("There is no database {path} to back up: name one that exists.", path=database)
    if target.exists():
        raise _exists(target)
    with _reported(target), tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        snapshot, written = Path(folder, DATABASE), Path(folder, "backup")
        with translated(database):
            check_log(str(places[DATABASE]))
            with contextlib.closing(sqlite3.connect(places[DATABASE])) as connection:
                connection.execute("VACUUM INTO ?", (str(snapshot),))
        members = {DATABASE: snapshot, **_members(FILES, places[FILES]), **_members(MEMORY, places[MEMORY])}
        with tarfile.open(written, "w", dereference=False) as archive:
            digests = {}
            for name, path in members.items():
                with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                    digests[name] = _added(archive, name, path)
            _add_manifest(archive, digests, Path(folder))
        with written.open("rb") as content:
            os.fsync(content.fileno())
        if _read(written, None) != digests:
            raise DatabaseUnavailable("The backup {file} differs from what was written: check the disk.", file=target)
        os.link(written, target)
        sync_folder(target.parent)
    return Backup.of(target, digests)


def restore(file: str | Path, database: str, memory: Path) -> Backup:
    """Write a backup's database, message files and memory files to a place where none of them is.

    `memory` is the folder for the memory files.
    """
    source, places = Path(file), _find_places(database, memory)
    for place in (places[DATABASE], places[FILES], Path(f"{places[DATABASE]}-wal")):
        if place.exists():
            raise _exists(place)
    if memory.exists() and not (memory.is_dir() and not any(memory.iterdir())):
        raise DatabaseUnavailable(
            "{path} exists: move it away first, or set SEGUE_MEMORY to a new folder for the restored memory files.",
            path=memory,
        )
    with _reported(source), tempfile.TemporaryDirectory(prefix=".segue-", dir=places[DATABASE].parent) as folder:
        digests = _read(source, Path(folder))
        copy = str(Path(folder, DATABASE))
        with translated(database), contextlib.closing(sqlite3.connect(copy)) as connection:
            check_version(connection, copy)  # this Segue opens it, or upgrades it
        for part in (FILES, MEMORY, DATABASE):  # a database is there once its files are
            if Path(folder, part).exists():
                _move(Path(folder, part), places[part])
        sync_folder(places[DATABASE].parent)
    return Backup.of(source, digests)


def _move(part: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(part, place)
    except OSError:
        if part.is_file():
            raise
        shutil.copytree(part, place, dirs_exist_ok=True)  # the place is another file system's, or its mount point


def _exists(place: Path) -> DatabaseUnavailable:
    return DatabaseUnavailable("{path} exists: name another file, or move it away first.", path=place)


def _members(part: str, folder: Path) -> dict[str, Path]:
    """The files of a folder and of those in it; what begins with a dot is a lock, or half written."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder): path for path in paths}
    return {
        f"{part}/{name.as_posix()}": path
        for name, path in names.items()
        if not any(each.startswith(".") for each in name.parts)
    }


class _Digesting:
    """A file whose bytes are digested as they are read."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        self.digest = sha256()

    def read(self, size: int) -> bytes:
        read = self._content.read(size)
        self.digest.update(read)
        return read


def _added(archive: tarfile.TarFile, name: str, path: Path) -> str:
    with path.open("rb") as content:
        digesting = _Digesting(content)
        archive.addfile(archive.gettarinfo(arcname=name, fileobj=content), cast(IO[bytes], digesting))
    return digesting.digest.hexdigest()


def _add_manifest(archive: tarfile.TarFile, digests: dict[str, str], folder: Path) -> None:
    """Add the digests of the members last: a file that was cut short has none."""
    path = folder / MANIFEST
    manifest = {"format": FORMAT, "written_at": time.time(), "sha256": digests}
    path.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    archive.add(path, MANIFEST)


def _read(file: Path, folder: Path | None) -> dict[str, str]:
    """The digests of a backup's members, which are written to the folder if one is given."""
    found: dict[str, str] = {}
    manifest: dict[str, Any] = {}
    with tarfile.open(file, "r:") as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            if content is None:
                continue
            if entry.name == MANIFEST:
                manifest = json.loads(content.read())
                continue
            found[entry.name] = _extracted(content, entry.name, folder)
    if not manifest or manifest.get("sha256") != found or DATABASE not in found:
        raise DatabaseUnavailable(
            "The backup {file} is incomplete or was changed: its checksums differ. Use another one.", file=file
        )
    if manifest["format"] != FORMAT:
        raise DatabaseUnavailable("A newer Segue wrote the backup {file}: restore it with that one.", file=file)
    return found


def _extracted(content: IO[bytes], name: str, folder: Path | None) -> str:
    if folder is None:
        return file_digest(cast(Any, content), "sha256").hexdigest()
    part, *rest = name.split("/")
    if part not in (DATABASE, FILES, MEMORY) or any(each in ("", ".", "..") for each in rest):
        raise DatabaseUnavailable(
            "The backup has a member named {name}, which no backup has: use another one.", name=name
        )
    path = folder.joinpath(part, *rest)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as written:
        shutil.copyfileobj(content, written)
        written.flush()
        os.fsync(written.fileno())
        written.seek(0)
        return file_digest(written, "sha256").hexdigest()


@contextlib.contextmanager
def _reported(file: Path) -> Iterator[None]:
    """Raise what the file system or the archive says as an error that says what to do."""
    try:
        yield
    except FileExistsError:
        raise _exists(file) from None
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise DatabaseUnavailable("The file {file} is no backup of Segue: name another one.", file=file) from error
    except OSError as error:
        raise DatabaseUnavailable(
            "The file {file} cannot be read or written: {reason}.",
            file=file,
            reason=Clause(error.strerror or str(error)),
        ) from error
