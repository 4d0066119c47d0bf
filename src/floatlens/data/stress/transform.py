"""A question at a point of a stress test: the same question and answers with other documents, or in another order.

`apply` is a function of the seed, the question, the point and the pool, and of nothing else. docs/stress.md describes
every test for readers. The definitions, with what the papers leave open:

- clean: the gold documents in evidence order.
- noise [RGB]: of n documents round(ratio · n) are noise and the others gold, as far as there are gold documents. With
  fewer of these the prompt is shorter; filling it up with noise would undo the ratio. Mixed in a seeded order.
- distractor: all gold documents and so many distractors of a kind, mixed in a seeded order.
- position [LITM]: all gold documents, side by side in evidence order, from the place on or as far back as they go. The
  others are the same in the same order for every place.
- layout, order: the same documents as position, arranged otherwise. More gold documents than there are places are left
  out from the end of the evidence.
- masks: the question as it is in the data; masks and dots are appended where prompts are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.examples import Example
from floatlens.data.stress.arrange import Slot, block, filled, mixed, shuffled, spread
from floatlens.data.stress.counterfactual import counterfactuals, no_counterfactual
from floatlens.data.stress.distractors import random_distractors, topic_distractors
from floatlens.data.stress.evidence import cut, evidence_order
from floatlens.data.stress.points import (
    DISTRACTOR_KINDS,
    LAYOUTS,
    Point,
    StressSettings,
    named_test,
    noise_count,
    points,
)
from floatlens.data.stress.pool import Pool
from floatlens.data.stress.seeds import generator
from floatlens.evaluation.metrics import normalise
from floatlens.prompts import Document

__all__ = ["apply", "unfit"]


def apply(example: Example, point: Point, pool: Pool, settings: StressSettings) -> Example:
    """The question at a point; `meta["stress"]` says what was done. Id, question and answers stay.

    `meta["gold"]` and `meta["gold_groups"]`, where the data has them, follow the gold documents to their new places.
    Example: `apply(example, points("noise")[2], pool, StressSettings()).meta["stress"]["gold_places"]`
    """
    reason = _lacking(example, point.test, settings)
    if reason is not None:
        raise FloatlensError(f'question "{example.id}" {reason}; leave it out of test "{point.test}"')
    if point.test == "masks":
        slots: list[Slot] = _as_given(example)
        facts: dict[str, Any] = {}
    else:
        slots, facts = _MAKERS[point.test](example, point, pool, settings)
    return _rewritten(example, point, slots, facts)


def unfit(example: Example, test: str, settings: StressSettings | None = None, pool: Pool | None = None) -> str | None:
    """Why a question cannot take a test, to be read after the word "question"; None if it can.

    With a pool it is also tried whether that has enough for the largest doses.
    Example: `unfit(example, "layout")  # 'has 1 gold document, and layout needs 2 or more'`
    """
    chosen = settings or StressSettings()
    reason = _lacking(example, test, chosen)
    if reason is None and test == "distractor" and "counterfactual" in chosen.distractor_kinds:
        reason = no_counterfactual(example)
    if reason is not None or pool is None:
        return reason
    try:
        for point in _hardest(test, chosen):
            apply(example, point, pool, chosen)
    except FloatlensError as error:
        return str(error).removeprefix(f'question "{example.id}" ')
    return None


def _lacking(example: Example, test: str, settings: StressSettings) -> str | None:
    """What can be seen without looking into the documents."""
    needs = named_test(test).needs
    gold = sum(document.is_gold for document in example.documents)
    if gold < needs:
        return f"has {gold} gold document{'s' * (gold != 1)}, and {test} needs {needs} or more"
    if test in ("position", "layout") and gold >= settings.documents:
        return f"has {gold} gold documents, which fill all {settings.documents} places"
    if needs and test != "clean" and not any(normalise(answer) for answer in example.answers):
        return "has no accepted answer, so nobody can tell which documents lack it"
    return None


def _hardest(test: str, settings: StressSettings) -> Sequence[Point]:
    """The last point of every series has the most distractors; among layouts it may be any."""
    if test == "layout":
        return points(test, settings)
    return list({point.series: point for point in points(test, settings)}.values())


# -- one function per test ----------------------------------------------------------------------------------------

_Made = tuple[list[Slot], dict[str, Any]]


def _clean(example: Example, point: Point, pool: Pool, settings: StressSettings) -> _Made:
    return _gold(example), {}


def _noise(example: Example, point: Point, pool: Pool, settings: StressSettings) -> _Made:
    noise = noise_count(point.x, settings)
    gold = _gold(example)[: settings.noise_documents - noise]
    others = random_distractors(example, pool, noise, settings.seed)
    return mixed(gold, _slots(others), generator(settings.seed, example.id, "noise")), {}


def _distractor(example: Example, point: Point, pool: Pool, settings: StressSettings) -> _Made:
    count, facts = int(point.x), {}
    if point.series == "random":
        others = random_distractors(example, pool, count, settings.seed)
    elif point.series == "topic":
        others = topic_distractors(example, pool, count)
    elif point.series == "counterfactual":
        others, facts["replaced"] = counterfactuals(example, pool, count, settings.seed)
    else:
        raise FloatlensError(f'no kind of distractor "{point.series}"{did_you_mean(point.series, DISTRACTOR_KINDS)}')
    return mixed(_gold(example), _slots(others), generator(settings.seed, example.id, "distractor")), facts


def _position(example: Example, point: Point, pool: Pool, settings: StressSettings) -> _Made:
    gold, others = _all_documents(example, pool, settings)
    return filled(gold, block(len(gold), settings.documents, int(point.x)), others), {}


def _layout(example: Example, point: Point, pool: Pool, settings: StressSettings) -> _Made:
    if point.label not in LAYOUTS:
        raise FloatlensError(f'no layout "{point.label}"{did_you_mean(point.label, LAYOUTS)}')
    gold, others = _all_documents(example, pool, settings)
    total = settings.documents
    start, offset = generator(settings.seed, example.id, "layout").random(2).tolist()
    if point.label in ("adjacent", "reversed"):
        placed = gold if point.label == "adjacent" else gold[::-1]
        return filled(placed, block(len(gold), total, int(start * (total - len(gold) + 1))), others), {}
    if point.label == "split":
        gold = [(piece, number) for document, number in gold for piece in cut(document)]
        others = others[: max(0, total - len(gold))]
        total = len(gold) + len(others)
    return filled(gold, spread(len(gold), total, int(offset * total)), others), {}


def _order(example: Example, point: Point, pool: Pool, settings: StressSettings) -> _Made:
    gold, others = _all_documents(example, pool, settings)
    return shuffled([*gold, *others], generator(settings.seed, example.id, "order", f"{point.x:g}")), {}


_MAKERS: dict[str, Callable[[Example, Point, Pool, StressSettings], _Made]] = {
    "clean": _clean,
    "noise": _noise,
    "distractor": _distractor,
    "position": _position,
    "layout": _layout,
    "order": _order,
}


# -- documents and slots ------------------------------------------------------------------------------------------


def _gold(example: Example) -> list[Slot]:
    return [(example.documents[i], number) for number, i in enumerate(evidence_order(example))]


def _slots(documents: Sequence[Document]) -> list[Slot]:
    return [(document, None) for document in documents]


def _all_documents(example: Example, pool: Pool, settings: StressSettings) -> tuple[list[Slot], list[Slot]]:
    """What position, layout and order arrange: the same documents for all three."""
    gold = _gold(example)[: settings.documents]
    return gold, _slots(random_distractors(example, pool, settings.documents - len(gold), settings.seed))


def _as_given(example: Example) -> list[Slot]:
    number_of = {i: number for number, i in enumerate(evidence_order(example))}
    return [(document, number_of.get(i)) for i, document in enumerate(example.documents)]


def _rewritten(example: Example, point: Point, slots: Sequence[Slot], facts: dict[str, Any]) -> Example:
    """`gold_places` are in evidence order; a gold document that was split has several."""
    numbers = [(number, place) for place, (_, number) in enumerate(slots) if number is not None]
    places = [place for _, place in sorted(numbers)]
    own = [document for document in example.documents if not document.is_gold]
    stress = {
        "test": point.test,
        "series": point.series,
        "x": point.x,
        "documents": len(slots),
        "gold": len(places),
        "gold_places": places,
        "distractors": len(slots) - len(places),
        "own_distractors": sum(number is None and document in own for document, number in slots),
        **facts,
    }
    order = evidence_order(example)
    meta = example.meta | {"stress": stress}
    if order and meta.get("gold") == order:
        meta["gold"] = places
    groups = meta.get("gold_groups")
    if isinstance(groups, list) and len(groups) == len(order):
        by_number = [groups[sorted(order).index(i)] for i in order]
        meta["gold_groups"] = [by_number[number] for number, _ in sorted(numbers, key=lambda pair: pair[1])]
    return example.model_copy(update={"documents": [document for document, _ in slots], "meta": meta})
