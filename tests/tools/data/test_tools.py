"""The data tools: figures against sums that are worked out here, what suits where nothing is named, and refusals."""

import asyncio
import csv
import io
import json
import sys
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from segue.core.errors import MissingExtra
from segue.tools.data import answers
from segue.tools.data.tools import data_tools
from segue.tools.registry import BadArguments
from tests.cases import cases

from .folder import Folder
from .sales import sales_csv, sales_rows, write_sales

PEOPLE = """name,city,score,joined,born
Ann,Rome,3,2024-01-05,1990
Bob,Rome,4.5,2024-03-10,1991
Cem,Oslo,,2024-03-31,1992
Dia,,1,,1993
Eve,Bern,0.5,2024-12-31,1994
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder that tests only read."""
    folder = Folder(tmp_path_factory.mktemp("people"))
    folder.put("people.csv", PEOPLE)
    return folder


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder that tests only read, charts aside."""
    folder = Folder(tmp_path_factory.mktemp("sales"))
    write_sales(folder.path, "zh")
    return folder


@pytest.fixture
def own_sales(folder: Folder) -> Folder:
    """The same for one test, which may change it."""
    write_sales(folder.path, "zh")
    return folder


def added_up(by: int, rows: list[list[str]]) -> dict[str, Decimal]:
    """The amounts of the example by one of its columns, without any of the tools' code."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        sums[row[by]] += Decimal(row[5])
    return dict(sums)


def example_rows() -> list[list[str]]:
    return list(csv.reader(io.StringIO(sales_csv("zh"))))[1:]


def figures(result: dict[str, Any], key: str = "name") -> dict[str | None, Any]:
    return {group[key]: group["figure"] for group in result["groups"]}


# Sums and counts


@pytest.mark.parametrize(("column", "place"), [("地区", 1), ("产品", 2)])
async def test_sums_are_those_of_the_rows(sales: Folder, column: str, place: int) -> None:
    wanted = added_up(place, example_rows())
    result = await sales.call("sum_by", file="销售.csv", column=column, value="金额")
    assert {name: Decimal(str(figure)) for name, figure in figures(result).items()} == wanted
    assert list(figures(result)) == sorted(wanted, key=lambda name: -wanted[name])
    assert Decimal(str(result["total"])) == sum(wanted.values())
    assert result["count"] == len(wanted)
    assert all(f"{wanted[name]:,.2f}" in result["summary"] for name in wanted)
    assert "445,557.80" in result["summary"]


async def test_an_empty_cell_is_a_group_of_its_own_and_no_number(people: Folder) -> None:
    assert figures(await people.call("count_by", column="city")) == {"Rome": 2, "Bern": 1, "Oslo": 1, None: 1}
    result = await people.call("sum_by", column="city", value="score")
    assert figures(result) == {"Rome": 7.5, None: 1, "Bern": 0.5, "Oslo": 0}
    assert result["total"] == 9
    assert "(empty)" in result["summary"]


async def test_more_groups_than_a_result_holds_are_counted(folder: Folder) -> None:
    folder.put("x.csv", "k,v\n" + "".join(f"key {number},{number}\n" for number in range(200)))
    result = await folder.call("sum_by", column="k", value="v")
    assert len(result["groups"]) == 50
    assert (result["count"], result["total"]) == (200, sum(range(200)))
    assert figures(result)["key 199"] == 199
    assert "And 188 more" in result["summary"]


# Rankings


async def test_the_highest_and_the_lowest_are_named_in_order(sales: Folder) -> None:
    wanted = added_up(2, example_rows())
    order = sorted(wanted, key=lambda name: -wanted[name])
    result = await sales.call("top_n", column="产品", value="金额", n=3)
    assert [group["name"] for group in result["groups"]] == order[:3]
    assert result["summary"].startswith(f"金额最高的产品是 **{order[0]}**：{wanted[order[0]]:,.2f}。")
    lowest = await sales.call("top_n", column="产品", value="金额", n=2, lowest=True)
    assert [group["name"] for group in lowest["groups"]] == order[:-3:-1]
    assert "金额最低的产品" in lowest["summary"]


@cases("n", [0, 51, -1, 2.5, "many"])
async def test_a_number_outside_one_to_fifty_is_refused(sales: Folder, n: Any) -> None:
    with pytest.raises(BadArguments, match="n: "):
        await sales.call("top_n", n=n)


# Trends


async def test_months_are_added_up_and_none_is_left_out(people: Folder) -> None:
    result = await people.call("trend", date_column="joined", value="score", every="month")
    assert [period["period"] for period in result["periods"]] == [f"2024-{month:02}" for month in range(1, 13)]
    assert {p["period"]: p["figure"] for p in result["periods"] if p["rows"]} == {
        "2024-01": 3,
        "2024-03": 4.5,
        "2024-12": 0.5,
    }
    assert result["undated"] == 1
    assert "Highest: 2024-03 (4.50)" in result["summary"]
    assert "1 rows have no date" in result["summary"]


async def test_an_average_is_not_a_sum(folder: Folder) -> None:
    folder.put("a.csv", "day,kind,price\n2026-01-05,a,1\n2026-01-05,a,2\n2026-01-07,b,6\n2026-01-08,c,\n")
    about = {"column": "kind", "value": "price", "measure": "average"}
    grouped = await folder.call("sum_by", **about)
    assert [(group["name"], group["figure"]) for group in grouped["groups"]] == [("b", 6), ("a", 1.5), ("c", None)]
    assert grouped["total"] == 3 and "| c | — |" in grouped["summary"] and "share" not in grouped["summary"]
    top = await folder.call("top_n", **about, lowest=True)
    assert "The kind with the lowest average price is **a**: 1.50." in top["summary"] and "%" not in top["summary"]
    trend = await folder.call("trend", value="price", measure="average")
    assert [period["figure"] for period in trend["periods"]] == [1.5, None, 6, None]
    assert "from 2026-01-05 to 2026-01-07: 1.50 → 6" in trend["summary"]


@pytest.mark.parametrize(
    ("days", "every", "periods"),
    [
        (("2026-01-01", "2026-02-01"), "month", ["2026-01", "2026-02"]),
        (("2026-01", "2026-03"), "month", ["2026-01", "2026-02", "2026-03"]),
        (("2026-01-01", "2026-02-01", "2026-04-01"), "month", ["2026-01", "2026-02", "2026-03", "2026-04"]),
        (("2026-01-05", "2026-01-12", "2026-01-19"), "week", ["2026-01-05", "2026-01-12", "2026-01-19"]),
        (("2026-01-01 10:00", "2026-01-03 10:00"), "day", ["2026-01-01", "2026-01-02", "2026-01-03"]),
        (("2026-01-01 10:00", "2026-02-01 10:00", "2026-03-01 10:00"), "month", ["2026-01", "2026-02", "2026-03"]),
        (("2026-01-31", "2026-02-28"), "month", ["2026-01", "2026-02"]),
        (("2025-03-31", "2025-06-30"), "quarter", ["2025-Q1", "2025-Q2"]),
        (("2024-01-01", "2026-01-01"), "year", ["2024", "2025", "2026"]),
        (("2026-01-05", "2026-01-12"), "week", ["2026-01-05", "2026-01-12"]),
        (("2026-01-05", "2026-01-07"), "day", ["2026-01-05", "2026-01-06", "2026-01-07"]),
        (("2026-01-01",), "day", ["2026-01-01"]),
    ],
)
async def test_periods_are_not_shorter_than_those_of_the_dates(
    folder: Folder, days: tuple[str, ...], every: str, periods: list[str]
) -> None:
    folder.put("a.csv", "\n".join(["when,amount", *(f"{day},5" for day in days)]))
    found = await folder.call("trend")
    assert (found["every"], [each["period"] for each in found["periods"]]) == (every, periods)


async def test_a_shorter_period_than_that_of_the_dates_is_not_made_up(folder: Folder) -> None:
    months = ["2026-01-01,5", "2026-02-01,5", "2026-03-01,5"]
    folder.put("a.csv", "\n".join(["when,amount", *months]))
    found = await folder.call("trend", every="day")
    assert (found["every"], found["is_longer"], len(found["periods"])) == ("month", True, 3)
    assert "The dates have no shorter period." in found["summary"]
    folder.put("a.csv", "\n".join(["when,amount", *months[:2]]))
    found = await folder.call("trend", every="day")
    assert (found["every"], found["is_longer"], len(found["periods"])) == ("day", False, 32), "two dates say nothing"


@pytest.mark.parametrize(
    ("every", "first", "last", "count"),
    [
        ("week", "2024-01-01", "2024-12-30", 53),
        ("month", "2024-01", "2024-12", 12),
        ("quarter", "2024-Q1", "2024-Q4", 4),
        ("year", "2024", "2024", 1),
    ],
)
async def test_each_kind_of_period_covers_all_rows(
    sales: Folder, every: str, first: str, last: str, count: int
) -> None:
    result = await sales.call("trend", every=every)
    periods = [period["period"] for period in result["periods"]]
    assert (periods[0], periods[-1], len(periods)) == (first, last, count)
    assert sum(Decimal(str(period["figure"])) for period in result["periods"]) == Decimal("445557.80")


@pytest.mark.parametrize(
    ("first", "last", "every"),
    [("2024-01-01", "2024-02-02", "day"), ("2024-01-01", "2025-06-03", "month"), ("1990-01-01", "2024-01-01", "year")],
)
async def test_the_period_that_suits_is_chosen(folder: Folder, first: str, last: str, every: str) -> None:
    folder.put("x.csv", f"date,v\n{first},1\n{last},2\n")
    result = await folder.call("trend")
    assert (result["every"], result["periods"][-1]["figure"]) == (every, 2)


async def test_periods_beyond_counting_are_refused(folder: Folder) -> None:
    folder.put("x.csv", "date,v\n1000-01-01,1\n9999-12-31,2\n")
    with pytest.raises(ValueError, match=r"more than 120 periods of a day .*: choose a longer period"):
        await folder.call("trend", every="day")
    folder.put("x.csv", "date,v\n9990-01-01,1\n9999-12-31,2\n")
    assert (await folder.call("trend", every="year"))["periods"][-1] == {"period": "9999", "rows": 1, "figure": 2}


async def test_without_numbers_a_trend_counts(folder: Folder) -> None:
    folder.put("x.csv", "when,who\n2024-01-01 10:00,a\n2024-01-03 11:30,b\n2024-01-03 12:00,c\n")
    result = await folder.call("trend")
    assert [(period["period"], period["figure"]) for period in result["periods"]] == [
        ("2024-01-01", 1),
        ("2024-01-02", 0),
        ("2024-01-03", 2),
    ]


# Descriptions


async def test_a_description_has_the_figures_of_each_column(people: Folder) -> None:
    result = await people.call("describe")
    columns = {column.pop("name"): column for column in result["columns"]}
    assert result["rows"] == 5
    assert columns["score"] == {"type": "number", "nulls": 1, "distinct": 4, "min": 0.5, "max": 4.5, "mean": 2.25}
    assert columns["joined"] == {"type": "date", "nulls": 1, "distinct": 4, "min": "2024-01-05", "max": "2024-12-31"}
    assert columns["city"] == {
        **{"type": "text", "nulls": 1, "distinct": 3},
        "common": [{"value": "Rome", "rows": 2}, {"value": "Bern", "rows": 1}, {"value": "Oslo", "rows": 1}],
    }
    assert result["sample"][0] == {"name": "Ann", "city": "Rome", "score": 3, "joined": "2024-01-05", "born": 1990}
    assert "| score | number | 1 | 4 | 0.5 – 4.50 | 2.25 |" in result["summary"]


async def test_many_different_values_are_estimated_and_their_memory_is_bounded(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "EXACT", 100)
    monkeypatch.setattr(answers, "EXACT", 100)
    folder.put("x.csv", "name,k\n" + "".join(f"name {number},k{number % 90}\n" for number in range(5_000)))
    name, k = (await folder.call("describe"))["columns"]
    assert 4_000 < name["distinct"] < 6_000
    assert "common" not in name
    assert (k["distinct"], k["common"][0]) == (90, {"value": "k0", "rows": 56})


async def test_several_files_are_listed_with_their_columns(folder: Folder) -> None:
    folder.put("people.csv", PEOPLE)
    folder.put("bad.csv", "")
    folder.put("订单.csv", "日期,金额\n")
    result = await folder.call("describe", language="en")
    assert result["files"] == [
        {"file": "bad.csv", "error": 'The file "bad.csv" is empty.'},
        {"file": "people.csv", "columns": ["name", "city", "score", "joined", "born"]},
        {"file": "订单.csv", "columns": ["日期", "金额"]},
    ]
    assert (await folder.call("describe", file="people"))["rows"] == 5


async def test_what_is_in_a_file_is_never_mark_up_in_a_summary(folder: Folder) -> None:
    folder.put("x.csv", 'k|<b>,v\n"[a](http://x) | `b`\n*c*",1\n')
    for name in ("describe", "sum_by", "top_n"):
        summary = (await folder.call(name))["summary"]
        assert "k\\|\\<b\\>" in summary
        assert "\\[a\\](http://x) \\| \\`b\\`" in summary


@pytest.mark.slow
async def test_results_are_json_and_fit_into_a_prompt(own_sales: Folder) -> None:
    own_sales.put(
        "wide.csv", ",".join(f"c{n}" for n in range(15)) + "\n" + ",".join("x" * 500 for _ in range(15)) + "\n"
    )
    for name, arguments in [
        *((name, {"file": "销售"}) for name in ("describe", "count_by", "sum_by", "top_n", "trend", "chart")),
        ("query", {"sql": "SELECT * FROM 销售 LIMIT 10"}),
    ]:
        result = await own_sales.call(name, **arguments)
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
        assert json.loads(text) == result
        assert len(text) <= 4_000, name
    assert len(json.dumps(await own_sales.call("describe", file="wide"))) < 20_000


# What suits


@pytest.mark.parametrize(
    ("header", "row", "column", "value"),
    [
        ("id,kind,profit,cost", "1,a,2,3", "kind", "profit"),
        ("year,kind,weight", "2024,a,3", "kind", "weight"),
        ("Order ID,Order Amount,Region,Qty", "1,2,a,3", "Region", "Order Amount"),
        ("单号,客户名称,数量,单价", "1,a,2,3", "客户名称", "数量"),
        ("销售金额（元）,门店名称,成本金额", "1,a,2", "门店名称", "销售金额（元）"),
    ],
)
async def test_the_main_value_is_known_by_its_name(
    folder: Folder, header: str, row: str, column: str, value: str
) -> None:
    folder.put("x.csv", f"{header}\n{row}\n{row}\n")
    result = await folder.call("sum_by")
    assert (result["column"], result["value"]) == (column, value)


@cases(
    "asked, found",
    [
        (("地区", "金额"), ("地区", "金额")),
        (("region", "amount"), ("地区", "金额")),
        (("Product", "revenue"), ("产品", "金额")),
        (("区域", "销量"), ("地区", "数量")),
        (("商品", "sold"), ("产品", "金额")),
        ((" 地 区 ", "单价"), ("地区", "单价")),
    ],
)
async def test_a_column_is_known_in_both_languages(
    sales: Folder, asked: tuple[str, str], found: tuple[str, str]
) -> None:
    result = await sales.call("sum_by", column=asked[0], value=asked[1])
    assert (result["column"], result["value"]) == found


async def test_a_real_name_goes_before_a_word_that_means_another_column(folder: Folder) -> None:
    folder.put("x.csv", "revenue,amount,region,地区\n1,2,a,b\n")
    assert (await folder.call("sum_by", column="地区", value="revenue"))["groups"][0]["name"] == "b"
    assert (await folder.call("sum_by", column="region", value="amount"))["total"] == 2


@pytest.mark.parametrize(
    ("arguments", "language", "head"),
    [
        ({"language": "en"}, "en", "**金额 by 地区**"),
        ({"language": "zh"}, "zh", "**按地区汇总金额**"),
        ({}, "zh", "**按地区汇总金额**"),
        ({"column": "region"}, "en", "**金额 by 地区**"),
    ],
)
async def test_the_summary_is_in_the_language_that_was_asked_for(
    sales: Folder, arguments: dict[str, str], language: str, head: str
) -> None:
    assert (await sales.call("sum_by", **arguments))["summary"].startswith(head)


# Refusals


@pytest.mark.parametrize("name", ["count_by", "sum_by", "top_n", "chart"])
async def test_an_unknown_column_lists_the_columns_and_the_nearest(people: Folder, name: str) -> None:
    with pytest.raises(
        ValueError, match=r"no column \"citty\" in \"people.csv\". Did you mean \"city\"\? Available: name, city"
    ):
        await people.call(name, column="citty")
    with pytest.raises(ValueError, match=r"“people.csv”里没有列“颜色”。可选：name、city、score、joined、born。"):
        await people.call(name, column="颜色")


@pytest.mark.parametrize("name", ["sum_by", "top_n", "trend", "chart"])
async def test_a_column_that_is_not_numeric_is_not_added_up(people: Folder, name: str) -> None:
    with pytest.raises(ValueError, match=r"\"city\" is text, not numeric; columns of that type: score, born"):
        await people.call(name, value="city")
    with pytest.raises(ValueError, match=r"列“joined”是日期，不是数值列；数值列有：score、born。"):
        await people.call(name, value="joined", language="zh")


async def test_the_values_that_are_no_numbers_are_named(folder: Folder) -> None:
    folder.put("x.csv", "k,v\na,1\nb,2\nc,about 3\n")
    with pytest.raises(ValueError, match=r"\"v\" is text.*1 of its values are not numbers, such as \"about 3\""):
        await folder.call("sum_by", value="v")


async def test_what_a_file_lacks_is_said(folder: Folder) -> None:
    folder.put("x.csv", "colour\nred\n")
    with pytest.raises(ValueError, match="has no numeric column: count with count_by"):
        await folder.call("sum_by")
    with pytest.raises(ValueError, match="has no date column; its columns are: colour"):
        await folder.call("trend")
    with pytest.raises(ValueError, match='"colour" is text, not a date'):
        await folder.call("trend", date_column="colour")
    folder.put("x.csv", "v,w\n1,2\n")
    with pytest.raises(ValueError, match=r"Choose the column to group by: v, w"):
        await folder.call("sum_by")


async def test_a_file_without_rows_is_no_failure(folder: Folder) -> None:
    folder.put("x.csv", "city,v\n")
    assert (await folder.call("describe"))["rows"] == 0
    assert (await folder.call("count_by"))["groups"] == []
    assert (await folder.call("top_n"))["summary"] == "x.csv has no rows."
    with pytest.raises(ValueError, match="no data to draw"):
        await folder.call("chart")


async def test_sql_in_an_argument_is_only_an_unknown_name(people: Folder) -> None:
    names = ['city"; DROP TABLE data; --', "count(*)", '"']
    for column in names:
        for tool in ("count_by", "sum_by", "top_n", "chart"):
            with pytest.raises(ValueError, match="There is no column"):
                await people.call(tool, column=column)
        with pytest.raises(ValueError, match="There is no column"):
            await people.call("trend", date_column=column)
    assert (await people.call("describe"))["rows"] == 5


async def test_a_column_whose_name_is_sql_is_only_a_column(folder: Folder) -> None:
    name = 'v"; DROP TABLE data; --'
    folder.put("x.csv", 'k,"v""; DROP TABLE data; --"\na,1\na,2\n')
    assert (await folder.call("sum_by", value=name))["total"] == 3
    assert (await folder.call("describe"))["rows"] == 2


# Files that change


async def test_a_file_that_changes_meanwhile_is_read_as_it_was_or_as_it_is(own_sales: Folder) -> None:
    tools = own_sales.tools()

    async def sum_up() -> Any:
        return (await tools["sum_by"].call({"column": "地区"}))["total"]

    first = asyncio.gather(*(sum_up() for _ in range(5)))
    await asyncio.sleep(0)
    part = own_sales.path / "part"
    part.write_text(sales_csv("zh", rows=10), encoding="utf-8")
    part.replace(own_sales.path / "销售.csv")
    short = sum(Decimal(row[5]) for row in sales_rows("zh", 10))
    assert {Decimal(str(total)) for total in await first} <= {Decimal("445557.80"), short}
    assert Decimal(str(await sum_up())) == short


# The set


def test_the_tools_say_what_they_do(sales: Folder) -> None:
    tools = sales.tools()
    assert list(tools) == ["describe", "count_by", "sum_by", "top_n", "trend", "query", "chart"]
    assert [name for name, bound in tools.items() if not bound.read_only] == ["chart"]
    for bound in tools.values():
        parameters = bound.spec["function"]["parameters"]
        assert bound.idempotent
        assert not bound.needs_approval
        assert "folder" not in parameters["properties"]
        assert all(field["description"] for field in parameters["properties"].values())
        assert bound.spec["segue"]["keywords"]


def test_the_tools_stay_the_same_until_a_file_changes(own_sales: Folder) -> None:
    first = data_tools(own_sales.path)
    assert data_tools(own_sales.path) is first
    own_sales.put("more.csv", "colour,v\nred,1\n")
    assert "colour" in str(data_tools(own_sales.path)[2].spec)
    assert "colour" not in str(first[2].spec)


def test_a_folder_that_is_missing_or_unreadable_gives_tools_all_the_same(tmp_path: Path) -> None:
    assert len(data_tools(tmp_path / "nowhere")) == 7
    (tmp_path / "x.csv").write_bytes(b"\xff\xff\xff\xff")
    assert len(data_tools(tmp_path)) == 7


async def test_without_the_extra_it_says_what_to_install(sales: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = sales.tools()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"Drawing charts needs an extra: pip install 'segue\[data\]'"):
        await tools["chart"].call({})
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"Reading data files needs an extra: pip install 'segue\[data\]'"):
        data_tools(sales.path)
    with pytest.raises(MissingExtra):
        await tools["query"].call({"sql": "SELECT 1"})
