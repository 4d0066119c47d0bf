"""Figures and tables as files, each written whole."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from floatlens.core.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from floatlens.analysis.tables import Table

__all__ = ["FORMATS", "save_figure", "save_frame", "save_table"]

FORMATS = ("pdf", "svg", "png")


def save_figure(figure: Figure, path: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """A figure in every format; `path` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for kind in formats:
        held = io.BytesIO()
        figure.savefig(held, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
        files.append(path.parent / f"{path.name}.{kind}")
        write_atomically(files[-1], held.getvalue())
    return files


def save_frame(frame: pd.DataFrame, path: Path) -> list[Path]:
    """A table of numbers as CSV and Parquet; `path` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    as_csv, as_parquet = path.with_suffix(".csv"), path.with_suffix(".parquet")
    write_atomically(as_csv, frame.to_csv(index=False).encode())
    held = io.BytesIO()
    frame.to_parquet(held, index=False)
    write_atomically(as_parquet, held.getvalue())
    return [as_csv, as_parquet]


def save_table(table: Table, path: Path) -> list[Path]:
    """A table for readers as Markdown, CSV and LaTeX; `path` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {".md": table.to_markdown(), ".csv": table.to_csv(), ".tex": table.to_latex()}
    for suffix, text in texts.items():
        write_atomically(path.with_suffix(suffix), text.encode())
    return [path.with_suffix(suffix) for suffix in texts]
