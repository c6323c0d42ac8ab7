"""The data folder: which files may be read, under which names, and how one gets there."""

import os
from pathlib import Path

import pytest

from segue.core.errors import ConfigurationError
from segue.tools.data import sources as data_folder
from segue.tools.data.sources import DataFolder, import_file
from tests.cases import cases

from .folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def found(folder: Folder, name: str | None) -> str:
    return DataFolder.of(folder.path).find(name).name


# Names


@cases("name", ["sales.csv", "SALES.CSV", "sales", " Sales ", "销售", "销售.parquet", "cafe\u0301.csv", "caf\u00e9"])
def test_a_file_is_known_by_its_name_with_or_without_its_ending(folder: Folder, name: str) -> None:
    for there in ("sales.csv", "销售.parquet", "caf\u00e9.csv"):
        folder.put(there, "a\n1\n")
    assert found(folder, name) in {"sales.csv", "销售.parquet", "caf\u00e9.csv"}


def test_without_a_name_the_only_file_is_meant(folder: Folder) -> None:
    folder.put("sales.csv", "a\n1\n")
    assert found(folder, None) == found(folder, "") == "sales.csv"
    folder.put("other.csv", "a\n1\n")
    with pytest.raises(ValueError, match=r"There are several files\. Choose one: other.csv, sales.csv\."):
        found(folder, None)


def test_two_files_of_one_stem_need_their_endings(folder: Folder) -> None:
    folder.put("sales.csv", "a\n1\n")
    folder.put("sales.tsv", "a\n1\n")
    assert found(folder, "sales.tsv") == "sales.tsv"
    with pytest.raises(ValueError, match=r"sales.csv, sales.tsv"):
        found(folder, "sales")


def test_an_unknown_file_lists_those_there_are_and_the_nearest(folder: Folder) -> None:
    folder.put("sales.csv", "a\n1\n")
    with pytest.raises(
        ValueError, match=r"no file \"sale.csv\" in the data folder. Did you mean \"sales.csv\"\? Available: s"
    ):
        found(folder, "sale.csv")
    with pytest.raises(ValueError, match=r"数据文件夹里没有文件“库存”。可选：sales.csv。"):
        found(folder, "库存")


def test_an_empty_or_missing_folder_says_what_to_do(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\"files\" has no files: put a CSV or Parquet file there.*SEGUE_DATA"):
        found(folder, None)
    with pytest.raises(ValueError, match=r"\"nowhere\" has no files"):
        DataFolder.of(tmp_path / "nowhere").find(None)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../secret.csv",
            "..",
            "a/../../secret.csv",
            "/etc/passwd",
            "/secret.csv",
            "..\\secret.csv",
            "C:\\secret.csv",
        ),
        *(
            "C:secret.csv",
            "sub/inner.csv",
            "./sales.csv",
            "~/secret.csv",
            "~root",
            "sales.csv\0",
            "sales.csv\n",
            "\x1b[2J",
        ),
        *("file:///etc/passwd", "https://example.com/a.csv", "\\\\host\\share\\a.csv", "....//a"),
    ],
)
def test_a_path_is_no_file_name(folder: Folder, name: str) -> None:
    folder.put("sales.csv", "a\n1\n")
    folder.path.with_name("secret.csv").write_text("a\n1\n", encoding="utf-8")
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "inner.csv").write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is not a file name: give a name in the data folder") as caught:
        found(folder, name)
    assert str(caught.value).isprintable()


@cases(
    "name", ["*", "*.csv", "sales*", "[s]ales.csv", "sale?.csv", "{sales}.csv", "%s", "$HOME", "'", "sales.csv:stream"]
)
def test_a_pattern_finds_nothing(folder: Folder, name: str) -> None:
    folder.put("sales.csv", "a\n1\n")
    with pytest.raises(ValueError, match="There is no file"):
        found(folder, name)


def test_a_link_out_of_the_folder_is_not_followed(folder: Folder) -> None:
    folder.put("sales.csv", "a\n1\n")
    outside = folder.path.with_name("secret.csv")
    outside.write_text("a\n1\n", encoding="utf-8")
    (folder.path / "link.csv").symlink_to(outside)
    (folder.path / "inside.csv").symlink_to(folder.path / "sales.csv")
    (folder.path / "broken.csv").symlink_to(folder.path / "gone.csv")
    (folder.path / "loop.csv").symlink_to(folder.path / "loop.csv")
    assert [file.name for file in DataFolder.of(folder.path).files()] == ["inside.csv", "sales.csv"]
    with pytest.raises(ValueError, match=r"\"link.csv\" is a link to a place outside the data folder"):
        found(folder, "link.csv")
    with pytest.raises(ValueError, match=r"\"broken.csv\" cannot be opened"):
        found(folder, "broken.csv")


def test_only_regular_data_files_of_some_size_are_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "MOST_BYTES", 100)
    folder.put("small.csv", "a\n1\n")
    folder.put("large.csv", "a\n" + "1\n" * 100)
    folder.put(".hidden.csv", "a\n1\n")
    folder.put("notes.txt", "a\n1\n")
    (folder.path / "folder.csv").mkdir()
    os.mkfifo(folder.path / "pipe.csv")
    assert [file.name for file in DataFolder.of(folder.path).files()] == ["small.csv"]
    with pytest.raises(ValueError, match="is larger than"):
        found(folder, "large.csv")
    for name in ("pipe.csv", "folder.csv"):
        with pytest.raises(ValueError, match="is not a regular file"):
            found(folder, name)
    for name in (".hidden.csv", "notes.txt"):
        with pytest.raises(ValueError, match="There is no file"):
            found(folder, name)


def test_the_environment_names_the_folders(tmp_path: Path) -> None:
    assert DataFolder.of(environ={}) == DataFolder(Path("data"), Path("data/charts"))
    set_so = {"SEGUE_DATA": str(tmp_path), "SEGUE_CHARTS": str(tmp_path / "out")}
    assert DataFolder.of(environ=set_so) == DataFolder(tmp_path, tmp_path / "out")
    assert (
        DataFolder.of(tmp_path / "mine", environ={**set_so, "SEGUE_CHARTS": ""}).charts == tmp_path / "mine" / "charts"
    )


# Bringing a file in


def test_the_same_content_is_not_copied_twice_and_other_content_never_overwritten(tmp_path: Path) -> None:
    source, target = tmp_path / "sales.csv", tmp_path / "data"
    source.write_text("a\n1\n", encoding="utf-8")
    assert [import_file(source, target) for _ in range(2)] == ["sales.csv", "sales.csv"]
    source.write_text("a\n2\n", encoding="utf-8")
    assert [import_file(source, target) for _ in range(2)] == ["sales-2.csv", "sales-2.csv"]
    assert (target / "sales.csv").read_text(encoding="utf-8") == "a\n1\n"
    assert sorted(os.listdir(target)) == ["sales-2.csv", "sales.csv"]


def test_a_link_under_the_name_is_neither_followed_nor_replaced(tmp_path: Path) -> None:
    source, target, victim = tmp_path / "sales.csv", tmp_path / "data", tmp_path / "victim.csv"
    source.write_text("a\n1\n", encoding="utf-8")
    victim.write_text("keep", encoding="utf-8")
    target.mkdir()
    (target / "sales.csv").symlink_to(victim)
    assert import_file(source, target) == "sales-2.csv"
    assert victim.read_text(encoding="utf-8") == "keep"


def test_a_file_that_is_in_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "sales.csv"
    source.write_text("a\n1\n", encoding="utf-8")
    assert import_file(source, tmp_path) == "sales.csv"
    assert os.listdir(tmp_path) == ["sales.csv"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [("a;b$(x)`.csv", "a_b_(x)_.csv"), ("..odd..name..csv", "_odd_name.csv"), ("\x1b[2J.csv", "_2J.csv")],
)
def test_an_odd_name_is_cleaned(tmp_path: Path, name: str, kept: str) -> None:
    source = tmp_path / name
    source.write_text("a\n1\n", encoding="utf-8")
    assert import_file(source, tmp_path / "data") == kept
    assert DataFolder.of(tmp_path / "data").find(kept).name == kept


def test_what_cannot_be_brought_in_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "MOST_BYTES", 10)
    (tmp_path / "book.xlsx").write_text("x", encoding="utf-8")
    (tmp_path / "large.csv").write_text("x" * 20, encoding="utf-8")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "fine.csv").write_text("a\n", encoding="utf-8")
    for name, said in [
        ("gone.csv", "There is no file"),
        ("book.xlsx", r"save it as .csv, .tsv, .parquet"),
        ("large.csv", "larger than"),
        ("folder.csv", "not a regular file"),
        ("nul\0.csv", "There is no file"),
    ]:
        with pytest.raises(ConfigurationError, match=said):
            import_file(tmp_path / name, tmp_path / "data")
    with pytest.raises(ConfigurationError, match="cannot be copied"):
        import_file(tmp_path / "fine.csv", tmp_path / "book.xlsx")
