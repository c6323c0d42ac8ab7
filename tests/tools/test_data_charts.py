"""Charts: real PNG files of the right figures, under names of their own, with whatever letters there are."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from segue.tools import data_fonts
from segue.tools.data_charts import Chart, draw
from segue.tools.data_example import sales_rows, write_sales
from segue.tools.data_fonts import chinese_file, lettering

from .data_folder import Folder

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    write_sales(folder.path, "en")
    return folder


@pytest.fixture(autouse=True)
def no_chinese_font(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without one; the test that wants a font makes one."""
    monkeypatch.setattr(data_fonts, "chinese_file", lambda: "")


def pixels(path: str | Path) -> tuple[tuple[int, int], int]:
    """The size of a picture, and how many colours are in it."""
    from PIL import Image

    with Image.open(path) as picture:
        picture.load()
        return picture.size, len(picture.convert("RGB").getcolors(1 << 24) or ())


def content(path: str | Path) -> bytes:
    return Path(path).read_bytes()


def a_font(path: Path, characters: str) -> str:
    """A font whose characters are all the same box."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    names = [".notdef", *(f"uni{ord(char):04X}" for char in characters)]
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for corner in ((100, 700), (900, 700), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): f"uni{ord(char):04X}" for char in characters})
    builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 100)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Test Boxes", "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    builder.setupPost()
    builder.save(path)
    return str(path)


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
    with pytest.raises(ValueError, match="no figures below zero: ask for a bar chart"):
        await folder.call("chart", file="x", kind="pie")
    assert (await folder.call("chart", file="x", kind="bar"))["plotted"][1] == {"label": "b", "figure": -1}


async def test_a_folder_that_cannot_be_written_to_says_what_to_do(folder: Folder) -> None:
    (folder.path / "charts").write_text("in the way", encoding="utf-8")
    with pytest.raises(ValueError, match=r"No chart can be written to .*name another folder in SEGUE_CHARTS"):
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


def test_without_a_chinese_font_labels_become_numbers(tmp_path: Path) -> None:
    chart = Chart("bar", "按地区的金额", "地区", "金额", ["华东", "South"], [2.0, 1.0])
    drawn = draw(chart, tmp_path, "x", "zh")
    assert drawn.lacks_characters
    plain = draw(Chart("bar", "", "", "", ["#1", "South"], [2.0, 1.0]), tmp_path, "x", "zh")
    assert drawn.path.read_bytes() == plain.path.read_bytes()


async def test_the_answer_says_what_the_numbers_stand_for(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write_sales(folder.path, "zh")
    result = await folder.call("chart", column="地区")
    assert result["lacks_characters"]
    assert "图中：#1 华东、#2 华南" in result["summary"]


def test_a_chinese_font_is_used_where_there_is_one(tmp_path: Path) -> None:
    chart = Chart("bar", "金额", "地区", "金额", ["华东", "华南"], [2.0, 1.0])
    font = a_font(tmp_path / "boxes.ttf", "金额地区华东南0123456789,")
    drawn = draw(chart, tmp_path / "with", "x", "zh", font)
    assert not drawn.lacks_characters
    without = draw(chart, tmp_path / "without", "x", "zh")
    assert drawn.path.read_bytes() != without.path.read_bytes()


def test_a_chinese_font_comes_with_the_extra(tmp_path: Path) -> None:
    (font,) = data_fonts.brought()
    chart = Chart("bar", "各地区销售金额（元）", "地区", "金额", ["华东", "华南"], [2.0, 1.0])
    assert not draw(chart, tmp_path, "x", "zh", font).lacks_characters
    assert chinese_file()


def test_a_font_is_only_taken_for_characters_that_the_plain_one_lacks(tmp_path: Path) -> None:
    font = a_font(tmp_path / "boxes.ttf", "金额")
    assert lettering(["Amount", "Größe"], font).properties.get_file() == data_fonts.plain_file()
    assert lettering(["金额"], font).properties.get_file() == font
    assert lettering(["金"], str(tmp_path / "gone.ttf")).has("a") is False
    assert not lettering(["金额 and much more text than the font has"], font).has("金额")


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


async def test_charts_of_several_calls_are_those_of_each_alone(folder: Folder) -> None:
    tool = folder.tools()["chart"]
    asked = [{"kind": kind, "column": column} for kind in ("bar", "pie") for column in ("region", "product")]
    alone = [content((await tool.call(each))["path"]) for each in asked]
    together = await asyncio.gather(*(tool.call(each) for each in asked * 2))
    assert [content(result["path"]) for result in together] == alone * 2


def test_drawing_leaves_the_settings_of_others_alone(tmp_path: Path) -> None:
    import matplotlib

    def settings() -> dict[str, Any]:
        return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}

    before = settings()
    draw(Chart("pie", "t", "a", "b", ["x"], [1.0]), tmp_path, "x", "en")
    assert settings() == before


def test_drawing_needs_no_window_system(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\nfrom segue.tools.data_charts import Chart, draw\n"
        "draw(Chart('line', 't', 'a', 'b', ['x'], [1.0]), pathlib.Path(sys.argv[1]), 'x', 'en')\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_neither_engine_nor_drawing_is_loaded_before_it_is_used() -> None:
    program = (
        "import sys\n"
        "def show(): print({'duckdb', 'matplotlib', 'numpy'} & sys.modules.keys())\n"
        "import segue; show()\n"
        "from segue.registry import EXAMPLES, Registry; Registry().tools_for(EXAMPLES[0]); show()\n"
        "import segue.tools.data_set; show()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n" * 3


def test_a_picture_is_really_compared() -> None:
    """The helper above would show an empty picture as one colour."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (3, 2)).save(out, "PNG")
    out.seek(0)
    assert pixels(out) == ((3, 2), 1)  # type: ignore[arg-type]
