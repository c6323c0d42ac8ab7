"""What a model's SQL may be: one SELECT over the folder's files, without files, settings or tables of anything else."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .data_words import Language, told

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LONGEST = 10_000
"""Characters of a query."""
_NODES = (
    *("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"),
    *("BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST", "TABLE_FUNCTION", "PIVOT"),
    *("ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"),
    *("ORDER_DEFAULT", "ASCENDING", "DESCENDING"),
)
"""What a query may be built of, expressions apart; anything else, such as the INSERT of a WITH, is refused."""
_TABLE_FUNCTIONS = ("range", "generate_series", "unnest")
_REFUSED_FUNCTIONS = (
    *("read_", "write_", "parse_duckdb", "duckdb_", "pragma_", "pg_", "getenv", "getvariable", "current_setting"),
    *("sleep", "query", "nextval", "currval", "current_query", "glob", "sniff_", "parquet_", "json_execute"),
)
"""Beginnings of functions' names."""


class Refused(ValueError):
    """The query is none that may run; the message says why."""


def tables_in(connection: "DuckDBPyConnection", sql: str, language: Language) -> list[str]:
    """The tables that a query reads, as it spells them; nothing is run.

    Raises:
        Refused: it is more than one statement, no SELECT, or uses what it must not.
    """
    if len(sql) > LONGEST:
        raise Refused(told(language, f"SQL 最多 {LONGEST} 个字符。", f"A query has {LONGEST} characters at most."))
    tree = _parsed(connection, sql, language)
    common = {name.casefold() for node in _mappings(tree) for name in _common_tables(node)}
    names: dict[str, None] = {}
    for node in _mappings(tree):
        _check_node(node, language)
        if node.get("type") == "BASE_TABLE" and (name := _table_name(node, language)).casefold() not in common:
            names[name] = None
    return list(names)


def _parsed(connection: "DuckDBPyConnection", sql: str, language: Language) -> Mapping[str, Any]:
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise Refused(_first_line(str(error))) from error
    if len(statements) != 1:
        raise Refused(told(language, "只能写一条 SELECT 语句。", "Write exactly one SELECT statement."))
    found = connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchone()
    tree: Mapping[str, Any] = json.loads(found[0]) if found else {"error": True}
    if statements[0].type != duckdb.StatementType.SELECT or tree.get("error"):
        raise Refused(
            told(language, "只能用 SELECT 查询，其他语句不执行。", "Only a SELECT is run, and no other statement.")
        )
    return tree


def _first_line(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split())[:300]


def _mappings(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Every object of a JSON tree."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _common_tables(node: Mapping[str, Any]) -> Iterator[str]:
    """The names that a WITH gives to its parts."""
    for part in (node.get("cte_map") or {}).get("map", ()):
        yield str(part["key"])


def _check_node(node: Mapping[str, Any], language: Language) -> None:
    kind = node.get("type")
    function = node.get("function_name")
    if isinstance(function, str) and function.casefold().startswith(_REFUSED_FUNCTIONS):
        raise Refused(told(language, f"不能使用函数 {function}。", f"The function {function} must not be used."))
    if not isinstance(kind, str) or "class" in node or "id" in node or kind.endswith("_TYPE_INFO"):
        return  # an expression, or a value's type
    if kind not in _NODES:
        word = kind.split("_")[0]
        raise Refused(told(language, f"查询里不能有 {word}。", f"A query must not contain {word}."))
    if kind == "TABLE_FUNCTION":
        called = str((node.get("function") or {}).get("function_name", ""))
        if called.casefold() not in _TABLE_FUNCTIONS:
            raise Refused(
                told(
                    language,
                    f"不能从函数 {called} 读取：请写文件名。",
                    f"Read from a file's name, not from {called}().",
                )
            )


def _table_name(node: Mapping[str, Any], language: Language) -> str:
    name = str(node.get("table_name", ""))
    path = (node.get("qualified_name") or {}).get("path") or [name]
    if node.get("schema_name") or node.get("catalog_name") or len(path) > 1:
        shown = ".".join(map(str, path))
        raise Refused(
            told(language, f"表名只写文件名，不写 {shown}。", f"A table is named by its file alone, not as {shown}.")
        )
    return name
