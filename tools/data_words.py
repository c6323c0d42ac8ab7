"""The words of the data tools: two languages, and what columns are usually called in them."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

Language = Literal["zh", "en"]
_CJK = re.compile(r"[\u3400-\u9fff]")
NAMED = 30
"""Names that an error lists at most."""

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
        *("amount", "revenue", "turnover", "sales amount", "total amount", "income"),
    ),
    "profit": ("利润", "毛利", "profit"),
    "cost": ("成本", "cost"),
    "quantity": ("数量", "销量", "件数", "quantity", "qty", "units"),
    "price": ("单价", "价格", "price", "unit price"),
}
"""Words that mean the same column; a column is known by any of them if it is the only one of its family."""
VERBS: Mapping[str, Sequence[str]] = {"amount": ("卖得", "卖的", "sold", "sell", "earned", "earn")}
"""Further words that speak of a family without being anybody's column name."""
MAIN_VALUES = ("amount", "profit", "quantity")
"""The families that a question without a value is about, the likeliest first."""


def language_of(texts: Iterable[str], otherwise: Language = "en") -> Language:
    """Chinese where a text holds a Chinese character; `otherwise` where there is no text."""
    joined = "".join(texts)
    return ("zh" if _CJK.search(joined) else "en") if joined else otherwise


def told(language: Language, zh: str, en: str) -> str:
    """The one of two texts that the reader understands."""
    return zh if language == "zh" else en


def listing(names: Sequence[str], language: Language) -> str:
    """Names in a row, the first `NAMED` of them."""
    shown = told(language, "、", ", ").join(names[:NAMED])
    rest = len(names) - NAMED
    return shown + told(language, f"等 {len(names)} 个", f" and {rest} more") if rest > 0 else shown


def key(text: str) -> str:
    """What the spellings of a name have in common: «Unit_Price», «unit price»."""
    return re.sub(r"[\s_\-.]+", "", unicodedata.normalize("NFKC", text)).casefold()


def family_of(name: str) -> str:
    """The family of a column's name: by the whole name, else by the longest of its words; empty if there is none."""
    whole, spelt = key(name), " ".join(re.split(r"[\s_\-.]+", unicodedata.normalize("NFKC", name).casefold()))
    words = [(word, family) for family, names in FAMILIES.items() for word in names]
    if exact := next((family for word, family in words if key(word) == whole), ""):
        return exact
    inside = [(len(word), family) for word, family in words if _stands_in(word, spelt)]
    return max(inside, default=(0, ""))[1]


def _stands_in(word: str, name: str) -> bool:
    if not word.isascii():
        return len(word) > 1 and word in name
    return re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", name) is not None


def families(names: Sequence[str]) -> dict[str, str]:
    """By family the one column that it means: one of that very name, else the first that the name stands in."""
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: key(name) not in {key(w) for w in FAMILIES.get(family_of(name), ())}):
        if family := family_of(name):
            found.setdefault(family, name)
    return found


def words_for(names: Sequence[str]) -> dict[str, list[str]]:
    """By column every word that means it: its name, and its family's where that is nobody else's name."""
    meant = {name: family for family, name in families(names).items()}
    taken = {key(name) for name in names}
    return {
        name: [
            *([name] if len(name) > 1 else []),
            *(
                word
                for word in (*FAMILIES.get(meant.get(name, ""), ()), *VERBS.get(meant.get(name, ""), ()))
                if key(word) not in taken and len(word) > 1
            ),
        ]
        for name in names
    }


def named_column(wanted: str, names: Sequence[str]) -> str | None:
    """The column that a name means, in any spelling or by a word of its family; None if it is none of them."""
    if wanted in names:
        return wanted
    same = [name for name in names if key(name) == key(wanted)]
    if same:
        return same[0]
    words = {family: {key(word) for word in (*FAMILIES[family], *VERBS.get(family, ()))} for family in FAMILIES}
    family = next((family for family, spelt in words.items() if key(wanted) in spelt), "")
    return families(names).get(family)


def nearest(wanted: str, names: Sequence[str]) -> str:
    """The name that is most like the one that was asked for; empty if none is."""
    spelt = {key(name): name for name in names}
    close = difflib.get_close_matches(key(wanted), list(spelt), n=1, cutoff=0.6)
    return spelt[close[0]] if close else ""


def unknown(
    wanted: str, names: Sequence[str], language: Language, what: tuple[str, str], where: tuple[str, str]
) -> str:
    """The sentence for a name that is not there: the nearest one, and all there are."""
    close = nearest(wanted, names)
    hint = told(language, f"是不是「{close}」？", f"Did you mean «{close}»? ") if close else ""
    shown = wanted if len(wanted) <= 80 else f"{wanted[:80]}…"
    return told(
        language,
        f"{where[0]}没有{what[0]}「{shown}」。{hint}可选：{listing(names, 'zh') or '（无）'}。",
        f"There is no {what[1]} «{shown}» in {where[1]}. {hint}There are: {listing(names, 'en') or 'none'}.",
    )
