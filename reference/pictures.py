"""The animated picture of `segue demo --crash`: `python -m reference.pictures` writes it anew."""

import os
import re
import subprocess
import sys
from io import StringIO

from rich.console import Console
from rich.text import Text

from .pages import ROOT

PICTURE = ROOT / "docs" / "crash.svg"
COMMAND = ("demo", "--crash")
COLUMNS = 82
LINE_SECONDS = 0.45
"""Between two lines, so that a person can read along."""
STOP_SECONDS = 6.0
"""How long the whole is shown before it begins again."""


def draw(printed: str) -> str:
    """What a terminal shows, as an SVG whose lines appear one after the other; without animation all are there."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text("$ segue " + " ".join(COMMAND)))
    console.print(Text.from_ansi(printed))
    picture = console.export_svg(title="", unique_id="crash")
    last = max(map(int, re.findall(r"url\(#crash-line-(\d+)\)", picture)))
    seconds = last * LINE_SECONDS + STOP_SECONDS
    rules = [
        f'    [clip-path="url(#crash-line-{n})"] {{ animation: line{n} {seconds:.1f}s infinite; }}\n'
        f"    @keyframes line{n} {{ 0%, {100 * n * LINE_SECONDS / seconds:.2f}% {{ opacity: 0; }} "
        f"{100 * n * LINE_SECONDS / seconds + 0.01:.2f}%, 100% {{ opacity: 1; }} }}"
        for n in range(1, last + 1)
    ]
    motion = "\n".join(["    @media (prefers-reduced-motion: no-preference) {", *rules, "    }"])
    return picture.replace("    </style>", f"{motion}\n    </style>", 1)


if __name__ == "__main__":
    environ = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "SEGUE_LANGUAGE": "en", "TTY_COMPATIBLE": "1"}
    segue = [sys.executable, "-m", "segue", *COMMAND]
    PICTURE.write_text(
        draw(subprocess.run(segue, env=environ, check=True, capture_output=True, text=True).stdout), "utf-8"
    )
