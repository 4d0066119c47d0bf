"""docs/findings_contribution.py: attention beside contribution, from loops over the arrays of a trace."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import floatlens as fl

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("findings_contribution")


def values(attention: float, contribution: float, layers: int = 1) -> dict[tuple[str, str], Any]:
    of = {"attention": attention, "contribution": contribution}
    found = {
        (key, by): np.full(layers, of[by]) for key in ("first position", "strongest key", "sink heads") for by in of
    }
    return found | {("same strongest key", "both"): np.full(layers, 50.0)}


@pytest.mark.parametrize("name", ["llada", "llama"])
def test_numbers_of_a_trace(name: str, part: Any, tiny_model: Any) -> None:
    trace = fl.trace(
        tiny_model(name), prompt_ids=[5, 9, 12, 33, 21, 8], gen_length=4, probes=["received", "contribution"]
    )
    found = part.measured(trace)
    strongest: dict[str, list[list[int]]] = {}
    for by, variable in (("attention", "received"), ("contribution", "contribution")):
        array = trace.data[variable].transpose("step", "layer", "head", "key").values
        steps, layers, heads, _ = array.shape
        for layer in range(layers):
            first, top, sinks, best_of = [], [], 0, []
            for step in range(steps):
                row = array[step, layer].mean(axis=0)  # NaN where there is no key yet
                length = int((~np.isnan(row)).sum())
                uniform = [1 / length] * length  # a bidirectional row sees all
                if name == "llama":  # row i sees i + 1 keys
                    uniform = [sum(1 / (i + 1) for i in range(j, length)) / length for j in range(length)]
                best = int(np.nanargmax(row))
                first.append(row[0] - uniform[0])
                top.append(row[best] - uniform[best])
                sinks += sum(array[step, layer, head, 0] > 0.3 for head in range(heads))
                best_of.append(best)
            strongest.setdefault(variable, []).append(best_of)
            assert found["first position", by][layer] == pytest.approx(100 * np.mean(first), abs=1e-4)
            assert found["strongest key", by][layer] == pytest.approx(100 * np.mean(top), abs=1e-4)
            assert found["sink heads", by][layer] == pytest.approx(100 * sinks / (steps * heads))
    pairs = zip(strongest["received"], strongest["contribution"], strict=True)
    same = [100 * np.mean([a == b for a, b in zip(*layer, strict=True)]) for layer in pairs]
    assert found["same strongest key", "both"].tolist() == pytest.approx(same)


@pytest.mark.parametrize(
    ("attention", "contribution", "said"),
    [
        ([20, 21, 22] * 3, [1, 2, 1] * 3, "attention only"),
        ([20, 21, 22] * 3, [11, 12, 11] * 3, "both"),
        ([1, 2, 1] * 3, [20, 21, 22] * 3, "contribution only"),
        ([1, 2, 1] * 3, [0, -1, 0] * 3, "neither"),
        ([20, 21, 22] * 3, [1, 9, 5] * 3, "undecided"),
        ([20], [1], "undecided"),
    ],
)
def test_which_measure_has_a_sink(attention: list[float], contribution: list[float], said: str, part: Any) -> None:
    made = part.disagreements("m", [values(a, c) for a, c in zip(attention, contribution, strict=True)])
    own = made.set_index("quantity")
    assert own["sink"].tolist() == [said, said, ""]
    assert own.loc["first position", "attention"] == pytest.approx(np.mean(attention))
    apart = [a - c for a, c in zip(attention, contribution, strict=True)]
    assert own.loc["strongest key", "difference"] == pytest.approx(np.mean(apart))
    assert own["n"].tolist() == [len(attention)] * 3
    assert own.loc["strongest key", "same_key"] == 50
    assert pd.isna(own.loc["first position", "same_key"])


def test_the_run_adds_its_sections_once(part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = importlib.import_module("findings_tables")
    monkeypatch.setattr(tables, "KEPT", tmp_path)
    monkeypatch.setattr(tables, "TABLES", {})
    assert tables.update("# Findings\n") == "# Findings\n"
    found = part.disagreements("scale:x", [values(20 + i, 1 + i / 10, layers=2) for i in range(3)])
    found.to_csv(tmp_path / "contribution-layers.csv", index=False)
    page = tables.update("# Findings\n")
    assert page.count("## Attention and contribution") == 1
    assert (
        "| x | first position, 2 layers | 0 | 2 | 0 | 0 | layer 0 | 21.00 [18.52, 23.48] | 1.10 [0.85, 1.35] |" in page
    )
    assert "| | sink heads, 2 layers | – | – | – | – | layer 0 |" in page
    assert "Claims by contribution" not in page
    rows = {
        "claim": ["mdm-moves", "mdm-moves", "layers-differ"],
        "subject": ["scale:mamba", "scale:llada", "scale:llada"],
        "verdict": ["supported", "undecided", "too small"],
        "effect": [0.25, np.nan, -0.5],
        "low": [0.1, np.nan, -0.75],
        "high": [0.4, np.nan, -0.25],
    }
    pd.DataFrame(rows).to_csv(tmp_path / "contribution-claims.csv", index=False)
    both = tables.update(page)
    assert "| claim | mamba | llada |" in both
    assert "| `mdm-moves` | supported, 0.25 [0.10, 0.40] | undecided |" in both
    assert "| `layers-differ` | – | too small, −0.50 [−0.75, −0.25] |" in both
    assert tables.update(both) == both


def test_the_figure_is_drawn(part: Any, tmp_path: Path) -> None:
    found = [part.disagreements(name, [values(20 + i, 1, layers=3) for i in range(3)]) for name in ("a", "b")]
    part.draw(pd.concat(found), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_without_the_mamba_one_line_says_so(
    part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(part, "bundled", lambda: ["llama", "llada"])
    part.compare_mamba(lambda *args: pytest.fail("nothing is to be run"), tmp_path / "runs", tmp_path)
    said = capsys.readouterr()
    assert (said.out + said.err).count("scale:mamba is not bundled yet") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_mamba_is_asked_what_the_gallery_asks(part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[list[str]] = []
    judged: dict[str, Any] = {}

    def judge(runs: Any, **how: Any) -> list[Any]:
        judged.update(how, runs=runs)
        return []

    monkeypatch.setattr(part, "bundled", lambda: ["llada", "mamba"])
    monkeypatch.setattr(part, "claims", judge)
    part.compare_mamba(lambda *args: run.append([*map(str, args)]), tmp_path / "runs", tmp_path)
    made, traced = run[::2], run[1::2]
    assert [one[one.index("--place") + 1] for one in made] == ["0", "4", "9"]
    assert {(one[one.index("--count") + 1], one[one.index("--seed") + 1]) for one in made} == {("32", "7")}
    for one in traced:
        assert one[:3] == ["trace", "scale:mamba", "scale:llada"]
        assert one[one.index("--controls") + 1] == "1"
        assert one[one.index("--probes") + 1] == "contribution,contribution_rows,contribution_rollout"
        assert one[one.index("--set") + 1] == "gen_length=8"
    assert (judged["measure"], len(judged["runs"])) == ("contribution", 3)
    assert (tmp_path / "contribution-claims.csv").read_text().startswith("claim,subject,verdict")
