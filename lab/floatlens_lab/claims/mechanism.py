"""Mechanism cases: numbers of qk, token_classes, retrieval_heads and flow with known means, judged by their claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from floatlens.analysis import Result
from floatlens_lab.claims.cases import Case, Random, Truth
from floatlens_lab.claims.groups import Floats, Simulated, simulated
from floatlens_lab.claims.margins import positive, signed

__all__ = ["mechanism_cases"]

LAYERS, HEADS = 6, 4
_SHALLOW = LAYERS // 2


# -- parts of q·k -----------------------------------------------------------------------------------------------------


def _by_half(random: Random, n: int, shallow: float, deep: float, skew: int = 1) -> Floats:
    """(sample, layer, head): traces differ, with a tail to one side, and heads by as much."""
    means = np.repeat([shallow, deep], [_SHALLOW, LAYERS - _SHALLOW])[None, :, None]
    own = np.repeat(signed(0.0, 0.6, skew)(random, 2 * n).reshape(n, 2), [_SHALLOW, LAYERS - _SHALLOW], axis=1)
    return np.asarray(means + own[..., None] + 0.6 * random.normal(size=(n, LAYERS, HEADS)))


def _qk(random: Random, n: int, norm: tuple[float, float], angle: tuple[float, float], skew: int = 1) -> list[Result]:
    parts = {"norm_part": _by_half(random, n, *norm, skew), "angle_part": _by_half(random, n, *angle, skew)}
    return [Result("qk", {}, (simulated(parts, kind="mdm"),))]


def _angular(random: Random, n: int, angle: float, norm: float, absent: float = 0.3) -> list[Result]:
    """Log-normal parts of an autoregressive model. With equal means they are exchangeable, so the mean share of the
    angle is exactly one half. Layers without anchors have no numbers."""
    size = n * LAYERS * HEADS
    drawn = (positive(mean)(random, size).reshape(n, LAYERS, HEADS) for mean in (norm, angle))
    missing = random.random((n, LAYERS, 1)) < absent
    values = {name: np.where(missing, np.nan, x) for name, x in zip(("norm_part", "angle_part"), drawn, strict=True)}
    return [Result("qk", {}, (simulated(values, kind="arm"),))]


def _qk_cases() -> Iterator[Case]:
    worlds: tuple[tuple[str, Truth, tuple[float, float], tuple[float, float]], ...] = (
        ("clear", "true", (1.5, -0.5), (1.5, 2.0)),
        ("norm in shallow layers at the limit", "neither", (0.0, -2.0), (1.5, 1.5)),
        ("angle in shallow layers at the limit", "neither", (2.0, -1.5), (0.0, 1.5)),
        ("angle in deep layers at the limit", "neither", (2.0, -2.0), (1.5, 0.0)),
        ("share of the norm at the limit", "neither", (1.5, 1.5), (1.5, 1.5)),  # halves are exchangeable
        ("no advantage", "neither", (0.0, 0.0), (0.0, 0.0)),
        ("angle, then norm", "false", (0.2, 2.0), (2.0, 0.2)),
    )
    for name, truth, norm, angle in worlds:
        for skew, tail in ((1, "tail to the right"), (-1, "tail to the left")):
            yield Case("qk-split", f"{name}, {tail}", truth, partial(_qk, norm=norm, angle=angle, skew=skew))
    yield Case("arm-angular", "angle four times the norm", "true", partial(_angular, angle=4.0, norm=1.0))
    yield Case("arm-angular", "equal parts", "neither", partial(_angular, angle=1.0, norm=1.0))
    yield Case("arm-angular", "norm four times the angle", "false", partial(_angular, angle=1.0, norm=4.0))
    yield Case("arm-angular", "angle against the anchors", "false", partial(_angular, angle=-1.0, norm=2.0))
    yield Case(
        "arm-angular", "most layers without anchors", "neither", partial(_angular, angle=1.0, norm=1.0, absent=0.9)
    )


# -- token classes ----------------------------------------------------------------------------------------------------


def _classes(random: Random, n: int, structure: float, content: tuple[float, float]) -> list[Result]:
    """Enrichment by layer, log-normal: of structure in shallow layers, of content in both halves."""

    def enriched(shallow: float, deep: float) -> Floats:
        trace = np.stack([positive(mean, 0.6)(random, n) for mean in (shallow, deep)], axis=1)
        layers = random.lognormal(-0.045, 0.3, (n, LAYERS))
        return np.asarray(np.repeat(trace, [_SHALLOW, LAYERS - _SHALLOW], axis=1) * layers)

    values = {"structural_anchors": enriched(structure, 1.0), "lexical_anchors": enriched(*content)}
    return [Result("token_classes", {}, (simulated(values, kind="mdm"),))]


def _class_cases() -> Iterator[Case]:
    worlds: tuple[tuple[str, Truth, float, tuple[float, float]], ...] = (
        ("clear", "true", 2.0, (0.5, 1.8)),
        ("structure at the limit", "neither", 1.0, (0.5, 1.8)),
        ("content at the limit", "neither", 2.0, (0.4, 1.0)),
        ("content alike at all depths", "neither", 2.0, (1.8, 1.8)),
        ("no preference", "neither", 1.0, (1.0, 1.0)),
        ("content, then structure", "false", 0.5, (1.8, 0.5)),
    )
    for name, truth, structure, content in worlds:
        draw = partial(_classes, structure=structure, content=content)
        yield Case("structure-then-content", name, truth, draw)


_MIX = np.array([0.35, 0.25, 0.15, 0.12, 0.08, 0.05])
_SHIFT = np.array([-1.0, 0.6, 0.0, 0.4, 0.0, 0.0])  # by a: a total variation distance of a


def _tasks(random: Random, n: int, apart: Sequence[float], sets: int = 2) -> list[Result]:
    """(sample, class, layer) shares of n questions of each data set. `apart` is the distance from the first set in the
    shallow and in the deep half; of several sets all but the last are alike."""
    values = []
    for number in range(sets):
        shift = np.repeat(apart, [_SHALLOW, LAYERS - _SHALLOW]) * (number == sets - 1)
        mix = 4 * (_MIX + shift[:, None] * _SHIFT)
        values.append(np.stack([random.dirichlet(one, n) for one in mix], axis=2))
    names = [f"set {number}" for number in range(sets) for _ in range(n)]
    return [Result("token_classes", {}, (simulated({"anchors": np.concatenate(values)}, kind="mdm", sets=names),))]


def _task_cases() -> Iterator[Case]:
    """With three sets of which one differs by a, the mean over pairs is two thirds of a."""
    worlds: tuple[tuple[str, Truth, tuple[float, float], int], ...] = (
        ("distance 0.25", "true", (0.25, 0.25), 2),
        ("distance 0.15", "true", (0.15, 0.15), 2),
        ("at the limit", "neither", (0.05, 0.05), 2),
        ("at the limit, in deep layers alone", "neither", (0.0, 0.1), 2),
        ("at the limit, three sets", "neither", (0.075, 0.075), 3),
        ("the same anchors", "neither", (0.0, 0.0), 2),
        ("one data set", "neither", (0.25, 0.25), 1),
    )
    for name, truth, apart, sets in worlds:
        yield Case("anchors-by-task", name, truth, partial(_tasks, apart=apart, sets=sets), effort=0.5)


# -- retrieval heads --------------------------------------------------------------------------------------------------

_HEAD = np.array([0.02, 0.05, 0.15, 0.4])


def _copying(random: Random, n: int, by_layer: Sequence[float], tokens: int = 4) -> list[Result]:
    """(sample, layer, head): share of the tokens copied. A head copies with a probability of its own, times a factor by
    layer; some questions are easier than others."""
    easy = np.minimum(random.lognormal(-0.08, 0.4, (n, 1, 1)), 2.2)
    p = np.clip(np.asarray(by_layer)[:, None] * _HEAD * easy, 0, 1)
    return [Result("retrieval_heads", {}, (simulated({"copy": random.binomial(tokens, p) / tokens}, kind="mdm"),))]


def _retrieval_cases() -> Iterator[Case]:
    """Where every layer has the same heads, or layers are symmetric about the middle, the correlation is exactly 0."""
    worlds: tuple[tuple[str, Truth, tuple[float, ...]], ...] = (
        ("steep rise", "true", (0.2, 0.4, 0.6, 0.8, 0.9, 1.0)),
        ("the same heads in every layer", "neither", (1.0,) * 6),
        ("middle layers", "neither", (0.2, 0.6, 1.0, 1.0, 0.6, 0.2)),
        ("no head copies", "neither", (0.0,) * 6),
        ("shallow heads", "false", (1.0, 0.9, 0.8, 0.6, 0.4, 0.2)),
    )
    for name, truth, by_layer in worlds:
        yield Case("retrieval-deep", name, truth, partial(_copying, by_layer=by_layer), effort=0.5)


# -- flow -------------------------------------------------------------------------------------------------------------


def _placed(
    random: Random, n: int, lifts: Mapping[int, float], kind: str, skew: int, kept: Mapping[int, float]
) -> Iterator[Simulated]:
    """ln lift of n questions at each position of the gold document. A question has an effect of its own at all of them;
    only a part of the questions is `kept` at a position."""
    own = signed(0.0, 0.5, skew)(random, n)
    for gold, mean in lifts.items():
        asked = np.arange(n)[random.random(n) < kept.get(gold, 1.0)]
        values = mean + own[asked] + 0.4 * random.normal(size=len(asked))
        arrays = {f"{how}_log_lift": values for how in ("direct", "rollout")}
        yield simulated(arrays, kind=kind, questions=asked.tolist(), documents=10, gold=gold)


def _follow(random: Random, n: int, lifts: Mapping[int, float], skew: int) -> list[Result]:
    return [Result("flow", {}, tuple(_placed(random, n, lifts, "mdm", skew, {})))]


def _more(
    random: Random,
    n: int,
    mdm: Mapping[int, float],
    arm: Mapping[int, float],
    unfinished: Mapping[str, Mapping[int, float]] | None = None,
) -> list[Result]:
    kept = unfinished or {}
    groups = [
        group
        for kind, lifts, skew in (("mdm", mdm, 1), ("arm", arm, -1))
        for group in _placed(random, n, lifts, kind, skew, kept.get(kind, {}))
    ]
    return [Result("flow", {}, tuple(groups))]


def _at(*lifts: float) -> dict[int, float]:
    """ln lift by position, from 1."""
    return {place + 1: lift for place, lift in enumerate(lifts)}


def _flow_cases() -> Iterator[Case]:
    following: tuple[tuple[str, Truth, dict[int, float]], ...] = (
        ("clear", "true", _at(1.0, 0.7, 0.8)),
        ("ten positions", "true", _at(*[0.6] * 10)),
        ("one position at the limit", "neither", _at(1.0, 0.0, 0.8)),
        ("even at three positions", "neither", _at(0.0, 0.0, 0.0)),
        ("even at ten positions", "neither", _at(*[0.0] * 10)),
        ("the first document at any position", "false", _at(1.5, -0.4, -0.4)),
        ("one position only", "neither", _at(1.5)),  # the model may prefer this position
        ("other documents", "false", _at(-0.8, -0.5, -0.6)),
    )
    hard, harder = _at(1.5, 1.0, 0.2), {3: 0.4}
    between: tuple[tuple[str, Truth, Callable[[Random, int], list[Result]]], ...] = (
        ("clear", "true", partial(_more, mdm=_at(1.2, 1.0, 1.1), arm=_at(0.4, 0.3, 0.2))),
        ("equal", "neither", partial(_more, mdm=_at(0.6, 0.6, 0.6), arm=_at(0.6, 0.6, 0.6))),
        ("even in both", "neither", partial(_more, mdm=_at(0.0, 0.0, 0.0), arm=_at(0.0, 0.0, 0.0))),
        ("other positions preferred", "neither", partial(_more, mdm=_at(1.2, 0.0, 0.0), arm=_at(0.0, 0.0, 1.2))),
        ("the other way round", "false", partial(_more, mdm=_at(0.3, 0.3, 0.2), arm=_at(1.0, 1.0, 1.1))),
        ("one position only", "neither", partial(_more, mdm=_at(1.2), arm=_at(0.2))),
        # Kinds are equal at every position, and one of them has few traces at the hardest.
        ("equal, diffusion unfinished", "neither", partial(_more, mdm=hard, arm=hard, unfinished={"mdm": harder})),
        ("equal, autoregressive unfinished", "neither", partial(_more, mdm=hard, arm=hard, unfinished={"arm": harder})),
    )
    for way in ("attention", "rollout"):
        for name, truth, lifts in following:
            for skew, tail in ((1, "tail to the right"), (-1, "tail to the left")):
                draw = partial(_follow, lifts=lifts, skew=skew)
                yield Case(f"flow-follows-gold ({way})", f"{name}, {tail}", truth, draw, effort=0.5)
        for name, truth, make in between:
            yield Case(f"mdm-flow ({way})", name, truth, make, effort=0.5)


def mechanism_cases() -> list[Case]:
    """Every claim about why anchors win, what they are, which heads retrieve, and where the answer comes from."""
    return [*_qk_cases(), *_class_cases(), *_task_cases(), *_retrieval_cases(), *_flow_cases()]
