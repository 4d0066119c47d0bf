"""Texts given on the command line as values: comma-separated names and numbers, key=value settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from floatlens.core.errors import FloatlensError

__all__ = ["parse_names", "parse_numbers", "parse_settings"]


def parse_names(text: str | None, option: str) -> tuple[str, ...] | None:
    """Names from a comma-separated list, without repetitions; None where nothing is given."""
    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise FloatlensError(f"{option} {text!r}: expected comma-separated names")
    return tuple(dict.fromkeys(names))


def parse_numbers(text: str | None, option: str, example: str) -> tuple[int, ...] | None:
    """Whole numbers from a comma-separated list; None where nothing is given."""
    names = parse_names(text, option)
    if names is None:
        return None
    try:
        return tuple(int(name) for name in names)
    except ValueError:
        raise FloatlensError(f"{option} {text!r}: expected comma-separated numbers, such as {example}") from None


def parse_settings(pairs: Sequence[str], seed: int | None = None) -> dict[str, Any]:
    """Sampler settings from `key=value` texts, values read as YAML scalars: 8, 0.5, true, random."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise FloatlensError(f"--set {pair!r}: expected key=value, such as --set gen_length=32")
        if key in settings:
            raise FloatlensError(f"--set {key} is given twice; give it once")
        settings[key] = _scalar(text, f"--set {pair!r}")
    if seed is not None:
        if "seed" in settings:
            raise FloatlensError("the seed is given twice, by --seed and by --set seed; give it once")
        settings["seed"] = seed
    return settings


def _scalar(text: str, where: str) -> Any:
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise FloatlensError(f"{where}: {text!r} cannot be read as a value") from None
    if isinstance(value, list | dict):
        raise FloatlensError(f"{where}: expected a single value")
    return value
