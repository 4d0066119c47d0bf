"""What holds for every edit: nothing at strength 0, cached as uncached, batched as alone, and only where selected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from floatlens import Edit, Select
from floatlens.core.errors import FloatlensError
from floatlens.edits import (
    AblateHeads,
    DropAnchors,
    DropMass,
    DropRandom,
    FreezeLayers,
    PinAnchors,
    SinkToken,
    SwapAnchors,
)

slow = pytest.mark.slow
"""Most of what follows; what every commit has to keep (strength 0, the cache, and what edits declare) is not."""

PROMPTS = [[5, 9, 12, 33, 21, 8, 30, 14, 26, 9], [17, 6, 40, 11, 19, 6, 29]]


def structural(ids: list[int]) -> list[bool]:
    return [i % 3 == 0 for i in ids]


MAKERS: dict[str, Callable[..., Any]] = {
    "drop": lambda **how: DropAnchors(k=2, **how),
    "drop unedited": lambda **how: DropAnchors(k=2, of="unedited", **how),
    "drop zscore": lambda **how: DropAnchors(rule="zscore(1.5)", **how),
    "drop answer": lambda **how: DropAnchors(k=2, rows="answer", **how),
    "drop last": lambda **how: DropAnchors(k=1, rows="last", **how),
    "drop random": lambda **how: DropRandom(k=2, seed=1, **how),
    "drop mass": lambda **how: DropMass(k=1, seed=1, **how),
    "drop mass unedited": lambda **how: DropMass(k=2, seed=1, of="unedited", **how),
    "drop mass answer": lambda **how: DropMass(k=1, seed=1, rows="answer", **how),
    "pin step0": lambda **how: PinAnchors(k=1, **how),
    "pin bos": lambda **how: PinAnchors("bos", k=2, **how),
    "pin answer": lambda **how: PinAnchors(k=1, rows="answer", **how),
    "pin last bos": lambda **how: PinAnchors("bos", k=2, rows="last", **how),
    "swap": lambda **how: SwapAnchors(k=1, seed=1, **how),
    "swap bos": lambda **how: SwapAnchors("bos", k=2, seed=1, **how),
    "sink": lambda **how: SinkToken(44, **how),
    "ideal sink": lambda **how: SinkToken(logit=1.0, **how),
    "zero": lambda **how: AblateHeads([(0, 1), (2, 3)], **how),
    "mean": lambda **how: AblateHeads([(0, 1), (2, 3)], mode="mean", **how),
    "uniform": lambda **how: AblateHeads([(0, 1), (2, 3)], mode="uniform", **how),
    "freeze": lambda **how: FreezeLayers([0, 2], structural, **how),
    "freeze random": lambda **how: FreezeLayers([0, 2], structural, matched_random=True, seed=1, **how),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return MAKERS[request.param]


@pytest.fixture(scope="module")
def plainly(decoded: Any, tiny_model: Any) -> Callable[..., Any]:
    """Runs without edits, each made once."""
    held: dict[str, Any] = {}

    def run(name: str, *prompts: Any, **how: Any) -> Any:
        key = repr((name, prompts, how))
        held[key] = held[key] if key in held else decoded(tiny_model(name), [], *prompts, **how)
        return held[key]

    return run


def close(a: np.ndarray, b: np.ndarray, by: float = 1e-4) -> bool:
    return a.shape == b.shape and bool(np.abs(a - b).max(initial=0) <= by)


def test_strength_0_changes_not_a_bit(make: Callable[..., Any], decoded: Any, plainly: Any, tiny_model: Any) -> None:
    for name, how in (("dream", {"steps": 4}), ("llama", {})):
        plain = plainly(name, **how)
        edit = make(strength=0)
        seen = decoded(tiny_model(name), [edit], **how)
        assert seen.tokens == plain.tokens
        assert all(np.array_equal(seen.weights[at], plain.weights[at]) for at in plain.weights)
        assert edit.report() == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, "llama") for kind in MAKERS),
        *(pytest.param(kind, "mistral", marks=slow) for kind in ("drop", "pin bos", "swap", "uniform")),
    ],
)
def test_a_cache_changes_nothing(kind: str, name: str, decoded: Any, tiny_model: Any) -> None:
    """Tokens, all weights of every step, and the report; in a padded batch of which a sample may end early."""
    make = MAKERS[kind]
    edits = [make(), make()]
    cached, full = (
        decoded(tiny_model(name), [edit], PROMPTS, use_cache=use)
        for edit, use in zip(edits, (True, False), strict=True)
    )
    assert cached.answers == full.answers
    for (step, layer), weights in full.weights.items():
        for sample in range(2):
            real = full.real(step, sample)
            assert close(weights[sample][:, real], cached.weights[step, layer][sample][:, real]), (
                name,
                step,
                layer,
            )
    reports = [edit.report() for edit in edits]
    assert [(c.step, c.layer, c.rows) for c in reports[0]] == [(c.step, c.layer, c.rows) for c in reports[1]]
    assert all(a.mass == pytest.approx(b.mass, abs=1e-4) for a, b in zip(*reports, strict=True))
    assert sum(c.mass for c in reports[0]) > 0


@slow
@pytest.mark.parametrize("steps", [[1], slice(2, 4)], ids=str)
def test_a_cache_changes_nothing_where_steps_are_chosen(steps: Any, decoded: Any, tiny_model: Any) -> None:
    """A row that was edited when it was new stays so; without a cache it is edited again."""
    for name in ("drop", "pin bos", "mean", "sink", "freeze"):
        edits = [MAKERS[name](select=Select(steps=steps)) for _ in range(2)]
        cached, full = (
            decoded(tiny_model("qwen2"), [edit], PROMPTS[:1], use_cache=use)
            for edit, use in zip(edits, (True, False), strict=True)
        )
        assert all(close(full.weights[at], cached.weights[at]) for at in full.weights), name
        assert {c.step for c in edits[0].report()} == set(range(4)[steps] if isinstance(steps, slice) else steps)


def check_batch(model: Any, make: Callable[..., Any], decoded: Any, padding: str, **how: Any) -> None:
    edits = [make() for _ in range(3)]
    both = decoded(model, [edits[0]], PROMPTS, padding=padding, **how)
    masses: dict[tuple[int, int], float] = {}
    reached = []
    for sample in range(2):
        alone = decoded(model, [edits[1 + sample]], [PROMPTS[sample]], **how)
        reached.append(alone.steps)
        assert alone.answers[0] == both.answers[sample]
        for (step, layer), weights in alone.weights.items():
            real = both.real(step, sample)
            together = both.weights[step, layer][sample][:, real][:, :, real]
            assert close(together, weights[0]), (step, layer, sample)
        for c in edits[1 + sample].report():
            masses[c.step, c.layer] = masses.get((c.step, c.layer), 0) + c.mass
    # a sample that ends before its companions has the row of its last token computed, which alone it never has
    found = {(c.step, c.layer): c.mass for c in edits[0].report() if c.step < min(reached)}
    assert found == pytest.approx({at: mass for at, mass in masses.items() if at[0] < min(reached)}, abs=1e-3)


@slow
def test_a_batch_changes_nothing(make: Callable[..., Any], decoded: Any, tiny_model: Any) -> None:
    """Each sample as alone: its weights, its tokens; reports add up."""
    check_batch(tiny_model("llada"), make, decoded, "left", steps=3, gen_length=3)
    check_batch(tiny_model("llama"), make, decoded, "left", gen_length=3)


@slow
@pytest.mark.parametrize(
    "name", ["drop random", "drop mass answer", "pin answer", "pin step0", "swap bos", "mean", "freeze random"]
)
def test_padding_on_the_right(name: str, decoded: Any, tiny_model: Any) -> None:
    check_batch(tiny_model("llada"), MAKERS[name], decoded, "right", steps=3, gen_length=3)
    check_batch(tiny_model("llama"), MAKERS[name], decoded, "right", gen_length=3)


@slow
def test_what_is_not_selected_is_not_touched(
    make: Callable[..., Any], decoded: Any, plainly: Any, tiny_model: Any
) -> None:
    """Of layer 2, heads 0 and 3 in step 1. Step 0 and earlier layers bit for bit, other heads but for a rounding."""
    edit = make(select=Select(heads=[0, 3], steps=[1]))
    edit.select = Select(layers=2, heads=[0, 3], steps=[1])  # a freeze takes its layers by another name
    for name, how in (("llada", {"steps": 3}), ("llama", {})):
        plain, seen = plainly(name, PROMPTS[:1], **how), decoded(tiny_model(name), [edit], PROMPTS[:1], **how)
        for layer in range(3):
            assert np.array_equal(plain.weights[0, layer], seen.weights[0, layer])
        for layer in range(2):
            assert np.array_equal(plain.weights[1, layer], seen.weights[1, layer])
        assert close(plain.weights[1, 2][:, [1, 2]], seen.weights[1, 2][:, [1, 2]], 1e-6)
        assert {(c.step, c.layer) for c in edit.report()} == {(1, 2)}  # it did act there
        edit.reset()


@slow
@pytest.mark.parametrize(
    ("sampler", "how"),
    [
        ("llada", {"steps": 4, "block_length": 2}),
        ("llada", {"steps": 2, "cfg_scale": 1.0}),
        ("dream", {"steps": 6}),
        ("threshold", {"threshold": 0.05}),
    ],
)
def test_all_samplers(sampler: str, how: Any, decoded: Any, tiny_model: Any) -> None:
    """A run is one run whatever its passes commit: Dream's may commit nothing, the threshold many at once."""
    for name in ("drop", "pin step0", "mean", "freeze"):
        edit = MAKERS[name]()
        seen = decoded(tiny_model("llada"), [edit], PROMPTS, sampler=sampler, gen_length=4, **how)
        assert [position.step for position in seen.positions] == list(range(seen.steps))
        assert len({id(position.run) for position in seen.positions}) == 1
        assert all(len(answer) <= 4 for answer in seen.answers)
        expected = range(edit.earliest_step, seen.steps)
        assert {c.step for c in edit.report()} == set(expected)


@slow
def test_both_kernels_agree(decoded: Any, tiny_model: Any) -> None:
    pytest.importorskip("numba")
    for name in ("drop", "pin step0", "mean"):
        a, b = (decoded(tiny_model("llada"), [MAKERS[name]()], steps=3, kernel=k) for k in ("torch", "numba"))
        assert a.tokens == b.tokens
        assert all(close(a.weights[at], b.weights[at]) for at in a.weights)


@slow
def test_they_compose(decoded: Any, received: Any, largest: Any, tiny_model: Any) -> None:
    """Drop acts before the softmax, wherever it stands; a pin sees what the drop left; weights go in list order."""
    model = tiny_model("llada")
    one = decoded(model, [DropAnchors(k=1), PinAnchors(k=1)], steps=3)
    two = decoded(model, [PinAnchors(k=1), DropAnchors(k=1)], steps=3)
    assert all(np.array_equal(one.weights[at], two.weights[at]) for at in one.weights)
    for layer in range(3):
        for head in range(4):
            gone = largest(received(one, 0, layer, 0, head, False), one.real(0, 0), 1)[0]
            home = largest(received(one, 0, layer, 0, head, False, of="plain"), one.real(0, 0), 1)[0]
            assert gone == home  # step 0 is untouched, so that the drop takes away what the pin moves to …
            rows = one.plain[1, layer][0, head][one.real(1, 0)].copy()
            rows[:, gone] = 0
            rows /= rows.sum(-1, keepdims=True)
            now = largest(rows.mean(0), one.real(1, 0), 1)[0]
            rows[:, home] += rows[:, now]
            rows[:, now] = 0
            assert close(one.weights[1, layer][0, head][one.real(1, 0)], rows)  # … and the pin brings it back
    heads = [(layer, head) for layer in range(3) for head in range(4)]
    silent = decoded(model, [PinAnchors("bos"), AblateHeads(heads)], steps=2)
    assert all((w == 0).all() for w in silent.weights.values())
    uniform = decoded(model, [AblateHeads(heads), AblateHeads(heads, mode="uniform")], steps=2)
    assert all((w == 0).all() for w in uniform.weights.values())  # even over nothing is nothing
    dropped = DropAnchors(k=1)
    decoded(model, [dropped, PinAnchors(k=1), AblateHeads(heads, mode="mean")], steps=3)
    rows = {c.rows for c in dropped.report()}
    assert rows == {(14 + 11) * 4}  # looks ahead do not count


@slow
def test_a_new_run_starts_anew(decoded: Any, tiny_model: Any) -> None:
    """One edit, two runs: the second is as if it were the first, and reports add up until they are reset."""
    edit, model = DropAnchors(k=2), tiny_model("llama")
    first = decoded(model, [edit])
    once = edit.report()
    second = decoded(model, [edit])
    assert all(np.array_equal(first.weights[at], second.weights[at]) for at in first.weights)
    assert [c.rows for c in edit.report()] == [2 * c.rows for c in once]
    edit.reset()
    assert edit.report() == []


def test_every_edit_says_what_it_needs_and_what_its_control_is(make: Callable[..., Any]) -> None:
    edit = make(strength=0.5)
    assert isinstance(edit, Edit)
    assert repr(edit).startswith(type(edit).__name__)
    assert "strength=0.5" in repr(edit)
    assert edit.needs <= {"retrieval scores"}
    if isinstance(edit, SinkToken):
        assert edit.control() is None
    elif "seed" not in edit.given:
        control = edit.control(7)
        assert control.strength == 0.5
        assert control.given["seed"] == 7


@pytest.mark.parametrize("kind", ["drop random", "drop mass", "swap", "freeze random"])
def test_a_seed_is_a_whole_number_from_0(kind: str) -> None:
    """Said when the edit is made, not by the first draw in the middle of a run."""
    made = MAKERS[kind]()
    more = {"structural": structural, "layers": [0]} if isinstance(made, FreezeLayers) else {"k": 1}
    for seed in (-1, 0.5, True):
        with pytest.raises(FloatlensError, match=r"seed=.*: give a whole number from 0"):
            type(made)(seed=seed, **more)
