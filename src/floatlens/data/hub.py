"""Data sets of the Hugging Face hub, and folders in its layout, as rows: `hub:OWNER/NAME:CONFIG:SPLIT`.

Read with the package `datasets` (an extra), which keeps downloads in its own cache. Version 4 and later of it never run
code of a data set; older ones are refused. The columns decide the format, as the fields of a file do.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from floatlens.core.errors import FloatlensError
from floatlens.data.fields import in_short
from floatlens.data.tables import plain_value

__all__ = ["HubRows", "is_hub", "open_hub"]

_PREFIX = "hub:"
_OLDEST = 4
_REF = re.compile(r"hub:(?P<name>[^:@]+)(?:@(?P<revision>[^:]+))?(?::(?P<config>[^:]+))?:(?P<split>[^:]+)")
_EXAMPLE = "hub:OWNER/NAME:SPLIT or hub:OWNER/NAME:CONFIG:SPLIT, such as hub:hotpotqa/hotpot_qa:distractor:validation"


@dataclass(frozen=True)
class HubRows:
    """One split of a data set. Example: `open_hub("hub:rajpurkar/squad:validation").title  # "squad"`"""

    ref: str
    title: str
    split: Any

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Numbered rows, with values as JSON would hold them."""
        for number, row in enumerate(self.split, start=1):
            yield number, {name: plain_value(value) for name, value in row.items()}

    @property
    def sha256(self) -> str:
        """A digest of the content, the same wherever it is cached."""
        import pyarrow as pa

        digest = hashlib.sha256()
        for table in self.split.with_format("arrow").iter(batch_size=1000):
            with pa.BufferOutputStream() as sink:
                bare = table.replace_schema_metadata(None).combine_chunks()
                with pa.ipc.new_stream(sink, bare.schema) as stream:
                    stream.write_table(bare)
                digest.update(sink.getvalue())
        return digest.hexdigest()


def is_hub(ref: str) -> bool:
    """Whether a reference names a data set of the hub, and no file of that name exists."""
    return ref.startswith(_PREFIX) and not Path(ref).is_file()


@lru_cache(maxsize=4)
def open_hub(ref: str) -> HubRows:
    """Load a split, from the cache if it is there; every mistake is one line."""
    found = _REF.fullmatch(ref)
    if found is None:
        raise FloatlensError(f"{ref}: expected {_EXAMPLE}")
    datasets = _import_datasets(ref)
    name, config, split = found["name"], found["config"], found["split"]
    with _quiet(datasets):
        try:
            loaded = _load(datasets, name, config, split, found["revision"])
        except Exception as error:  # many packages are at work in there, each with errors of its own
            raise FloatlensError(f"{ref}: {_reason(error)}") from None
    return HubRows(ref, Path(name).name, loaded)


def _load(datasets: ModuleType, name: str, config: str | None, split: str, revision: str | None) -> Any:
    saved = Path(name)
    if not any((saved / one).is_file() for one in ("dataset_info.json", "dataset_dict.json")):
        return datasets.load_dataset(name, config, split=split, revision=revision)
    loaded = datasets.load_from_disk(name)
    if not isinstance(loaded, datasets.DatasetDict):
        return loaded
    if split not in loaded:
        raise ValueError(f'no split "{split}"; there are {", ".join(loaded)}')
    return loaded[split]


def _import_datasets(ref: str) -> ModuleType:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise FloatlensError(
            f'{ref}: data sets of the hub need the package datasets; install it with: pip install "floatlens[datasets]"'
        ) from None
    if int(datasets.__version__.partition(".")[0]) < _OLDEST:
        raise FloatlensError(
            f"{ref}: datasets {datasets.__version__} can run code of a data set; "
            'install a newer one with: pip install -U "floatlens[datasets]"'
        )
    return datasets


def _reason(error: Exception) -> str:
    """The first sentence that helps; what cannot be reached is told apart from what is wrong."""
    said = in_short(next(iter(str(error).strip().splitlines()), "") or type(error).__name__)
    if isinstance(error, ConnectionError):
        return f"the hub cannot be reached and the data set is not in the cache ({said}); go online, or give a file"
    return f"{said.rstrip('.')}; check name, config and split on the hub (https://huggingface.co/datasets)"


@contextmanager
def _quiet(datasets: ModuleType) -> Iterator[None]:
    """Without the retries in the log, and progress bars only on a terminal."""
    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.ERROR)
    bars = not sys.stderr.isatty() and datasets.are_progress_bars_disabled() is False
    if bars:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        log.setLevel(level)
        if bars:
            datasets.enable_progress_bars()
