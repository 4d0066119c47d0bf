"""The points of the curves, their names, and settings that are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data.stress import STRESS_TESTS, Point, StressSettings, stress_names
from shared.stress import points


def test_the_tests_of_the_methods() -> None:
    usual, real = ["noise", "position", "distractor", "layout", "order", "masks"], ["wrong", "misleading", "collection"]
    assert list(STRESS_TESTS) == ["clean", *usual, *real]
    assert (stress_names(), stress_names(by_default=True)) == ([*usual, *real], usual)
    assert {name: test.needs for name, test in STRESS_TESTS.items()} == {
        "clean": 1,
        "noise": 1,
        "position": 1,
        "distractor": 1,
        "layout": 2,
        "order": 1,
        "masks": 0,
        "wrong": 1,
        "misleading": 1,
        "collection": 1,
    }
    assert [name for name, test in STRESS_TESTS.items() if test.kind == "mdm"] == ["masks"]
    assert [name for name, test in STRESS_TESTS.items() if test.summary == "mean"] == [
        "clean",
        "layout",
        "order",
        "collection",
    ]
    assert all(test.name == name and test.about.endswith(".") for name, test in STRESS_TESTS.items())


@pytest.mark.parametrize(
    ("test", "labels"),
    [
        ("clean", ["clean"]),
        ("noise", [f"noise {i}" for i in range(5)]),
        ("position", [f"position {i} of 10" for i in range(1, 11)]),
        ("distractor", [f"distractor {k} {n}" for k in ("random", "topic", "counterfactual") for n in (1, 4, 9)]),
        ("layout", ["layout adjacent", "layout scattered", "layout reversed", "layout split"]),
        ("order", ["order shuffle 1", "order shuffle 2", "order shuffle 3", "order shuffle 4"]),
        ("collection", [f"collection snapshot {i}" for i in range(1, 5)]),
        ("masks", [f"masks {s} {n}" for s in ("mask", "dot") for n in (1, 2, 4, 8, 16, 32)]),
        ("wrong", ["wrong none", "wrong half", "wrong all"]),
        ("misleading", [f"misleading {s} {n}" for s in ("wrong", "noise") for n in (1, 2)]),
    ],
)
def test_points_by_default(test: str, labels: list[str]) -> None:
    found = points(test, StressSettings())
    assert [point.label for point in found] == labels
    assert all(point.test == test for point in found)


def test_labels_and_places_on_the_axis() -> None:
    settings = StressSettings(
        position={"places": (9, 0, 4)},
        layout={"layouts": ("split", "adjacent")},
        order={"shuffles": 2},
        distractor={"kinds": ("topic",)},
    )
    assert points("position", settings)[1] == Point("position", "position", 4.0, "5 of 10")
    assert [(p.x, p.point) for p in points("layout", settings)] == [(0.0, "split"), (1.0, "adjacent")]
    assert [(p.x, p.point) for p in points("order", settings)] == [(0.0, "shuffle 1"), (1.0, "shuffle 2")]
    assert [(p.series, p.x, p.point) for p in points("distractor", settings)][2] == ("topic", 9.0, "9")
    assert [(p.x, p.point) for p in points("noise", settings)][2] == (0.4, "2")


def test_labels_are_unique() -> None:
    labels = [point.label for test in STRESS_TESTS for point in points(test)]
    assert len(set(labels)) == len(labels)


def test_settings_survive_a_manifest() -> None:
    settings = StressSettings(seed=3, position={"places": (1, 2)})
    assert StressSettings.model_validate_json(settings.model_dump_json()) == settings
    assert hash(settings) == hash(StressSettings(seed=3, position={"places": (1, 2)}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sed": 1}, ': no key "sed"; did you mean "seed"?'),
        ({"nois": {"ratios": (0,)}}, ': no key "nois"; did you mean "noise"?'),
        ({"seed": -1}, ": seed wants at least 0, got -1"),
        ({"seed": "x"}, ': seed wants a whole number, got "x"'),
        ({"documents": 1}, ": documents wants at least 2, got 1"),
        ({"noise": {"ratios": (0.2, 1.0)}}, "one of the 5 documents left for the gold, got 1"),
        (
            {"noise": {"ratios": (0.95,)}},
            "one of the 5 documents left for the gold, got 0.95",
        ),  # rounds to 5
        ({"noise": {"ratios": (0.4, 0.45)}}, " of noise: ratios 0.4 and 0.45 of 5 documents are both 2"),
        ({"noise": {"ratios": (float("nan"),)}}, "got nan"),
        ({"noise": {"ratios": (0.2, 0.2)}}, "a value is given twice"),
        ({"noise": {"documents": 0}}, " of noise: documents wants at least 1, got 0"),
        ({"position": {"places": (10,)}}, " of position: places wants 0 to 9, got 10"),
        ({"position": {"places": ()}}, " of position: places=[]: an empty list"),
        ({"documents": 4, "position": {"places": (4,)}}, " of position: places wants 0 to 3, got 4"),
        ({"position": {"place": (4,)}}, ' of position: no key "place"; did you mean "places"?'),
        ({"position": [1]}, ": position wants a mapping of settings, got [1]"),
        ({"position": {"seed": 1}}, " of position: all tests share one seed"),
        ({"distractor": {"kinds": ("near",)}}, 'kinds[0] wants "random", "topic" or "counterfactual", got "near"'),
        ({"distractor": {"counts": (-1,)}}, " of distractor: counts[0] wants at least 0, got -1"),
        ({"layout": {"layouts": ("up",)}}, " of layout: layouts[0] wants "),
        ({"order": {"shuffles": 0}}, " of order: shuffles wants at least 1, got 0"),
        ({"masks": {"counts": (0,)}}, " of masks: counts[0] wants at least 1, got 0"),
    ],
)
def test_wrong_settings_are_one_line(given: dict[str, Any], said: str) -> None:
    for make in (StressSettings.model_validate, lambda values: StressSettings(**values)):
        with pytest.raises(FloatlensError) as caught:
            make(given)
        assert said in str(caught.value)
        assert str(caught.value).startswith("stress settings")
        assert "\n" not in str(caught.value)


def test_an_unknown_test_names_a_near_one() -> None:
    with pytest.raises(FloatlensError, match='no stress test "noize"; did you mean "noise"'):
        points("noize")
