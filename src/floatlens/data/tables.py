"""Tables as records: tab-separated values whose first row names the columns, and Parquet. CSV is refused by name."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from floatlens.core.errors import FloatlensError
from floatlens.data.compression import BOM, PACKED, open_bytes, read_lines
from floatlens.data.fields import bad

__all__ = ["is_table", "plain_value", "read_parquet", "read_tsv", "refused_table", "stem_of"]

_TEXTS = ("question", "query", "input", "text", "contents", "segment")
"""A table with one of these columns can be read: as questions, or as the passages of a corpus."""
_NAMES = (*_TEXTS, "id", "answer", "answers", "title", "context")


def is_table(lines: list[bytes], path: Path) -> tuple[str, list[str]] | None:
    """TSV or CSV, and its columns: two rows with the same number of columns, or a file that is named so."""
    try:
        shown = [line.decode("utf-8").rstrip("\r") for line in lines[:2]]
    except UnicodeDecodeError:
        return None
    if not shown or shown[0].lstrip().startswith(("{", "[")):
        return None
    suffixes = [suffix.lower() for suffix in path.suffixes]
    named = ".csv" in suffixes or ".tsv" in suffixes
    for name, separator in (("TSV", "\t"), ("CSV", ",")):
        try:
            rows = list(csv.reader(shown, delimiter=separator))
        except csv.Error:
            return None
        columns = [column.strip() for column in rows[0]]
        if len(columns) < 2 or not (named or (len(rows) > 1 and len(rows[1]) == len(columns))):
            continue
        if ".txt" in suffixes and not any(column.lower() in _NAMES for column in columns):
            continue  # prose has commas too
        return name, columns
    return None


def refused_table(name: str, columns: list[str], path: Path) -> str | None:
    """Why a table is not read, and what to do; None if it is."""
    if name == "TSV":
        if any(column in _TEXTS for column in columns):
            return None
        return (
            f"a TSV file whose first row ({', '.join(columns)[:60]}) names no column question, query or text; "
            "add a first row with the names of the columns"
        )
    return (
        f"a CSV file with the columns {', '.join(columns)[:80]} instead of JSON lines; convert it with "
        f'pandas: pd.read_csv("{path.name}").to_json("{path.name}.jsonl", orient="records", lines=True)'
    )


def read_tsv(path: Path) -> Iterator[tuple[int, Callable[[], dict[str, Any]]]]:
    """Numbered rows of a table, as functions that give the fields or raise."""
    with open_bytes(path) as stream:
        text = (line.decode("utf-8") for line in _without_mark(read_lines(path, stream)))
        rows = csv.reader(text, delimiter="\t", strict=True)
        try:
            columns: list[str] = []
            for row in rows:
                if not columns:
                    columns = [column.strip() for column in row]
                elif any(cell.strip() for cell in row):
                    yield rows.line_num, partial(_fields, columns, row)
        except csv.Error as error:
            raise FloatlensError(f"{path}:{rows.line_num}: not a valid TSV row ({error})") from None
        except UnicodeDecodeError:
            raise FloatlensError(f"{path}: not UTF-8 after row {rows.line_num}") from None


def _without_mark(lines: Iterator[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(BOM)


def _fields(columns: list[str], row: list[str]) -> dict[str, Any]:
    if len(row) != len(columns):
        bad(f"expected {len(columns)} columns, found {len(row)}")
    if len(set(columns)) < len(columns):
        bad("two columns have the same name")
    return {name: _cell(name, cell) for name, cell in zip(columns, row, strict=True) if cell.strip()}


def _cell(name: str, cell: str) -> Any:
    """A text; a JSON list where a column of answers holds one."""
    if "answer" in name and cell.lstrip().startswith("["):
        try:
            return json.loads(cell)
        except ValueError:
            bad(f'{name}: not a JSON list; write several answers as ["one", "two"]')
    return [cell] if name == "answers" else cell


def read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbered rows of a Parquet file, a few at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                for row in batch.to_pylist():
                    count += 1
                    yield count, {name: plain_value(value) for name, value in row.items()}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FloatlensError(f"{path}: the Parquet file is damaged after row {count} ({said}); copy it again") from None


def plain_value(value: Any) -> Any:
    """A value as JSON would hold it."""
    if isinstance(value, dict):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain_value(inner) for inner in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def stem_of(path: Path) -> str:
    """The name of a data file without its endings: `nq.jsonl.gz` is nq."""
    name = path.name
    for ending in (*PACKED, ".jsonl", ".json", ".parquet", ".tsv", ".txt"):
        name = name.removesuffix(ending) or name
    return name
