"""Charts: real PNG files of the right figures, under names of their own, with whatever letters there are."""

import os
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from segue.tools.data.charts import Chart, draw

from .folder import Folder
from .sales import sales_rows, write_sales

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    write_sales(folder.path, "en")
    return folder


def pixels(path: str | Path) -> tuple[tuple[int, int], int]:
    """The size of a picture, and how many colours are in it."""
    from PIL import Image

    with Image.open(path) as picture:
        picture.load()
        return picture.size, len(picture.convert("RGB").getcolors(1 << 24) or ())


def content(path: str | Path) -> bytes:
    return Path(path).read_bytes()


# Files and figures


@pytest.mark.parametrize("kind", ["bar", "line", "pie"])
async def test_each_kind_is_a_png_of_the_right_figures(folder: Folder, kind: str) -> None:
    result = await folder.call("chart", kind=kind, column="region", value="amount")
    path = Path(result["path"])
    assert path.parent == folder.path / "charts"
    assert path.name.startswith(f"sales-{kind}-")
    assert content(path).startswith(PNG)
    size, colours = pixels(path)
    assert list(size) == result["size"] == [900, 500]
    assert colours > 10
    assert result["bytes"] == len(content(path))
    wanted: dict[str, Decimal] = {}
    for row in sales_rows("en"):
        wanted[row[1]] = wanted.get(row[1], Decimal()) + Decimal(row[5])
    assert {item["label"]: Decimal(str(item["figure"])) for item in result["plotted"]} == wanted
    assert result["lacks_characters"] is False
    assert f"`{path}`" in result["summary"]


@pytest.mark.parametrize(
    ("asked", "kind", "column", "labels"),
    [
        ({}, "bar", "region", 5),
        ({"every": "month"}, "line", "date", 12),
        ({"kind": "line"}, "line", "date", 12),
        ({"column": "date", "every": "quarter", "kind": "bar"}, "bar", "date", 4),
        ({"column": "product"}, "bar", "product", 6),
    ],
)
async def test_it_goes_over_time_where_that_is_asked_for(
    folder: Folder, asked: dict[str, str], kind: str, column: str, labels: int
) -> None:
    result = await folder.call("chart", **asked)
    assert (result["kind"], result["column"], len(result["plotted"])) == (kind, column, labels)
    assert sum(Decimal(str(item["figure"])) for item in result["plotted"]) == Decimal("445557.80")


async def test_small_groups_are_drawn_as_one(folder: Folder) -> None:
    folder.put("x.csv", "k,v\n" + "".join(f"k{number:02},{number}.1\n" for number in range(1, 41)))
    for kind, shown in (("bar", 12), ("pie", 8)):
        result = await folder.call("chart", file="x", kind=kind)
        assert len(result["plotted"]) == shown + 1
        assert result["plotted"][-1]["label"] == f"{40 - shown} others"
        assert sum(Decimal(str(item["figure"])) for item in result["plotted"]) == 820 + 4


async def test_the_same_chart_is_the_same_file_and_another_one_is_not(folder: Folder) -> None:
    paths = [(await folder.call("chart"))["path"] for _ in range(2)]
    assert paths[0] == paths[1]
    other = (await folder.call("chart", kind="pie"))["path"]
    write_sales(folder.path, "en", rows=100)
    changed = (await folder.call("chart"))["path"]
    assert len({paths[0], other, changed}) == 3
    assert len(os.listdir(folder.path / "charts")) == 3


async def test_a_pie_of_losses_is_refused(folder: Folder) -> None:
    folder.put("x.csv", "k,v\na,5\nb,-1\n")
    with pytest.raises(ValueError, match="cannot show negative values: use a bar chart"):
        await folder.call("chart", file="x", kind="pie")
    assert (await folder.call("chart", file="x", kind="bar"))["plotted"][1] == {"label": "b", "figure": -1}


async def test_a_folder_that_cannot_be_written_to_says_what_to_do(folder: Folder) -> None:
    (folder.path / "charts").write_text("in the way", encoding="utf-8")
    with pytest.raises(ValueError, match=r"The chart cannot be written to .*set SEGUE_CHARTS to another folder"):
        await folder.call("chart")


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "$(x)`; \n", "销售"])
def test_no_name_leads_out_of_the_charts_folder(tmp_path: Path, name: str) -> None:
    drawn = draw(Chart("bar", "t", "a", "b", ["x"], [1.0]), tmp_path / "out", name, "en")
    assert drawn.path.parent == tmp_path / "out"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Letters


@pytest.mark.parametrize("kind", ["bar", "line", "pie"])
def test_odd_labels_are_drawn_without_a_warning(tmp_path: Path, kind: Any) -> None:
    """Warnings are errors here: a formula that does not parse or a missing glyph would be one."""
    labels = [
        "$x^2$",
        "$\\frac{$",
        "a_b",
        "$",
        "\\frac{",
        "{}",
        "%s",
        "x" * 500,
        "",
        "\n",
        "Zoë",
        "\x00",
        "😀",
        "עברית",
    ]
    chart = Chart(kind, "$\\sum{ $", "^_", "a $b$ c", labels, [float(place) for place in range(1, 15)])
    assert pixels(draw(chart, tmp_path, "x", "en").path)[0] == (900, 500)


def test_chinese_is_drawn_on_any_machine(tmp_path: Path) -> None:
    chart = Chart("bar", "各地区销售金额（元）", "地区", "金额", ["华东", "华南"], [2.0, 1.0])
    other = Chart("bar", "各地区销售金额（元）", "地区", "金额", ["华东", "华北"], [2.0, 1.0])
    drawn, different = draw(chart, tmp_path, "x", "zh"), draw(other, tmp_path, "x", "zh")
    assert not drawn.lacks_characters
    assert content(drawn.path) != content(different.path)


@pytest.mark.parametrize(("label", "lacks"), [("华\n东", False), ("a\r\n\tb", False), ("x\x00", False), ("🦩", True)])
def test_only_a_character_without_a_glyph_is_missing(tmp_path: Path, label: str, lacks: bool) -> None:
    drawn = draw(Chart("bar", "t", "a", "b", [label], [1.0]), tmp_path, "x", "en")
    assert drawn.lacks_characters is lacks


# Threads and imports


def test_many_threads_draw_at_once(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            draw(Chart("bar", f"t{number}", "a", "b", ["x", "y"], [1.0, float(number)]), tmp_path, "x", "en")
        except Exception as error:  # noqa: BLE001 - shown below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number % 4,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(list(tmp_path.iterdir())) == 4
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.iterdir())


def test_drawing_leaves_the_settings_of_others_alone(tmp_path: Path) -> None:
    import matplotlib

    def settings() -> dict[str, Any]:
        return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}

    before = settings()
    draw(Chart("pie", "t", "a", "b", ["x"], [1.0]), tmp_path, "x", "en")
    assert settings() == before


@pytest.mark.slow
def test_a_process_loads_what_it_uses_and_ends_without_a_word(folder: Folder) -> None:
    """Neither engine nor drawing is loaded before it is used, no window system ever."""
    program = (
        "import asyncio, sys\n"
        "def show(): print(sorted({'duckdb', 'matplotlib', 'numpy'} & sys.modules.keys()))\n"
        "import segue; show()\n"
        "from segue.registry import EXAMPLES, Registry; Registry().tools_for(EXAMPLES[0]); show()\n"
        "from segue.tools.data.tools import data_tools; show()\n"
        "tools = {bound.name: bound for bound in data_tools(sys.argv[1])}\n"
        "print(asyncio.run(tools['sum_by'].call({}))['total'], 'matplotlib' in sys.modules)\n"
        "print(asyncio.run(tools['chart'].call({}))['kind'], 'matplotlib.pyplot' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, str(folder.path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n" * 3 + "445557.8 False\nbar False\n"
    assert done.stderr == ""
