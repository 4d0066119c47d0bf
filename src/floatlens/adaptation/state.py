"""A training run on disk: one safetensors file with weights and optimiser, and a log with a line per report.

The state is written to a temporary name and renamed, so a kill leaves the old one or the new one. Log lines beyond the
state are cut when a run continues. Nothing here knows what is trained.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from floatlens.core.errors import FloatlensError
from floatlens.core.files import replaced

__all__ = ["STATE", "Run", "append_log", "read_facts", "read_log", "threads"]

STATE = "training.safetensors"
_LOG = "training.jsonl"
_ADAM = ("step", "exp_avg", "exp_avg_sq")

Parameters = Iterable[tuple[str, nn.Parameter]]


class Run:
    """The files of one run in `folder`. `identity` is what a state must agree with to be continued."""

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        self.folder, self.identity = folder, dict(identity)

    def save(self, parameters: Parameters, optimizer: torch.optim.Optimizer, facts: Mapping[str, Any]) -> None:
        """Write weights, optimiser and `facts`; the file is replaced as a whole."""
        from safetensors.torch import save_file

        tensors: dict[str, Tensor] = {}
        for name, parameter in parameters:
            tensors[f"weights.{name}"] = parameter.detach()
            tensors |= {f"{key}.{name}": value for key, value in optimizer.state[parameter].items()}
        with replaced(self.folder / STATE) as temporary:
            save_file(tensors, temporary, metadata={"state": json.dumps({**facts, **self.identity})})

    def restore(self, parameters: Parameters, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Load the state of the folder and return its facts; empty where there is none. Another run's is refused."""
        from safetensors import safe_open

        path = self.folder / STATE
        facts = read_facts(path)
        if not facts:
            (self.folder / _LOG).unlink(missing_ok=True)
            return {}
        for key, wanted in self.identity.items():
            if facts.get(key) != wanted:
                raise FloatlensError(
                    f"{path}: it belongs to {key} {facts.get(key)}, not {wanted}; give another folder or remove it"
                )
        with safe_open(path, framework="pt") as file, torch.no_grad():
            for name, parameter in parameters:
                parameter.copy_(file.get_tensor(f"weights.{name}"))
                optimizer.state[parameter] = {key: file.get_tensor(f"{key}.{name}") for key in _ADAM}
        _cut_log(self.folder, facts["step"])
        return facts


def read_facts(path: Path) -> dict[str, Any]:
    """What a state file says of itself, without its tensors; empty where there is no file."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return {}
    try:
        with safe_open(path, framework="pt") as file:
            found: dict[str, Any] = json.loads(file.metadata()["state"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise FloatlensError(
            f"{path}: not a checkpoint of a training run ({error}); delete it to start again"
        ) from error
    return found


def append_log(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a line to the run's log."""
    with (folder / _LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, whole ones only."""
    path = folder / _LOG
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:  # the last line of a run that was killed while it wrote
            break
    return found


def _cut_log(folder: Path, step: int) -> None:
    kept = [line for line in read_log(folder) if line["step"] <= step]
    (folder / _LOG).write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch on `count` threads; sums then come out the same whatever the machine's number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
