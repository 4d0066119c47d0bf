"""What `publish_traces` writes: which files, the numbers in them, what is left out and why, and where it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from floatlens.analysis import ANALYSES, absorption, drift
from floatlens.claims import claims_frame
from floatlens.core.errors import FloatlensError
from floatlens.plots.registry import FIGURES
from floatlens.runs.outputs import FORMATS
from floatlens.runs.outputs import publish_traces as publish
from floatlens.traces import Trace
from shared.synthetic import ready, samples

pytestmark = pytest.mark.slow

LAYERS = 2
TABLES = ("csv", "parquet")


def saved(folder: Path, *traces: Trace) -> Path:
    for number, trace in enumerate(traces):
        trace.save(folder / f"{number}")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """`arm` is a run folder with q·k heatmaps, `mdm` a bare folder of traces without them."""
    root = tmp_path_factory.mktemp("runs")
    made = SimpleNamespace(
        arm_traces=samples("fixed", causal=True, n=2, layers=LAYERS, matrices=True),
        mdm_traces=samples("moving", causal=False, n=3, layers=LAYERS),
    )
    saved(root / "arm" / "traces", *made.arm_traces)
    made.arm, made.mdm = root / "arm", saved(root / "mdm", *made.mdm_traces)
    return made


@pytest.fixture(scope="module")
def everything(runs: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """All figures of both, once."""
    told: list[tuple[int, int]] = []
    out = tmp_path_factory.mktemp("out") / "not" / "there" / "yet"
    made = publish([runs.arm, runs.mdm], out, formats=["svg"], each=lambda *at: told.append(at))
    return SimpleNamespace(out=out, made=made, told=told)


def files(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}


def named(*stems: str) -> set[str]:
    """The files of these tables."""
    return {f"tables/{stem}.{kind}" for stem in stems for kind in TABLES} | {"tables/provenance.json"}


# -- files ------------------------------------------------------------------------------------------------------------


def test_exactly_these_files_are_written(everything: SimpleNamespace) -> None:
    pictures = {
        *(
            name
            for name, kind in FIGURES.items()
            if name != "rollout" and set(kind.needs) <= set(ANALYSES) and not kind.every_step  # no course here
        ),
        *("rollout-fixed-arm", "rollout-moving-mdm"),
        *(f"anchors-{model}-layer{layer}" for model in ("fixed-arm", "moving-mdm") for layer in range(LAYERS)),
        *(f"qk_maps-fixed-arm-layer{layer}-head0" for layer in range(LAYERS)),
    }
    expected = {f"figures/{name}.svg" for name in pictures} | named(*ANALYSES, "claims")
    assert files(everything.out) == expected
    told = [path.relative_to(everything.out).as_posix() for path in everything.made.files]
    assert len(told) == len(set(told))
    assert set(told) == expected - {"tables/provenance.json"}
    assert everything.made.skipped == {}


def test_progress_is_told_after_every_trace(everything: SimpleNamespace) -> None:
    assert everything.told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_every_format_is_what_it_is_called(runs: SimpleNamespace, tmp_path: Path) -> None:
    publish([runs.mdm], tmp_path, only=["absorption"])
    begins = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    assert set(begins) == set(FORMATS)
    assert files(tmp_path) == {f"figures/absorption.{kind}" for kind in FORMATS} | named("absorption", "claims")
    for kind, begin in begins.items():
        assert (tmp_path / "figures" / f"absorption.{kind}").read_bytes().startswith(begin)


def test_only_some_figures_and_the_tables_behind_them(runs: SimpleNamespace, tmp_path: Path) -> None:
    made = publish([runs.mdm], tmp_path, only=["rollout", "anchors"], formats=["png"])
    assert list(made.results) == ["flow"]
    drawn = {"rollout-moving-mdm", "anchors-moving-mdm-layer0", "anchors-moving-mdm-layer1"}
    assert files(tmp_path) == {f"figures/{name}.png" for name in drawn} | named("flow", "claims")
    assert {one.id for one in made.claims} == {"flow-follows-gold (attention)", "flow-follows-gold (rollout)"}


def test_pictures_alone_need_no_analysis(runs: SimpleNamespace, tmp_path: Path) -> None:
    made = publish([runs.arm], tmp_path, only=["qk_maps"], formats=["png"])
    drawn = {f"figures/qk_maps-fixed-arm-layer{layer}-head0.png" for layer in range(LAYERS)}
    assert files(tmp_path) == drawn | named("claims")
    assert (made.results, made.claims) == ({}, [])
    assert len(pd.read_csv(tmp_path / "tables" / "claims.csv")) == 0
    assert len(pd.read_parquet(tmp_path / "tables" / "claims.parquet")) == 0


def test_a_second_call_replaces_files_and_touches_no_others(runs: SimpleNamespace, tmp_path: Path) -> None:
    mine = tmp_path / "figures" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    old = [tmp_path / "figures" / "absorption.png", tmp_path / "tables" / "absorption.csv"]
    publish([runs.mdm], tmp_path, only=["absorption"], formats=["png"])
    first = {path: path.read_bytes() for path in old}
    for path in old:
        path.write_bytes(b"old")
    before = files(tmp_path)
    publish([runs.mdm], tmp_path, only=["absorption"], formats=["png"])
    assert {path: path.read_bytes() for path in old} == first
    assert files(tmp_path) == before
    assert mine.read_text() == "mine"


def test_the_same_traces_give_the_same_svg_without_a_date(runs: SimpleNamespace, tmp_path: Path) -> None:
    wanted = ["absorption", "gold_lift", "anchors"]
    one, other = (publish([runs.mdm], tmp_path / name, only=wanted, formats=["svg"]).files for name in ("one", "other"))
    pictures = [(a, b) for a, b in zip(one, other, strict=True) if a.suffix == ".svg"]
    assert len(pictures) == 4
    for first, second in pictures:
        assert "id=" in first.read_text()
        assert first.read_bytes() == second.read_bytes()
        assert "<dc:date>" not in first.read_text()


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", list(ANALYSES))
def test_tables_hold_the_numbers_of_the_results(everything: SimpleNamespace, name: str, kind: str) -> None:
    found = read(everything.out, name, kind)
    expected = everything.made.results[name].to_frame()
    assert set(found["model"]) == {"fixed-arm", "moving-mdm"}
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-12)


@pytest.mark.parametrize("kind", TABLES)
def test_a_number_is_the_one_that_the_analysis_gives_by_itself(
    everything: SimpleNamespace, runs: SimpleNamespace, kind: str
) -> None:
    alone = absorption(runs.mdm_traces).group().estimate("excess")
    frame = read(everything.out, "absorption", kind)
    of = frame[(frame.model == "moving-mdm") & (frame.variable == "excess") & (frame["view"] == "floating")]
    assert of["layer"].tolist() == list(range(LAYERS))
    for column in ("mean", "std", "low", "high"):
        assert of[column].tolist() == pytest.approx(getattr(alone, column)[1].tolist())
    assert of["n"].tolist() == [3] * LAYERS


@pytest.mark.parametrize("kind", TABLES)
def test_the_table_of_claims_holds_the_verdicts(everything: SimpleNamespace, kind: str) -> None:
    found = read(everything.out, "claims", kind)
    expected = claims_frame(everything.made.claims)
    empty = [name for name in expected if (expected[name] == "").any()]  # of a claim without parts
    found[empty] = found[empty].astype(object).fillna("")  # CSV knows no empty text
    assert {"arm-fixed", "mdm-moves (all rows)", "mdm-right", "qk-split"} <= set(found["claim"])
    assert found["verdict"].tolist() == [one.verdict for one in everything.made.claims]
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-12)


def read(out: Path, name: str, kind: str) -> pd.DataFrame:
    path = out / "tables" / f"{name}.{kind}"
    if kind == "parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def test_provenance_says_what_the_tables_rest_on(everything: SimpleNamespace) -> None:
    found = json.loads((everything.out / "tables" / "provenance.json").read_text(encoding="utf-8"))
    assert list(found) == list(ANALYSES)
    assert found["drift"]["settings"] == {"rule": "robust(ε=3.5)", "measure": "attention"}
    assert found["absorption"]["settings"]["rule"] == "top1"
    assert found["drift"]["questions"] == {"fixed-arm": 2, "moving-mdm": 3}
    assert found["flow"]["questions"] == {
        "fixed-arm, documents 3, gold 2": 2,
        "moving-mdm, documents 3, gold 2": 3,
    }
    assert found["drift"]["versions"]["floatlens"] == "synthetic"  # what the traces were made with


def test_a_rule_replaces_that_of_every_analysis_that_has_one(runs: SimpleNamespace, tmp_path: Path) -> None:
    made = publish([runs.mdm], tmp_path, only=["drift", "absorption", "gold_lift"], formats=["png"], rule="topk(3)")
    found = json.loads((tmp_path / "tables" / "provenance.json").read_text(encoding="utf-8"))
    assert {name: one["settings"].get("rule") for name, one in found.items()} == {
        "drift": "topk(k=3)",
        "absorption": "topk(k=3)",
        "flow": None,
    }
    assert (made.results["absorption"].group().values("anchors")[:, 1] == 3).all()
    alone = drift(runs.mdm_traces, rule="topk(3)").group().values("jaccard")
    assert made.results["drift"].group().values("jaccard").tolist() == alone.tolist()


@pytest.mark.parametrize("rule", ["gu(0.3)", "rulli", "zscore or top1"])
def test_every_kind_of_rule_can_be_drawn(runs: SimpleNamespace, tmp_path: Path, rule: str) -> None:
    wanted = ["anchors", "qk_maps", "token_classes"]
    made = publish([runs.arm], tmp_path, only=wanted, formats=["png"], rule=rule)
    assert len([path for path in made.files if path.suffix == ".png"]) == 1 + 2 * LAYERS


# -- refused or left out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"only": ["drif"]}, 'no figure "drif"; did you mean "drift"?'),
        ({"only": ["drift", "everything"]}, 'no figure "everything"'),
        ({"formats": ["png", "jpg"]}, 'no format "jpg"'),
        ({"rule": "zcore"}, 'no anchor rule "zcore"; did you mean "zscore"?'),
        ({"rule": "topk(0.5)"}, 'anchor rule "topk(0.5)"'),
    ],
)
def test_unknown_names_are_one_line_and_nothing_is_written(
    runs: SimpleNamespace, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(FloatlensError) as raised:
        publish([runs.mdm], tmp_path / "out", **given)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_folders_without_traces_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FloatlensError, match="no traces in it"):
        publish([tmp_path], tmp_path / "out")
    with pytest.raises(FloatlensError, match="nowhere: no such trace file"):
        publish([tmp_path / "nowhere"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("variable", "probe", "figure"),
    [
        ("value_norm", "extremes", "extremes"),
        ("qk_dot", "qk", "qk"),
        ("flow", "flow", "rollout"),
        ("answer_argmax", "answer_rows", "retrieval_heads"),
        ("received", "received", "anchors"),
    ],
)
def test_a_probe_that_was_off_is_named(tmp_path: Path, variable: str, probe: str, figure: str) -> None:
    whole = ready("moving", causal=False, layers=LAYERS)
    run = saved(tmp_path / "run", Trace(whole.data.drop_vars(variable)))
    for only in ([], [figure]):
        made = publish([run], tmp_path / "out", only=only, formats=["png"])
        reasons = " ".join(made.skipped.values())
        assert f'"{variable}"; trace again with' in reasons
        assert probe in reasons
        assert not [path for path in made.files if path.name.startswith(figure) and path.suffix == ".png"]


def test_a_probe_that_is_off_by_default_is_named_only_where_it_was_asked_for(tmp_path: Path) -> None:
    whole = ready("moving", causal=False, layers=LAYERS)
    run = saved(tmp_path / "run", Trace(whole.data.drop_vars(["lens_rank", "lens_logp", "lens_peak"])))
    made = publish([run], tmp_path / "out", formats=["png"])
    assert made.skipped == {}
    assert "lens" not in made.results
    for asked in ({"only": ["lens"]}, {"analyses": ["lens"]}):
        made = publish([run], tmp_path / "out", formats=["png"], **asked)
        assert 'trace again with the probe "lens" on' in made.skipped["lens"]


def test_figures_that_need_no_missing_probe_are_still_drawn(tmp_path: Path) -> None:
    whole = ready("moving", causal=False, layers=LAYERS)
    run = saved(tmp_path / "run", Trace(whole.data.drop_vars(["value_norm", "flow", "qk_dot"])))
    publish([run], tmp_path / "out", only=["absorption"], formats=["png"])
    assert "figures/absorption.png" in files(tmp_path / "out")


def test_heatmaps_of_qk_that_were_not_kept_are_left_out_with_the_reason(runs: SimpleNamespace, tmp_path: Path) -> None:
    made = publish([runs.arm, runs.mdm], tmp_path, only=["qk_maps"], formats=["png"])
    assert made.skipped == {"qk_maps of moving-mdm": "the trace kept no q·k heatmaps (see QK(heatmaps=…))"}
    assert all("fixed-arm" in path.name for path in made.files if path.suffix == ".png")


# -- names of models --------------------------------------------------------------------------------------------------


@pytest.fixture
def published(tmp_path: Path) -> Callable[..., set[str]]:
    """`published("a/b")` draws figures that carry the names of such models; everything that then lies there."""

    def make(*refs: str) -> set[str]:
        for number, ref in enumerate(refs):
            saved(tmp_path / "run" / "in" / f"{number}", ready("moving", causal=False, layers=1, ref=ref))
        inside = tmp_path / "deep" / "down" / "out"
        publish([tmp_path / "run" / "in"], inside, only=["rollout", "anchors"], formats=["png"])
        written = files(tmp_path / "deep")
        assert all(name.startswith("down/out/") for name in written)
        assert {path.name for path in tmp_path.iterdir()} == {"run", "deep"}
        return {name.removeprefix("down/out/") for name in written if name.endswith(".png")}

    return make


@pytest.mark.parametrize(
    "ref",
    [
        *("../../../out", "..", "/etc/passwd", "C:\\models\\x"),
        *("name\nwith lines", "a:b*c?d|e<f> $x$", "模型/é"),
    ],
)
def test_a_name_never_leaves_the_folder(published: Callable[..., set[str]], ref: str) -> None:
    pictures = published(ref)
    assert len(pictures) == 2
    for name in pictures:
        folder, _, file = name.partition("/")
        assert folder == "figures"
        assert file.startswith(("rollout", "anchors"))
        assert not set(file) & set('/\\:*?"<>|\x00\n $')


def test_models_with_the_same_last_name_have_files_of_their_own(published: Callable[..., set[str]]) -> None:
    assert published("a/llada", "b/llada") == {
        *("figures/rollout-a-llada.png", "figures/rollout-b-llada.png"),
        *("figures/anchors-a-llada-layer0.png", "figures/anchors-b-llada-layer0.png"),
    }
