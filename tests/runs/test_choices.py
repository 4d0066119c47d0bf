"""What follows from a model's configuration: where its weights go, and how many threads work on it."""

from __future__ import annotations

from typing import Any

import pytest

import floatlens.models
from floatlens.core.errors import FloatlensError
from floatlens.models.config import ModelConfig
from floatlens.runs import workers
from floatlens.runs.plan import make_plan
from floatlens.runs.study_file import read_study
from floatlens.runs.workers import Holder, small_on_cpu, threads_for


def study(**model: Any) -> dict[str, Any]:
    data = [{"ref": "scale:rag:documents=2", "limit": 1}]
    return {"models": [{"ref": "scale:qwen", **model}], "data": data, "traces": {"questions": 0}}


@pytest.mark.parametrize("given", ["auto", {"": 0}])
def test_a_device_map_goes_from_the_study_to_the_loader(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def load(ref: str, **options: Any) -> object:
        asked.append({"ref": ref, **options})
        return object()

    monkeypatch.setattr(floatlens.models, "load", load)
    (planned,) = make_plan(read_study(study(device_map=given, dtype="bfloat16"))).models
    Holder().get(planned.config)
    assert [(one["ref"], one["device_map"], one["device"], one["dtype"]) for one in asked] == [
        ("scale:qwen", given, None, "bfloat16")
    ]


def test_a_device_and_a_device_map_are_one_too_many() -> None:
    with pytest.raises(FloatlensError, match=r"models\[0\].*give device or device_map, not both"):
        read_study(study(device="cpu", device_map="auto"))


def test_small_models_get_one_thread_however_many_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums differ in their last bits with the number of threads."""
    monkeypatch.setattr(workers, "cores", lambda: 8)
    small, large = ModelConfig(ref="scale:qwen", device="cpu"), ModelConfig(ref="org/a-model-of-the-hub", device="cpu")
    assert [threads_for([small, small], count) for count in (1, 2, 8)] == [1, 1, 1]
    assert [threads_for([small, large], count) for count in (1, 2, 16)] == [8, 4, 1]
    assert small_on_cpu(ModelConfig(ref="scale:qwen", device_map="cpu"))
