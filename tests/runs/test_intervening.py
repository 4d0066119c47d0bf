"""Interventions as conditions, and their effects against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from floatlens.claims import edit_claims
from floatlens.edits.spec import parse_edit
from floatlens.runs.intervening import effects, measured, moved
from floatlens.runs.interventions import effects_table, publish_interventions, specs_of

SPECS = [*parse_edit("drop_anchors:k=1,5"), *parse_edit("pin_anchors"), *parse_edit("sink_token:logit=2")]


def answers(rates: dict[str, float], n: int = 20, kind: str = "mdm") -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {
            "model": "m",
            "kind": kind,
            "data": "d",
            "condition": name,
            "id": f"q{i}",
            "accuracy": float(i < round(rate * n)),
            "f1": 0.5,
            "kl": None if name == "plain" else 1 - rate,
            "measured": {"speed": rate, "moved": 0.25} if i < 2 else None,
            "moved": ((1, 0, 4, 2.0 + i), (1, 3, 4, 0.0)) if i < 2 and name != "plain" else None,
        }
        for name, rate in rates.items()
        for i in range(n)
    ]
    return pd.DataFrame(rows)


RATES = {"plain": 1.0, "drop_anchors k=1": 0.5, "drop_anchors k=1 (random)": 0.9, "drop_anchors k=5": 0.25}


def test_edits_of_a_run_come_by_rising_dose() -> None:
    """Whatever the order of the records, which is that of the alphabet."""
    given = ["sink_token", "drop_anchors:k=1,5,10", "pin_anchors:to=bos:k=10", "ablate_heads:top=8:mode=mean,zero"]
    specs = [spec for text in [*given, "ablate_heads:top=4:mode=zero"] for spec in parse_edit(text)]
    found = specs_of(answers(dict.fromkeys(sorted(spec.label for spec in specs), 1.0)))
    assert [spec.label for spec in found] == [
        *("drop_anchors k=1", "drop_anchors k=5", "drop_anchors k=10", "pin_anchors to=bos k=10", "sink_token"),
        *("ablate_heads top=8 mode=mean", "ablate_heads top=4 mode=zero", "ablate_heads top=8 mode=zero"),
    ]


def test_effects_are_differences_on_the_same_questions() -> None:
    rows = effects(answers(RATES), SPECS)
    drop = rows[(rows["metric"] == "accuracy") & (rows["settings"] == "k=1")]
    assert drop["difference"].tolist() == pytest.approx([-0.5, -0.1])
    assert drop["control"].tolist() == [False, True]
    assert set(drop["n"]) == {20}
    divergence = rows[(rows["metric"] == "kl") & (rows["settings"] == "k=5")].iloc[0]
    assert (divergence["plain"], divergence["edited"]) == (0.0, 0.75)


def test_the_table_has_edits_by_models_beside_their_controls() -> None:
    given = answers(RATES)
    two = pd.concat([given, given.assign(model="scale:dream", accuracy=1.0)])
    rows = effects(two, SPECS)
    table = effects_table(rows)
    assert table.groups == (("", 1), ("m", 2), ("scale:dream", 2))
    assert table.columns == ("edit", "edit", "random", "edit", "random")
    assert table.rows[0] == ("plain", "100.0", "", "100.0", "")
    assert [row[0] for row in table.rows[1:]] == ["drop_anchors k=1", "drop_anchors k=5"]
    own = rows[(rows["metric"] == "accuracy") & (rows["model"] == "m") & (rows["settings"] == "k=1")].iloc[0]
    assert table.rows[1][1] == f"-50.0 [{100 * own['low']:.1f}, {100 * own['high']:.1f}]"
    assert table.rows[2][2] == ""  # asked without its control
    assert "20 questions" in table.caption
    assert effects_table(rows, "kl").rows[0] == (
        "drop_anchors k=1",
        *["0.500 [0.500, 0.500]", "0.100 [0.100, 0.100]"] * 2,
    )


def test_without_any_divergence_there_is_none_and_everything_is_written(tmp_path: Path) -> None:
    """Answers of one token end before an edit that looks at the step before can act."""
    given = answers(RATES).assign(kl=None)
    rows, files = publish_interventions(given, tmp_path, formats=["png"])
    own = rows[rows["metric"] == "kl"]
    assert own["difference"].isna().all()
    assert set(own["n"]) == {0}
    assert set(rows[rows["metric"] == "accuracy"]["n"]) == {20}
    assert (tmp_path / "tables" / "effects.csv") in files
    assert "–" in (tmp_path / "tables" / "edits-kl.md").read_text(encoding="utf-8")


def test_what_was_moved_is_told_by_step_and_layer() -> None:
    rows = moved(answers(RATES), SPECS)
    own = rows[(rows["settings"] == "k=1") & ~rows["control"]]
    assert own[["step", "layer", "rows", "mass", "n", "mean"]].to_numpy().tolist() == [
        [1, 0, 8, 5.0, 2, 0.625],
        [1, 3, 8, 0.0, 2, 0.0],
    ]
    assert rows["control"].sum() == 2


def test_measurements_are_of_the_traced_questions() -> None:
    rows = measured(answers(RATES), SPECS)
    one = rows[(rows["edit"] == "drop_anchors") & (rows["settings"] == "k=5") & (rows["quantity"] == "speed")].iloc[0]
    assert (one["mean"], one["n"]) == (0.25, 2)
    assert "plain" in set(rows["edit"])


@pytest.mark.parametrize(
    ("kind", "plain", "control", "edited", "parts"),
    [
        ("arm", 1.0, 0.9, 0.2, "++"),
        ("arm", 1.0, 0.5, 0.5, "-+"),  # what any change of attention costs
        ("arm", 0.5, 1.0, 0.5, "+-"),  # the control gained, the edit cost nothing
        ("mdm", 1.0, 1.0, 1.0, "+++"),
        ("mdm", 1.0, 0.9, 0.2, "--+"),
        ("mdm", 1.0, 0.9, 0.9, "+?+"),  # two of twenty lost, 0.1: by chance more than 0.05 or not
        ("mdm", 1.0, 0.0, 0.0, "+-+"),  # both collapse
        ("mdm", 0.0, 0.0, 0.0, "++-"),  # nothing there that could be lost
    ],
)
def test_removing_anchors_is_judged_beside_control_and_plain(
    kind: str, plain: float, control: float, edited: float, parts: str
) -> None:
    rates = {"plain": plain, "drop_anchors k=1": edited, "drop_anchors k=1 (random)": control}
    (found,) = edit_claims(answers(rates, kind=kind), SPECS)
    assert found.id == f"{kind}-without-anchors"
    signs = {"supported": "+", "not supported": "-", "undecided": "?"}
    assert "".join(signs[part.verdict] for part in found.parts) == parts
    assert signs[found.verdict] == ("-" if "-" in parts else "?" if "?" in parts else "+")
    assert [float(part.found.mean) for part in found.parts[:2]] == pytest.approx([control - edited, plain - edited])


@pytest.mark.parametrize(
    ("edits", "judged"),
    [
        (["drop_anchors:k=10,5,1"], "drop_anchors k=1"),
        (["pin_anchors:to=step0:k=1,5,10"], "pin_anchors to=step0 k=5"),
        (["pin_anchors:to=bos", "pin_anchors:k=1"], "pin_anchors k=1 to=step0"),
        (["drop_anchors:k=1:strength=0.25,1", "drop_anchors:k=1:on=0-1"], "drop_anchors k=1 strength=1"),
        (["drop_anchors:k=1:steps=50-60", "drop_anchors:k=1:strength=0", "drop_anchors:k=5"], "drop_anchors k=5"),
    ],
)
def test_one_dose_is_judged(edits: list[str], judged: str) -> None:
    specs = [spec for text in edits for spec in parse_edit(text)]
    names = [name for spec in specs for name in (spec.label, spec.with_control(0).label)]
    (found,) = edit_claims(answers(dict.fromkeys(["plain", *names], 1.0)), specs)
    assert found.parts[0].name == f"accuracy lost to {judged}, beyond its random control"


@pytest.mark.parametrize(("plain", "verdict"), [(1.0, "supported"), (0.1, "not supported")])
def test_holding_anchors_is_judged_for_diffusion_models(plain: float, verdict: str) -> None:
    names = ("pin_anchors to=step0 k=5", "pin_anchors to=step0 k=5 (random)")
    rates = {"plain": plain, names[0]: 0.1, names[1]: 0.9}
    (found,) = edit_claims(answers(rates), SPECS)
    assert (found.id, found.verdict) == ("anchors-held", verdict)
    assert edit_claims(answers(rates, kind="arm"), SPECS) == []
    assert edit_claims(answers(dict.fromkeys(names, 0.1)), SPECS) == []  # nothing plain to compare with


def test_a_run_of_which_every_edit_failed_has_no_effects(tmp_path: Path) -> None:
    """Such as k=9999: only the plain answers are there, and that is nothing to draw."""
    rows, files = publish_interventions(answers({"plain": 1.0}), tmp_path)
    assert rows.empty
    assert "dose" in rows.columns
    assert files == []


def test_a_control_is_drawn_beside_its_edit_and_not_under_it() -> None:
    """Where both are the same, both are to be seen."""
    from floatlens.plots import plot_edits

    rows = effects(answers({"plain": 1.0, "drop_anchors k=1": 0.5, "drop_anchors k=1 (random)": 0.5}), SPECS)
    (axes,) = [axes for axes in plot_edits(rows).axes if axes.get_visible()]
    places = {float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() in ("x", "o", "s")}
    assert len(places) == 2


def test_variants_with_several_doses_have_panels_of_their_own() -> None:
    from floatlens.plots import plot_edits

    given = [
        "pin_anchors:to=bos,step0:k=1,5,10",
        "sink_token:logit=0,4",
        "ablate_heads:top=8:mode=mean,zero",
        "sink_token",
    ]
    specs = [spec for text in given for spec in parse_edit(text)]
    rows = effects(answers(dict.fromkeys(["plain", *(spec.label for spec in specs)], 1.0)), specs)
    shown = {
        axes.get_title(loc="left") or axes.get_title(): [tick.get_text() for tick in axes.get_xticklabels()]
        for axes in plot_edits(rows).axes
        if axes.get_visible()
    }
    assert shown == {
        "pin anchors to=bos": ["k=1", "k=5", "k=10"],
        "pin anchors to=step0": ["k=1", "k=5", "k=10"],
        "sink token": ["logit=0", "logit=4", "on"],
        "ablate heads": ["top=8\nmean", "top=8\nzero"],
    }
