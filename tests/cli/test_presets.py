"""`floatlens qa`, `stress`, `intervene`, `cache`, `trace --data`: one engine; all plan, run, continue, stop alike."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from floatlens.runs import engine

Run = Callable[..., tuple[int, str, str]]
Data = Callable[..., Path]
QUICK = ("--set", "gen_length=4", "--workers", "1", "--no-report")
COMMON = ("scale:qwen", "--data", "scale:rag:documents=2", "--limit", "2", *QUICK)
PRESETS = {
    "qa": (("qa", *COMMON), 4),
    "stress": (("stress", *COMMON, "--test", "noise:ratios=0,0.4"), 6),
    "intervene": (("intervene", *COMMON, "--edit", "drop_anchors:k=1", "--traces", "0"), 8),
    "trace": (("trace", *COMMON, "--probes", "received"), 2),
    "cache": (("cache", "scale:llada", *COMMON[1:], "--least", "0.9", "--also", "none", "--traces", "1"), 7),
}


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]


def _identity(record: dict[str, Any]) -> str:
    return json.dumps([record[key] for key in ("what", "model", "data", "condition", "id")])


# -- what all have in common ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_a_dry_run_shows_the_plan_and_writes_nothing(floatlens: Run, tmp_path: Path, name: str) -> None:
    command, items = PRESETS[name]
    code, shown, err = floatlens(*command, "--out", tmp_path / "run", "--dry-run")
    assert code == 0, err
    assert f"study {name}" in shown
    assert "scale:rag:documents=2, 2 questions" in shown
    assert f"{items} items to do, 1 worker with 1 thread each" in shown
    assert "estimated time: about " in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("unpublished")
@pytest.mark.parametrize("name", PRESETS)
def test_running_again_continues_and_a_finished_run_says_so(
    floatlens: Run, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, items = PRESETS[name]
    out = tmp_path / "run"
    code, shown, err = floatlens(*command, "--out", out)
    assert code == 0, err
    assert f"{items} items to do" in shown
    assert f"{items} of {items} items in {out}" in err
    whole = records(out)
    assert len(whole) == items
    lines = (out / "records.jsonl").read_bytes()
    (out / "records.jsonl").write_bytes(lines[:-20])  # as a killed process leaves it
    code, shown, err = floatlens(*command, "--out", out)
    assert code == 0, err
    assert f"1 item to do ({items - 1} on record)" in shown
    assert {_identity(one) for one in records(out)} == {_identity(one) for one in whole}
    monkeypatch.setattr("floatlens.models.loading._read_weights", None)
    code, shown, err = floatlens(*command, "--out", out)
    assert code == 0, err
    assert f"finished: {items} items on record, nothing left to do" in shown
    code, shown, _ = floatlens(*command, "--out", out, "--dry-run")
    assert (code, "finished: " in shown) == (0, True)


@pytest.mark.usefixtures("unpublished")
@pytest.mark.parametrize("name", PRESETS)
def test_ctrl_c_finishes_the_item_and_says_how_to_continue(
    floatlens: Run, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, items = PRESETS[name]
    settle = engine._write

    def interrupted(*args: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return settle(*args)  # type: ignore[arg-type]

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(engine, "_write", interrupted)
    out = tmp_path / "run"
    code, _, err = floatlens(*command, "--batch", "1", "--out", out)
    assert code == 130
    assert "finishing the items under way, then stopping" in err
    assert f"stopped with 1 of {items} items on record" in err
    assert f"to continue: floatlens {name} {command[1]} --data scale:rag:documents=2" in err.splitlines()[-1]
    assert len(records(out)) == 1
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("name", PRESETS)
def test_a_cluster_needs_ray(floatlens: Run, tmp_path: Path, name: str) -> None:
    command, _ = PRESETS[name]
    code, _, err = floatlens(*command, "--address", "auto", "--out", tmp_path / "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "give the executor ray with it" in err


@pytest.mark.parametrize("name", PRESETS)
def test_a_bad_folder_is_refused_at_once(floatlens: Run, tmp_path: Path, name: str) -> None:
    command, _ = PRESETS[name]
    (tmp_path / "file").touch()
    code, _, err = floatlens(*command, "--out", tmp_path / "file" / "run")
    line = f"floatlens: --out {tmp_path}/file/run: {tmp_path}/file is a file; give a folder\n"
    assert (code, err) == (2, line)


# -- what each gives --------------------------------------------------------------------------------------------------


def test_qa_writes_records_and_table_one(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("qa", "scale:llada", "--data", "scale:known:documents=2", "--limit", "5", "--out", out, *QUICK)
    code, shown, err = floatlens(*command, "--paper")
    assert code == 0, err
    assert "10 of 10 items" in err
    assert "scale:llada w/ RAG" in shown
    assert "LLaDA w/ RAG (arXiv 2601.07894, Table 1)" in shown
    found = records(out)
    assert {_kind(record) for record in found} == {"closed", "rag"}
    assert all(record["prompt"] and record["seconds"] > 0 for record in found)
    right = sum(record["accuracy"] for record in found if _kind(record) == "rag") / 5
    table = (out / "tables" / "table1.md").read_text()
    assert f"| scale:llada w/ RAG | {100 * right:.1f} |" in table
    assert {path.name for path in (out / "tables").iterdir()} >= {"table1.csv", "table1.tex", "gains.parquet"}
    assert (out / "figures" / "gains.svg").is_file()
    assert not (out / "report.html").exists()


def _kind(record: dict[str, Any]) -> str:
    condition = record["condition"]
    return str(condition["kind"] if isinstance(condition, dict) else condition)


def test_wrong_documents_of_the_data_and_the_misled_rate(floatlens: Run, tmp_path: Path) -> None:
    """From a file that names wrong answers to records, tables, figures, report and terminal."""
    out, file = tmp_path / "run", tmp_path / "x.jsonl"
    played = "Ada Frost plays the flute."
    asked = {"question": "What does Ada Frost play?", "answers": ["flute"], "wrong_answers": ["harp"]}
    asked |= {"documents": [{"title": "Ada Frost", "text": played, "is_gold": True}]}
    asked |= {"wrong_documents": [{"title": "Ada Frost", "text": played.replace("flute", "harp")}]}
    file.write_text("".join(json.dumps({"id": str(i), **asked}) + "\n" for i in range(2)))
    code, shown, err = floatlens("stress", "scale:llada", "--data", file, "--test", "wrong", *QUICK[:-1], "--out", out)
    assert code == 0, err
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    for record in records:
        assert record["misled"] == float("harp" in record["prediction"])
        assert record["accuracy"] == float("flute" in record["prediction"])
    assert {record["prediction"] for record in records if record["condition"].get("point") == "all"} == {"harp"}
    curves = pd.read_csv(out / "tables" / "curves.csv").set_index(["metric", "label"])["mean"]
    assert curves["misled"].to_dict() | {"half": 0} == {"none": 0, "half": 0, "all": 1}
    assert "Misled by a wrong answer" in shown
    assert "0 → 100" in shown
    assert {path.name for path in (out / "figures").glob("*.png")} == {"stress-wrong.png", "misled-wrong.png"}
    page = (out / "report.html").read_text()
    assert "misled-wrong" in page


def test_stress_writes_curves_and_figures(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    chosen = ("--test", "noise,position,layout", "--test", "distractor:counts=1,2:kinds=random,topic")
    chosen += ("--test", "order:shuffles=2", "--test", "masks:counts=1,2", *QUICK)
    code, shown, err = floatlens(
        *("stress", "scale:llada", "--data", "scale:rag:documents=4", "--data", "scale:two-hop:documents=4"),
        *("--limit", "4", "--out", out, "--documents", "4", "--places", "0,3", *chosen),
    )
    assert code == 0, err
    assert "layout: 4 of 4 questions of scale:rag:documents=4 do not fit" in err
    curves = pd.read_csv(out / "tables" / "curves.csv")
    assert set(curves["test"]) == {"noise", "position", "distractor", "layout", "order", "masks"}
    own = curves[(curves["test"] == "position") & (curves["data"] == "scale:rag:documents=4")]
    assert own["x"].tolist() == [0, 3]
    assert set(own["n"]) == {4}
    assert "same answer in two orders" in shown
    drawn = {path.name for path in (out / "figures").glob("*.png")}
    assert drawn == {f"stress-{test}.png" for test in set(curves["test"])}
    robustness = pd.read_csv(out / "tables" / "robustness.csv")
    assert {"reference", "robustness", "low", "high"} <= set(robustness.columns)
    code, _, err = floatlens(
        *("stress", "scale:llada", "--data", "scale:rag:documents=4", "--data", "scale:two-hop:documents=4"),
        *("--limit", "4", "--out", out, "--places", "0,3", *chosen),
    )
    assert code == 2
    assert "stress.documents = 4, now it is 10" in err


def test_intervene_writes_effects_and_figures(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = (
        *("intervene", "scale:qwen", "--data", "scale:rag:documents=2", "--limit", "3", "--out", out),
        *("--edit", "drop_anchors:k=1", "--edit", "freeze_layers:layers=0-3", "--traces", "1", *QUICK),
    )
    code, shown, err = floatlens(*command)
    assert code == 0, err
    assert "freeze_layers layers=0-3 (count control)" in " ".join(shown.split())
    effects = pd.read_csv(out / "tables" / "effects.csv")
    assert set(effects["metric"]) == {"accuracy", "f1", "kl"}
    assert set(effects["n"]) == {3}
    found = pd.read_csv(out / "tables" / "measured.csv")
    shares = {f"{name}{than}" for name in ("first position", "strongest key") for than in ("", ", above uniform")}
    assert {"overlap", "speed", "moved", "unmatched", *shares} == set(found["quantity"])
    places = pd.read_csv(out / "tables" / "moved.csv")
    frozen = places[(places["edit"] == "freeze_layers") & places["control"].isna()]
    assert set(frozen["layer"]) == {0, 1, 2, 3}
    assert (frozen["mass"] > 0).all()
    moved = found[(found["quantity"] == "moved") & (found["edit"] == "freeze_layers")]
    assert (moved["mean"] > 0.05).all()
    drawn = {path.name.partition("-")[2] for path in (out / "figures").glob("*.png")}
    assert drawn == {"accuracy.png", "kl.png"}
    code, shown, _ = floatlens("claims", out)
    assert code == 0
    assert "removing its anchor" in " ".join(shown.split())


@pytest.mark.usefixtures("unpublished")
def test_a_dose_given_twice_is_one(floatlens: Run, tmp_path: Path) -> None:
    common = ("intervene", "scale:qwen", "--data", "scale:rag:documents=2", "--limit", "1", "--out", tmp_path / "run")
    more = ("--traces", "0", *QUICK)
    code, _, err = floatlens(*common, *more, "--edit", "sink_token:logit=2,2", "--edit", "sink_token:logit=2.0")
    assert code == 0, err
    assert "2 of 2 items" in err


def test_a_run_of_which_every_edit_fails_says_so_once(floatlens: Run, tmp_path: Path) -> None:
    common = ("intervene", "scale:qwen", "--data", "scale:rag:documents=2", "--limit", "1", "--out", tmp_path / "run")
    code, _, err = floatlens(*common, "--traces", "0", *QUICK, "--edit", "drop_anchors:k=9999")
    assert code == 1
    assert "would leave none" in err
    assert "bug" not in err


@pytest.mark.usefixtures("unpublished")
def test_bad_records_are_named_or_skipped(floatlens: Run, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    path = data(0, {"question": "who?", "answers": ["a"], "documents": [{"text": "a"}]}, "{broken")
    code, _, err = floatlens("qa", "scale:llada", "--data", path, "--out", out, *QUICK)
    assert code == 2
    assert f"{path}:2: " in err
    assert "skip" in err
    assert not out.exists()
    code, _, err = floatlens("qa", "scale:llada", "--data", path, "--out", out, "--skip-bad", *QUICK)
    assert code == 0
    assert "1 bad record skipped" in err


def test_claims_of_runs_of_answers(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    models = ("scale:llada", "scale:qwen")
    code, _, err = floatlens("qa", *models, "--data", "scale:rag:documents=2", "--limit", "9", "--out", out, *QUICK)
    assert code == 0, err
    code, shown, _ = floatlens("claims", out)
    assert code == 0
    for word in ("retrieved", "scale:llada", "against", "gain"):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("qa", "scale:llada", "--data", "scale:rag", "--mode", "open"), '"open"'),
        (("qa", "scale:llada", "--data", "scale:rga"), 'no question set "rga"; did you mean "rag"?'),
        (("qa", "scale:llada", "--data", "scale:closed-known"), "no documents, which this task needs"),
        (("qa", "scale:llada", "--data", "scale:rag", "--data", "scale:rag"), 'its name "scale:rag" is that of'),
        (("qa", "scale:lada", "--data", "scale:rag"), "scale:lada"),
        (
            ("qa", "scale:llada", "--data", "scale:rag", "--limit", "0"),
            "'--limit': Input should be greater than or equal to 1",
        ),
        (("stress", "scale:llada", "--data", "scale:rag", "--test", "nois"), 'did you mean "noise"?'),
        (("stress", "scale:llada", "--data", "scale:rag", "--test", "order:shufles=2"), "shufles"),
        (("stress", "scale:llada", "--data", "scale:rag", "--test", "order:shuffles"), "such as order:shuffles=8"),
        (("stress", "scale:llada", "--data", "scale:rag", "--gold", "answer"), "these questions mark their gold"),
        (("stress", "scale:llada", "--data", "scale:rag", "--places", "12"), "places wants 0 to 9, got 12"),
        (("intervene", "scale:qwen", "--data", "scale:rag", "--edit", "drop"), '"drop"'),
        (
            ("cache", "scale:qwen", "--data", "scale:rag"),
            "scale:qwen is autoregressive, so its key/value cache is exact",
        ),
        (
            ("cache", "scale:llada", "--data", "scale:rag", "--least", "most"),
            'wants numbers, such as 0.99,0.95, got "most"',
        ),
        (("cache", "scale:llada", "--data", "scale:rag", "--least", "2"), "give a cosine above 0, at most 1"),
        (
            ("cache", "scale:llada", "--data", "scale:rag", "--traces", "some"),
            'wants a whole number, at least 0, or "all"',
        ),
        (
            ("cache", "scale:llada", "--data", "scale:rag", "--traces", "0"),
            "the schedule is made from the study's traces",
        ),
        (("cache", "scale:llada", "--data", "scale:rag", "--also", "stale:refesh=2"), "refesh"),
        (("intervene", "scale:llada", "--data", "scale:rag", "--edit", "stale:least=0.9"), "use floatlens cache"),
        (("qa", "scale:qwen", "--data", "scale:rag", "--device", "cpu", "--device-map", "auto"), "not both"),
    ],
)
def test_mistakes_are_one_line(floatlens: Run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    limit = () if "--limit" in arguments else ("--limit", "2")
    code, shown, err = floatlens(*arguments, "--out", tmp_path / "run", *limit, *QUICK)
    assert (code, shown) == (2, "")
    assert message in err.splitlines()[-1]
    assert not (tmp_path / "run").exists()
