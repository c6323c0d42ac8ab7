"""The README's Python code as modules of a package: `make check` types them beside Segue's own."""

import re
import sys
from pathlib import Path

from .pages import ROOT


def write_examples(folder: Path) -> None:
    """Write each Python block of the README to a module of its own."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    for place, code in enumerate(blocks):
        (folder / f"example{place}.py").write_text(code, encoding="utf-8")


if __name__ == "__main__":
    write_examples(Path(sys.argv[1]))
