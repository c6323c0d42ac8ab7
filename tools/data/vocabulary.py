"""Usual names of columns in two languages, and the column that a word means."""

import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence

from segue.prompts.catalogue import Language, data_text

FAMILIES: Mapping[str, Sequence[str]] = {
    "date": (
        *("日期", "时间", "下单日期", "订单日期", "交易日期", "销售日期"),
        *("date", "datetime", "timestamp", "order date"),
    ),
    "region": ("地区", "区域", "大区", "region", "area"),
    "province": ("省份", "省", "province", "state"),
    "city": ("城市", "city"),
    "product": ("产品", "商品", "品名", "产品名称", "商品名称", "product", "item"),
    "category": ("类别", "品类", "分类", "category"),
    "customer": ("客户", "顾客", "会员", "customer", "client"),
    "channel": ("渠道", "channel"),
    "store": ("门店", "店铺", "store", "shop"),
    "department": ("部门", "department"),
    "salesperson": ("销售员", "业务员", "salesperson"),
    "amount": (
        *("金额", "销售额", "销售金额", "营业额", "营收", "收入", "总额", "总价", "流水"),
        *(
            "订单金额",
            "order amount",
            "order value",
            "amount",
            "revenue",
            "turnover",
            "sales amount",
            "total amount",
            "income",
        ),
    ),
    "profit": ("利润", "毛利", "profit"),
    "cost": ("成本", "cost"),
    "quantity": ("数量", "销量", "件数", "多少件", "几件", "quantity", "qty", "units"),
    "price": ("单价", "价格", "price", "unit price"),
}
"""Words for the same kind of column; any of them names a column if it is the only one of its family."""
VERBS: Mapping[str, Sequence[str]] = {"amount": ("卖得", "卖的", "sold", "sell", "earned", "earn")}
"""Further words for a family that are never a column's name; in a sentence they may be about another column."""
MAIN_VALUES = ("amount", "profit", "quantity")
"""The families that a question without a value is about, the most likely first."""


def key(text: str) -> str:
    """What the spellings of a name have in common: "Unit_Price", "unit price"."""
    return re.sub(r"[\s_\-.]+", "", unicodedata.normalize("NFKC", text)).casefold()


def family_of(name: str) -> str:
    """The family of a column's name: by the whole name, else by the longest word in it; empty if there is none."""
    words = [(word, family) for family, names in FAMILIES.items() for word in names]
    if exact := next((family for word, family in words if key(word) == key(name)), ""):
        return exact
    spelling = re.sub(r"[\s_\-.]+", " ", unicodedata.normalize("NFKC", name).casefold())
    return max(((len(word), family) for word, family in words if _contains(spelling, word)), default=(0, ""))[1]


def _contains(name: str, word: str) -> bool:
    if not word.isascii():
        return len(word) > 1 and word in name
    return re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", name) is not None


def _columns_by_family(names: Sequence[str]) -> dict[str, str]:
    """By family its one column: the one of that very name, else the first whose name contains a word of it."""
    exact = {key(word) for words in FAMILIES.values() for word in words}
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: key(name) not in exact):
        if family := family_of(name):
            found.setdefault(family, name)
    return found


def _family_words(family: str) -> list[str]:
    return [*FAMILIES.get(family, ()), *VERBS.get(family, ())]


def words_for(names: Sequence[str]) -> dict[str, list[str]]:
    """By column every word that means it: its name, and its family's words unless they are another column's name."""
    family = {name: family for family, name in _columns_by_family(names).items()}
    taken = {key(name) for name in names}
    return {
        name: [
            word
            for word in (name, *(word for word in FAMILIES.get(family.get(name, ""), ()) if key(word) not in taken))
            if len(word) > 1
        ]
        for name in names
    }


def column_of(word: str, names: Sequence[str]) -> str | None:
    """The column that a word means, in any spelling or by its family; None if it is none of them."""
    if word in names:
        return word
    if same := next((name for name in names if key(name) == key(word)), None):
        return same
    family = next((family for family in FAMILIES if key(word) in map(key, _family_words(family))), "")
    return _columns_by_family(names).get(family)


def nearest(requested: str, names: Sequence[str], language: Language) -> str:
    """A question that names the most similar name; empty if none is similar."""
    spelling = {key(name): name for name in names}
    close = difflib.get_close_matches(key(requested), list(spelling), n=1, cutoff=0.6)
    return data_text("nearest", language, name=spelling[close[0]]) if close else ""
