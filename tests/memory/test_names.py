"""Names of memory files: only what is safe on every file system, and nothing outside the user's folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.errors import InvalidMemory
from segue.memory.files import folder_of, parts_of
from tests.cases import cases

UNSAFE = (
    *("", "/etc/passwd", "//host/share", "C:/x.md", "c:x.md", "..", "../x.md", "a/../../x.md", "a/..", "."),
    *("./x.md", "a//b.md", "a/", "x\0.md", "x\n.md", "\u202ex.md", "x\ud800.md", ".hidden", ".lock", "x.md.", "x.md "),
    *(
        " x.md",
        "a\\b.md",
        "..\\x.md",
        "x:y.md",
        "x*.md",
        "CON",
        "con.md",
        "a/NUL.txt",
        "COM1",
        "lpt9.md",
        "x.md:stream",
    ),
    *("a" * 201, "记" * 67, "a/b/c/d/e.md"),
)


@cases("name", UNSAFE)
def test_unsafe_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidMemory, match="Use a relative path such as"):
        parts_of(name)


@given(st.text(), st.text())
def test_no_two_users_share_a_folder(one: str, other: str) -> None:
    folders = [folder_of(one), folder_of(other)]
    assert (folders[0] == folders[1].lower()) == (one == other)
    assert all(folder and "/" not in folder and not folder.startswith(".") for folder in folders)


def test_users_that_differ_by_case_alone_have_their_own_folders() -> None:
    names = ["alice", "Alice", "alpha:alice", "..", "con", "", "u" * 500]
    assert len({folder_of(name).lower() for name in names}) == len(names)
    assert folder_of("default") == "default"
