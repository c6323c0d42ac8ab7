"""The finished runs of a hunt, in a file of its folder: a hunt that was stopped goes on behind them."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import ConfigurationError
from ..core.records import Json
from .findings import Finding

FILE = "runs.jsonl"


class Finished:
    """The finished runs of the hunt with this digest; a folder of another hunt is emptied.

    Raises:
        ConfigurationError: the folder holds something else.
    """

    def __init__(self, folder: Path, digest: str, *, fresh: bool = False) -> None:
        self._file = folder / FILE
        self.runs: dict[str, list[Finding]] = {}
        if folder.exists() and not self._file.exists() and any(folder.iterdir()):
            raise ConfigurationError(
                "The folder {folder} contains other files: name another one with --output.", folder=folder
            )
        lines = self._lines()
        if lines and lines[0] == {"digest": digest} and not fresh:
            self.runs = {line["run"]: [Finding.read(found) for found in line["findings"]] for line in lines[1:]}
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._append({"digest": digest})

    def _lines(self) -> list[Json]:
        """The lines that were written whole."""
        if not self._file.exists():
            return []
        text = self._file.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # the process was killed while it wrote
            self._file.write_text(whole, encoding="utf-8")
        return [json.loads(line) for line in whole.splitlines()]

    def add(self, run: str, findings: Sequence[Finding]) -> None:
        """Keep what a run found."""
        self.runs[run] = [*findings]
        self._append({"run": run, "findings": [found.kept() for found in findings]})

    def _append(self, line: object) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
