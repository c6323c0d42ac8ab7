"""The documentation site: `python -m reference` builds it into `site/`."""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from .pages import ROOT, write_pages, write_source, write_tables

SITE = ROOT / "site"
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?https?:[^>]*>|<link[^>]*stylesheet[^>]*https?:[^>]*>"""
)


_LINK = re.compile(r"""href=["']?([^"'#>\s]+)""")


def foreign(site: Path) -> list[str]:
    """What a page would load from elsewhere."""
    return [f"{page.name}: {tag}" for page in site.rglob("*.html") for tag in _LOADED.findall(page.read_text("utf-8"))]


def broken(site: Path) -> list[str]:
    """Links to files that are not there; links to pages and headings are Zensical's to check."""
    return [
        f"{page.name}: {link}"
        for page in site.rglob("*.html")
        for link in _LINK.findall(page.read_text("utf-8"))
        if not re.match(r"[a-z]+:|/", link) and not (page.parent / link).exists()
    ]


def build() -> str:
    """Build the site; returns what is wrong with it, or nothing."""
    write_tables()
    write_source(ROOT / "build/source")
    write_pages(ROOT / "build/pages")
    shutil.copy(_mermaid(), ROOT / "build/pages/mermaid.js")
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if built.returncode:
        return "The site was not built: see above."
    return "\n".join(
        [*map("Loaded from elsewhere: {}".format, foreign(SITE)), *map("Broken link: {}".format, broken(SITE))]
    )


def _mermaid() -> Path:
    """Mermaid's own script, which draws the diagrams, from a package: nothing is loaded from elsewhere."""
    found = find_spec("mermaidx")
    assert found and found.origin
    return Path(found.origin).parent / "assets" / "mermaid.js"


if __name__ == "__main__":
    sys.exit(build() or None)
