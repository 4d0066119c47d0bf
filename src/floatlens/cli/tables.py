"""Tables of numbers that lose nothing in a narrow terminal: no column is cut, no row label disappears.

`by_model` has a column per model. If that is too wide, the parts of a cell go below each other, then intervals are left
out with a note, and at last each model gets a block of its own. `in_blocks` divides a table with many columns, and
repeats the row labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from floatlens.cli.terminal import clean

__all__ = ["INTERVAL", "Row", "by_model", "in_blocks", "interval", "labelled_table", "new_table", "number"]

INTERVAL = "95 % interval"
"""The part of a cell that is left out first."""
_GAP = 2
_LABEL = 22
"""Row labels are folded rather than made narrower than this."""


@dataclass(frozen=True)
class Row:
    """A row label and, for each model that has a value, its parts; a row without values is a heading."""

    label: str
    cells: Mapping[str, Sequence[str]] = field(default_factory=dict)
    level: int = 0

    @property
    def shown(self) -> Padding:
        """The label, indented by its level where it is folded too."""
        return Padding(Text(clean(self.label), style="" if self.cells else "bold"), (0, 0, 0, 2 * self.level))

    @property
    def width(self) -> int:
        return 2 * self.level + cell_len(clean(self.label))


def number(value: float, spec: str = ".3g") -> str:
    """A number, or a dash where it is not defined."""
    return "–" if math.isnan(value) else format(value, spec)


def interval(low: float, high: float, spec: str = ".3g") -> str:
    """An interval in brackets, or nothing where it is not defined."""
    return "" if math.isnan(low) or math.isnan(high) else f"[{low:{spec}}, {high:{spec}}]"


def new_table(*titles: str) -> Table:
    """A table without lines."""
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="cyan")
    for title in titles:
        table.add_column(Text(clean(title)), no_wrap=True)
    return table


def labelled_table(first: Text, heads: Sequence[str], **shape: Any) -> Table:
    """A table whose first column is folded, so the others keep their width."""
    table = new_table()
    table.add_column(first, overflow="fold", **shape)
    for head in heads:
        table.add_column(Text(clean(head)), no_wrap=True)
    return table


def by_model(
    title: str, parts: Sequence[str], models: Sequence[str], labels: Sequence[str], rows: Sequence[Row], width: int
) -> RenderableType:
    """Rows of numbers for each model. `parts` names what a cell consists of, `labels` the models for people."""
    label = min(_LABEL, max(cell_len(title), *(row.width for row in rows))) + _GAP
    needed: list[int] = []
    for dropped, separator in (("", "  "), ("", "\n"), (INTERVAL, "  "), (INTERVAL, "\n")):
        cells = [[_cell(row.cells.get(model, ()), parts, dropped, separator) for model in models] for row in rows]
        columns = [_width([name, *(row[i] for row in cells)]) + _GAP for i, name in enumerate(labels)]
        needed.append(label + sum(columns))
        if needed[-1] <= width:
            table = labelled_table(Text(clean(title)), labels, max_width=width - sum(columns) - _GAP)
            for row, shown in zip(rows, cells, strict=True):
                table.add_row(row.shown, *((text or "–" for text in shown) if row.cells else ()))
            hint = f"95 % intervals: in the run's tables, or here with {min(needed[:2])} columns"
            return Group(table, Text(hint, style="dim")) if dropped in parts else table
    return Group(*_blocks(parts, models, labels, rows))


def _cell(values: Sequence[str], parts: Sequence[str], dropped: str, separator: str) -> str:
    return separator.join(value for value, part in zip(values, parts, strict=False) if value and part != dropped)


def _blocks(
    parts: Sequence[str], models: Sequence[str], labels: Sequence[str], rows: Sequence[Row]
) -> Iterator[RenderableType]:
    for model, label in zip(models, labels, strict=True):
        table = labelled_table(Text(clean(label), style="bold"), parts, min_width=_LABEL)
        for row in rows:
            table.add_row(row.shown, *(row.cells.get(model) or ["–"] if row.cells else ()))
        yield table
        yield Text()


def in_blocks(
    groups: Sequence[tuple[str, int]], columns: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> RenderableType:
    """A table with two header rows, its groups of columns divided into as many blocks as the width needs."""
    (_, first), *others = groups
    spans, start = [], first
    for name, span in others:
        spans.append((name, range(start, start + span)))
        start += span
    widths = [_width([columns[i], *(row[i] for row in rows)]) + _GAP for i in range(len(columns))]
    blocks: list[list[tuple[str, range]]] = [[]]
    used = widths[0]
    for name, places in spans:
        head = _width([_head(name, columns[places[0]])]) + _GAP
        needed = max(widths[places[0]], head) + sum(widths[i] for i in places[1:])
        if blocks[-1] and used + needed > width:
            blocks.append([])
            used = widths[0]
        blocks[-1].append((name, places))
        used += needed
    return Group(*_divided(blocks, columns, rows))


def _divided(
    blocks: Sequence[Sequence[tuple[str, range]]], columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> Iterator[RenderableType]:
    for place, block in enumerate(blocks):
        table = new_table()
        table.add_column(Text(f"\n{columns[0]}"), overflow="fold")
        for name, span in block:
            for i in span:
                head = _head(clean(name) if i == span[0] else "", columns[i])
                table.add_column(Text(head), justify="right", no_wrap=True)
        for row in rows:
            table.add_row(Text(clean(row[0]), style="bold"), *(row[i] for _, span in block for i in span))
        if place:
            yield Text()
        yield table


def _head(group: str, column: str) -> str:
    """Both header rows of a column; what a group says in brackets goes to the second one if that is free."""
    first, bracket, rest = group.partition(" (")
    return f"{group}\n{column}" if column or not bracket else f"{first}\n({rest}"


def _width(texts: Sequence[str]) -> int:
    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)
