"""Which edits share a panel, in figures and in the report: a variant that comes in several doses has one to itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Doses", "dose_panels", "is_curve"]

Doses = dict[str, str]
"""Every edit of a panel ("name settings"), and what its tick says."""

_CURVE = 3
"""So many doses of one variant are a curve."""
_DOSE = re.compile(r"\w+=-?\d+(\.\d+)?")


def dose_panels(rows: pd.DataFrame) -> dict[str, Doses]:
    """What stands in each panel, by its title. `rows` have columns "edit" and "settings".

    A variant of an edit (`pin_anchors to=bos`) that has three doses or more has a panel; what is left of an edit shares
    one.
    """
    variants: dict[tuple[str, str], list[str]] = {}
    for edit, settings in dict.fromkeys(zip(rows["edit"], rows["settings"], strict=True)):
        fixed = " ".join(part for part in settings.split() if not _DOSE.fullmatch(part))
        variants.setdefault((edit, fixed), []).append(settings)
    found: dict[str, Doses] = {}
    for (edit, fixed), doses in variants.items():
        alone = len(doses) >= _CURVE or all(other == fixed for name, other in variants if name == edit)
        panel = found.setdefault(f"{edit} {fixed}".strip() if alone else edit, {})
        for settings in doses:
            shown = [part for part in settings.split() if not alone or _DOSE.fullmatch(part)]
            panel[f"{edit} {settings}"] = _shown(shown)
    return found


def is_curve(doses: Doses) -> bool:
    """Whether doses are enough of one kind to be joined by a line."""
    return len(doses) >= _CURVE and all(_DOSE.fullmatch(shown) for shown in doses.values())


def _shown(settings: list[str]) -> str:
    """Settings on lines of their own: long lists of heads by their number, modes without that word."""
    parts = [f"{part.count('.')} heads" if part.startswith("heads=") else part for part in settings]
    return "\n".join(part.removeprefix("mode=") for part in parts) or "on"
