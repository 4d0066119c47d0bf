"""`explore`: the explorer of one or several traces in a notebook, in a frame that can reach nothing around it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from floatlens.analysis.sources import Traces, trace_files
from floatlens.core.errors import FloatlensError
from floatlens.core.files import write_atomically
from floatlens.report.build import LARGEST
from floatlens.report.explorer import explorer_data
from floatlens.report.render import explorer_page
from floatlens.report.subjects import Seen, look
from floatlens.traces import Trace, open_trace

__all__ = ["Explorer", "explore"]


class Explorer:
    """The explorer as a page: shown by notebooks, and saved with `save("watch.html")`."""

    def __init__(self, page: str, about: str, height: int) -> None:
        self.page = page
        self._about = about
        self._height = height

    def _repr_html_(self) -> str:
        frame = 'sandbox="allow-scripts allow-downloads" loading="lazy" title="floatlens explorer"'
        size = f'width="100%" height="{self._height}" style="border:0;border-radius:8px"'
        return f'<iframe {frame} {size} srcdoc="{escape(self.page, quote=True)}"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write the page to a file that opens in any browser."""
        target = Path(path)
        write_atomically(target, self.page.encode())
        return target

    def __repr__(self) -> str:
        return f"Explorer({self._about}, {len(self.page) / 1e6:.1f} MB; .save(path) writes it)"


def explore(traces: Traces, *, rule: str = "zscore", examples: int = 12, height: int = 860) -> Explorer:
    """Watch attention move, step by step, in one trace or several: the explorer of the report.

    Example: `fl.explore(trace)` as the last line of a notebook cell, or `fl.explore("runs/a").save("watch.html")`
    """
    seen = list(_seen(traces))
    if not seen:
        raise FloatlensError("no traces to explore")
    index, views = explorer_data(seen, examples, rule, LARGEST)
    names = ", ".join(model["label"] for model in index["models"])
    return Explorer(explorer_page(index, views), f"{names}: {len(views)} of {len(seen)} traces", height)


def _seen(traces: Traces) -> Iterable[Seen]:
    if isinstance(traces, Trace):
        yield look(traces)
    elif isinstance(traces, str | Path):
        yield from (look(open_trace(file), file) for file in trace_files(Path(traces)))
    else:
        for one in traces:
            yield from _seen(one)
