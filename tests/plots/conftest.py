"""Results and traces to draw: made by hand where the numbers must be known, and by the analyses from tiny models.

`result("drift", {"a/llada": "mdm"})` has the variables and dimensions of that analysis; `shown(figure)` draws it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from floatlens.analysis import ANALYSES, Group, Result, analyse
from floatlens.analysis.cacheability import KINDS as HELD
from floatlens.analysis.drift import QUERIES
from floatlens.analysis.lens import BEFORE
from floatlens.analysis.motion import LAGS
from floatlens.analysis.order import TOKENS
from floatlens.analysis.sinks import KINDS
from floatlens.probes.shares import DISTANCES
from floatlens.prompts.words import CLASSES
from floatlens.traces import Trace

REGIONS = ("bos", "question", "doc1", "doc2", "doc3", "answer", "template")
VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "absorption": dict.fromkeys(("absorbed", "uniform", "excess", "anchors"), ("view", "layer")),
    "drift": {
        "lag_jaccard": ("queries", "lag"),
        **{
            f"{name}_by_layer": ("queries", "layer")
            for name in ("jaccard", "quarter_jaccard", "strongest", "effective_anchors", "speed", "entropy")
        },
    },
    "extremes": dict.fromkeys(("value_ratio", "residual_ratio", "dormant"), ("layer",)),
    "flow": {
        "region_attention": ("from_region", "region"),
        "region_rollout": ("from_region", "region"),
        "direct_log_lift": (),
        "rollout_log_lift": (),
        "lift_by_layer": ("layer",),
    },
    "sinks": {
        "rate": ("kind", "layer", "head"),
        "sink_heads": ("kind",),
        **dict.fromkeys(("follows_position", "follows_token", "moved_sinks"), ()),
        **dict.fromkeys(("position_beyond_chance", "token_beyond_chance"), ()),
    },
    "order": {
        **dict.fromkeys(("position_tau", "confidence_tau", "first_confidence_tau"), ("tokens",)),
        "tokens_per_step": (),
        "commits": ("moment", "place"),
    },
    "lens": {**dict.fromkeys(("first", "rank", "logp"), ("layer", "before")), "depth": ("before",), "settled": ()},
    "smoothing": dict.fromkeys(("cosine", "masked_cosine", "rank", "rank_share", "row_distance"), ("layer",)),
    "cacheability": {
        **dict.fromkeys(("key", "value", "state"), ("held", "layer")),
        **dict.fromkeys(("top", "refresh", "recall", "keys_90", "keys_95", "keys_99"), ("layer",)),
        "ahead": ("layer", "distance"),
        "chance": (),
    },
    "qk": dict.fromkeys(("dot", "norm_part", "angle_part", "cos", "key_norm"), ("layer", "head")),
    "retrieval_heads": dict.fromkeys(("copy", "copy_code", "focus", "mass", "qr"), ("layer", "head")),
    "token_classes": {
        **dict.fromkeys(("mass", "anchors", "mass_enrichment", "anchors_enrichment"), ("class", "layer")),
        "tokens": ("class",),
        **dict.fromkeys(("structural", "lexical", "structural_anchors", "lexical_anchors"), ("layer",)),
    },
}
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"rule": "robust", "group": "all"} for name in ("qk", "token_classes")},
    "drift": {"rule": "robust"},
    "absorption": {"rule": "top1", "group": "all"},
    "extremes": {"rule": "robust", "group": "all", "dormant_above": 0.5},
    "flow": {},
    "sinks": {"above": 0.3, "group": "all"},
    "order": {},
    "lens": {"tokens": "text"},
    "smoothing": {},
    "cacheability": {"k": 16, "below": 0.9},
    "retrieval_heads": {"score": "all"},
}
TWO = {"scale:llada": "mdm", "scale:qwen": "arm"}
SIX = {**TWO, "scale:llama": "arm", "scale:dream": "mdm", "hub/Some-8B-$x$": "mdm", "/home/me/other": "arm"}


@pytest.fixture(scope="session")
def result() -> Callable[..., Result]:
    """`result(analysis, models, n=…, layers=…, undefined=…)`; `undefined` makes every number of the last model NaN."""

    def make(
        analysis: str, models: Mapping[str, str] = TWO, *, n: int = 3, layers: int = 4, undefined: bool = False
    ) -> Result:
        random = np.random.default_rng(sum(analysis.encode()))
        groups = []
        for place, (model, kind) in enumerate(models.items()):
            for keys in _conditions(analysis, model):
                samples = _samples(analysis, random, n, layers)
                blank = undefined and place == len(models) - 1
                groups.append(Group(keys, {"kind": kind}, samples * np.nan if blank else samples))
        return Result(analysis, SETTINGS[analysis], tuple(groups))

    return make


def _conditions(analysis: str, model: str) -> list[dict[str, Any]]:
    more = [{"documents": 3, "gold": gold} for gold in (1, 2, 3)] if analysis == "flow" else [{}]
    return [{"model": model, **one} for one in more]


def _samples(analysis: str, random: np.random.Generator, n: int, layers: int) -> xr.Dataset:
    coords: dict[str, Any] = {
        "view": ["fixed", "floating"],
        "queries": list(QUERIES),
        "lag": list(LAGS),
        "layer": np.arange(layers),
        "head": np.arange(2),
        "class": list(CLASSES),
        "region": list(REGIONS),
        "from_region": list(REGIONS),
        "moment": np.linspace(0, 1, 10),
        "place": np.linspace(0, 1, 10),
        "kind": list(KINDS),
        "held": list(HELD),
        "distance": [f"{one}+" for one in DISTANCES],
        "tokens": list(TOKENS),
        "before": list(BEFORE),
    }
    data = {}
    for name, dims in VARIABLES[analysis].items():
        values = random.uniform(0.1, 0.9, (n, *(len(coords[dim]) for dim in dims)))
        if name.startswith("region_"):
            values /= values.sum(axis=-1, keepdims=True)
        elif dims[:1] == ("class",):
            values /= values.sum(axis=1, keepdims=True)
        data[name] = (("sample", *dims), values)
    used = {dim for dims in VARIABLES[analysis].values() for dim in dims}
    return xr.Dataset(data, coords={dim: values for dim, values in coords.items() if dim in used})


@pytest.fixture(scope="session")
def every_result(result: Callable[..., Result]) -> Callable[..., dict[str, Result]]:
    """One result of each analysis: `every_result(models, n=1)`."""
    return lambda *args, **kwargs: {name: result(name, *args, **kwargs) for name in VARIABLES}


@pytest.fixture(scope="session")
def traced(tiny_model: Callable[[str], Any]) -> Callable[..., Trace]:
    """`traced("dream")`: a trace of a tiny model, with regions, evidence, a gold document and token texts put in."""
    from floatlens import trace

    made: dict[tuple[str, int], Trace] = {}

    def make(name: str, start: int = 5) -> Trace:
        if (name, start) not in made:
            prompt = [start, 9, 12, 33, 21, 40, 41, 42, 7, 8]
            probes = [
                "received",
                "flow",
                "answer_rows",
                "rollout",
                "qk",
                "extremes",
                "lens",
                "smoothing",
                "cacheability",
            ]
            given = {} if name == "qwen2" else {"steps": 4}
            made[name, start] = trace(tiny_model(name), prompt_ids=prompt, probes=probes, gen_length=4, **given)
        data = made[name, start].data.copy(deep=True)
        data.attrs = {**data.attrs, "token_text": _texts(data.sizes["key"])}
        data["evidence"][3:5] = True
        return Trace(data)

    return make


def _texts(count: int) -> list[str]:
    return (["<bos>", "Who", "$x$", "\n\n", "Ġhas", "a", "cat", "42", ".", "?"] + ["ans"] * count)[:count]


@pytest.fixture(scope="session")
def in_regions(traced: Callable[..., Trace]) -> Callable[..., Trace]:
    """`in_regions("dream")`: the same in named regions with document 2 of 3 gold, for the figure of one trace."""

    def make(name: str) -> Trace:
        data = traced(name).data
        keep = [one for one in data.data_vars if not {"region", "from_region"} & set(data[one].dims)]
        attrs = data.attrs
        data = data[keep].drop_vars(["region", "from_region"], errors="ignore")
        data.attrs = {**attrs, "regions": list(REGIONS), "prompt": {**attrs["prompt"], "gold": 1}}
        of = [0, 6, 2, 2, 3, 3, 4, 4, 1, 1] + [5] * data.sizes["key"]
        data["region_of"] = ("key", np.array(of[: data.sizes["key"]], dtype=np.int16))
        return Trace(data)

    return make


@pytest.fixture(scope="session")
def real_results(traced: Callable[..., Trace]) -> dict[str, Result]:
    """Every analysis of two traces each of a diffusion and an autoregressive tiny model."""
    return analyse([traced(name, start) for name in ("dream", "qwen2") for start in (5, 6)], list(ANALYSES))


@pytest.fixture
def shown() -> Callable[[Figure], Figure]:
    """Lay a figure out as it would be drawn; a layout that fails, or a sign the font lacks, is an error."""

    def show(figure: Figure) -> Figure:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure.draw_without_rendering()
        return figure

    return show


@pytest.fixture(autouse=True)
def _leaves_no_mark() -> Iterator[None]:
    """No test of a figure changes a setting of matplotlib or leaves a figure open."""
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    import matplotlib.pyplot as plt

    assert plt.get_fignums() == []
