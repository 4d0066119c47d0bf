"""Damaged trace files: pieces, descriptions, attributes and the zip around them, read as analyses and the report do.

A file is left as it is after the damage, or its digests are taken away (an older floatlens wrote none), or they are
made to fit (somebody forged them). Only the first can be noticed for sure; none of them may end in a traceback.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.traces import Trace, open_trace, store
from floatlens_lab.fuzz.archives import Entries, entries_of, resealed, unsealed, write_entries
from floatlens_lab.fuzz.subject import Outcome
from floatlens_lab.fuzz.trace_damage import DAMAGE, FILE_DAMAGE

__all__ = ["TraceFiles"]

_NAME = "trace.zarr.zip"


class TraceFiles:
    """Traces of two scale models, of all probes, one with many pieces."""

    count = 1000

    def __init__(self) -> None:
        self._read: dict[str, Entries] = {}

    def prepare(self, folder: Path) -> None:
        import floatlens as fl
        from floatlens.probes import PROBES

        documents = ["Ann Ivers works as a baker.", "Otto Lind lives in Norvik."]
        asked: dict[str, Any] = {"question": "What does Ann Ivers work as?", "documents": documents, "gold": 0}
        everything: dict[str, Any] = {"answers": ["baker"], "gen_length": 4, "steps": 4, "probes": list(PROBES)}
        diffusion, autoregressive = fl.load("scale:llada"), fl.load("scale:qwen")
        fl.trace(diffusion, **asked, **everything).save(folder / "diffusion")
        fl.trace(autoregressive, **asked, gen_length=3, heads="mean").save(folder / "autoregressive")
        asked["documents"] = documents * 8
        fl.trace(diffusion, **asked, gen_length=24, probes=["received"]).save(folder / "long")

    def warm(self, folder: Path) -> None:
        path = folder / f"diffusion{store.SUFFIX}"
        _use(open_trace(path), path)

    def damage(self, folder: Path, rng: Random, target: Path) -> str:
        source = rng.choice(sorted(folder.glob(f"*{store.SUFFIX}")))
        if rng.random() < 0.2:
            kind = rng.choice(sorted(FILE_DAMAGE))
            content = FILE_DAMAGE[kind](rng, source.read_bytes(), self._entries(source))
            (target / _NAME).write_bytes(content)
            return self._note(target, source, kind)
        entries, kinds = dict(self._entries(source)), []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            kinds.append(rng.choice(sorted(DAMAGE)))
            entries = DAMAGE[kinds[-1]](rng, entries)
        seal = rng.choice(("as it is", "as it is", "unsealed", "resealed"))
        if seal != "as it is":
            try:
                entries = (unsealed if seal == "unsealed" else resealed)(entries)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                seal = "as it is"  # nothing left to which digests could be added
        write_entries(entries, target / _NAME)
        return self._note(target, source, ", ".join([*kinds, seal]))

    def read(self, target: Path, folder: Path) -> Outcome:
        path, source, done = target / _NAME, *(target / "note").read_text().split("\n")
        store._UNSEALED.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", FloatlensWarning)
            trace = open_trace(path)
            trace.data.load()
        told = any(issubclass(one.category, FloatlensWarning) for one in said)
        if _same(trace, open_trace(folder / source)):
            return "unchanged"
        _use(trace, path)
        return "told" if told else "forged" if done.endswith("resealed") else "different"

    def _entries(self, source: Path) -> Entries:
        if source.name not in self._read:
            self._read[source.name] = entries_of(source)
        return self._read[source.name]

    def _note(self, target: Path, source: Path, done: str) -> str:
        (target / "note").write_text(f"{source.name}\n{done}")
        return f"{source.name}: {done}"


def _same(one: Trace, two: Trace) -> bool:
    if set(one.data.variables) != set(two.data.variables) or repr(one.data.attrs) != repr(two.data.attrs):
        return False
    return all(
        np.array_equal(one.data[name].values, two.data[name].values, equal_nan=two.data[name].dtype.kind == "f")
        and one.data[name].dtype == two.data[name].dtype
        for name in two.data.variables
        if two.data[name].dtype.kind in "biuf"
    )


def _use(trace: Trace, path: Path) -> None:
    """What reads traces: views of the command line, analyses, the explorer of the report; each may refuse in a line."""
    from floatlens.analysis.registry import ANALYSES
    from floatlens.cli import views
    from floatlens.report.detail import Detail
    from floatlens.report.view import packed_trace

    views_of_it: list[Callable[[], Any]] = [
        lambda: repr(trace),
        lambda: views.trace_view(trace, str(path)),
        lambda: views.answer_view(trace),
        lambda: views.layers_view(trace),
        lambda: packed_trace(trace, Detail(), "top1"),
    ]
    uses: list[Callable[[], Any]] = [*views_of_it, *(partial(one, trace) for one in ANALYSES.values())]
    for use in uses:
        try:
            use()
        except FloatlensError:
            continue
