"""`Installation`: a session put into a model and taken out again, whatever interrupts it.

While it is in place the model belongs to the thread that put it there: passes and captures of other threads are
refused, and so are copies of the model, which would carry the session with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from torch import nn

from floatlens.attention.edit import check_layers
from floatlens.attention.mixing import mixers_of, release_mixers
from floatlens.core.errors import FloatlensError
from floatlens.models.readout import layers_of

if TYPE_CHECKING:
    from floatlens.attention.session import Session
    from floatlens.models.base import LanguageModel

__all__ = ["SESSIONS", "Installation"]

SESSIONS: WeakKeyDictionary[nn.Module, Session] = WeakKeyDictionary()
"""The session of each module that is being captured."""
_COPYING = ("__deepcopy__", "__reduce_ex__")
T = TypeVar("T")


class Installation(Generic[T]):
    """A context in which the attention of a model runs through a session; `with` gives `result`.

    A class and not a generator: nothing can come between the end of `__enter__` and the block. What was there before is
    noted first, and `_restore` may run any number of times, so an interrupt at any point of it is made good by another
    call. One that comes before the first line of `__exit__` is made good when the object goes, with the traceback.
    """

    _noted = False

    def __init__(
        self,
        model: LanguageModel,
        session: Session,
        implementation: str,
        result: T,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._model, self._session, self._result, self._release = model, session, result, release
        self._implementation = implementation

    def __enter__(self) -> T:
        model = self._model
        try:
            with model.running:  # no pass is under way
                model.check_caller()
                self._note()
                self._install()
            return self._result
        except BaseException:
            self._leave()
            _let_go(model.running)
            raise

    def __exit__(self, *_: object) -> None:
        self._leave()

    def __del__(self) -> None:
        if self._noted:
            self._leave()

    def _leave(self) -> None:
        try:
            try:
                try:
                    self._restore()
                finally:
                    self._restore()
            finally:
                self._restore()
        finally:
            self._release()
        self._noted = False

    def _note(self) -> None:
        model, module = self._model, self._model.module
        self._before = module.config._attn_implementation
        self._outer = SESSIONS.get(module)
        self._observers = list(model.observers)
        self._flags = (model.whole_rows, model.describes_masks, model.captured_by)
        self._noted = True

    def _install(self) -> None:
        model, session, module = self._model, self._session, self._model.module
        model.captured_by = threading.get_ident()
        model.observers[:] = [one for one in self._observers if one is not self._outer]
        for part in module.modules():
            SESSIONS[part] = session
        for name in _COPYING:
            module.__dict__[name] = partial(_refuse_copy, model.ref)  # holds no reference to this object
        if "residual" in session.needs:
            for layer in layers_of(module).values():
                layer.register_forward_pre_hook(session.note_residual, with_kwargs=True)
        if "output" in session.needs:
            for layer in layers_of(module).values():
                layer.register_forward_hook(session.note_output)
            model.whole_rows = True
        for edit in session.edits:
            check_layers(edit, model.ref, model.num_layers, model.attention_layers)
        if session.watches_mixers:
            for mixer in _checked_mixers(model):
                mixer.register_forward_pre_hook(session.note_mixer, with_kwargs=True)
                mixer.register_forward_hook(session.end_mixer)
        module.set_attn_implementation(self._implementation)
        if module.config._attn_implementation != self._implementation:  # transformers only logs a warning
            name = type(module).__name__
            raise FloatlensError(f"{model.ref}: {name} has its own attention function; this model cannot be traced")
        model.observers.append(session)
        model.describes_masks = True

    def _restore(self) -> None:
        """Put everything back as it was noted; what is back already stays."""
        if not self._noted:
            return
        model, module, outer = self._model, self._model.module, self._outer
        model.observers[:] = self._observers
        if module.config._attn_implementation != self._before or _parts_differ(module, self._before):
            module.set_attn_implementation(self._before)
        notes = (
            self._session.note_residual,
            self._session.note_output,
            self._session.note_mixer,
            self._session.end_mixer,
        )
        release_mixers(module)
        for part in module.modules():
            _remove_hooks(part, notes)
            if outer is None:
                SESSIONS.pop(part, None)
            else:
                SESSIONS[part] = outer
        if outer is None:
            for name in _COPYING:
                module.__dict__.pop(name, None)
        model.whole_rows, model.describes_masks, model.captured_by = self._flags


def _checked_mixers(model: LanguageModel) -> list[nn.Module]:
    """The mixers without attention; an error where a layer has neither attention nor a known mixer."""
    found = mixers_of(model.module)
    covered = {*model.attention_layers, *(getattr(one, "layer_idx", None) for one in found)}
    for index in range(model.num_layers):
        if index not in covered:
            raise FloatlensError(
                f"{model.ref}: layer {index} has no attention, and contributions of its kind of layer are not covered; "
                'leave out the probe "contribution"'
            )
    return found


def _refuse_copy(ref: str, *_: Any) -> NoReturn:
    raise FloatlensError(f"{ref} is being captured or edited, and a copy would be too; copy or pickle it afterwards")


def _let_go(lock: threading.RLock) -> None:
    """Release a lock as often as this thread holds it: an interrupt may come between a block and its release."""
    try:
        while True:
            lock.release()
    except RuntimeError:
        return


def _parts_differ(module: nn.Module, implementation: str) -> bool:
    """Whether an interrupt left some parts of a model with another attention function."""
    configs = (getattr(part, "config", None) for part in module.modules())
    return any(getattr(one, "_attn_implementation", implementation) != implementation for one in configs)


def _remove_hooks(part: nn.Module, notes: tuple[Callable[..., Any], ...]) -> None:
    """Remove hooks by what they call: an interrupt may have lost their handles."""
    for hooks in (part._forward_pre_hooks, part._forward_hooks):
        for key in [key for key, hook in hooks.items() if hook in notes]:
            part._forward_pre_hooks_with_kwargs.pop(key, None)
            hooks.pop(key, None)  # last: an interrupt before it finds the key again
