"""Validation errors in one line and in the user's words: `gen_length wants a whole number, got "abc"`.

`validate` is for values that come from a user; `problems` is for callers that add a place, such as a line of a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, TypeGuard, TypeVar, Union, get_args, get_origin

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
    found: dict[tuple[int | str, ...], Problem] = {}
    for detail in error.errors(include_url=False):
        if detail["type"] != _SILENT:
            key, known = (detail["loc"], []) if kind is None else _resolved(kind, detail["loc"])
            found.setdefault(key, Problem(key, _sentence(detail, key, known)))
    # Of a union that failed, what is wrong inside one member says more than that it is not another.
    outer = {key[:length] for key in found for length in range(len(key))}
    return [problem for key, problem in found.items() if not key or key not in outer]


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


def _sentence(detail: Mapping[str, Any], path: tuple[int | str, ...], known: list[str]) -> str:
    sort, key, context = detail["type"], key_text(path), detail.get("ctx", {})
    got = f"got {short(detail['input'])}"
    if sort == "missing":
        return f"{key} is missing"
    if sort == "extra_forbidden":
        return f'no key "{key}"{did_you_mean(str(path[-1]), known) if known else ""}'
    if sort in ("literal_error", "enum"):
        return f"{key} wants {context['expected'].replace(chr(39), chr(34))}, {got}"
    if sort in _LIMITS:
        limit = next(iter(context.values()))
        return f"{key} wants {_LIMITS[sort]} {limit if isinstance(limit, int) else f'{limit:g}'}, {got}"
    if sort in ("too_short", "string_too_short") and not detail["input"]:
        return f"{key} is empty"
    cause = context.get("error")
    if isinstance(cause, ValueError | AssertionError):
        return f"{key}={short(detail['input'])}: {cause}" if key else str(cause)
    wanted = _WANTED.get(sort) or _WANTED.get(sort.partition("_")[0])
    if wanted is not None:
        return f"{key} wants {wanted}, {got}"
    return f"{key}={short(detail['input'])}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _resolved(kind: type[BaseModel], loc: Iterable[int | str]) -> tuple[tuple[int | str, ...], list[str]]:
    """The key that a user wrote, without pydantic's names for the members of a union, and the keys known there."""
    key: list[int | str] = []
    model: type[BaseModel] = kind
    here: Any = kind
    for part in loc:
        members = _members(here)
        if len(members) > 1:  # this part says which member was tried
            here = next((one for one in members if getattr(one, "__name__", "") == part), members[0])
            model = here if _is_model(here) else model
            continue
        key.append(part)
        here = members[0] if members else None
        if _is_model(here):
            model = here
            field = here.model_fields.get(str(part))
            here = None if field is None else field.annotation
        else:
            inner = get_args(here)
            here = inner[-1 if isinstance(part, str) else 0] if inner else None
    return tuple(key), [field.alias or name for name, field in model.model_fields.items()]


def _members(annotation: Any) -> list[Any]:
    """The alternatives of an annotation, without None and without what Annotated adds."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return [one for each in get_args(annotation) if each is not type(None) for one in _members(each)]
    return [annotation]


def _is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
