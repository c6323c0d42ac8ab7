"""A model's SQL: what it can ask, what it is refused, and that nothing of it outlasts its limits."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from segue.core.errors import ConfigurationError
from segue.tools.data import sandbox
from segue.tools.data.sandbox import answer, run_query
from segue.tools.data.sources import DataFolder

from .folder import Folder
from .sales import write_sales

SECRET = "classified"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Two files inside, and one outside that nothing may get at."""
    folder = Folder(tmp_path)
    folder.put("people.csv", "name,city,score\nAnn,Rome,3\nBob,Rome,4.5\nCem,Oslo,\n")
    folder.put("城市.csv", "city,country\nRome,Italy\nOslo,Norway\n")
    (tmp_path / "secret.csv").write_text(f"word\n{SECRET}\n", encoding="utf-8")
    return folder


def asked(folder: Folder, sql: str, rows: int = 100) -> dict[str, Any]:
    """The query's answer, worked out in this process."""
    return answer(DataFolder.of(folder.path), sql, "en", 5, rows)


# What can be asked


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT city, sum(score) FROM people GROUP BY city ORDER BY 1", [["Oslo", None], ["Rome", 7.5]]),
        (
            'SELECT country, count(*) FROM "people.csv" JOIN 城市 USING (city) GROUP BY 1 ORDER BY 1',
            [["Italy", 2], ["Norway", 1]],
        ),
        ("SELECT count(*) FROM 'people.csv' AS a, People AS b", [[9]]),
        ("WITH r AS (SELECT * FROM people WHERE city = 'Rome') SELECT max(score) FROM r", [[4.5]]),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT sum(i) FROM n", [[10]]),
        ("SELECT name FROM people WHERE score > (SELECT avg(score) FROM people)", [["Bob"]]),
        ("SELECT name, row_number() OVER (ORDER BY score DESC NULLS LAST) FROM people LIMIT 1", [["Bob", 1]]),
        ("SELECT 1 UNION ALL SELECT 2 ORDER BY 1 DESC", [[2], [1]]),
        ("SELECT i FROM range(3) t(i)", [[0], [1], [2]]),
        ("FROM people SELECT count(*)", [[3]]),
        ("SELECT column_name FROM (SUMMARIZE people)", [["name"], ["city"], ["score"]]),
        ("SELECT 1; -- a comment", [[1]]),
        ("/* a ; comment */ SELECT ';'", [[";"]]),
        ("SELECT DATE '2024-01-05', 1.50::DECIMAL(9,2), [1], {'a': 1}, 'nan'::DOUBLE, 2::HUGEINT ** 100", None),
    ],
)
def test_a_select_over_the_files_is_answered(folder: Folder, sql: str, rows: list[list[Any]] | None) -> None:
    found = asked(folder, sql)
    assert rows is None or found["rows"] == rows
    assert json.loads(json.dumps(found, allow_nan=False)) == found


async def test_the_tool_answers_in_a_process_of_its_own(folder: Folder) -> None:
    result = await folder.call(
        "query", sql="SELECT city, sum(score) AS total FROM people GROUP BY 1 ORDER BY 2 DESC NULLS LAST"
    )
    assert result["columns"] == ["city", "total"]
    assert result["rows"] == [["Rome", 7.5], ["Oslo", None]]
    assert result["summary"] == "| city | total |\n| --- | --- |\n| Rome | 7.5 |\n| Oslo | — |"


def test_a_result_has_a_hundred_rows_at_most(folder: Folder) -> None:
    found = asked(folder, "SELECT i, repeat('x', 1000) FROM range(100000) t(i) ORDER BY i DESC")
    assert (len(found["rows"]), found["rows"][0][0], found["more"]) == (100, 99_999, True)
    assert len(found["rows"][0][1]) == 201
    assert asked(folder, "SELECT * FROM range(5)", rows=5)["more"] is False


# What is refused

FILES = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_csv_auto('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_parquet('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM '{secret}'",
    'SELECT * FROM "{secret}"',
    "SELECT * FROM '../secret.csv'",
    "SELECT * FROM 'secret.csv'",
    "SELECT * FROM '*.csv'",
    "SELECT * FROM 'https://example.com/x.csv'",
    "SELECT * FROM people, '{secret}'",
    "SELECT * FROM people WHERE name IN (SELECT word FROM read_csv('{secret}'))",
    "SELECT (SELECT content FROM read_text('{secret}'))",
    "WITH x AS (SELECT * FROM read_text('{secret}')) SELECT * FROM x",
    "SELECT * FROM people UNION ALL SELECT *, 1, 2 FROM '{secret}'",
    "SELECT * FROM (FROM '{secret}')",
    "SELECT * FROM people ORDER BY (SELECT count(*) FROM '{secret}')",
    "SELECT * FROM people LIMIT (SELECT count(*) FROM '{secret}')",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table('{secret}')",
    "SELECT list_transform([1], x -> (SELECT count(*) FROM '{secret}'))",
    "SELECT read_text('{secret}')",
    "SELECT * FROM people POSITIONAL JOIN '{secret}'",
    "SELECT * FROM unnest((SELECT list(word) FROM '{secret}'))",
]
STATEMENTS = [
    *("", " ", ";", "--", "SELECT", "SELECT 1; SELECT 2", "SELECT 1;; SELECT 2", "SELEKT 1", "SELECT 1 SELECT 2"),
    *("ATTACH '{secret}' AS s", "ATTACH '{folder}/new.db'", "USE memory", "DETACH memory"),
    *("COPY people TO '{folder}/out.csv'", "COPY (SELECT 1) TO '{folder}/out.csv'", "COPY people FROM '{secret}'"),
    *(
        "EXPORT DATABASE '{folder}/out'",
        "IMPORT DATABASE '{folder}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{secret}'",
    ),
    *("PRAGMA database_list", "PRAGMA enable_external_access", "SET enable_external_access = true", "RESET ALL"),
    *(
        "SET lock_configuration = false",
        "CREATE TABLE t AS SELECT 1",
        "CREATE MACRO f() AS 1",
        "CREATE SECRET s (TYPE s3)",
    ),
    *(
        "DROP TABLE people",
        "DELETE FROM people",
        "UPDATE people SET score = 0",
        "INSERT INTO people VALUES ('x', 'y', 1)",
    ),
    *("ALTER TABLE people ADD COLUMN x INT", "TRUNCATE people", "VACUUM", "CHECKPOINT", "BEGIN", "COMMIT"),
    *("CALL pragma_version()", "EXECUTE p", "PREPARE p AS SELECT 1", "EXPLAIN ANALYZE SELECT 1"),
    *("SELECT 1; DROP TABLE people", "/* */ COPY people TO '{folder}/out.csv' -- SELECT", "(COPY people TO 'x')"),
]
INSIDES = [
    *("SELECT * FROM duckdb_settings()", "SELECT * FROM DuckDB_Secrets()", "SELECT * FROM duckdb_extensions()"),
    *("SELECT * FROM test_all_types()", "SELECT * FROM seq_scan('people')", "SELECT * FROM pandas_scan(1)"),
    *("SELECT * FROM checkpoint()", "SELECT * FROM duckdb_logs()", "SELECT getenv('HOME')", "SELECT nextval('s')"),
    *("SELECT current_setting('threads')", "SELECT list_transform(['threads'], x -> Current_Setting(x))"),
    *("SELECT * FROM information_schema.tables", "SELECT * FROM pg_settings", "SELECT * FROM duckdb_databases"),
]


@pytest.mark.parametrize("corpus", [FILES, STATEMENTS, INSIDES], ids=["files", "statements", "insides"])
def test_everything_else_is_refused(folder: Folder, corpus: list[str]) -> None:
    secret = folder.path.with_name("secret.csv")
    before = sorted(os.listdir(folder.path))
    done = []
    for sql in corpus:
        try:
            asked(folder, sql.format(secret=secret, folder=folder.path))
        except ValueError as error:
            assert SECRET not in str(error), sql
        else:
            done.append(sql)
        assert sorted(os.listdir(folder.path)) == before, sql
    assert done == []


def test_a_change_in_a_query_ends_with_it(folder: Folder) -> None:
    assert len(asked(folder, "WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x")["rows"]) == 3
    assert asked(folder, "SELECT count(*) FROM people")["rows"] == [[3]]


def test_a_common_table_may_have_the_name_of_a_file(folder: Folder) -> None:
    inside = "WITH people AS (SELECT * FROM people WHERE city = 'Oslo') SELECT count(*) FROM people"
    assert asked(folder, inside)["rows"] == [[1]]
    outside = "SELECT count(*), max(a) FROM people, (WITH people AS (SELECT 5 AS a) SELECT a FROM people)"
    assert asked(folder, outside)["rows"] == [[3, 5]]


@pytest.mark.parametrize(
    "sql", ["COPY (SELECT 1) TO '{}'", "ATTACH '{}'", "SELECT * FROM read_text('{}')", "SET threads = 8"]
)
def test_a_locked_database_would_not_do_it_either(folder: Folder, sql: str) -> None:
    """The second lock, in case the first one is got round."""
    import duckdb

    for file in ("people.csv", "out.csv"):
        with pytest.raises(duckdb.Error):
            folder.table("people")._connection.execute(sql.format(folder.path / file))
    assert not (folder.path / "out.csv").exists()


def test_a_wrong_query_says_what_is_wrong(folder: Folder) -> None:
    with pytest.raises(ValueError, match=r'"nmae" not found in FROM clause! Candidate bindings: "name"'):
        asked(folder, "SELECT nmae FROM people")
    with pytest.raises(ValueError, match=r"no file \"poeple\" in the data folder. Did you mean \"people.csv\""):
        asked(folder, "SELECT * FROM poeple")
    with pytest.raises(ValueError, match="syntax error"):
        asked(folder, "SELECT FROM WHERE")
    with pytest.raises(ValueError, match="Cast timestamps with a time zone first"):
        asked(folder, "SELECT now()")
    with pytest.raises(ValueError, match="may have at most 10000 characters"):
        asked(folder, "SELECT " + "1 + " * 5_000 + "1")


def test_a_link_that_leads_out_is_not_read_by_sql_either(folder: Folder) -> None:
    (folder.path / "link.csv").symlink_to(folder.path.with_name("secret.csv"))
    with pytest.raises(ValueError, match="outside the data folder"):
        asked(folder, "SELECT * FROM 'link.csv'")


# Limits


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(1000000000000)",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    ],
)
def test_a_query_without_end_is_stopped(folder: Folder, sql: str) -> None:
    with pytest.raises(ValueError, match=r"took longer than 0.5 s and was stopped"):
        run_query(DataFolder.of(folder.path), sql, "en", 0.5)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 3000000000)",
        "SELECT list_sort(range(1000000000))",
        "SELECT list(i) FROM range(10000000000) t(i)",
    ],
)
def test_a_query_for_too_much_memory_is_stopped(folder: Folder, sql: str) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"needs more than 1GB|crashed|took longer"):
        run_query(DataFolder.of(folder.path), sql, "en", 3)
    assert time.monotonic() - began < 30


def test_a_process_that_does_not_answer_is_ended(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "GRACE", -0.9)  # no interpreter starts that fast
    with pytest.raises(ValueError, match="took longer than 1 s and was stopped"):
        run_query(DataFolder.of(folder.path), "SELECT 1", "en", 1)


def test_a_process_that_crashes_is_an_error(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.sys, "executable", shutil.which("false"))
    with pytest.raises(ValueError, match="crashed"):
        run_query(DataFolder.of(folder.path), "SELECT 1", "en", 3)


def test_the_process_gets_none_of_our_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    seen: dict[str, Any] = {}

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        seen.update(options)
        return subprocess.CompletedProcess(command, 0, b'{"columns": [], "rows": [], "more": false}')

    monkeypatch.setattr(sandbox.subprocess, "run", run)
    run_query(DataFolder.of("x"), "SELECT 1", "en")
    assert "sk-secret" not in str(seen)
    assert "PATH" in seen["env"]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets how many queries may run at once."""

    def set_to(value: str) -> None:
        monkeypatch.setenv(sandbox.LIMIT, value)
        sandbox.slots.cache_clear()

    yield set_to
    sandbox.slots.cache_clear()


@pytest.mark.parametrize(("value", "most"), [("", 2), ("1", 1), ("3", 3)])
async def test_so_many_queries_run_at_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, limit: Callable[[str], None], value: str, most: int
) -> None:
    limit(value)
    lock, running, seen = threading.Lock(), [0], [0]
    full = threading.Event()

    def run(asked: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
        with lock:
            running[0] += 1
            seen[0] = max(seen[0], running[0])
            if running[0] == most:
                full.set()
        full.wait(60)
        with lock:
            running[0] -= 1
        return subprocess.CompletedProcess([], 0, b'{"columns": [], "rows": [], "more": false}')

    monkeypatch.setattr(sandbox, "_run", run)
    tool = folder.tools()["query"]
    await asyncio.gather(*(tool.call({"sql": "SELECT 1"}) for _ in range(8)))
    assert seen == [most]


def test_a_query_without_a_slot_says_so_and_leaves_the_slots_alone(
    folder: Folder, limit: Callable[[str], None]
) -> None:
    limit("1")
    where = DataFolder.of(folder.path)
    assert sandbox.slots().acquire(timeout=0)
    with pytest.raises(ValueError, match="Too many queries are running"):
        run_query(where, "SELECT 1", "en", 0.01)
    sandbox.slots().release()
    with pytest.raises(ValueError, match="stopped"):
        run_query(where, "SELECT count(*) FROM range(1000000000000)", "en", 0.2)
    assert run_query(where, "SELECT 1", "en")["rows"] == [[1]]


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_wrong_number_of_queries_is_refused_at_once(folder: Folder, limit: Callable[[str], None], value: str) -> None:
    limit(value)
    with pytest.raises(ConfigurationError, match="SEGUE_QUERY_PROCESSES must be a whole number"):
        folder.tools()


async def test_the_example_is_asked_about_in_its_own_words(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write_sales(folder.path, "zh")
    result = await folder.call(
        "query", sql='SELECT "地区", sum("金额") FROM "销售" GROUP BY 1 ORDER BY 2 DESC', language="zh"
    )
    assert result["rows"][0] == ["华东", 139851.3]
    assert "| 华东 | 139851.3 |" in result["summary"]


async def test_a_model_sees_the_tables_beforehand_and_when_a_name_is_wrong(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("sales.csv", "region,amount,day\nEast,5,2026-01-02\nWest,7,2026-01-03\n")
    tables = '"sales.csv" ("region" text, "amount" number, "day" date)'
    sql = folder.tools()["query"].spec["function"]["parameters"]["properties"]["sql"]
    assert tables in sql["description"]
    for wrong in ('SELECT "地区" FROM "sales"', "SELECT no_such(amount) FROM sales"):
        with pytest.raises(ValueError) as refused:
            await folder.call("query", sql=wrong)
        assert tables in str(refused.value)
    assert (await folder.call("query", sql='SELECT sum("amount") FROM "sales.csv"'))["rows"] == [[12]]


async def test_of_many_tables_only_the_first_are_listed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(8):
        folder.put(f"t{number}.csv", ",".join(f"column_{column}" for column in range(50)) + "\n" + "1," * 49 + "1\n")
    sql = folder.tools()["query"].spec["function"]["parameters"]["properties"]["sql"]
    assert '"t0.csv"' in sql["description"] and len(sql["description"]) < 2_000
