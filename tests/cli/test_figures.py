"""`floatlens figures` and `floatlens claims`: exit codes, one line per mistake, verdicts, and files where it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from floatlens.claims import VERDICTS, claims
from floatlens.traces import Trace
from shared.synthetic import ready, samples, with_control

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run folder of an autoregressive model with a fixed anchor, and one of a diffusion model that moves; both
    with controls."""
    root = tmp_path_factory.mktemp("runs")
    for name, pattern, causal in (("arm", "fixed", True), ("mdm", "moving", False)):
        for number, trace in enumerate(with_control(samples(pattern, causal=causal, n=20, layers=2))):
            trace.save(root / name / "traces" / f"{number}")
    return {name: root / name for name in ("arm", "mdm")}


def printed(out: str) -> list[tuple[str, str, str]]:
    """(statement, subject, verdict) of every line: statements stand alone, subjects are indented below them."""
    found: list[tuple[str, str, str]] = []
    statement = ""
    for line in out.splitlines():
        if line.strip() and not line.startswith(" "):
            statement = line.strip()
        row = re.fullmatch(rf"  (\S.*?)  +({'|'.join(VERDICTS)})  .*", line)
        if row:
            found.append((statement, row[1], row[2]))
    return found


# -- claims -----------------------------------------------------------------------------------------------------------


def test_claims_prints_the_verdict_on_every_claim(floatlens: Run, runs: dict[str, Path]) -> None:
    code, out, err = floatlens("claims", runs["arm"], runs["mdm"])
    assert code == 0
    assert all(" left)" in line for line in err.splitlines())  # progress, on a slow machine
    expected = [(one.statement, one.subject, one.verdict) for one in claims([runs["arm"], runs["mdm"]])]
    assert printed(out) == expected
    assert {verdict for *_, verdict in expected} >= {"supported", "contradicted", "undecided"}
    assert ("the anchors of a diffusion model move to the right", "moving-mdm", "supported") in printed(out)
    assert max(len(line) for line in out.splitlines()) <= 120


def test_claims_prints_the_number_and_what_it_is_compared_with(floatlens: Run, runs: dict[str, Path]) -> None:
    _, out, _ = floatlens("claims", runs["mdm"])
    assert "(n=20), claimed above" in " ".join(out.split())
    assert "nan" not in out


def test_claims_fit_80_columns(floatlens: Run, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = floatlens("claims", runs["arm"], runs["mdm"])
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_claims_writes_nothing(floatlens: Run, runs: dict[str, Path], tmp_path: Path) -> None:
    ready("moving", causal=False, layers=1).save(tmp_path / "one")
    floatlens("claims", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.zarr.zip"]


def test_a_name_that_would_act_on_a_terminal_does_not(floatlens: Run, tmp_path: Path) -> None:
    ready("fixed", causal=True, layers=1, ref="bad\x1b[31m[red]name").save(tmp_path / "one")
    code, out, _ = floatlens("claims", tmp_path)
    assert code == 0
    assert "\x1b" not in out
    assert ("bad[31m[red]name", "undecided") in [row[1:] for row in printed(out)]


# -- figures ----------------------------------------------------------------------------------------------------------


def test_figures_are_where_it_says(floatlens: Run, runs: dict[str, Path], tmp_path: Path) -> None:
    out_folder = tmp_path / "new" / "place"
    wanted = ("--only", "drift, absorption", "--format", "png, svg", "--out", out_folder)
    code, out, err = floatlens("figures", runs["arm"], runs["mdm"], *wanted)
    assert code == 0
    drawn = sorted(path.name for path in (out_folder / "figures").iterdir())
    assert drawn == ["absorption.png", "absorption.svg", "drift.png", "drift.svg"]
    tables = [path.name for path in (out_folder / "tables").iterdir() if path.name != "provenance.json"]
    assert len(tables) == 6
    assert err == f"floatlens: 4 files in {out_folder / 'figures'}, 6 in {out_folder / 'tables'}\n"
    table = pd.read_csv(out_folder / "tables" / "claims.csv")
    assert printed(out) == list(table[["statement", "subject", "verdict"]].itertuples(index=False, name=None))
    assert set(table["subject"]) == {"fixed-arm", "moving-mdm", "diffusion and autoregressive"}


def test_without_a_place_they_go_into_the_run(floatlens: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    one = ready("moving", causal=False, layers=1).save(run / "traces" / "one")
    for given, place in ((run, run), (one, run / "traces")):
        code, _, err = floatlens("figures", given, "--only", "absorption", "--format", "png")
        assert code == 0
        assert f"1 files in {place / 'figures'}" in err
        assert (place / "figures" / "absorption.png").is_file()


def test_every_figure_in_every_format_unless_asked_otherwise(floatlens: Run, tmp_path: Path) -> None:
    ready("moving", causal=False, layers=1).save(tmp_path / "traces" / "one")
    code, _, err = floatlens("figures", tmp_path)
    assert code == 0
    kinds = ["summary", "drift", "absorption", "qk", "token_classes", "retrieval_heads", "gold_lift", "extremes"]
    kinds += ["rollout-moving-mdm", "anchors-moving-mdm-layer0", "sinks", "sink_kinds", "order", "lens"]
    kinds += ["smoothing", "cacheability"]
    expected = {f"{kind}.{form}" for kind in kinds for form in ("pdf", "svg", "png")}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == expected
    assert f"{len(expected)} files in" in err


def test_what_is_left_out_is_said_with_the_reason(floatlens: Run, runs: dict[str, Path], tmp_path: Path) -> None:
    code, _, err = floatlens("figures", runs["mdm"], "--only", "qk_maps", "--out", tmp_path)
    assert code == 0
    assert "floatlens: skipped qk_maps of moving-mdm: the trace kept no q·k heatmaps" in err
    assert "0 files in" in err


def test_a_rule_changes_the_anchors(floatlens: Run, runs: dict[str, Path], tmp_path: Path) -> None:
    wanted = ("--only", "drift", "--format", "png", "--out", tmp_path)
    found = {}
    for rule in ("zscore(3)", "topk(30)"):
        assert floatlens("figures", runs["mdm"], *wanted, "--rule", rule)[0] == 0
        table = pd.read_csv(tmp_path / "tables" / "drift.csv")
        own = table[(table.variable == "jaccard") & (table["queries"] == "all") & (table.model == "moving-mdm")]
        found[rule] = own["mean"].tolist()
    assert found == {"zscore(3)": [0.0], "topk(30)": [1.0]}


# -- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["figures", "claims"])
def test_folders_without_traces_are_one_line(floatlens: Run, tmp_path: Path, command: str) -> None:
    nowhere = tmp_path / "nowhere"
    assert floatlens(command, nowhere) == (2, "", f"floatlens: {nowhere}: no such trace file\n")
    line = f"floatlens: {tmp_path}: no traces in it (*.zarr.zip); make some with: floatlens trace\n"
    assert floatlens(command, tmp_path) == (2, "", line)
    note = tmp_path / "note.txt"
    note.write_text("not a trace")
    code, _, err = floatlens(command, note)
    assert code == 2
    assert f"{note}: not a trace" in err
    assert list(tmp_path.iterdir()) == [note]


@pytest.mark.parametrize("command", ["figures", "claims"])
def test_one_bad_run_among_good_ones_is_refused(
    floatlens: Run, runs: dict[str, Path], tmp_path: Path, command: str
) -> None:
    code, out, err = floatlens(command, runs["arm"], tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert "nowhere: no such trace file" in err
    assert {path.name for path in runs["arm"].iterdir()} == {"traces"}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("--only", "drif"), 'no figure "drif"; did you mean "drift"?'),
        (("--format", "jpg"), 'no format "jpg"'),
        (("--rule", "zcore"), 'no anchor rule "zcore"; did you mean "zscore"?'),
        (("--rule", "gu(2)"), "gu takes a number between 0 and 1"),
        (("--onyl", "drift"), "No such option: --onyl"),
    ],
)
def test_unknown_names_are_one_line_and_leave_nothing(
    floatlens: Run, runs: dict[str, Path], tmp_path: Path, given: tuple[str, str], line: str
) -> None:
    code, out, err = floatlens("figures", runs["mdm"], "--out", tmp_path / "out", *given)
    assert (code, out) == (2, "")
    assert line in err
    assert err.startswith("floatlens: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["figures", "claims"])
def test_without_a_run_it_says_what_is_missing(floatlens: Run, command: str) -> None:
    line = f"floatlens: Missing argument 'RUN…'; see floatlens {command} --help\n"
    assert floatlens(command) == (2, "", line)


def test_a_probe_that_was_off_is_named(floatlens: Run, tmp_path: Path) -> None:
    whole = ready("moving", causal=False, layers=1)
    Trace(whole.data.drop_vars("qk_dot")).save(tmp_path / "one")
    for command in ("figures", "claims"):
        code, out, err = floatlens(command, tmp_path)
        assert code == 0
        assert "over steps" in out  # what can be judged is
        assert (
            'floatlens: skipped qk: this trace of moving-mdm holds no "qk_dot"; trace again with the probe "qk" on'
            in err
        )
