"""Data files as the engine reads them, the folder that they lie in, and the engine."""

import codecs
import filecmp
import io
import itertools
import os
import re
import shutil
import stat
import tempfile
import threading
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from segue.core.environment import need_extra
from segue.core.errors import ConfigurationError
from segue.prompts.catalogue import Language, data_text, language_of, listing

from .vocabulary import family_of, nearest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# The database engine: DuckDB in memory, with limits on time and memory, and locked before it runs foreign SQL.

SECONDS = 20.0
"""How long one question may take."""
MEMORY = "1GB"
_CONFIG: dict[str, str | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": MEMORY,
    "temp_directory": "",
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}


def need_duckdb() -> None:
    """Check that the database engine is installed."""
    need_extra("Reading data files", "data", "duckdb")


def connect() -> "DuckDBPyConnection":
    """Open an empty database that may still read files: call `lock` before it runs SQL of a model."""
    need_duckdb()
    import duckdb

    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def lock(connection: "DuckDBPyConnection") -> None:
    """Take away every file, the network, and the means to undo this."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def limited(connection: "DuckDBPyConnection", language: Language, seconds: float = SECONDS) -> Iterator[None]:
    """Interrupt what runs too long."""
    import duckdb

    watch = threading.Timer(seconds, connection.interrupt)
    watch.daemon = True
    watch.start()
    try:
        yield
    except duckdb.InterruptException as error:
        raise ValueError(data_text("too_slow", language, seconds=seconds)) from error
    except duckdb.OutOfMemoryException as error:
        raise ValueError(data_text("too_large", language, memory=MEMORY)) from error
    finally:
        watch.cancel()
        watch.join()


# The one folder that the data tools read: its files, and which of them a name means.

SUFFIXES = (".csv", ".tsv", ".parquet")
MOST_BYTES = 500 * 1024 * 1024
DEFAULT_FOLDER = "data"
CHARTS = "charts"
"""The folder in the data folder that charts are written to."""
_LONGEST_NAME = 100


@dataclass(frozen=True)
class DataFile:
    """A file of the folder; `changed` distinguishes its versions, `refusal` names the phrase why it may not be read."""

    name: str
    path: Path
    size: int = 0
    changed: int = 0
    refusal: str = ""

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def is_parquet(self) -> bool:
        return self.name.lower().endswith(".parquet")


@dataclass(frozen=True)
class DataFolder:
    """Where data is read from and charts are written to."""

    path: Path
    charts: Path

    @classmethod
    def of(
        cls, folder: str | Path = "", charts: str | Path = "", environ: Mapping[str, str] = os.environ
    ) -> "DataFolder":
        """The folders as given, else as `SEGUE_DATA` and `SEGUE_CHARTS` say, else `./data` and `charts` in it."""
        path = Path(folder or environ.get("SEGUE_DATA") or DEFAULT_FOLDER).expanduser()
        return cls(path, Path(charts or environ.get("SEGUE_CHARTS") or path / CHARTS).expanduser())

    def files(self) -> list[DataFile]:
        """The files that may be read, by name."""
        return [file for file in self._entries() if not file.refusal]

    def find(self, name: str | None, language: Language | None = None) -> DataFile:
        """The file of that name, with or without its ending; without a name the only one there is."""
        files = self.files()
        names = [file.name for file in files]
        if not name:
            return self._only_one(files, language or "en")
        reader = language or language_of(name)
        if not _is_name(name):
            shown = "".join(char if char.isprintable() else "�" for char in name[:80])
            raise ValueError(data_text("no_path", reader, name=shown, names=listing(names, reader)))
        requested = _normalized(name)
        found = [file for file in self._entries() if _normalized(file.name) == requested]
        found = found or [file for file in files if _normalized(file.stem) == requested]
        if len(found) == 1 and not found[0].refusal:
            return found[0]
        if len(found) == 1:
            raise ValueError(data_text(found[0].refusal, reader, name=found[0].name, most=MOST_BYTES >> 20))
        names = [file.name for file in found] or names
        hint = nearest(name, names, reader)
        raise ValueError(data_text("no_file", reader, name=name[:80], hint=hint, names=listing(names, reader)))

    def _only_one(self, files: list[DataFile], language: Language) -> DataFile:
        if len(files) == 1:
            return files[0]
        if files:
            raise ValueError(data_text("which_file", language, names=listing([file.name for file in files], language)))
        raise ValueError(data_text("no_folder", language, folder=self.path.name))

    def _entries(self) -> list[DataFile]:
        """The data files by name, also those that may not be read."""
        try:
            root = self.path.resolve(strict=True)
            return [_entry(root, name) for name in sorted(os.listdir(root)) if _is_listed(name)]
        except OSError:
            return []


def _entry(root: Path, name: str) -> DataFile:
    try:
        real = (root / name).resolve(strict=True)
        facts = real.stat()
    except (OSError, RuntimeError):
        return DataFile(name, root, refusal="file_closed")
    if not real.is_relative_to(root):
        return DataFile(name, root, refusal="file_link")
    if not stat.S_ISREG(facts.st_mode):
        return DataFile(name, root, refusal="file_kind")
    if facts.st_size > MOST_BYTES:
        return DataFile(name, root, refusal="file_large")
    return DataFile(name, real, facts.st_size, facts.st_mtime_ns)


def _normalized(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip()).casefold()


def _is_listed(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".") and _is_name(name)


def _is_name(name: str) -> bool:
    """Whether a text can only name something in the folder itself."""
    return ".." not in name and re.search(r"[/\\\x00-\x1f\x7f]|^~|^[A-Za-z]:", name) is None


def import_file(source: str | Path, folder: str | Path) -> str:
    """Copy a person's file into a data folder, which is created if it is missing; returns its name there.

    A file that is already there with the same content is kept; if the content differs, the copy gets a number.
    """
    path, target = Path(source).expanduser(), Path(folder).expanduser()
    _check_importable(path)
    with _writing(path, target):
        if path.resolve().parent == target.resolve() and not path.is_symlink() and _is_listed(path.name):
            return path.name
        with path.open("rb") as read:
            return _stored(read, path.name, target)


def store_file(name: str, content: bytes, folder: str | Path) -> str:
    """As `import_file`, for content that was sent under a name; of a path only the last part counts."""
    path, target = Path(re.split(r"[/\\]", name)[-1]), Path(folder)
    _check_ending(path)
    with _writing(path, target):
        return _stored(io.BytesIO(content), path.name, target)


@contextmanager
def _writing(path: Path, target: Path) -> Iterator[None]:
    try:
        target.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigurationError(
            "The file {path} cannot be copied to {target}: {reason}.",
            path=path,
            target=target,
            reason=error.strerror or error,
        ) from error


def _stored(content: BinaryIO, name: str, target: Path) -> str:
    part = target / f".{uuid.uuid4().hex}.part"
    try:
        with part.open("xb") as write:
            shutil.copyfileobj(content, write, 1 << 20)
        return _placed(part, target, _clean_name(name))
    finally:
        with suppress(OSError):
            part.unlink()


def _check_importable(path: Path) -> None:
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:
        raise ConfigurationError("There is no file {path}: check its name.", path=path) from error
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigurationError("{path} is not a regular file: name a CSV or Parquet file.", path=path)
    _check_ending(path)
    if facts.st_size > MOST_BYTES:
        raise ConfigurationError(
            "{path} is larger than {most} MB: split it, or save it as Parquet.", path=path, most=MOST_BYTES >> 20
        )


def _check_ending(path: Path) -> None:
    if not path.name.lower().endswith(SUFFIXES):
        raise ConfigurationError(
            "{path} cannot be read as data: save it as {suffixes} and name that file.",
            path=path,
            suffixes=", ".join(SUFFIXES),
        )


def _clean_name(name: str) -> str:
    stem, _, ending = unicodedata.normalize("NFC", name).rpartition(".")
    clean = re.sub(r"[^\w .()（）-]+|\.{2,}", "_", stem).strip(" .")[:_LONGEST_NAME]
    return f"{clean or 'data'}.{ending.lower()}"


def _placed(part: Path, folder: Path, name: str) -> str:
    """Give the copy its name atomically, and never replace another file."""
    stem, _, ending = name.rpartition(".")
    number = 1
    while True:
        chosen = name if number == 1 else f"{stem}-{number}.{ending}"
        try:
            os.link(part, folder / chosen)
            return chosen
        except FileExistsError:
            if not (folder / chosen).is_symlink() and filecmp.cmp(part, folder / chosen, shallow=False):
                return chosen
            number += 1
        except OSError:  # a file system without hard links
            if not (folder / chosen).exists():
                os.replace(part, folder / chosen)
                return chosen
            number += 1


# Data files as the engine reads them: their encoding, their columns, and the type of each, judged by every row.

Kind = Literal["number", "date", "text"]
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
NUMBER = rf"[-+]?[¥￥$€£]? ?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?"
_CODE = r"[-+]?0[0-9]+"
"""Digits with a leading zero are a postcode or an order number, not a quantity."""
_MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "--", "—")
"""No value in a column of numbers or dates; in a column of text only the empty text is none."""
_EXACT = 28
"""Characters up to which numbers are stored as decimals, whose sums are exact; longer ones are floating point."""
_LONGEST_DATE = 11
"""Characters of a date without a time of day: 2024年12月31日."""
_DATE = r"\d{4}[-/.年]\d{1,2}.*|\d{1,2}[/.]\d{1,2}[/.]\d{4}.*"
_CLOCKS = ("", " %H:%M", " %H:%M:%S")


def _time(*days: str) -> str:
    formats = [day + clock for day in ("%Y年%m月%d日", "%Y.%m.%d", *days) for clock in _CLOCKS]
    formats += ["%Y-%m", "%Y/%m", "%Y年%m月"]
    time = f"coalesce(TRY_CAST(v AS TIMESTAMP), try_strptime(v, {formats}))"
    return f"CASE WHEN regexp_full_match(v, '{_DATE}') THEN {time} END"


_COMPACT = "CASE WHEN regexp_full_match(v, '(19|20)[0-9]{6}') THEN try_strptime(v, '%Y%m%d') END"
"""Days without separators, in a column whose name mentions dates."""
_TIMES = (_time(), _time("%m/%d/%Y"), _time("%d/%m/%Y", "%d.%m.%Y"))
"""Dates with the year first, the month first, or the day first."""
_IS_NUMBER = (
    "(TRY_CAST(v AS DECIMAL(38, 10)) IS NOT NULL AND left(v, 1) NOT IN ('0', '+', '-'))"
    f" OR (regexp_full_match(v, '{NUMBER}') AND NOT regexp_full_match(v, '{_CODE}'))"
)


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind


def typed(connection: "DuckDBPyConnection", table: str, names: Sequence[str]) -> dict[Column, str]:
    """By column the SQL that reads it from a table whose columns c0, c1, … are trimmed texts."""
    return dict(_Texts(connection, table, f"c{place}").read(name) for place, name in enumerate(names))


@dataclass(frozen=True)
class _Texts:
    """The texts of a column; in its SQL each of them is `v`."""

    connection: "DuckDBPyConnection"
    table: str
    column: str

    def read(self, name: str) -> tuple[Column, str]:
        """What the column holds, and the SQL that reads it."""
        if self._any("true"):
            compact = (_COMPACT,) if family_of(name) == "date" else ()
            if time := next((time for time in compact if self._all(f"{time} IS NOT NULL")), None):
                return Column(name, "date"), self._date(time)
            if self._all(_IS_NUMBER):
                return Column(name, "number"), self._number()
            if time := next((time for time in _TIMES if self._all(f"{time} IS NOT NULL")), None):
                return Column(name, "date"), self._date(time)
        return Column(name, "text"), f"nullif({self.column}, '')"

    def _all(self, condition: str) -> bool:
        return not self._any(f"NOT coalesce({condition}, false)")

    def _any(self, condition: str) -> bool:
        """Whether a value meets the condition; the search ends at the first one."""
        return bool(self._ask("1", f"{condition} LIMIT 1"))

    def _ask(self, picked: str, condition: str = "true") -> list[tuple[int, ...]]:
        texts = f"SELECT {self.column} AS v FROM {self.table}"
        sql = f"SELECT {picked} FROM ({texts}) WHERE lower(v) NOT IN {_MISSING} AND {condition}"
        return self.connection.execute(sql).fetchall()

    def _date(self, time: str) -> str:
        ((longest,),) = self._ask("max(length(v))")
        read = time.replace("(v", f"({self.column}")
        return read if longest > _LONGEST_DATE else f"CAST({read} AS DATE)"

    def _number(self) -> str:
        decimals = "CASE WHEN contains(v, '.') THEN strlen(v) - instr(v, '.') ELSE 0 END"
        ((longest, places, powers),) = self._ask(f"max(length(v)), max({decimals}), bool_or(contains(lower(v), 'e'))")
        if powers or longest > _EXACT or places > _EXACT // 2:
            kind = "DOUBLE"
        elif places:
            kind = f"DECIMAL(38, {places})"
        else:
            kind = "BIGINT" if longest <= 18 else "DECIMAL(38, 0)"
        digits = f"translate({self.column}, ',+¥￥$€£ ', '')"
        number = f"coalesce(TRY_CAST({self.column} AS {kind}), TRY_CAST({digits} AS {kind}))"
        return f"CASE WHEN isfinite({number}) THEN {number} END" if kind == "DOUBLE" else number


MOST_COLUMNS = 1_000
MOST_TEXT = 1_500
"""Characters of a list of tables."""
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_SEPARATORS = ",;\t|"
_PIECE = 1 << 20
"""Characters that are read at once, and where only the columns are needed, at all."""
_TEXTS = "temp.texts"
"""The table of a CSV file's texts, from which the columns are read."""


def load(
    connection: "DuckDBPyConnection", file: DataFile, name: str, language: Language, *, whole: bool = True
) -> tuple[Column, ...]:
    """Read a file into a table of that name; if not `whole`, the table is empty and its columns are likely ones."""
    import duckdb

    try:
        with limited(connection, language):
            columns = _parquet(connection, file) if file.is_parquet else _csv(connection, file, language, whole)
            picked = ", ".join(f"{sql} AS {quoted(column.name)}" for column, sql in columns.items())
            relation = f"read_parquet({_pattern(file.path)})" if file.is_parquet else _TEXTS
            rows = "" if whole else " LIMIT 0"
            connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT {picked} FROM {relation}{rows}")
            connection.execute(f"DROP TABLE IF EXISTS {_TEXTS}")
    except duckdb.Error as error:
        raise ValueError(data_text("file_broken", language, name=file.name, reason=_reason(file, error))) from error
    return tuple(columns)


@lru_cache(maxsize=64)
def peek(file: DataFile, language: Language = "en") -> tuple[Column, ...]:
    """The file's columns, judged by its first rows."""
    with connect() as connection:
        return load(connection, file, "data", language, whole=False)


def tables_text(files: Iterable[DataFile]) -> str:
    """The files as tables that a query can name, with their columns and what these hold; the first of too many."""
    tables: list[str] = []
    for file in files:
        try:
            columns = ", ".join(f"{quoted(column.name)} {column.kind}" for column in peek(file))
        except ValueError:
            continue  # a question about the file says why
        tables.append(f"{quoted(file.name)} ({columns})")
        if len(text := "; ".join(tables)) > MOST_TEXT:
            return f"{text[:MOST_TEXT]}…"
    return "; ".join(tables)


def _reason(file: DataFile, error: Exception) -> str:
    """What the engine says, without the paths and options that follow."""
    said = str(error).split("Possible", 1)[0].split("\n  file =", 1)[0].replace(str(file.path), file.name)
    return " ".join(said.split("Error:", 1)[-1].split("LINE 1:", 1)[0].split())[:300]


def _pattern(path: Path) -> str:
    """A path as an SQL text, without the meaning that the engine gives to * ? [ {."""
    return "'" + re.sub(r"([*?\[{])", r"[\1]", str(path)).replace("'", "''") + "'"


# Parquet


def _parquet(connection: "DuckDBPyConnection", file: DataFile) -> dict[Column, str]:
    """By column the SQL that reads it."""
    found = connection.execute(f"DESCRIBE FROM read_parquet({_pattern(file.path)})").fetchall()
    return dict(_parquet_column(row[0], row[1]) for row in found)


def _parquet_column(name: str, kind: str) -> tuple[Column, str]:
    """A column and the SQL that reads it; what is neither number nor date becomes text."""
    there = quoted(name)
    if kind.startswith(("FLOAT", "DOUBLE", "REAL")):
        return Column(name, "number"), f"CASE WHEN isfinite({there}) THEN {there} END"
    if re.fullmatch(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL\(.*\)|BIGNUM", kind):
        return Column(name, "number"), there
    if kind == "TIMESTAMP WITH TIME ZONE":
        return Column(name, "date"), f"timezone('UTC', {there})"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return Column(name, "date"), there if kind == "DATE" else f"CAST({there} AS TIMESTAMP)"
    return Column(name, "text"), f"nullif(trim(CAST({there} AS VARCHAR)), '')"


# CSV


def _csv(connection: "DuckDBPyConnection", file: DataFile, language: Language, whole: bool) -> dict[Column, str]:
    """Read the texts into a table; by column the SQL that reads it from there."""
    with _utf8(file, language, whole) as path:
        separator, names = _dialect(connection, path)
        if not 0 < len(names) <= MOST_COLUMNS:
            raise ValueError(data_text("file_header", language, name=file.name, most=MOST_COLUMNS))
        options = "auto_detect = false, header = true, delim = ?, quote = '\"', escape = '\"', columns = ?"
        columns = {f"c{place}": "VARCHAR" for place in range(len(names))}
        trimmed = ", ".join(f"trim({column}) AS {column}" for column in columns)
        sql = f"CREATE TEMP TABLE texts AS SELECT {trimmed} FROM read_csv(?, {options})"
        connection.execute(sql, [str(path), separator, columns])
    return typed(connection, _TEXTS, names)


def _dialect(connection: "DuckDBPyConnection", path: Path) -> tuple[str, list[str]]:
    """The separator and the columns' names, of which an empty file has none."""
    if not path.stat().st_size:
        return "", []
    sql = (
        "SELECT Delimiter, list_transform(Columns, lambda c: c.name) "
        "FROM sniff_csv(?, header = true, skip = 0, quote = '\"', escape = '\"')"
    )
    separator, names = connection.execute(sql, [str(path)]).fetchall()[0]
    if len(names) == 1 and separator not in names[0]:
        for other in _SEPARATORS:
            if other in names[0]:  # rows of different lengths: reading them says which
                separator, names = other, names[0].split(other)
                break
    return separator, list(_distinct(names))


def _distinct(names: Sequence[str]) -> Iterator[str]:
    """The names on one line each, without blanks around them, and no two the same."""
    taken: set[str] = set()
    for place, name in enumerate(names):
        chosen = " ".join(name.split())[:200] or f"column{place}"
        chosen = chosen if chosen.casefold() not in taken else f"{chosen}_{place}"
        taken.add(chosen.casefold())
        yield chosen


@contextmanager
def _utf8(file: DataFile, language: Language, whole: bool) -> Iterator[Path]:
    """A copy of the file, or of its beginning, in UTF-8 and without blank lines before the names."""
    with file.path.open("rb") as raw:
        start = raw.read(4)
    if not start:
        raise ValueError(data_text("file_empty", language, name=file.name))
    marked = next((encoding for mark, encoding in _ENCODINGS.items() if start.startswith(mark)), None)
    with tempfile.TemporaryDirectory(prefix="segue-data-") as folder:
        copy = Path(folder) / "data.csv"
        for encoding in (marked,) if marked else ("utf-8", "gb18030"):
            try:
                _copy(file.path, encoding, copy, whole)
            except UnicodeError:
                continue
            break
        else:
            raise ValueError(data_text("file_encoding", language, name=file.name))
        yield copy


def _copy(source: Path, encoding: str, target: Path, whole: bool) -> None:
    with source.open(encoding=encoding, newline="") as read, target.open("w", encoding="utf-8", newline="") as out:
        lines = iter(lambda: read.readline(_PIECE), "")
        names = next((line for line in lines if line.strip(f" \r\n{_SEPARATORS}")), "")
        pieces = iter(lambda: read.read(_PIECE), "")
        rest = pieces if whole else itertools.chain(itertools.islice(pieces, 1), itertools.islice(lines, 1))
        for piece in itertools.chain([names], rest):
            if "\0" in piece:
                raise UnicodeError("text has no NUL")
            out.write(piece)
