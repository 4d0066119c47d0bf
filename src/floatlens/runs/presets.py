"""The commands as studies: each function turns options into a `Study` and does nothing else.

`fl.run(qa_study(["scale:llada"], ["scale:rag"], limit=20), "runs/qa")` is `floatlens qa scale:llada --data scale:rag
--limit 20 --out runs/qa`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from floatlens.analysis.cache_schedule import Choose
from floatlens.attention.setting import BackendName, ControlKind
from floatlens.core.validation import validate
from floatlens.runs.study import Study

__all__ = [
    "CACHE_DOSES",
    "CACHE_RULES",
    "Options",
    "cache_study",
    "intervene_study",
    "qa_study",
    "stress_study",
    "trace_study",
]


CACHE_DOSES = (0.999, 0.99, 0.95, 0.9)
"""Cosines that keys of a cache should keep at least: a schedule for each, from mild to strong."""
CACHE_RULES = ("stale:rule=elastic:threshold=0.9",)
"""What is tried beside these schedules."""


class Options(TypedDict, total=False):
    """Options that all presets share; what is not given, or None, is the default of `Study`."""

    name: str | None
    limit: int | None
    skip_bad: bool
    format: str | None
    gold: Literal["answer"] | None
    template: str | None
    chat: bool | None
    sampler: str | None
    settings: Mapping[str, Any] | None
    """Sampler settings; each applies to the samplers that have it."""
    seed: int | None
    """Sampler seed; also taken from `settings`."""
    first_line: bool
    family: str | None
    revision: str | None
    dtype: str | None
    device: str | None
    device_map: str | None
    attention: str | None
    block_size: int | None
    mask_id: int | None
    mode: str | None
    batch: int | None
    workers: int | None
    threads: int | None
    executor: Literal["local", "ray"] | None
    address: str | None


def qa_study(
    models: Sequence[str],
    data: Sequence[str],
    *,
    modes: Sequence[str] = ("closed", "rag"),
    documents: int | None = None,
    corpus: str | Path | None = None,
    top: int | None = None,
    paper: bool = False,
    **options: Unpack[Options],
) -> Study:
    """Questions closed book, with documents, or both. Example: `qa_study(["scale:llada"], ["scale:rag"], limit=20)`"""
    values = _values("qa", models, data, options, documents=documents)
    values |= {"conditions": list(modes), "traces": {"questions": 0}, "output": {"paper": paper}}
    if corpus is not None:
        values["corpus"] = _given(path=str(corpus), top=top, skip_bad=options.get("skip_bad"))
    return validate(Study, values)


def stress_study(
    models: Sequence[str],
    data: Sequence[str],
    *,
    tests: Sequence[str] | None = None,
    stress: Mapping[str, Any] | None = None,
    stress_seed: int = 0,
    collection: str | Path | None = None,
    **options: Unpack[Options],
) -> Study:
    """Stress tests by name (None: those for any data with gold documents), with settings of theirs in `stress`;
    `collection` is a file of dated documents for the test of that name.

    Example: `stress_study(["scale:llada"], ["scale:rag"], tests=["order"], stress={"order": {"shuffles": 2}})`
    """
    from floatlens.data.stress import stress_names

    values = _values("stress", models, data, options, collection=None if collection is None else str(collection))
    values["conditions"] = stress_names(by_default=True) if tests is None else list(tests)
    values |= {"stress": dict(stress or {}), "traces": {"questions": 0}}
    values["seeds"] |= {"stress": stress_seed}
    return validate(Study, values)


def intervene_study(
    models: Sequence[str],
    data: Sequence[str],
    *,
    edits: Sequence[str] = (),
    patching: Mapping[str, Any] | None = None,
    edited: int | None = None,
    heads_from: Sequence[str | Path] = (),
    control_seed: int = 0,
    control_draws: int = 1,
    control_kinds: Sequence[ControlKind] | None = None,
    **options: Unpack[Options],
) -> Study:
    """Edits as texts (`drop_anchors:k=1,5`), each with its random controls, beside the unedited `rag`; and `patching`,
    with the keys of that part of a study.

    `edited` questions are also traced under each edit; `heads_from` are runs whose traces tell which heads retrieve.
    Example: `intervene_study(["scale:llada"], ["scale:rag"], edits=["drop_anchors:k=1,5"], limit=20)`
    """
    values = _values("intervene", models, data, options)
    values |= {"conditions": list(edits), "heads_from": [str(one) for one in heads_from]}
    values["traces"] = {"questions": 0, **_given(edited=edited)}
    values["seeds"] |= {"controls": control_seed}
    values |= {"control_draws": control_draws, "control_kinds": control_kinds, "patching": dict(patching or {})}
    return validate(Study, values)


def cache_study(
    models: Sequence[str],
    data: Sequence[str],
    *,
    least: Sequence[float] = CACHE_DOSES,
    also: Sequence[str] = CACHE_RULES,
    traces: int | Literal["all"] = 8,
    within: float = 1.0,
    choose: Choose = "half",
    control_seed: int = 0,
    control_draws: int = 1,
    **options: Unpack[Options],
) -> Study:
    """Refresh schedules of a key/value cache: `traces` questions are traced, a schedule is derived from them for each
    cosine of `least`, and all questions are asked under each, under `also` (edits as texts) and in full. One is
    recommended from those that `choose` names (see `cache_schedules`) and reported on the others.

    Example: `cache_study(["scale:llada"], ["scale:rag"], least=[0.99, 0.9], limit=20)`
    """
    values = _values("cache", models, data, options)
    doses = [f"stale:least={','.join(f'{one:g}' for one in least)}"] if least else []
    values |= {"conditions": ["rag", *doses, *also], "control_draws": control_draws}
    values["output"] = {"within": within, "choose": choose}
    values["traces"] = {"questions": traces, "probes": ["received", "cacheability"], "edited": 0}
    values["analyses"] = ["cacheability"]
    values["seeds"] |= {"controls": control_seed}
    return validate(Study, values)


def trace_study(
    models: Sequence[str],
    data: Sequence[str],
    *,
    probes: Sequence[str] | None = None,
    heads: Literal["all", "mean"] = "all",
    layers: Sequence[int] | None = None,
    backend: BackendName = "auto",
    target: Literal["field", "answer"] | None = None,
    documents: int | None = None,
    controls: int = 0,
    **options: Unpack[Options],
) -> Study:
    """Traces of all questions, or of the first `limit`; also of `controls` copies of each model with shuffled weights.

    Example: `trace_study(["scale:llada"], ["q.jsonl"], controls=1)`
    """
    values = _values("trace", models, data, options, documents=documents)
    values["conditions"] = []
    values["controls"] = {"shuffled_weights": controls}
    what = {"probes": probes, "heads": heads, "layers": layers, "backend": backend, "target": target}
    values["traces"] = {"questions": "all", **what}
    return validate(Study, values)


_LOADING = ("family", "revision", "dtype", "device", "device_map", "attention", "block_size", "mask_id", "mode")


def _values(name: str, models: Sequence[str], data: Sequence[str], options: Options, **per_data: Any) -> dict[str, Any]:
    """The parts of a study that come from the shared options."""
    pick = {key: value for key, value in options.items() if value is not None}
    loading = {key: pick[key] for key in _LOADING if key in pick}
    reading = {key: pick[key] for key in ("limit", "skip_bad", "format", "gold") if key in pick} | _given(**per_data)
    machine = {key: pick[key] for key in ("batch", "workers", "threads", "executor", "address") if key in pick}
    settings = dict(options.get("settings") or {})
    seed = settings.pop("seed", None) if options.get("seed") is None else options["seed"]
    return {
        "name": options.get("name") or name,
        "models": [{"ref": ref, **loading} for ref in models],
        "data": [{"ref": ref, **reading} for ref in data],
        "prompt": _given(template=options.get("template"), chat=options.get("chat")),
        "decoding": {"sampler": options.get("sampler"), "settings": settings},
        "first_line": options.get("first_line", False),
        "seeds": _given(decoding=seed),
        "machine": machine,
    }


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
