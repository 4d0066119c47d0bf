"""Validation errors in one line and in the user's words: `gen_length wants a whole number, got "abc"`.

`validate` is for values that come from a user; `problems` is for callers that add a place, such as a line of a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["Problem", "in_one_line", "key_text", "problems", "short", "validate"]

M = TypeVar("M", bound=BaseModel)

_WANTED = {
    "bool": "true or false",
    "date": "a date",
    "dict": "a mapping",
    "float": "a number",
    "finite_number": "a finite number",
    "frozen_set": "a list",
    "int": "a whole number",
    "iterable": "a list",
    "list": "a list",
    "mapping": "a mapping",
    "model": "a mapping",
    "path": "a path",
    "set": "a list",
    "string": "a text",
    "tuple": "a list",
}
_LIMITS = {
    "greater_than_equal": "at least",
    "greater_than": "more than",
    "less_than_equal": "at most",
    "less_than": "less than",
}
_SILENT = "default_factory_not_called"  # the consequence of another error


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the key as a path, and a sentence that names it."""

    key: tuple[int | str, ...]
    text: str


def validate(kind: type[M], values: Mapping[str, Any], where: str = "") -> M:
    """Make a `kind` from a user's values; everything that is wrong with them is one FloatlensError.

    `where` (a file, an option) starts the message. Example: `validate(DecodingConfig, {"sampler": "ar"}, "--sampler")`
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        said = in_one_line(error, kind)
        raise FloatlensError(f"{where}: {said}" if where else said) from None


def in_one_line(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """All problems of a validation error, separated by semicolons. `kind` is what was to be made."""
    return "; ".join(problem.text for problem in problems(error, kind))


def problems(error: ValidationError, kind: type[BaseModel] | None = None) -> list[Problem]:
    """The first problem of each key; `kind` is what was to be made, for the names that an unknown key could mean."""
    found: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        if detail["type"] != _SILENT:
            found.setdefault(key_text(detail["loc"]), Problem(detail["loc"], _sentence(detail, kind)))
    return list(found.values())


def key_text(key: Iterable[int | str]) -> str:
    """A key path as people write it: `models[0].dtype`."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def short(value: Any, limit: int = 60) -> str:
    """A value as YAML and JSON write it, shortened to `limit` characters."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _sentence(detail: Mapping[str, Any], kind: type[BaseModel] | None) -> str:
    sort, key, context = detail["type"], key_text(detail["loc"]), detail.get("ctx", {})
    got = f"got {short(detail['input'])}"
    if sort == "missing":
        return f"{key} is missing"
    if sort == "extra_forbidden":
        known = None if kind is None else _fields(kind, detail["loc"][:-1])
        return f'no setting "{key}"{did_you_mean(str(detail["loc"][-1]), known) if known else ""}'
    if sort in ("literal_error", "enum"):
        return f"{key} wants {context['expected'].replace(chr(39), chr(34))}, {got}"
    if sort in _LIMITS:
        return f"{key} wants {_LIMITS[sort]} {next(iter(context.values()))}, {got}"
    if sort in ("too_short", "string_too_short"):
        return f"{key} is empty" if not detail["input"] else f"{key} is too short, {got}"
    wanted = _WANTED.get(sort) or _WANTED.get(sort.partition("_")[0])
    if wanted is not None and not isinstance(context.get("error"), Exception):
        return f"{key} wants {wanted}, {got}"
    cause = context.get("error")
    said = (
        str(cause) if isinstance(cause, ValueError | AssertionError) else detail["msg"][:1].lower() + detail["msg"][1:]
    )
    return f"{key}={short(detail['input'])}: {said}" if key else said


def _fields(kind: type[BaseModel], key: Iterable[int | str]) -> list[str]:
    """The keys that exist at a place inside `kind`."""
    for part in key:
        if isinstance(part, str) and part in kind.model_fields:
            kind = _model_in(kind.model_fields[part].annotation) or kind
    return [field.alias or name for name, field in kind.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)
