"""Where and with what a study was run, for its manifest: machine, versions, and the revisions of the sources."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import floatlens
from floatlens.runs.workers import cores
from floatlens.traces.tracing import versions

__all__ = ["changed_versions", "surroundings"]


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
