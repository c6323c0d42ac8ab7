"""The page's sources: vendored files are unchanged, both languages say the same, and the page is small."""

import hashlib
import re

import pytest

from segue.server.app import PAGE

FIRST_LOAD_BYTES = 168_000
LISTED = re.compile(r"^\| `(\S+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)
TEXT = re.compile(r'^  "([\w.]+)":\s*"(.*)",?$', re.MULTILINE)
IMPORT = re.compile(r'^(?:import|export)\b[^;]*?from "(\.[^"]+)";', re.MULTILINE)
LINK = re.compile(r'(?:src|href)="page/([^"]+)"')


def texts(language: str) -> dict[str, str]:
    files = [PAGE / f"texts/{language}{part}.js" for part in ("", "-more", "-panels")]
    return dict(TEXT.findall("".join(file.read_text(encoding="utf-8") for file in files)))


def test_what_is_shown_first_needs_no_text_of_the_panels() -> None:
    panels = {*dict(TEXT.findall((PAGE / "texts/en-panels.js").read_text(encoding="utf-8")))}
    assert panels
    for file in (*PAGE.glob("*.js"), *PAGE.glob("components/*.js"), *PAGE.glob("state/*.js")):
        named = set(re.findall(r'"([\w.]+)"', file.read_text(encoding="utf-8")))
        assert not named & panels, file


def test_what_is_loaded_first_needs_no_text_that_is_loaded_later() -> None:
    later = {*texts("en")} - {*dict(TEXT.findall((PAGE / "texts/en.js").read_text(encoding="utf-8")))}
    for file in first_loaded():
        if file.endswith(".js") and not file.startswith("texts/"):
            assert not later & set(re.findall(r'\bt\("([\w.]+)"', (PAGE / file).read_text(encoding="utf-8"))), file


def test_vendored_files_are_those_that_the_readme_lists() -> None:
    listed = dict(LISTED.findall((PAGE / "vendor/README.md").read_text(encoding="utf-8")))
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (PAGE / "vendor").iterdir()
        if file.suffix == ".js"
    }
    assert found == listed


def test_each_text_exists_in_both_languages_with_the_same_values() -> None:
    english, chinese = texts("en"), texts("zh")
    assert len(english) > 100
    assert english.keys() == chinese.keys()
    differing = [
        key
        for key, text in english.items()
        if set(re.findall(r"{\w+}", text)) != set(re.findall(r"{\w+}", chinese[key]))
    ]
    assert not differing


def test_each_text_that_a_component_names_exists() -> None:
    known = texts("en")
    for file in PAGE.rglob("*.js"):
        for key in re.findall(r'\bt\("([\w.]+)"', file.read_text(encoding="utf-8")):
            assert key in known, f"{file}: {key}"


def test_no_text_is_left_that_no_component_names() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in PAGE.rglob("*.js") if file.parent.name != "texts")
    sources += (PAGE / "texts/index.js").read_text(encoding="utf-8")
    named, begun = ({*re.findall(pattern, sources)} for pattern in (r'"([\w.]+)"', r"`(\w+)\.\w*\$"))
    assert not [key for key in texts("en") if key not in named and key.split(".")[0] not in begun]


def first_loaded() -> set[str]:
    """The files that the page loads before anything is opened, in one language, by their path in the folder."""
    open_files = [
        *LINK.findall((PAGE / "index.html").read_text(encoding="utf-8")),
        "index.html",
        "icons.svg",
        "texts/zh.js",
    ]
    found: set[str] = set()
    while open_files:
        name = open_files.pop()
        if name in found:
            continue
        found.add(name)
        if name.endswith(".js"):
            file = PAGE / name
            for link in IMPORT.findall(file.read_text(encoding="utf-8")):
                open_files.append((file.parent / link).resolve().relative_to(PAGE).as_posix())
    return found


def test_the_page_is_small() -> None:
    loaded = first_loaded()
    assert {"app.js", "components/sidebar.js", "vendor/signals-core.js", "styles/base.css"} <= loaded
    assert sum((PAGE / name).stat().st_size for name in loaded) < FIRST_LOAD_BYTES


@pytest.mark.parametrize("ending", ["js", "css"])
def test_no_file_is_long(ending: str) -> None:
    long = {
        file.name: lines
        for file in PAGE.rglob(f"*.{ending}")
        if "vendor" not in file.parts and (lines := file.read_text(encoding="utf-8").count("\n")) > 300
    }
    allowed = {"en.js", "zh.js", "en-panels.js", "zh-panels.js"}
    assert long.keys() <= allowed, long
