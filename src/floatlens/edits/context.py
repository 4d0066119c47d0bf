"""`edit`: a context in which a model's attention is edited, for decoding, tracing and single passes.

A capture opened inside (as `trace` does) applies the edits too; nested contexts combine. If no edit is active, nothing
is installed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from floatlens.attention.edit import Change, Edit
from floatlens.attention.probe import Shape
from floatlens.attention.recorder import Recorder
from floatlens.attention.select import Select
from floatlens.attention.session import MANY_STEPS, Session, ambient_edits, installed
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel

if TYPE_CHECKING:
    from floatlens.prompts.types import Prompt

__all__ = ["Change", "Edit", "EditContext", "Select", "edit"]


@dataclass(frozen=True)
class EditContext:
    """An open `edit` context."""

    edits: tuple[Edit, ...]
    session: Session | None

    def restart(self) -> None:
        """Declare that the next pass begins a new run, where its tokens do not show it (see `edit`)."""
        if self.session is not None and self.session.tracker is not None:
            self.session.tracker.restart()

    def report(self) -> list[Change]:
        """The reports of all edits, concatenated."""
        return [change for edit in self.edits for change in edit.report()]


def edit(
    model: LanguageModel, *edits: Edit, prompts: Sequence[Prompt] = (), workspace: Workspace | None = None
) -> AbstractContextManager[EditContext]:
    """Apply `edits` to the model's attention, in this order (see `Edit`), for everything that runs inside.

    Steps restart at 0 in each run. A diffusion run continues while no token is changed, an autoregressive one while the
    sequence grows. Between runs of one diffusion pass with the same tokens, call `restart()`.

    Example: `with edit(model, DropAnchors(k=5)): decode(model, ids, gen_length=16)`
    """
    outer = ambient_edits(model)
    shape = Shape(model.num_layers, model.num_heads, MANY_STEPS, model.max_length or 0)
    for item in edits:
        if not isinstance(item, Edit):
            raise FloatlensError(f"edit: {item!r} is not an edit; give instances, such as DropAnchors(k=5)")
        _check_steps(item)
        item.prepare(model, shape)
        if prompts and item.reads_prompts:
            item.place(prompts)
    active = [item for item in edits if item.active]
    if not active:
        return nullcontext(EditContext(edits, None))
    recorder = Recorder(model, [], None, Select(), MANY_STEPS)
    session = Session(model, [], [*outer, *active], recorder, workspace or Workspace(), ambient=True)
    return installed(model, session, EditContext(edits, session))


def _check_steps(item: Edit) -> None:
    """Negative steps need the number of steps, which a context does not know."""
    steps = item.select.steps
    named = [steps.start, steps.stop] if isinstance(steps, slice) else [steps]
    if isinstance(steps, Collection):
        named = list(steps)
    if any(isinstance(step, int) and step < 0 for step in named):
        raise FloatlensError(f"{item!r}: negative steps work in trace(edits=…) only; count from the first step")
