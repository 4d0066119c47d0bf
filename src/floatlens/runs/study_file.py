"""Reads a study: from YAML, a mapping or a `Study`. What is wrong is one line with file, line, key, and what was meant.

Paths in a file count from the folder of that file, so that a study can be moved together with its data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.sources import is_source
from floatlens.runs.study import Study

__all__ = ["Source", "StudyLike", "read_study", "schema"]

StudyLike = Study | Mapping[str, Any] | str | Path
"""A study, what it is made of, or the file that says so."""
_NAMED = re.compile(r"([A-Za-z][\w-]*)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """A study and where its paths count from. `place` names it in messages."""

    study: Study
    base: Path
    place: str = "study"

    def path(self, given: str) -> str:
        """A path of the study as seen from here."""
        return given if Path(given).expanduser().is_absolute() else str(self.base / given)

    def data_ref(self, ref: str) -> str:
        """The reference of data with its path, if it has one, as seen from here."""
        if is_source(ref):
            return ref
        named = _NAMED.fullmatch(ref)
        if named is None or Path(self.path(ref)).exists():
            return self.path(ref)
        return f"{named[1]}={self.path(named[2])}"

    def model_ref(self, ref: str) -> str:
        """A model's reference; what looks like a path and is there, counted from the study, is one.

        It becomes absolute: a model is known by its reference, which must not depend on where a command was given.
        """
        looks = ref.startswith(".") or ref.endswith(".gguf") or (self.base / ref / "config.json").is_file()
        return str(Path(self.path(ref)).resolve()) if looks and not ref.startswith("~") else ref

    def template(self, given: str) -> str:
        return self.path(given) if given.endswith((".yaml", ".yml")) else given


def read_study(given: StudyLike) -> Source:
    """Read and check the form of a study. Example: `read_study("study.yaml").study.models[0].ref`"""
    if isinstance(given, Study):
        return Source(given, Path())
    if isinstance(given, Mapping):
        return Source(_validated(dict(given), "study", None), Path())
    path = Path(given)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FloatlensError(f"{path}: not a text file in UTF-8; a study is a YAML file") from None
    except (FileNotFoundError, IsADirectoryError):
        raise FloatlensError(f"{path}: no such file; give a study.yaml (docs/studies.md shows one)") from None
    tree, values = _parsed(path, text)
    return Source(_validated(values, str(path), tree), path.parent, str(path))


def schema() -> str:
    """The JSON schema of a study, for editors that check YAML as it is typed."""
    made = Study.model_json_schema()
    for part in ("StudyModel", "StudyData"):  # a bare text stands for the reference alone
        field = "models" if part == "StudyModel" else "data"
        made["properties"][field]["items"] = {"anyOf": [{"type": "string"}, {"$ref": f"#/$defs/{part}"}]}
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=2)


def _parsed(path: Path, text: str) -> tuple[yaml.Node, dict[str, Any]]:
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise FloatlensError(f"{path}{line}: not valid YAML ({error.problem})") from None
    except yaml.YAMLError as error:
        raise FloatlensError(f"{path}: not valid YAML ({error})") from None
    if tree is None or not isinstance(values, dict):
        raise FloatlensError(f"{path}: a study is a mapping with the keys models and data; docs/studies.md shows one")
    _refuse_twins(path, tree)
    return tree, values


def _refuse_twins(path: Path, node: yaml.Node) -> None:
    """YAML takes the last of two equal keys without a word."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise FloatlensError(f"{path}:{line}: {key.value} is given twice, first on line {seen[key.value]}")
            seen[key.value] = key.start_mark.line + 1
            _refuse_twins(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_twins(path, value)


def _validated(values: dict[str, Any], place: str, tree: yaml.Node | None) -> Study:
    try:
        return Study.model_validate(values)
    except FloatlensError as error:  # of the stress settings, which say it themselves
        raise FloatlensError(f"{place}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    where: Sequence[int | str] = first["loc"]
    line = None if tree is None else _line(tree, where)
    at = place if line is None else f"{place}:{line}"
    key = _key(where)
    if first["type"] == "extra_forbidden":
        known = _fields(where[:-1])
        raise FloatlensError(f'{at}: no key "{key}"{did_you_mean(str(where[-1]), known)}')
    if first["type"] == "missing":
        raise FloatlensError(f"{at}: {key} is missing")
    said = first["msg"][:1].lower() + first["msg"][1:]
    raise FloatlensError(f"{at}: {key} is {_short(first['input'])}: {said}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _key(where: Sequence[int | str]) -> str:
    """`models[0].dtype`, as people write it."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "it"


def _fields(where: Sequence[int | str]) -> list[str]:
    """The keys that there are at a place of the study."""
    model: type[BaseModel] = Study
    for part in where:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)


def _line(node: yaml.Node, where: Sequence[int | str]) -> int | None:
    """The line of the innermost part of a key that is written in the file."""
    line = node.start_mark.line + 1
    for part in where:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line
