"""Tables of texts with two header rows, as Markdown, CSV or LaTeX; text from data and models is escaped for each."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from floatlens.core.text import in_csv, in_latex, in_markdown

__all__ = ["Table"]


@dataclass(frozen=True)
class Table:
    """A table of texts with two header rows: groups (each over `span` columns) and columns. Text is escaped for each
    format."""

    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str

    def to_frame(self) -> pd.DataFrame:
        """With one header row: group and column in one name."""
        names = [f"{group} {name}".strip() for group, name in zip(self._over(), self.columns, strict=True)]
        return pd.DataFrame(list(self.rows), columns=names)

    def to_markdown(self) -> str:
        frame = self.to_frame()
        lines = [list(map(in_markdown, frame.columns)), ["---", *["---:"] * (len(self.columns) - 1)]]
        lines += [list(map(in_markdown, row)) for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{in_markdown(self.caption)}\n"

    def to_csv(self) -> str:
        return self.to_frame().rename(columns=in_csv).map(in_csv).to_csv(index=False, lineterminator="\n")

    def to_latex(self) -> str:
        """For the package booktabs."""
        heads = pd.MultiIndex.from_arrays([[in_latex(name) for name in row] for row in (self._over(), self.columns)])
        frame = pd.DataFrame([[in_latex(cell) for cell in row] for row in self.rows], columns=heads)
        right = "r" * (len(self.columns) - 1)
        return frame.to_latex(
            index=False, multicolumn_format="c", column_format="l" + right, caption=in_latex(self.caption)
        )

    def _over(self) -> list[str]:
        return [name for name, span in self.groups for _ in range(span)]
