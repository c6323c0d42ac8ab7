"""The contents of messages' files: a folder beside the database, one file for each content, named by its digest."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from segue.core.errors import DatabaseUnavailable
from segue.core.files import sync_folder

from ..ports import Connection


class FileFolder:
    """Contents in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def place(self) -> str:
        return str(self._folder)

    async def store(self, digest: str, content: bytes) -> None:
        """Store a content as a whole or not at all; one that is damaged is replaced.

        Raises:
            DatabaseUnavailable: the folder cannot be written.
        """
        await asyncio.to_thread(self._store, digest, content)

    async def read(self, digest: str) -> bytes | None:
        """The content; None where it is missing.

        Raises:
            DatabaseUnavailable: it cannot be read.
        """
        return await asyncio.to_thread(self._read, digest)

    def lock(self, _: Connection, digest: str) -> None:
        """Do nothing: a transaction that writes is alone."""

    def delete(self, _: Connection, digest: str) -> None:
        """Delete a content, and what a process that was killed wrote of it."""
        path = self._path(digest)
        with _translated(self._folder):
            for file in (path, *path.parent.glob(f".{digest}.*")):
                file.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def _read(self, digest: str) -> bytes | None:
        with _translated(self._folder):
            try:
                return self._path(digest).read_bytes()
            except FileNotFoundError:
                return None

    def _store(self, digest: str, content: bytes) -> None:
        """Write a content as a whole or not at all; one that is damaged is replaced."""
        if (stored := self._read(digest)) is not None and sha256(stored).hexdigest() == digest:
            return
        path = self._path(digest)
        with _translated(self._folder):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = path.with_name(f".{digest}.{uuid4().hex}")
            try:
                _write(temporary, content)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            for folder in (path.parent, self._folder, self._folder.parent):
                sync_folder(folder)


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Raise what the file system says as an error that says what to do.

    Raises:
        DatabaseUnavailable.
    """
    try:
        yield
    except OSError as error:
        raise DatabaseUnavailable(
            "The files of messages in {folder} cannot be read or written ({reason}): check the disk and the "
            "permissions, then try again.",
            folder=folder,
            reason=error.strerror or error,
        ) from error
