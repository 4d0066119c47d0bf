"""`floatlens adapt`: a whole run, continued by the same command, and mistakes that are told before anything is read."""

from __future__ import annotations

import json

import pytest

import floatlens as fl
from floatlens.cli import main


@pytest.fixture
def data(world_data):
    return world_data[0]


def run(capsys, *args):
    code = main(["adapt", *map(str, args)])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("to", ["diffusion", "autoregressive"])
def test_a_run_leaves_an_adapter_a_log_and_curves(base, data, tmp_path, capsys, to):
    out = tmp_path / "twin"
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps({"rows": 2, "width": 96, "steps": 9}))
    options = ("--data", data, "--out", out, "--to", to, "--recipe", recipe, "--rank", "2", "--steps", "3")
    code, said = run(capsys, base, *options, "--check-every", "3")
    assert code == 0
    assert f"load it with fl.load('{out}')" in said
    assert json.loads((out / "recipe.json").read_text())["steps"] == 3
    assert {path.name for path in out.iterdir()} >= {"adapter_config.json", "training.jsonl", "curves.png", "snapshots"}
    model = fl.load(out)
    assert model.kind == ("mdm" if to == "diffusion" else "arm")
    assert main(["models", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    if to == "diffusion":  # the mask token by its text
        assert f"mask token {model.mask_id} {model.tokenizer.convert_ids_to_tokens(model.mask_id)}" in shown
    else:
        assert "mask token" not in shown
    assert len(fl.decode(model, [2, 20, 21], gen_length=4).answers()) == 1
    code, said = run(capsys, base, *options, "--check-every", "3")
    assert (code, "continuing after step 3 of 3" in said) == (0, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--data", "absent.json"), "absent.json: no such file"),
        (("--rate", "-1"), "learning_rate wants more than 0, got -1.0"),
        (("--to", "autoregressive", "--anneal", "3"), "anneal is for to='diffusion'"),
        (("--mask", "block", "--anneal", "3"), "anneal is for mask='full'"),
        (("--full", "--distill", "0.5"), "distill needs the frozen base"),
        (("--recipe", "absent.json"), "absent.json"),
        (("--mask-token", "<no>"), "no token '<no>'"),
    ],
)
def test_a_mistake_is_one_line(base, data, tmp_path, capsys, options, says):
    given = () if "--data" in options else ("--data", data)
    code, said = run(capsys, base, *given, "--out", tmp_path / "twin", *options)
    assert code == 2
    assert says in said
    assert said.count("\n") == 1


def test_a_diffusion_model_cannot_be_adapted(data, tmp_path, capsys):
    code, said = run(capsys, "scale:llada", "--data", data, "--out", tmp_path / "twin")
    assert (code, "only causal Llama" in said) == (2, True)
    assert not (tmp_path / "twin").exists()
