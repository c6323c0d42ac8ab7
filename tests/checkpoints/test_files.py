"""Contents of messages' files: stored once, kept while something names them, and deleted after that."""

from collections.abc import AsyncIterator
from hashlib import sha256

import pytest

from segue.checkpoints.files import Files
from segue.checkpoints.storage import Storage, open_storage
from segue.core.errors import FileUnavailable
from segue.core.message import UPLOAD_SECONDS, Attachment
from segue.core.records import NewTask

CONTENT = b"a text"
DIGEST = sha256(CONTENT).hexdigest()
FILE = Attachment(digest=DIGEST, name="a.txt", media_type="text/plain", size=6, tokens=2)
NEW = {"agent_id": "a", "user_id": "u", "mode": "direct", "model": "", "message": "m"}


@pytest.fixture
async def storage(address: str) -> AsyncIterator[Storage]:
    opened = await open_storage(address)
    yield opened
    await opened.close()


async def is_there(storage: Storage) -> bool:
    try:
        return await storage.files.get(DIGEST) == CONTENT
    except FileUnavailable:
        return False


async def test_a_content_stays_as_long_as_an_upload_or_a_task_names_it(storage: Storage) -> None:
    first, second = [await storage.files.put(FILE, CONTENT, "ann:") for _ in range(2)]
    upload = await storage.files.uploaded(first, "ann:")
    assert upload and upload.attachment == FILE and upload.created_at > 0
    assert await storage.files.uploaded(first, "bob:") is None
    await storage.files.discard(first, "ann:")
    await storage.files.delete_expired()
    assert await is_there(storage) and await storage.files.uploaded(first, "ann:") is None
    task_id = "2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"
    await storage.tasks.create(NewTask(task_id=task_id, session_id="t", attachments=[FILE.json()], **NEW))
    await storage.files.discard(second, "ann:")
    await storage.files.delete_expired()
    assert await is_there(storage)
    assert (await storage.tasks.get(task_id)).attachments == [FILE.json()]
    assert await storage.files.of_thread("t") == [FILE]
    report = await storage.files.check()
    assert (report.count, report.size, report.missing, report.damaged) == (1, 6, (), ())


async def test_an_upload_may_be_kept_for_less_than_a_day(storage: Storage) -> None:
    files = storage.files
    assert isinstance(files, Files)
    now = files._clock()
    upload_id = await files.put(FILE, CONTENT, "ann", {"purpose": "vision", "seconds": 60})
    (upload,) = await files.uploads("ann")
    assert (upload.upload_id, upload.attachment, upload.purpose) == (upload_id, FILE, "vision")
    later = Files(files._database, files._contents, lambda: now + 120)
    assert await later.uploads("ann") == [] and await later.uploaded(upload_id, "ann") is None


async def test_what_nothing_names_is_deleted_by_the_first_upload_after_a_day(storage: Storage) -> None:
    await storage.files.put(FILE, CONTENT)
    files = storage.files
    assert isinstance(files, Files)
    other = Attachment(digest="b" * 64, name="b.txt", media_type="text/plain", size=1, tokens=1)
    now = files._clock()
    later = Files(files._database, files._contents, lambda: now + UPLOAD_SECONDS + 1)
    await later.put(other, None)
    assert not await is_there(storage)
