"""The wheel holds the source tree, shadows no package of a user, and types what the README shows."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from reference.readme import write_examples

ROOT = Path(__file__).parents[1]
FOLDERS = ("graphs", "nodes", "tools", "prompts", "checkpoints", "src/segue")
PROJECT_FILES = ("pyproject.toml", "README.md", "LICENSE")


def source_files() -> set[str]:
    """Every file of the package folders, under the name that it has once installed."""
    found = set()
    for folder in FOLDERS:
        installed = Path("segue") if folder == "src/segue" else Path("segue", folder)
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT / folder)
            if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
                found.add((installed / inside).as_posix())
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build in a copy, so that leftovers of an earlier build cannot slip in."""
    copy = tmp_path_factory.mktemp("source")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in PROJECT_FILES:
        shutil.copy(ROOT / name, copy / name)
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(copy)]
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("*.whl")
    return built


def test_every_package_folder_is_listed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    inits = {name for name in source_files() if name.endswith("/__init__.py")}
    assert set(setup["packages"]) == {name.removesuffix("/__init__.py").replace("/", ".") for name in inits}
    assert set(setup["package-dir"]) == set(setup["packages"])


def test_wheel_and_source_tree_hold_the_same_files(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == source_files()


def test_a_users_own_tools_and_graphs_are_not_shadowed(wheel: Path, tmp_path: Path) -> None:
    site, project = tmp_path / "site", tmp_path / "project"
    zipfile.ZipFile(wheel).extractall(site)
    for package in ("tools", "graphs"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text("OWNER = 'user'\n", encoding="utf-8")
    program = (
        "import graphs, tools, segue.graphs, segue.tools.registry\n"
        "assert tools.OWNER == graphs.OWNER == 'user'\n"
        "assert tools is not segue.tools and graphs is not segue.graphs\n"
        "print(tools.__file__, graphs.__file__, segue.tools.registry.__file__, segue.graphs.__file__, sep='\\n')\n"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [Path(line).resolve().relative_to(tmp_path.resolve()).as_posix() for line in done.stdout.split()] == [
        "project/tools/__init__.py",
        "project/graphs/__init__.py",
        "site/segue/tools/registry.py",
        "site/segue/graphs/__init__.py",
    ]


LANGGRAPHS_OWN = dict.fromkeys(("reportMissingTypeStubs", "reportUnknownMemberType"), False)
"""Rules that LangGraph's own annotations break wherever one of its graphs is built."""


@pytest.fixture(scope="module")
def examples(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's Python code beside the installed wheel; `make check` has mypy read it, too."""
    folder = tmp_path_factory.mktemp("examples")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    write_examples(folder / "readme")
    return folder


def test_the_readme_passes_pyright(examples: Path) -> None:
    settings = {"typeCheckingMode": "strict", "include": ["readme"], "extraPaths": ["site"], **LANGGRAPHS_OWN}
    (examples / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=examples, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
