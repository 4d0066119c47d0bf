"""The parts of `floatlens stress` that `floatlens qa` has not: its settings, its conditions, what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from floatlens.cli.asking import Plan
from floatlens.cli.parsing import parse_names
from floatlens.cli.terminal import clean, console, say
from floatlens.core.errors import FloatlensError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.curves import Curve
    from floatlens.data.stress import StressSettings

__all__ = ["publish", "read_stress"]


def read_stress(test: str, documents: int, places: str | None, change: Sequence[str], seed: int) -> Plan:
    """The tests that were asked for, as conditions."""
    from floatlens.data.stress import STRESS_TESTS, StressSettings, stress_names
    from floatlens.runs.stressing import stress_conditions

    wanted = list(dict.fromkeys(parse_names(test, "--test") or ()))
    known = stress_names()
    for name in wanted:
        if name not in known:
            raise FloatlensError(f'--test: no test "{name}"{did_you_mean(name, known)}')
    values: dict[str, Any] = {"seed": seed, "documents": documents, **_changes(change)}
    if places is not None:
        values.setdefault("position", {})["places"] = places
    settings = StressSettings.model_validate(values)
    conditions = stress_conditions(wanted, settings, say)
    return Plan(conditions, ("answers",), {"stress": settings.used(STRESS_TESTS)})


def _changes(pairs: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        test, dot, name = key.strip().replace("-", "_").partition(".")
        if not equals or not dot:
            raise FloatlensError(f"--change {pair!r}: expected test.setting=value, such as --change order.shuffles=8")
        found.setdefault(test, {})[name] = text
    return found


def publish(out: Path) -> None:
    """Tables and figures of the run, and a summary on the screen."""
    from floatlens.data.stress import STRESS_TESTS, StressSettings, points
    from floatlens.runs.answers import open_answers, publish_stress

    answers, manifest = open_answers(out)
    if answers.empty:
        return
    settings: StressSettings = StressSettings.model_validate(manifest["stress"])
    found, agreed, files = publish_stress(answers, [p for test in STRESS_TESTS for p in points(test, settings)], out)
    console().print(robustness_view(found, agreed))
    drawn = sum(file.parent.name == "figures" for file in files)
    say(f"{drawn} figures in {out / 'figures'}, curves and robustness in {out / 'tables'}")


def robustness_view(found: Sequence[Curve], agreed: pd.DataFrame) -> Table:
    """A row per curve of each data set, a column per model: robustness with its interval, and the curve's ends."""
    models = list(dict.fromkeys(curve.model for curve in found))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column("robustness, and first → last point in %", overflow="fold", min_width=24)
    for model in models:
        table.add_column(Text(clean(model)), no_wrap=True)
    rows = list(dict.fromkeys((curve.data, curve.test, curve.series) for curve in found))
    for data, test, series in rows:
        own = {c.model: c for c in found if (c.data, c.test, c.series) == (data, test, series)}
        name = test if series == test else f"{test}, {series}"
        table.add_row(Text(clean(f"{name} · {data}")), *(_cell(own.get(model)) for model in models))
    for data in dict.fromkeys(agreed["data"]):
        rates = agreed[agreed["data"] == data].set_index("model")["mean"]
        cells = (f"{rates[model]:.1%}" if model in rates else "" for model in models)
        table.add_row(Text(clean(f"same answer in two orders · {data}")), *cells)
    return table


def _cell(curve: Curve | None) -> str:
    if curve is None:
        return "–"
    one, mean = curve.robustness, curve.scores.mean
    if float(one.mean) != float(one.mean):
        return f"not defined ({100 * mean[0]:.0f} → {100 * mean[-1]:.0f})"
    number = f"{float(one.mean):.2f} [{float(one.low):.2f}, {float(one.high):.2f}]"
    return f"{number}\n{100 * mean[0]:.0f} → {100 * mean[-1]:.0f}"
