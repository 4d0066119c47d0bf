"""Data sets of the hub: the reference, what is asked of the package `datasets`, and rows that become examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import open_data
from floatlens.data.hub import is_hub, open_hub
from floatlens.runs.study_file import read_study

SQUAD = {
    "id": "a",
    "title": "Tolm",
    "context": "Tolm lies on the Vey.",
    "question": "Where does Tolm lie?",
    "answers": {"text": ["the Vey"], "answer_start": [13]},
}
HOTPOT = {
    "id": "b",
    "question": "Is Tolm in Hest?",
    "answer": "yes",
    "type": "comparison",
    "level": "easy",
    "supporting_facts": {"title": ["Tolm"], "sent_id": [0]},
    "context": {"title": ["Lamps", "Tolm"], "sentences": [["Lamps burn oil."], ["Tolm is in Hest.", " It is old."]]},
}


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    open_hub.cache_clear()
    yield
    open_hub.cache_clear()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Puts a stand-in for the package in its place; gives the calls of `load_dataset`."""

    def put(answer: Any, version: str = "5.2.0") -> list[Any]:
        calls: list[Any] = []

        def load_dataset(*args: Any, **options: Any) -> Any:
            calls.append((args, options))
            if isinstance(answer, Exception):
                raise answer
            return answer

        made = ModuleType("datasets")
        made.__dict__.update(__version__=version, load_dataset=load_dataset, are_progress_bars_disabled=lambda: True)
        monkeypatch.setitem(sys.modules, "datasets", made)
        return calls

    return put


def test_what_is_asked_for(library: Callable[..., list[Any]]) -> None:
    calls = library([SQUAD])
    assert list(open_hub("hub:rajpurkar/squad@abc:plain_text:validation").rows()) == [(1, SQUAD)]
    assert open_hub("hub:rajpurkar/squad:validation").title == "squad"
    assert calls == [  # no option that would let code of a data set run
        (("rajpurkar/squad", "plain_text"), {"split": "validation", "revision": "abc"}),
        (("rajpurkar/squad", None), {"split": "validation", "revision": None}),
    ]


@pytest.mark.parametrize("ref", ["hub:", "hub:rajpurkar/squad", "hub:a/b:c:d:e", "hub::validation", "hub:a/b@:c"])
def test_a_reference_without_a_split(ref: str, library: Callable[..., list[Any]]) -> None:
    calls = library([])
    with pytest.raises(FloatlensError, match=r"expected hub:OWNER/NAME:SPLIT or hub:OWNER/NAME:CONFIG:SPLIT, such as"):
        open_data(ref)
    assert calls == []


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(FloatlensError, match=r'hub:a/b:test: .* pip install "floatlens\[datasets\]"'):
        open_data("hub:a/b:test")


def test_a_version_that_runs_code_is_refused(library: Callable[..., list[Any]]) -> None:
    calls = library([SQUAD], version="3.6.0")
    with pytest.raises(FloatlensError, match=r"datasets 3\.6\.0 can run code of a data set"):
        open_data("hub:a/b:test")
    assert calls == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ConnectionError("Couldn't reach 'a/b' on the Hub\nmore"),
            r"cannot be reached .*Couldn't reach 'a/b' on the Hub\)",
        ),
        (
            ValueError("Config name is missing.\nPlease pick one"),
            "Config name is missing; check name, config and split",
        ),
        (FileNotFoundError("Dataset 'a/b' doesn't exist."), "Dataset 'a/b' doesn't exist; check name"),
        (RuntimeError(""), "RuntimeError; check name"),
    ],
)
def test_mistakes_are_one_line(error: Exception, said: str, library: Callable[..., list[Any]]) -> None:
    library(error)
    with pytest.raises(FloatlensError, match=said) as caught:
        open_data("hub:a/b:test")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("hub:a/b:test: ")


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hub:x").write_text('{"question": "Who?"}')
    assert not is_hub("hub:x")
    assert open_data("hub:x").count == 1


def test_a_study_keeps_the_reference(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("models: [scale:llada]\ndata: [hub:a/b:test]\n")
    assert read_study(file).data_ref("hub:a/b:test") == "hub:a/b:test"


# -- with the package itself --------------------------------------------------------------------------------------


@pytest.fixture
def datasets() -> Any:
    return pytest.importorskip("datasets", reason='needs pip install "floatlens[datasets]"')


def test_rows_of_a_saved_data_set_and_of_a_folder(
    datasets: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = [SQUAD | {"id": str(i)} for i in range(3)]
    made = datasets.Dataset.from_list(rows)
    datasets.DatasetDict({"validation": made}).save_to_disk(tmp_path / "saved")
    (tmp_path / "folder").mkdir()
    made.to_parquet(tmp_path / "folder" / "validation.parquet")
    one, two = (open_data(f"hub:{tmp_path / name}:validation", limit=2) for name in ("saved", "folder"))
    assert (one.format, one.reason, one.count) == ("squad", 'it has "context" and "answers" with "text"', 2)
    assert list(one.examples()) == list(two.examples())
    assert one.sha256 == two.sha256 != open_hub_digest(datasets, rows[:2], tmp_path)
    assert next(one.examples()).answers == ["the Vey"]
    with pytest.raises(FloatlensError, match='no split "train"; there are validation'):
        open_data(f"hub:{tmp_path / 'saved'}:train")
    with pytest.raises(FloatlensError, match="check name, config and split"):
        open_data(f"hub:{tmp_path / 'folder'}:test")


def open_hub_digest(datasets: Any, rows: list[dict[str, Any]], folder: Path) -> str:
    datasets.Dataset.from_list(rows).save_to_disk(folder / "other")
    return open_hub(f"hub:{folder / 'other'}:all").sha256


def test_columns_of_hotpotqa(datasets: Any, tmp_path: Path) -> None:
    datasets.Dataset.from_list([HOTPOT]).save_to_disk(tmp_path / "saved")
    data = open_data(f"hub:{tmp_path / 'saved'}:all", need=["answers", "gold"])
    (example,) = data.examples()
    assert (data.format, example.answers, example.answer_kind) == ("hotpotqa", ["yes"], "yes_no")
    assert [document.is_gold for document in example.documents] == [False, True]
    assert data.headline() == "HotpotQA, distractor setting: 1 question, 2 documents each, 1 gold each"
