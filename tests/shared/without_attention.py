"""Models and traces of layers without attention: tiny checkpoints with the scale tokenizer, traces by contribution."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from floatlens.subjects.scale import WEIGHTS
from floatlens.traces import Trace, schema

EMBEDDINGS = {
    "caduceus-ph": "caduceus.backbone.embeddings.word_embeddings.weight",
    "lfm2-encoder": "lfm2.embed_tokens.weight",
}
NAMES = {
    "received": "contribution",
    "received_masked": "contribution_masked",
    "received_committed": "contribution_committed",
    "received_answer": "contribution_answer",
    "flow": "contribution_flow",
    "question_flow": "contribution_question_flow",
    "answer_argmax": "contribution_argmax",
    "answer_peak": "contribution_peak",
    "answer_evidence": "contribution_evidence",
    "answer_flow": "contribution_answer_flow",
    "answer_rollout": "contribution_rollout",
}


def with_words(folder: Path, golden: Path) -> Path:
    """A golden checkpoint with random embeddings of the scale vocabulary and its tokenizer."""
    name = golden.name.removesuffix("-tiny")
    config = json.loads((golden / "config.json").read_text())
    config |= {"vocab_size": 485, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "mask_token_id": 4}
    config.pop("complement_map", None)
    if "max_position_embeddings" in config:
        config["max_position_embeddings"] = 512
    tensors = load_file(golden / "model.safetensors")
    width = tensors[EMBEDDINGS[name]].shape[1]
    tensors[EMBEDDINGS[name]] = torch.randn(485, width, generator=torch.Generator().manual_seed(0)) * 0.5
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(WEIGHTS / "llada" / file, folder / file)
    return folder


def by_contribution(trace: Trace, reach: list[Any] | None) -> Trace:
    """The numbers of a trace under the names they have by contribution, in layers of that reach."""
    names = {old: new for old, new in NAMES.items() if old in trace.data}
    data = trace.data.rename(names)
    known = schema()
    declared = {names.get(name, name): one for name, one in trace.data.attrs["variables"].items()}
    for new in names.values():
        declared[new] = known[new].declaration("contribution")
    model = trace.data.attrs["model"] | ({} if reach is None else {"reach": reach})
    return Trace(data.assign_attrs(trace.data.attrs | {"variables": declared, "model": model}))
