"""Files: durable changes of folders, and the suffix of recorded sessions."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, such as a rename, to the disk, where the system supports it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


SUFFIX = ".cassette.yaml"
