"""`floatlens qa` and `floatlens stress`: tables and figures from a small run, going on, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

Run = Callable[..., tuple[int, str, str]]
Data = Callable[..., Path]
QUICK = ("--set", "gen_length=4", "--workers", "1")


def test_qa_writes_records_and_table_one(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("qa", "scale:llada", "--data", "scale:known:documents=2", "--limit", "5", "--out", out, *QUICK)
    code, shown, err = floatlens(*command, "--paper")
    assert code == 0, err
    assert "10 of 10 answers" in err
    assert "scale:llada w/ RAG" in shown
    assert "LLaDA w/ RAG (arXiv 2601.07894, Table 1)" in shown
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert {record["condition"] for record in records} == {"closed", "rag"}
    assert all(record["prompt"] and record["seconds"] > 0 for record in records)
    right = sum(record["accuracy"] for record in records if record["condition"] == "rag") / 5
    table = (out / "tables" / "table1.md").read_text()
    assert f"| scale:llada w/ RAG | {100 * right:.1f} |" in table
    assert {path.name for path in (out / "tables").iterdir()} >= {"table1.csv", "table1.tex", "gains.parquet"}
    assert (out / "figures" / "gain.svg").is_file()
    code, _, err = floatlens(*command)
    assert code == 0
    assert "10 of 10 answers on record already" in err
    assert "asking" not in err


def test_stress_writes_curves_and_figures(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, shown, err = floatlens(
        *("stress", "scale:llada", "--data", "scale:rag:documents=4", "--data", "scale:two-hop:documents=4"),
        *("--limit", "4", "--out", out, "--documents", "4", "--places", "0,3", "--change", "distractor.counts=1,2"),
        *("--change", "distractor.kinds=random,topic"),
        *("--change", "order.shuffles=2", "--change", "masks.counts=1,2", *QUICK),
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
        *("stress", "scale:llada", "--data", "scale:rag:documents=4", "--limit", "4", "--out", out),
        *("--test", "noise", "--change", "order.shuffles=3", *QUICK),
    )
    assert code == 2
    assert "stress.documents = 4, now it is 10" in err


def test_qa_from_files_names_what_is_wrong(floatlens: Run, data: Data, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("qa", "scale:llada", "--data", "scale:rag", "--mode", "open"), '--mode: no mode "open"'),
        (("qa", "scale:llada", "--data", "scale:rga"), 'no question set "rga"; did you mean "rag"?'),
        (("qa", "scale:llada", "--data", "scale:closed-known"), "no documents, which this task needs"),
        (("qa", "scale:llada", "--data", "scale:rag", "--data", "scale:rag"), 'its name "scale:rag" is that of'),
        (("qa", "scale:lada", "--data", "scale:rag"), "scale:lada"),
        (("stress", "scale:llada", "--data", "scale:rag", "--test", "nois"), 'no test "nois"; did you mean "noise"?'),
        (("stress", "scale:llada", "--data", "scale:rag", "--change", "shufles=2"), "shufles"),
        (("stress", "scale:llada", "--data", "scale:rag", "--gold", "answer"), "these questions mark their gold"),
        (("stress", "scale:llada", "--data", "scale:rag", "--places", "12"), "places wants 0 to 9, got 12"),
    ],
)
def test_mistakes_are_one_line(floatlens: Run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = floatlens(*arguments, "--out", tmp_path / "run", "--limit", "2", *QUICK)
    assert code == 2
    assert message in err.splitlines()[-1]


def test_claims_of_runs_of_answers(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    models = ("scale:llada", "scale:qwen")
    code, _, err = floatlens("qa", *models, "--data", "scale:rag:documents=2", "--limit", "9", "--out", out, *QUICK)
    assert code == 0, err
    code, shown, _ = floatlens("claims", out)
    assert code == 0
    for word in ("retrieved", "scale:llada", "against", "gain"):
        assert word in shown
