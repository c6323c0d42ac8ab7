"""An invented sales table to try the data tools on: the same every time, in Chinese or in English."""

import csv
import io
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from segue.prompts.catalogue import Language

ROWS = 480
COLUMNS = {
    "zh": ("日期", "地区", "产品", "数量", "单价", "金额"),
    "en": ("date", "region", "product", "quantity", "price", "amount"),
}
NAMES = {"zh": "销售.csv", "en": "sales.csv"}
_REGIONS = {
    "zh": ("华东", "华南", "华北", "西南", "东北"),
    "en": ("East", "South", "North", "Southwest", "Northeast"),
}
_PRODUCTS = {
    "zh": ("台灯", "保温杯", "背包", "键盘", "耳机", "雨伞"),
    "en": ("desk lamp", "travel mug", "backpack", "keyboard", "headphones", "umbrella"),
}
_CENTS = (8_900, 5_900, 16_900, 23_900, 29_900, 3_900)
_WEIGHTS = (0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4)
"""How often each region comes up."""
_FIRST, _DAYS = date(2024, 1, 1), 366


def sales_rows(language: Language = "zh", rows: int = ROWS) -> Iterator[tuple[str, str, str, int, str, str]]:
    """One sale a row, through the year 2024: date, region, product, quantity, price and amount."""
    chance = _numbers()
    for place in range(rows):
        day = _FIRST + timedelta(days=place * _DAYS // rows)
        region, product = _WEIGHTS[next(chance) % len(_WEIGHTS)], next(chance) % len(_CENTS)
        quantity = 1 + next(chance) % (6 + day.month)
        cents = _CENTS[product] * (100 - 5 * (next(chance) % 3)) // 100
        names = _REGIONS[language][region], _PRODUCTS[language][product]
        yield day.isoformat(), *names, quantity, _money(cents), _money(cents * quantity)


def _numbers(state: int = 20_240_101) -> Iterator[int]:
    """Numbers that look like chance and are the same on every machine."""
    while True:
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        yield state >> 33


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def sales_csv(language: Language = "zh", rows: int = ROWS) -> str:
    """The table as CSV text, column names in the first line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS[language])
    writer.writerows(sales_rows(language, rows))
    return out.getvalue()


def write_sales(folder: str | Path, language: Language = "zh", rows: int = ROWS) -> Path:
    """Write the table into a data folder, which is made where it is missing, as `销售.csv` or `sales.csv`."""
    path = Path(folder) / NAMES[language]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(sales_csv(language, rows), encoding="utf-8")
    return path
