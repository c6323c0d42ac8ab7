"""A data folder of a test, and the tools over it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segue.tools.data.answers import Table, Tables
from segue.tools.data.sources import DataFolder
from segue.tools.data.tools import data_tools
from segue.tools.registry import BoundTool


class Folder:
    """Files in a folder of its own below the test's."""

    def __init__(self, path: Path) -> None:
        self.path = path / "files"
        self.path.mkdir()

    def put(self, name: str, content: str | bytes) -> Path:
        file = self.path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def tools(self) -> Mapping[str, BoundTool]:
        return {bound.name: bound for bound in data_tools(self.path)}

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = await self.tools()[name].call(arguments)
        assert isinstance(result, dict)
        return result

    def table(self, name: str = "") -> Table:
        return Tables().open(DataFolder.of(self.path).find(name))
