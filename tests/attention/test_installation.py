"""One caller at a time, and a model that comes back as it was, whatever interrupts capture."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import floatlens as fl
from floatlens.attention.installation import SESSIONS
from floatlens.attention.recorder import Recorder
from floatlens.attention.select import Select
from floatlens.attention.session import Session, capture, installed
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.edits import DropAnchors, edit
from floatlens.probes import make_probes

IDS = torch.tensor([[5, 9, 12, 33]])


@pytest.fixture
def model(tiny_model: Callable[[str], Any]) -> Any:
    return tiny_model("llada")


def state(model: Any) -> dict[str, Any]:
    """Everything that capture changes."""
    parts = list(model.module.modules())
    return {
        "attention": [getattr(getattr(part, "config", None), "_attn_implementation", None) for part in parts],
        "hooks": [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in parts],
        "keyword hooks": [len(part._forward_pre_hooks_with_kwargs) for part in parts],
        "sessions": [part in SESSIONS for part in parts],
        "observers": list(model.observers),
        "flags": (model.whole_rows, model.describes_masks, model.captured_by),
        "own": sorted(name for name in model.module.__dict__ if name.startswith("__")),
    }


class Hooked(Session):
    """A session with hooks before and after every layer."""

    def __init__(self, model: Any) -> None:
        super().__init__(model, [], [], Recorder(model, [], None, Select(), 1), Workspace())
        self.needs = frozenset({"residual", "output"})


def _installing(frame: FrameType | None) -> bool:
    """Whether a function of installation.py runs, or something that it called."""
    while frame is not None:
        if Path(frame.f_code.co_filename).name == "installation.py":
            return True
        frame = frame.f_back
    return False


def traced(run: Callable[[], Any], *, deep: bool, at: int | None = None) -> list[tuple[str, int]]:
    """The lines of installation.py that were run, or, if `deep`, of all that it calls; interrupted `at` one of them."""
    seen: list[tuple[str, int]] = []

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen.append((frame.f_code.co_name, frame.f_lineno))
            if at is not None and len(seen) == at + 1:
                raise KeyboardInterrupt
        return line

    def call(frame: FrameType, _: str, __: Any) -> Any:
        own = Path(frame.f_code.co_filename).name == "installation.py"
        return line if own or (deep and _installing(frame)) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return seen


@pytest.mark.parametrize("outer", [False, True])
def test_an_interrupt_at_any_line_leaves_the_model_as_it_was(outer: bool, model: Any) -> None:
    session = Hooked(model)

    def run() -> None:
        with installed(model, session, None):
            pass

    def check() -> None:
        before, lines = state(model), traced(run, deep=False)
        places = [at for at, one in enumerate(lines) if lines[:at].count(one) < 2]  # loops: twice is enough
        assert len(places) > 60
        for at in places:
            traced(run, deep=False, at=at)
            assert state(model) == before, lines[at]

    if outer:
        with edit(model, DropAnchors(1)):
            check()
    else:
        check()
    assert not any(part in SESSIONS for part in model.module.modules())


def test_an_interrupt_within_torch_and_transformers(model: Any) -> None:
    """Lines all over install and uninstall."""

    session = Hooked(model)

    def run() -> None:
        with installed(model, session, None):
            pass

    before, lines = state(model), traced(run, deep=True)
    assert len(lines) > 2000
    for at in range(0, len(lines), len(lines) // 25):
        traced(run, deep=True, at=at)
        assert state(model) == before, lines[at]


def test_a_trace_after_an_interrupt_is_the_same(model: Any) -> None:
    first = fl.trace(model, prompt_ids=[5, 9, 12], gen_length=2, probes=["received"]).data
    traced(lambda: capture(model, make_probes(["received"])).__enter__(), deep=False, at=30)
    assert fl.trace(model, prompt_ids=[5, 9, 12], gen_length=2, probes=["received"]).data.identical(first)


def test_copies_are_refused_inside_a_capture_and_fine_outside(model: Any) -> None:
    copiers: list[Callable[[Any], Any]] = [copy.deepcopy, pickle.dumps]
    for make in (lambda: capture(model, make_probes(["received"])), lambda: edit(model, DropAnchors(1))):
        with make():
            for copier in copiers:
                for one in (model, model.module):
                    with pytest.raises(FloatlensError, match="copy or pickle it afterwards"):
                        copier(one)
    again = copy.deepcopy(model)
    assert again.running is not model.running
    assert torch.equal(again.forward(IDS), model.forward(IDS))
    fresh = fl.load(model.ref)  # transformers leaves hooks on the shared model that cannot be pickled
    assert torch.equal(pickle.loads(pickle.dumps(fresh)).forward(IDS), model.forward(IDS))  # noqa: S301


def in_thread(run: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result(timeout=60)


def test_another_thread_is_refused_while_a_capture_is_open(model: Any) -> None:
    tries: list[Callable[[], Any]] = [
        lambda: model.forward(IDS),
        lambda: fl.decode(model, [5, 9], gen_length=2),
        lambda: fl.trace(model, prompt_ids=[5, 9], gen_length=2),
        lambda: edit(model, DropAnchors(1)).__enter__(),
    ]
    with capture(model, make_probes(["received"]), steps=2, length=4) as recorder:
        model.forward(IDS)
        for one in tries:
            with pytest.raises(FloatlensError, match="captured or edited in another thread"):
                in_thread(one)
        assert recorder.passes == 1
    with edit(model, DropAnchors(1)):
        for one in tries:
            with pytest.raises(FloatlensError, match="captured or edited in another thread"):
                in_thread(one)
    assert torch.equal(in_thread(lambda: model.forward(IDS)), model.forward(IDS))


def test_threads_that_trace_and_decode_one_model_get_the_right_numbers_or_a_line(model: Any) -> None:
    ids = [5, 9, 12, 33, 21]
    wanted = fl.trace(model, prompt_ids=ids, gen_length=4, probes=["received"]).data
    text = fl.decode(model, ids, gen_length=4).sequence
    together = threading.Barrier(4)
    right, refused, wrong = [], [], []

    def work(tracing: bool) -> None:
        together.wait(timeout=60)
        for _ in range(4):
            try:
                if tracing:
                    same = fl.trace(model, prompt_ids=ids, gen_length=4, probes=["received"]).data.identical(wanted)
                else:
                    same = torch.equal(fl.decode(model, ids, gen_length=4).sequence, text)
                (right if same else wrong).append(tracing)
            except FloatlensError as error:
                refused.append(str(error))

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(work, number % 2 == 0) for number in range(4)]:
            one.result(timeout=120)
    assert not wrong
    assert right
    assert all("another thread" in line or "captured already" in line for line in refused)
    assert len(right) + len(refused) == 16
