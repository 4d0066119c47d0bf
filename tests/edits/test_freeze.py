"""Frozen layers: even over the structural tokens that each row sees; as many random ones for the control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from floatlens import Select, edit
from floatlens.core.errors import FloatlensError
from floatlens.edits import FreezeLayers

pytestmark = pytest.mark.slow

HOW: dict[str, dict[str, Any]] = {"llada": {"steps": 4}, "llama": {}}


def even_ids(ids: list[int]) -> list[bool]:
    return [i % 2 == 0 for i in ids]


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("name", ["llada", "llama"])
def test_frozen_rows(name: str, random: bool, decoded: Any, tiny_model: Any) -> None:
    model = tiny_model(name)
    frozen = FreezeLayers(range(1, 3), even_ids)
    if random:
        frozen = frozen.control(seed=2)
    seen = decoded(model, [frozen], cut=(4, 1), **HOW[name])
    moved: dict[tuple[int, int], float] = {}
    for step in range(seen.steps):
        position = seen.positions[step]
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            if layer == 0:
                assert np.abs(before - after).max() <= 1e-5
                continue
            first = position.real.shape[1] - before.shape[2]
            for sample in range(2):
                real = seen.real(step, sample)
                marked = [
                    j for j in real if position.ids[sample, j] % 2 == 0 and position.ids[sample, j] != model.mask_id
                ]
                for i in [i for i in real if i >= first]:
                    for head in range(before.shape[1]):
                        was, is_ = before[sample, head, i - first], after[sample, head, i - first]
                        visible = [j for j in marked if name == "llada" or j <= i]
                        if random:
                            visible = np.flatnonzero(is_).tolist()
                            assert name != "llada" or len(visible) == len(marked)
                            assert all(position.ids[sample, j] != model.mask_id for j in visible)
                            assert all(j in real for j in visible)
                        if visible and (not random or len(set(is_[visible])) == 1):
                            even = np.array([1 / len(visible) if j in visible else 0.0 for j in range(len(is_))])
                            assert np.abs(is_ - even).max() <= 1e-6
                        else:
                            assert np.abs(is_ - was).max() <= 1e-5
                        moved[step, layer] = moved.get((step, layer), 0) + np.abs(is_ - was).sum() / 2
    for c in frozen.report():
        assert c.mass == pytest.approx(moved[c.step, c.layer], abs=1e-3)


def test_words_of_a_sequence_can_be_marked() -> None:
    """The one definition of token classes fits the argument (see docs/edits.md)."""
    from floatlens.prompts.words import STRUCTURAL, classify

    pieces = {1: "<bos>", 2: " The", 3: " red", 4: " house", 5: ",", 6: " 12"}

    def mark(ids: list[int]) -> list[bool]:
        return [kind in STRUCTURAL for kind in classify([pieces[i] for i in ids], ids, special={1})]

    assert mark([1, 2, 3, 4, 5, 6]) == [True, True, False, False, True, False]
    FreezeLayers(0, mark)


def test_what_cannot_be(tiny_model: Any) -> None:
    model = tiny_model("llama")
    with pytest.raises(FloatlensError, match="function from a list of ids"):
        FreezeLayers(0, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(FloatlensError, match="leave them out of select"):
        FreezeLayers(0, even_ids, select=Select(layers=1))
    with (
        pytest.raises(FloatlensError, match=r"layer 3 is outside 0\.\.2"),
        edit(model, FreezeLayers(range(2, 5), even_ids)),
    ):
        pass
