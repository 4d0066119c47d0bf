"""What loading a checkpoint takes, without its weights: whether it loads, as what, and in how much memory.

It takes the steps of `load` up to the weights, then lets transformers fill an empty model (device "meta") with the
names and shapes from the headers of the weight files. So what it passes, `load` passes too; what stops `load` is
raised here, in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from floatlens.models import names, registry
from floatlens.models.adapted import adapter_folder, base_of
from floatlens.models.checkpoint import find, in_one_line
from floatlens.models.facts import Facts, look
from floatlens.models.plan import Plan, default_sampler, plan_checkpoint
from floatlens.models.tensors import Shapes, check_names, check_tensors, list_tensors
from floatlens.models.told import Told

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["DTYPES", "Requirements", "empty_module", "fill_empty", "requirements"]

DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a weight, by dtype."""
Compared = Literal["names and shapes", "names", "nothing"]


@dataclass(frozen=True)
class Requirements:
    """A checkpoint that loads. Example: `requirements("scale:llada").memory["bfloat16"]  # bytes of its weights`"""

    facts: Facts
    sampler: str
    parameters: int
    tensors: int
    """Number of tensors that the files or the index list."""
    stored: Mapping[str, int]
    """Number of tensors by the dtype they are stored in; empty where only an index was read."""
    compared: Compared
    """What was compared with the class: a hub repository is known by its index, which has no shapes."""
    missing_files: tuple[str, ...] = ()
    """Weight files that the index lists and the folder does not have: it would load with them."""

    @property
    def memory(self) -> dict[str, int]:
        """Bytes that the weights take, by dtype; activations and caches come on top."""
        return {dtype: size * self.parameters for dtype, size in DTYPES.items()}


def requirements(
    ref: str, *, family: str | None = None, revision: str | None = None, told: Told | None = None
) -> Requirements:
    """What loading `ref` takes; a FloatlensError names what would stop it."""
    facts = look(ref, family=family, revision=revision, told=told)
    sampler = facts.sampler or default_sampler(facts.kind, facts.shift)
    path = names.resolve(ref)
    folder = adapter_folder(ref, path, None)
    if folder is not None:  # merged into its base, whose size it does not change
        path = names.resolve(base_of(folder))
    if path.endswith(".gguf"):
        file = Path(path).expanduser()
        parameters, stored = _read_gguf(file)
        return Requirements(facts, sampler, parameters, sum(stored.values()), stored, "nothing")
    checkpoint = find(path, revision, told)
    plan = plan_checkpoint(registry.pick(checkpoint.settings, family), checkpoint.settings)
    shapes, stored = list_tensors(checkpoint)
    with in_one_line(checkpoint.settings.where, "transformers refuses this configuration"):
        module = empty_module(plan)
    compared = _compare(plan, module, shapes, checkpoint.folder)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    missing = () if checkpoint.hub_id is not None else tuple(checkpoint.missing_shards())
    return Requirements(facts, sampler, parameters, len(shapes), stored, compared, missing)


def empty_module(plan: Plan) -> PreTrainedModel:
    """The module of a plan on the meta device: all of its shapes, none of its weights."""
    import torch

    kind = plan.architecture
    with torch.device("meta"):
        made: PreTrainedModel = kind.from_config(plan.config) if hasattr(kind, "from_config") else kind(plan.config)
    return made


def _compare(plan: Plan, module: PreTrainedModel, shapes: Shapes, where: Path) -> Compared:
    """Compare the tensors of the files with those of the module; the first that does not fit is named."""
    if not shapes:
        return "nothing"
    if None in shapes.values():
        check_names(list(shapes), module, plan.key_mapping, plan.surplus, where)
        return "names"
    check_tensors(fill_empty(plan, module, shapes, where), type(module).__name__, plan.surplus, where)
    return "names and shapes"


def fill_empty(plan: Plan, module: PreTrainedModel, shapes: Shapes, where: Path | str) -> dict[str, Any]:
    """transformers' own account of loading tensors of these shapes: missing, unexpected and mismatched keys."""
    import torch

    from floatlens.models.loading import quiet

    given = {name: torch.empty(shape or (), device="meta") for name, shape in shapes.items()}
    mapping: dict[str, Any] = {} if plan.key_mapping is None else {"key_mapping": dict(plan.key_mapping)}
    kind: Any = type(module)
    with in_one_line(where, f"transformers cannot fit its tensors into {kind.__name__}"), quiet():
        _, info = kind.from_pretrained(
            None,
            config=plan.config,
            state_dict=given,
            device_map="meta",
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **mapping,
        )
    found: dict[str, Any] = info
    return found


def _read_gguf(file: Path) -> tuple[int, dict[str, int]]:
    """Number of weights, and of tensors by quantisation, from the header of a .gguf file."""
    from gguf import GGUFReader

    with in_one_line(file, "its header cannot be read", "; download it again"):
        tensors = GGUFReader(file).tensors
    stored: dict[str, int] = {}
    for one in tensors:
        stored[one.tensor_type.name] = stored.get(one.tensor_type.name, 0) + 1
    return sum(int(one.n_elements) for one in tensors), stored
