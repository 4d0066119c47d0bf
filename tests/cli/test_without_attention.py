"""Models without attention and hybrids, end to end: traces, figures, claims and the report, by --measure."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from floatlens.analysis.sources import each_trace
from shared.without_attention import with_words

QUESTION = ["--question", "Who built it?", "--document", "Ada Carver built it.", "--document", "It rained in Upton."]


@pytest.fixture(scope="module")
def run(request, tmp_path_factory, golden):
    """A run of one trace, for each model: `run("caduceus-ph")`."""
    from floatlens.cli import main

    made = {}

    def make(name):
        if name not in made:
            root = tmp_path_factory.mktemp(name)
            model = with_words(root / "model", golden(name))
            code = main(
                [
                    "trace",
                    str(model),
                    *QUESTION,
                    "--gold-document",
                    "0",
                    "--out",
                    str(root / "run"),
                    "--set",
                    "gen_length=4",
                ]
            )
            assert code == 0
            made[name] = root / "run.zarr.zip"
        return made[name]

    return make


@pytest.mark.parametrize("name", ["caduceus-ph", "lfm2-encoder"])
def test_figures_by_contribution(name, run, floatlens, tmp_path):
    code, _, err = floatlens("figures", run(name), "--out", tmp_path, "--format", "svg", "--measure", "contribution")
    assert code == 0, err
    drawn = {path.stem for path in (tmp_path / "figures").iterdir()}
    for figure in ("drift", "absorption", "token_classes", "retrieval_heads", "gold_lift", "rollout", "anchors"):
        assert any(one.startswith(figure) for one in drawn), (figure, err)
    told = json.loads((tmp_path / "tables" / "provenance.json").read_text())
    assert told["absorption"]["settings"]["measure"] == "contribution"
    svg = (tmp_path / "figures" / "absorption.svg").read_text()
    assert "contribution" in svg


def test_figures_by_attention_say_why_there_are_none(run, floatlens, tmp_path):
    code, _, err = floatlens("figures", run("caduceus-ph"), "--out", tmp_path, "--format", "svg")
    assert code == 0
    assert 'has no attention; give drift measure="contribution"' in " ".join(err.split())


@pytest.mark.parametrize(("name", "measure"), [("caduceus-ph", "contribution"), ("lfm2-encoder", "attention")])
def test_the_report(name, measure, run, floatlens, tmp_path):
    out = tmp_path / "report.html"
    code, _, err = floatlens("report", run(name), "--out", out, "--measure", measure)
    assert code == 0, err
    page = out.read_text()
    assert ("--measure contribution" in page) == (measure == "contribution")


def test_claims_by_contribution(run, floatlens):
    code, out, err = floatlens("claims", run("caduceus-ph"), "--measure", "contribution")
    assert code == 0, err
    assert "retrieval heads lie in deep layers" in out
    assert "the rows that decide the answer" in out
    assert "in the contribution of answer rows" in out


def test_what_was_traced(run):
    one, other = (next(iter(each_trace(run(name)))) for name in ("caduceus-ph", "lfm2-encoder"))
    assert "received" not in one.data
    assert {"received", "contribution", "qk_dot"} <= set(other.data.variables)
    assert one.answer is not None


def test_show_names_the_keys_that_contribute(run, floatlens):
    for name in ("caduceus-ph", "lfm2-encoder"):
        code, out, _ = floatlens("show", run(name))
        assert code == 0
        assert "contribution received, mean over 4 steps" in " ".join(out.split())


ASKED = ("--data", "scale:rag:documents=2", "--limit", "1", "--set", "gen_length=4", "--workers", "1", "--no-report")


@pytest.mark.parametrize("name", ["caduceus-ph", "lfm2-encoder"])
def test_edits_of_layers_without_attention(name, floatlens, golden, tmp_path):
    """From a name on the command line to effects and measurements, beside controls by count and by mass."""
    model, out = with_words(tmp_path / "model", golden(name)), tmp_path / "run"
    edits = ("--edit", "drop_inputs:k=2", "--edit", "pin_inputs:positions=0", "--edit", "zero_mixers:layers=0")
    code, _, err = floatlens("intervene", model, *ASKED, *edits, "--traces", "1", "--out", out)
    assert code == 0, err
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [one["status"] for one in records] == ["done"] * 9
    assert not any(one.get("warnings") for one in records)
    effects = pd.read_csv(out / "tables" / "effects.csv", keep_default_na=False).query("metric == 'kl'")
    moved = effects.set_index(["edit", "control"])["moved"].astype(float)
    assert moved["drop_inputs", "mass"] == pytest.approx(moved["drop_inputs", ""], rel=0.5)
    assert 0 < moved["drop_inputs", "count"] < moved["drop_inputs", ""]
    assert moved["zero_mixers", ""] == moved["zero_mixers", "count"] == 1
    measured = pd.read_csv(out / "tables" / "measured.csv", keep_default_na=False)
    assert {"strongest key", "moved"} <= set(measured.query("edit == 'drop_inputs' and control == ''")["quantity"])
    assert "strongest key" in set(measured.query("edit == 'unedited'")["quantity"])


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("drop_anchors:k=1", "edit drop_anchors k=1: DropAnchors(k=1) is an edit of attention, and"),
        ("drop_inputs:k=1", "edit drop_inputs k=1: DropInputs(k=1) is an edit of layers without attention;"),
    ],
)
def test_an_edit_of_layers_that_a_model_lacks_is_one_line(edit, said, floatlens, golden, tmp_path, monkeypatch):
    model = with_words(tmp_path / "model", golden("caduceus-ph")) if "anchors" in edit else "scale:llada"
    monkeypatch.setattr("floatlens.models.loading._read_weights", None)
    code, _, err = floatlens("intervene", model, *ASKED, "--edit", edit, "--out", tmp_path / "run")
    assert code != 0
    assert said in " ".join(err.split())
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_the_help_of_intervene_names_them(floatlens):
    code, out, _ = floatlens("intervene", "--help")
    assert code == 0
    assert all(name in out for name in ("drop_inputs:k=1,5", "pin_inputs:k=5", "zero_mixers:layers=0-1"))
