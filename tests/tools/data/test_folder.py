"""The data folder: which files may be read, under which names, and how their rows are read."""

import os
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from segue.core.errors import ConfigurationError
from segue.tools.data import sources as data_folder
from segue.tools.data.answers import Tables
from segue.tools.data.sources import DataFolder, connect, import_file, peek
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


# Reading data files: encodings, separators, odd headers, and what every row says of a column's kind.


def read(folder: Folder, content: str | bytes, name: str = "x.csv") -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """The columns with their kinds, and the rows."""
    folder.put(name, content)
    table = folder.table(name)
    return {column.name: column.kind for column in table.columns}, table.ask("FROM data")


# How a file is written

SALES = '日期,地区,金额\n2024-01-05,华东,"1,234.50"\n2024-02-05,华南,2\n'
READ = (
    {"日期": "date", "地区": "text", "金额": "number"},
    [(date(2024, 1, 5), "华东", Decimal("1234.50")), (date(2024, 2, 5), "华南", Decimal("2.00"))],
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "gbk", "utf-16", "utf-16-le"])
def test_every_usual_encoding_of_chinese_is_read(folder: Folder, encoding: str) -> None:
    content = ("\ufeff" if encoding == "utf-16-le" else "") + SALES
    assert read(folder, content.encode(encoding)) == READ


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_the_one_of_the_first_line(folder: Folder, separator: str) -> None:
    content = (
        separator.join(["日期", "地区", "金额"]) + "\n" + separator.join(["2024-01-05", "华东", '"1,234.50"']) + "\n"
    )
    assert read(folder, content) == (READ[0], READ[1][:1])


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_read(folder: Folder, newline: str) -> None:
    assert read(folder, SALES.replace("\n", newline)) == READ


@pytest.mark.parametrize("name", ["sales[1].csv", "a*.csv", "what?.csv", "{a,b}.csv", 'it\'s "so".csv', "10:30.csv"])
def test_a_name_with_signs_is_one_file_and_no_pattern(folder: Folder, name: str) -> None:
    folder.put("a1.csv", "other\n9\n")
    folder.put("sales1.csv", "other\n9\n")
    folder.put(name, SALES)
    file = next(file for file in DataFolder.of(folder.path).files() if file.name == name)
    assert Tables().open(file).ask("FROM data") == READ[1]


def test_quoted_line_ends_and_quotation_marks_are_part_of_a_value(folder: Folder) -> None:
    kinds, rows = read(folder, 'a,"b ""c"""\r\n"1\r\n2","x, ""y"""\r\n')
    assert kinds == {"a": "text", 'b "c"': "text"}
    assert rows == [("1\r\n2", 'x, "y"')]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("a,A,,a", ["a", "A_1", "column2", "a_2"]),
        (" a , b ,c,d", ["a", "b", "c", "d"]),
        ('"a\nb","drop table ""x"";--",c,d', ["a b", 'drop table "x";--', "c", "d"]),
        ("select,from,*,'", ["select", "from", "*", "'"]),
    ],
)
def test_odd_column_names_become_distinct_and_stay_names(folder: Folder, header: str, names: list[str]) -> None:
    kinds, rows = read(folder, f"{header}\n1,2,3,4\n")
    assert list(kinds) == names
    assert rows == [(1, 2, 3, 4)]


def test_blank_lines_before_the_names_are_skipped(folder: Folder) -> None:
    assert read(folder, "\n,,\n\na,b,c\n1,2,3\n") == ({"a": "number", "b": "number", "c": "number"}, [(1, 2, 3)])


@cases(
    "content, said",
    [
        (b"", "is empty"),
        (b"\n\n \n", 'first line of "x.csv" must name the columns'),
        (b"\xff\xff\xff\xff\xff\n", "not text in UTF-8, UTF-16 or GB18030"),
        (b"\xff\xfe\x00\xd8\x00", "not text in UTF-8"),
        (b"PK\x03\x04\0\0\0\0\n1,2\n", "not text in UTF-8"),
        (
            b"a,b\n1,2\n1,2,3\n",
            r"cannot be read: .*Line: 3 Original Line: 1,2,3 Expected Number of Columns: 2 Found: 3$",
        ),
        (b"a,b\n1\n", "cannot be read: .*Expected Number of Columns: 2 Found: 1"),
        (b'a,b\n1,"2\n', "cannot be read: .*unterminated quote"),
        (",".join(f"c{place}" for place in range(1_001)).encode(), "1000 at most"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(folder: Folder, content: bytes, said: str) -> None:
    folder.put("x.csv", content)
    with pytest.raises(ValueError, match=said) as caught:
        folder.table()
    assert str(folder.path) not in str(caught.value)


def test_a_damaged_parquet_file_says_why(folder: Folder) -> None:
    folder.put("x.parquet", b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"The file \"x.parquet\" cannot be read: ") as caught:
        folder.table()
    assert str(folder.path) not in str(caught.value)


# What columns hold


COLUMNS: list[tuple[list[str], str, list[Any]]] = [
    (["1", "2", "-3"], "number", [1, 2, -3]),
    (["1.5", "+2", ".25"], "number", [Decimal("1.50"), Decimal("2.00"), Decimal("0.25")]),
    (['"1,234"', '"1,234,567"', "5"], "number", [1234, 1234567, 5]),
    (["¥12.50", '"￥1,000"', "$ 3"], "number", [Decimal("12.50"), Decimal("1000.00"), Decimal("3.00")]),
    (["1e3", "2.5E-1"], "number", [1000.0, 0.25]),
    (["1", "", "N/A", "-", "null"], "number", [1, None, None, None, None]),
    (["9" * 30], "number", [1e30]),
    (["007", "012"], "text", ["007", "012"]),
    (["0", "0.5"], "number", [Decimal("0.0"), Decimal("0.5")]),
    (["1", "2", "three"], "text", ["1", "2", "three"]),
    (['"12,34"', "5"], "text", ["12,34", "5"]),
    (["12%", "5%"], "text", ["12%", "5%"]),
    ([" x ", "x", "", "NA"], "text", ["x", "x", None, "NA"]),
    (["2024-01-05", "2024-1-5"], "date", [date(2024, 1, 5)] * 2),
    (["2024/1/5", ""], "date", [date(2024, 1, 5), None]),
    (["2024年1月5日", "2024年12月31日"], "date", [date(2024, 1, 5), date(2024, 12, 31)]),
    (["2024-01", "2024-2"], "date", [date(2024, 1, 1), date(2024, 2, 1)]),
    (["2024-01-05 09:30", "2024-01-05 10:00"], "date", [datetime(2024, 1, 5, 9, 30), datetime(2024, 1, 5, 10)]),
    (["2024-01-05T09:30:00Z"], "date", [datetime(2024, 1, 5, 9, 30)]),
    (["2024-01-05T09:30:00.25"], "date", [datetime(2024, 1, 5, 9, 30, 0, 250_000)]),
    (["1/2/2024", "12/31/2024"], "date", [date(2024, 1, 2), date(2024, 12, 31)]),
    (["1/2/2024", "31/12/2024"], "date", [date(2024, 2, 1), date(2024, 12, 31)]),
    (["2024-01-05", "2024-02-30"], "text", ["2024-01-05", "2024-02-30"]),
    (["20240105", "20240106"], "number", [20240105, 20240106]),
]


def test_a_column_is_what_all_of_its_values_are(folder: Folder) -> None:
    most = max(len(values) for values, _, _ in COLUMNS)
    written = [[*values, *[""] * (most - len(values))] for values, _, _ in COLUMNS]
    lines = [",".join(line) for line in zip(*written, strict=True)]
    kinds, rows = read(folder, "\n".join([",".join(f"v{place}" for place in range(len(COLUMNS))), *lines]) + "\n")
    for place, (values, kind, read_as) in enumerate(COLUMNS):
        found = [row[place] for row in rows]
        assert (kinds[f"v{place}"], found) == (kind, [*read_as, *[None] * (most - len(values))]), values


def test_eight_digits_are_a_day_where_the_column_says_so(folder: Folder) -> None:
    kinds, rows = read(folder, "日期,no\n20240105,20240105\n")
    assert (kinds, rows) == ({"日期": "date", "no": "number"}, [(date(2024, 1, 5), 20240105)])


def test_sums_of_cents_are_exact(folder: Folder) -> None:
    folder.put("x.csv", "a\n" + "0.1\n" * 30 + "1234567890123.07\n")
    assert folder.table().ask("SELECT sum(a) FROM data") == [(Decimal("1234567890126.07"),)]


def test_parquet_keeps_its_types(folder: Folder) -> None:
    path = folder.path / "x.parquet"
    connect().execute(
        "COPY (SELECT 1::TINYINT AS i, 2::UBIGINT AS u, 1.50::DECIMAL(9, 2) AS m, 'nan'::DOUBLE AS f, 'x' AS t, "
        "true AS b, DATE '2024-01-05' AS d, TIMESTAMPTZ '2024-01-05 08:00:00+08' AS z, [1, 2] AS l, "
        f"INTERVAL 1 DAY AS s, uuid() AS id, TIMESTAMP_NS '2024-01-05 00:00:01' AS ns) TO '{path}' (FORMAT parquet)"
    )
    table = folder.table()
    kinds = {column.name: column.kind for column in table.columns}
    numbers, dates, texts = (
        dict.fromkeys("iumf", "number"),
        dict.fromkeys(["d", "z", "ns"], "date"),
        dict.fromkeys("tbl", "text"),
    )
    assert kinds == {**numbers, **dates, **texts, "s": "text", "id": "text"}
    row = dict(zip(table.names, table.ask("FROM data")[0], strict=True))
    assert (row["f"], row["b"], row["l"], row["z"]) == (None, "true", "[1, 2]", datetime(2024, 1, 5))
    assert peek(DataFolder.of(folder.path).find("x")) == table.columns


def test_the_first_rows_are_enough_to_know_the_columns(folder: Folder) -> None:
    rows = "2024-01-05,华东,1\n" * 60_000
    folder.put("x.csv", f"日期,地区,金额\n{rows}".encode("gb18030"))
    file = DataFolder.of(folder.path).find("x")
    assert [(column.name, column.kind) for column in peek(file)] == [
        ("日期", "date"),
        ("地区", "text"),
        ("金额", "number"),
    ]


# Tables that are kept


def test_a_changed_file_is_read_anew(folder: Folder) -> None:
    tables, where = Tables(), DataFolder.of(folder.path)
    folder.put("x.csv", "a\n1\n")
    first = tables.open(where.find("x"))
    assert tables.open(where.find("x")) is first
    folder.put("x.csv", "a\n2\n3\n")
    assert tables.open(where.find("x")).ask("FROM data") == [(2,), (3,)]


def test_only_the_last_tables_are_kept(folder: Folder) -> None:
    tables, where = Tables(kept=2), DataFolder.of(folder.path)
    for name in ("a", "b", "c"):
        folder.put(f"{name}.csv", "v\n1\n")
    first = tables.open(where.find("a"))
    for name in ("b", "c"):
        tables.open(where.find(name))
    assert tables.open(where.find("a")) is not first
    assert first.ask("FROM data") == [(1,)]
