"""`floatlens show` and `floatlens models`: what stands there is what the file says, and it fits the terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.table import Table

import floatlens as fl
from floatlens.cli.views import layers_view
from floatlens.traces import Trace

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def saved(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = fl.trace(
        fl.load(str(model)),
        question="Who \x1b[31mbuilt[/] it?",
        documents=["It rained.", "Ann built it."],
        gold=1,
        answers=["Ann"],
        gen_length=4,
    )
    return trace.save(tmp_path_factory.mktemp("traces") / "one")


def test_what_a_trace_holds(floatlens: Run, model: Path, saved: Path) -> None:
    code, out, err = floatlens("show", saved)
    assert (code, err) == (0, "")
    plain = " ".join(out.split())
    trace = fl.open_trace(saved)
    length = trace.data.sizes["key"]
    assert f"model {model} llada, masked diffusion, 3 layers, 4 heads, float32" in plain
    assert "decoded by llada in 4 forward passes seed 0, gen_length 4," in plain
    assert f"default@1; {length - 4} tokens: bos 1, question 21, doc1 10, doc2 (gold) 13, template" in plain
    assert "evidence: 3 tokens (answer)" in plain
    assert f"4 steps, 3 layers, 4 heads, {length} keys" in plain
    assert "entropy: entropy (" in plain
    assert "question Who [31mbuilt[/] it?" in plain
    assert "\x1b" not in out
    assert max(len(line) for line in out.splitlines()) <= 120


def test_top_keys_of_a_layer(floatlens: Run, saved: Path) -> None:
    trace = fl.open_trace(saved)
    share = trace.data.received.sel(layer=1, step=2).values.mean(0)
    best = int(share.argmax())
    token = trace.tokens[best].replace(" ", "␣").replace("\n", "⏎")
    region = trace.regions[int(trace.data.region_of[best])]
    _, out, _ = floatlens("show", saved, "--step", "2", "--top", "1")
    (line,) = [line for line in out.splitlines() if line.split()[:1] == ["1"]]
    assert f"{share[best]:.1%} {token} {best} {region}" in line


def test_a_step_that_is_not_there(floatlens: Run, saved: Path) -> None:
    code, _, err = floatlens("show", saved, "--step", "9")
    assert (code, err) == (2, "floatlens: --step 9: this trace holds steps 0 to 3 (4 of them)\n")


def test_the_strip_is_highest_where_attention_is(saved: Path) -> None:
    data = fl.open_trace(saved).data.load().copy(deep=True)
    data["received"][:] = 0.0
    data["received"][..., 0] = 1.0
    _, table = layers_view(Trace(data), width=80).renderables
    assert isinstance(table, Table)
    assert str(next(iter(table.columns[1].cells))) == "█" + "▁" * 15


@pytest.mark.parametrize("heads", ["all", "mean"])
def test_an_autoregressive_trace_of_ids(
    floatlens: Run, tiny_model: Callable[[str], Any], tmp_path: Path, heads: Any
) -> None:
    trace = fl.trace(tiny_model("llama"), prompt_ids=[5, 6, 7, 8], gen_length=3, heads=heads)
    assert np.isnan(trace.data.received.values).any()  # keys that did not exist yet
    code, out, _ = floatlens("show", trace.save(tmp_path / "ids"))
    assert code == 0
    assert "causal, autoregressive, 3 layers, 4 heads on 2, float32" in out
    assert "(none: a bare prompt)" in out
    assert "nan" not in out
    assert "id 5 0 question" in out  # the first key of a causal model is seen by all


def test_a_trace_without_received_attention(floatlens: Run, tiny_model: Callable[[str], Any], tmp_path: Path) -> None:
    trace = fl.trace(tiny_model("llama"), prompt_ids=[5, 6], gen_length=2, probes=["entropy"])
    code, out, _ = floatlens("show", trace.save(tmp_path / "ids"))
    assert code == 0
    assert "the trace was made without the probe received" in out


def test_a_run_or_something_else_is_not_a_trace(floatlens: Run, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "00000-a.zarr.zip").touch()
    code, _, err = floatlens("show", tmp_path)
    assert code == 2
    assert f"is a run folder; give one of its traces, such as {tmp_path}/traces/00000-a.zarr.zip" in err
    assert "not a trace" in floatlens("show", tmp_path / "manifest.json")[2]
    assert "no such trace file" in floatlens("show", tmp_path / "absent.zarr.zip")[2]


def test_the_families(floatlens: Run) -> None:
    from floatlens.models import registered_names

    code, out, _ = floatlens("models")
    assert code == 0
    table, checkpoints = out.split("\n\n")[:2]
    rows = {line.split()[0]: line.split() for line in table.splitlines()}
    assert rows["illada"][-4:] == ["full", "no", "llada", "transcribed"]
    assert rows["dream"][-4:] == ["full", "yes", "dream", "golden"]
    assert rows["causal"][-4:] == ["causal", "yes", "ar", "class"]
    assert "GSAI-ML/iLLaDA-8B-Base" in checkpoints
    assert f"registered names: {', '.join(registered_names()) or 'none'}" in " ".join(out.split())


def test_registered_names_are_listed(floatlens: Run, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    from floatlens.core.registry import Registry
    from floatlens.models import names

    subjects: Registry[names.Subject] = Registry("subject", "floatlens.no_such_group")
    subjects.add("test", names.Subject(names=lambda: ["words"], path=lambda name: model))
    monkeypatch.setattr(names, "SUBJECTS", subjects)
    assert "registered names: test:words" in floatlens("models")[1]
    assert "llada (masked diffusion)" in floatlens("models", "test:words")[1]


@pytest.mark.usefixtures("no_network")
def test_the_facts_of_a_checkpoint(
    floatlens: Run, model: Path, tiny: Callable[[str], Path], golden: Callable[[str], Path]
) -> None:
    def facts(ref: Path, *more: str) -> dict[str, str]:
        code, out, err = floatlens("models", ref, *more)
        assert (code, err) == (0, "")
        return {line[:10].strip(): line[10:].strip() for line in out.splitlines()}

    words = facts(model)
    assert words["family"] == "llada (masked diffusion)"
    assert words["read as"] == "LlamaForCausalLM"
    assert words["mask token"] == "150 <|mdm_mask|>"
    assert words["context"] == "480 tokens"
    dream = facts(golden("dream"))
    assert dream["heads"] == "4 per layer, 2 key/value heads"
    assert dream["logits"] == "shifted: row i decides position i + 1"
    assert dream["tokenizer"] == "none: token ids only"
    roberta = facts(tiny("roberta"))
    assert roberta["read as"] == "RobertaForMaskedLM"
    assert roberta["context"] == "38 tokens"  # 40 positions less padding_idx + 1
    assert "mask token" not in facts(tiny("qwen3"))


@pytest.mark.usefixtures("no_network")
def test_a_refusal_names_the_flag(floatlens: Run, copied: Callable[..., Path], tmp_path: Path) -> None:
    code, _, err = floatlens("models", copied("llada", alibi=True))
    assert code == 2
    assert "`alibi` is true, which the llada family does not cover" in err
    assert "no such folder" in floatlens("models", tmp_path / "absent")[2]
    assert 'no model family "x"' in floatlens("models", tmp_path, "--family", "x")[2]


def test_gguf_facts(floatlens: Run, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"nonsense")
    assert "not a GGUF file" in floatlens("models", tmp_path / "a.gguf")[2]
    assert "loaded as family 'causal', not 'llada'" in floatlens("models", tmp_path / "a.gguf", "--family", "llada")[2]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_table_on_a_terminal_has_its_width(saved: Path) -> None:
    import fcntl
    import struct
    import subprocess
    import sys
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 70, 0, 0))
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "floatlens", "show", str(saved)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side was closed
                break
            if not part:
                break
            shown += part
        assert running.wait() == 0
    lines = re.sub("\x1b\\[[0-9;]*m", "", shown.decode()).split("\r\n")
    assert 60 < max(len(line.rstrip()) for line in lines) <= 70


@pytest.mark.usefixtures("no_network")
def test_a_checkpoint_is_checked_without_its_weights(floatlens: Run, golden: Callable[[str], Path]) -> None:
    code, out, err = floatlens("models", "check", golden("illada"))
    assert (code, err) == (0, "")
    words = {line[:11].strip(): line[11:].strip() for line in out.splitlines()}
    assert words["loads"] == "yes, as illada (masked diffusion)"
    assert words["attention"] == "full"
    assert words["parameters"] == "102,848"
    assert words["tensors"] == "29 (29 F32): names and shapes fit the class"
    assert words["memory"] == "402 KiB in float32, 201 KiB in bfloat16, 201 KiB in float16, weights alone"


@pytest.mark.usefixtures("no_network")
def test_what_stops_a_checkpoint_is_one_line(floatlens: Run, copied: Callable[..., Path]) -> None:
    code, out, err = floatlens("models", "check", copied("illada", layer_norm_eps=1e-5))
    assert (code, out) == (2, "")
    assert "`layer_norm_eps` is set" in err
    assert len(err.splitlines()) == 1


def test_models_is_list_or_show_unless_a_command_is_named(floatlens: Run, golden: Callable[[str], Path]) -> None:
    assert floatlens("models")[1] == floatlens("models", "list")[1]
    ref = golden("illada")
    shown = floatlens("models", "show", ref)
    assert shown == floatlens("models", ref) == floatlens("models", "--family", "illada", ref)
    assert "attention" in shown[1]
