"""What a model's SQL may be: one SELECT over the folder's files, without other files, settings or tables.

DuckDB's own parser says what a query consists of. A table's name can only mean a file of the folder or a part of a
WITH: the engine's own views are refused by name, wherever they stand, and everything else does not exist.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from segue.prompts.data import phrase
from segue.prompts.language import Language

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
"""What a query may consist of besides expressions; anything else, such as an INSERT in a WITH, is refused."""
_TABLE_FUNCTIONS = ("range", "generate_series", "unnest")
_REFUSED_FUNCTIONS = (
    *("read_", "write_", "parse_duckdb", "duckdb_", "pragma_", "pg_", "getenv", "getvariable", "current_setting"),
    *("sleep", "query", "nextval", "currval", "current_query", "glob", "sniff_", "parquet_", "json_execute"),
)
"""Prefixes of functions' names."""


class Refused(ValueError):
    """The query may not run; the message says why."""


def tables_in(connection: "DuckDBPyConnection", sql: str, language: Language) -> tuple[list[str], list[str]]:
    """The names that have to be files, and those that are parts of a WITH somewhere; nothing is run.

    Raises:
        Refused: it is more than one statement, not a SELECT, or uses what it must not.
    """
    if len(sql) > LONGEST:
        raise Refused(phrase("query_long", language, most=LONGEST))
    nodes = list(_mappings(_parsed(connection, sql, language)))
    common = {str(part["key"]).casefold() for node in nodes for part in (node.get("cte_map") or {}).get("map", ())}
    names: dict[str, None] = {}
    for node in nodes:
        _check_node(node, language)
        if node.get("type") == "BASE_TABLE":
            names[_table_name(node, language)] = None
    views = _views(connection)
    if refused := next((name for name in names if name.casefold() in views), None):
        raise Refused(phrase("query_source", language, name=refused))
    files = [name for name in names if name.casefold() not in common]
    return files, [name for name in names if name.casefold() in common]


def _views(connection: "DuckDBPyConnection") -> set[str]:
    """The engine's own views, which show its settings and tables."""
    sql = "SELECT view_name FROM duckdb_views() WHERE internal AND schema_name <> 'information_schema'"
    return {name.casefold() for (name,) in connection.execute(sql).fetchall()}


def _parsed(connection: "DuckDBPyConnection", sql: str, language: Language) -> Mapping[str, Any]:
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise Refused(" ".join(str(error).split("\n\n", 1)[0].split())[:300]) from error
    if len(statements) != 1:
        raise Refused(phrase("query_one", language))
    found = connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchall()
    tree: Mapping[str, Any] = json.loads(found[0][0])
    if statements[0].type != duckdb.StatementType.SELECT or tree.get("error"):
        raise Refused(phrase("query_select", language))
    return tree


def _mappings(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Every object of a JSON tree."""
    queue = [tree]
    while queue:
        value = queue.pop()
        if isinstance(value, Mapping):
            yield value
            queue += value.values()
        elif isinstance(value, list):
            queue += value


def _check_node(node: Mapping[str, Any], language: Language) -> None:
    function, kind = node.get("function_name"), node.get("type")
    if isinstance(function, str) and function.casefold().startswith(_REFUSED_FUNCTIONS):
        raise Refused(phrase("query_function", language, name=function))
    if not isinstance(kind, str) or "class" in node or "id" in node or kind.endswith("_TYPE_INFO"):
        return  # an expression, or a value's type
    if kind not in _NODES:
        raise Refused(phrase("query_clause", language, name=kind.split("_")[0]))
    if kind == "TABLE_FUNCTION":
        called = str((node.get("function") or {}).get("function_name", ""))
        if called.casefold() not in _TABLE_FUNCTIONS:
            raise Refused(phrase("query_source", language, name=f"{called}()"))


def _table_name(node: Mapping[str, Any], language: Language) -> str:
    name = str(node.get("table_name", ""))
    path = (node.get("qualified_name") or {}).get("path") or [name]
    if node.get("schema_name") or node.get("catalog_name") or len(path) > 1:
        raise Refused(phrase("query_schema", language, name=".".join(map(str, path))))
    return name
