"""One tool at work on the shared model, in an interpreter of its own; it takes orders by standard input.

Run as a file, since that interpreter may have the tool and not floatlens: nothing of floatlens is imported, except by
the variant `floatlens`. Each line is an order, a JSON list; each answer is a line of JSON on what standard output was
when it began:

    ["prepare", folder, variant, threads]  ->  {"versions": {…}}
    ["pass", length]                       ->  {"seconds": s, "peak": bytes or null}
    ["received", length, file]             ->  {} after received attention, (layer, head, key), was saved as .npy
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

Pass = Callable[[Any], Any]
"""A forward pass over ids (1, T) that gives received attention, (layer, head, key), or None."""


def plain(folder: str) -> Pass:
    """The model alone, with sdpa."""
    module = _module(folder, "sdpa")

    def run(ids: Any) -> None:
        module(ids, use_cache=False)

    return run


def floatlens(folder: str) -> Pass:
    """floatlens with the probe `received`."""
    from floatlens.attention.session import capture
    from floatlens.models.base import LanguageModel
    from floatlens.probes import make_probes

    module = _module(folder, "sdpa")
    model = LanguageModel(module, "causal", "arm", "bench:llama", shift=True)

    def run(ids: Any) -> Any:
        import torch

        with capture(model, make_probes(["received"]), steps=1, length=ids.shape[1]) as found:
            model.forward(ids)
        return torch.from_numpy(found.variables["received"].stack()[0, 0])

    return run


def transformerlens(folder: str) -> Pass:
    """`run_with_cache` of the patterns of all layers, reduced after the pass."""
    import torch
    from transformer_lens.model_bridge import TransformerBridge  # type: ignore[import-not-found]

    bridge = TransformerBridge.boot_transformers(folder, hf_model=_module(folder, "eager"), device="cpu")
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(bridge.cfg.n_layers)]

    def run(ids: Any) -> Any:
        _, cache = bridge.run_with_cache(ids, names_filter=lambda name: name in names)
        return torch.stack([cache[name][0].mean(1) for name in names])

    return run


def nnsight(folder: str) -> Pass:
    """A trace that reduces the weights of each layer as they come, so one layer's are held at a time."""
    import torch
    from nnsight import NNsight  # type: ignore[import-not-found]

    model = NNsight(_module(folder, "eager"))

    def run(ids: Any) -> Any:
        with model.trace(ids, use_cache=False):
            found = list().save()  # type: ignore[attr-defined]  # noqa: C408 (nnsight adds `save`, and traces this call)
            for layer in model.model.layers:
                found.append(layer.self_attn.output[1][0].mean(1))
        return torch.stack(found)

    return run


VARIANTS: dict[str, tuple[Callable[[str], Pass], tuple[str, ...]]] = {
    "plain": (plain, ("torch", "transformers")),
    "floatlens": (floatlens, ("torch", "transformers")),
    "transformerlens": (transformerlens, ("transformer-lens", "torch", "transformers")),
    "nnsight": (nnsight, ("nnsight", "torch", "transformers")),
}
"""How a pass is made, and the packages whose versions matter."""


def _module(folder: str, attention: str) -> Any:
    from transformers import AutoModelForCausalLM

    module = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention, local_files_only=True)
    return module.eval()  # type: ignore[no-untyped-call]


def _ids(length: int) -> Any:
    import torch

    return torch.randint(0, 64, (1, length), generator=torch.Generator().manual_seed(length))


def _status(field: str) -> int | None:
    """A size of this process in bytes; None where the system has no /proc."""
    file = Path("/proc/self/status")
    lines = file.read_text().splitlines() if file.is_file() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


class Worker:
    """Carries out orders, one by one."""

    def __init__(self) -> None:
        self._run: Pass | None = None

    def prepare(self, folder: str, variant: str, threads: int | None) -> dict[str, Any]:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        make, packages = VARIANTS[variant]
        self._run = make(folder)
        return {"versions": {name: version(name) for name in packages}}

    def measure(self, length: int) -> dict[str, Any]:
        ids, before = _ids(length), _status("VmRSS")
        if before is not None:
            Path("/proc/self/clear_refs").write_text("5")  # sets the kernel's peak back to what is held now
        begin = time.perf_counter()
        self._pass(ids)
        seconds, peak = time.perf_counter() - begin, _status("VmHWM")
        return {"seconds": seconds, "peak": None if peak is None or before is None else max(0, peak - before)}

    def received(self, length: int, file: str) -> dict[str, Any]:
        import numpy as np

        np.save(file, self._pass(_ids(length)).numpy(), allow_pickle=False)
        return {}

    def _pass(self, ids: Any) -> Any:
        import torch

        assert self._run is not None, "prepare comes first"
        with torch.inference_mode():
            return self._run(ids)


def main() -> None:
    """Answer orders until standard input ends; what a tool prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker()
    orders: dict[str, Callable[..., Any]] = {
        "prepare": worker.prepare,
        "pass": worker.measure,
        "received": worker.received,
    }
    for line in sys.stdin:
        order, *given = json.loads(line)
        try:
            answer = orders[order](*given)
        except Exception as error:  # said by the process that asked
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
