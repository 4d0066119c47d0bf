"""The manifest of a run: what it was made with, and whether it may be continued with something else.

A run may be continued with more models, data, questions and conditions. What it has already must be the same, since an
item that is on record is not done again. What an earlier version did not write down cannot differ.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import floatlens
from floatlens.core.errors import FloatlensError
from floatlens.core.validation import short
from floatlens.prompts import load_template
from floatlens.records.condition import Stressed
from floatlens.records.store import FORMAT
from floatlens.runs.workers import cores
from floatlens.traces.dataset import versions

if TYPE_CHECKING:
    from floatlens.runs.items import PlannedData
    from floatlens.runs.models import PlannedModel
    from floatlens.runs.plan import Plan

__all__ = ["changed_versions", "manifest_of", "merged", "surroundings"]

_FREE = ("study", "versions", "machine", "git", "command", "output")
"""Parts that may change when a run is continued: they change no item, or (versions) the run says so."""
_OPEN = ("models", "data", "stress")
"""Parts to which entries may be added."""
_LATER = ("capture", "forced", "pool")
"""Of a model or a data set: None until it is used."""
_COUNTS = ("count", "bad")
"""Of a data set: how many questions were used so far."""
_WHY = {
    "pool": "distractors are drawn from all questions, so other questions would change the prompts",
    "edited": "what is on record was measured for that many questions",
}
_ABSENT = object()


def manifest_of(plan: Plan) -> dict[str, Any]:
    """The manifest of a plan; versions, machine and command are added by the caller.

    None marks what the plan does not use, so that a continued run may begin to use it.
    """
    study = plan.study
    planned = [one for part in plan.data for one in part.conditions]
    tests = dict.fromkeys(one.condition.test for one in planned if isinstance(one.condition, Stressed))
    used, traced = {one.condition.kind for one in planned}, any(part.traced for part in plan.data)
    ways = [one for part in plan.data if part.traced for one in part.trace_conditions]
    patch = next((part.patch for part in plan.data if part.patched), None)
    placed = any(isinstance(one.condition, Stressed) for one in ways)
    return {
        "format": FORMAT,
        "study": study.model_dump(mode="json", exclude={"output": True, "stress": {"seed"}}),
        "output": study.output.model_dump(mode="json"),
        "models": {one.ref: _model(one, traced=traced) for one in plan.models},
        "data": {part.data.name: _data(part) for part in plan.data},
        "template": load_template(plan.models[0].ask.prompt.template).label,
        "stress": plan.stress.used(tests) if tests else {},
        "places": {"documents": study.traces.documents, "seed": study.seeds.stress} if placed else None,
        "documents": (plan.corpus or "data") if used & {"rag", "edit"} or patch else None,
        "controls": list(study.control_seeds) if "edit" in used else None,
        "edited": study.traces.edited if "edit" in used else None,
        "patching": None if patch is None else patch.condition.model_dump(mode="json"),
        "heads_from": (plan.heads_from or "own traces") if any(one.waits for one in planned) else None,
        "target": (study.traces.target or "none") if traced else None,
    }


def _model(planned: PlannedModel, *, traced: bool) -> dict[str, Any]:
    return {
        **asdict(planned.facts),
        "dtype": planned.config.dtype,
        "ask": planned.ask.model_dump(mode="json"),
        # each trace says how its attention was captured; a run may go on with another way, as with another kernel
        "capture": planned.capture.model_dump(mode="json", exclude={"backend"}) if traced else None,
        "forced": dict(planned.forced) or None,
    }


def _data(part: PlannedData) -> dict[str, Any]:
    return {
        **part.data.described(),
        "column": part.data.column,
        "pool": part.data.count if part.pooled else None,
    }


def merged(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The manifest of a run that is continued; refuses, by the name of the first key, what differs.

    What the old one has and the new one does not is kept.
    """
    now = json.loads(json.dumps(new))  # as it would be read back
    found: dict[str, Any] = {}
    for part in dict.fromkeys((*now, *old)):
        before, after = old.get(part), now.get(part)
        if part in _FREE:
            found[part] = after
        elif part in _OPEN:
            found[part] = dict(before or {})
            for name, entry in (after or {}).items():
                known = found[part].get(name)
                found[part][name] = entry if known is None else _entry(known, entry, f"{part}.{name}", place)
        elif before is None or after is None:  # not used yet, or not any more
            found[part] = after if before is None else before
        else:
            found[part] = _same(before, after, part, place)
    return found


def _entry(old: Any, new: Any, at: str, place: str) -> Any:
    """A model, a data set or a test that was there before; more questions may join."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return _same(old, new, at, place)
    found = {}
    for key in dict.fromkeys((*new, *old)):
        was, now = old.get(key), new.get(key)
        if key in _COUNTS:
            found[key] = max(was or 0, now or 0)
        elif key not in old:  # an earlier version did not write it down
            found[key] = now
        elif key in _LATER and (was is None or now is None):
            found[key] = now if was is None else was
        else:
            found[key] = _same(was, now, f"{at}.{key}", place)
    return found


def _same(old: Any, new: Any, at: str, place: str) -> Any:
    difference = _difference(old, new, at)
    if difference is None:
        return new
    key, was, now = difference
    because = _WHY.get(key.rpartition(".")[2])
    raise FloatlensError(
        f"{place}: this run was made with {key} = {_shown(was)}, now it is {_shown(now)}"
        f"{f' ({because})' if because else ''}; give the old value to continue it, or another folder (--out)"
    )


def _difference(old: Any, new: Any, at: str) -> tuple[str, Any, Any] | None:
    """The first key that differs, with both values."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        inner = (
            _difference(old.get(name, _ABSENT), new.get(name, _ABSENT), f"{at}.{name}")
            for name in dict.fromkeys((*new, *old))
        )
        return next((found for found in inner if found is not None), None)
    return None if old == new and isinstance(old, bool) == isinstance(new, bool) else (at, old, new)


def _shown(value: Any) -> str:
    return "not set" if value is _ABSENT else short(value)


# -- where it was run ---------------------------------------------------------------------------------------------


def surroundings(base: Path) -> dict[str, Any]:
    """Versions, machine and git revisions (of floatlens where it runs from a clone, and of the study's folder)."""
    return {
        "versions": versions(),
        "machine": _machine(),
        "git": {"floatlens": _revision(Path(floatlens.__file__).parent), "study": _revision(base)},
    }


def changed_versions(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Which versions differ from those of a manifest, in words; empty where none does."""
    old, new = (before or now).get("versions", {}), now["versions"]
    return "; ".join(f"{name} {old.get(name)} before, {new[name]} now" for name in new if old.get(name) != new[name])


def _machine() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"system": platform.platform(), "processor": platform.machine(), "cores": cores(), **_memory(), "gpus": gpus}


def _memory() -> dict[str, float]:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return {}
    return {"memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)}


def _revision(folder: Path) -> str | None:
    """The commit that a folder is at, marked where tracked files were changed since; None outside of git."""
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
