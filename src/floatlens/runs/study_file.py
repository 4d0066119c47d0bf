"""Reads a study from YAML, a mapping or a `Study`. An error names the file, the line, the key and what was expected.

Paths in a file are relative to the folder of that file, so a study can be moved together with its data.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from floatlens.core.borders import check_reference, check_values, read_bounded, shown
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.validation import Problem, key_text, problems
from floatlens.core.yaml_border import MOST_BYTES, check_yaml
from floatlens.data.hub import is_hub
from floatlens.data.sources import is_source
from floatlens.runs.study import Study

__all__ = ["Origin", "Source", "StudyLike", "read_study", "schema"]

StudyLike = Study | Mapping[str, Any] | str | Path
"""A study, a mapping of the same form, or the path of a YAML file."""
_NAMED = re.compile(r"([A-Za-z][\w-]*)=(.+)", re.DOTALL)
_DIGITS = 18
"""Of a whole number in a study: all that count something, and fit into 64 bits."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Origin:
    """Where a study comes from, for messages: a file name with the YAML document, which knows its lines.

    The name is "" for a study that was made by code; then messages name no place.
    """

    name: str = ""
    tree: Any = None

    def error(self, text: str, *key: int | str) -> FloatlensError:
        """An error about a key. Example: `raise origin.error('no model "x"', "models", 0)`"""
        return self.errors([Problem(key, text)])

    def errors(self, found: Iterable[Problem]) -> FloatlensError:
        """One error for several problems, each with its line."""
        return FloatlensError("; ".join(self._located(one) for one in found))

    @contextmanager
    def at(self, *key: int | str) -> Iterator[None]:
        """Errors that are raised inside are about this key."""
        try:
            yield
        except FloatlensError as error:
            raise self.error(str(error), *key) from error

    def _located(self, problem: Problem) -> str:
        if not self.name:
            return problem.text
        line = "" if self.tree is None else f":{_line(self.tree, problem.key)}"
        key = key_text(problem.key)
        return f"{self.name}{line}: {problem.text if key in problem.text else f'{key}: {problem.text}'}"


@dataclass(frozen=True)
class Source:
    """A study, the folder that its paths are relative to, and where it comes from."""

    study: Study
    base: Path
    origin: Origin = Origin()

    def error(self, text: str, *key: int | str) -> FloatlensError:
        return self.origin.error(text, *key)

    def at(self, *key: int | str) -> AbstractContextManager[None]:
        return self.origin.at(*key)

    def path(self, given: str) -> str:
        """A path of the study, relative to the working directory; `${NAME}` in it is an environment variable."""
        given = _filled(given)
        return given if Path(given).expanduser().is_absolute() else str(self.base / given)

    def data_ref(self, ref: str) -> str:
        """A reference of data; a path in it becomes relative to the working directory."""
        ref = _filled(ref)
        if is_source(ref):
            name, _, rest = ref.partition(":")
            return f"{name}:{self.path(rest)}" if Path(self.path(rest)).is_file() else ref
        if is_hub(ref):
            return ref
        named = _NAMED.fullmatch(ref)
        if named is None or Path(self.path(ref)).exists():
            return self.path(ref)
        return f"{named[1]}={self.path(named[2])}"

    def model_ref(self, ref: str) -> str:
        """A reference of a model; a path becomes absolute.

        Records know a model by its reference, which must not depend on the working directory.
        """
        ref = _filled(ref)
        there = any((self.base / ref / name).is_file() for name in ("config.json", "adapter_config.json"))
        looks = ref.startswith(".") or ref.endswith(".gguf") or there
        return str(Path(self.path(ref)).resolve()) if looks and not ref.startswith("~") else ref

    def template(self, given: str) -> str:
        return self.path(given) if given.endswith((".yaml", ".yml")) else given


def _filled(text: str) -> str:
    """A path or reference with the values of the environment variables that it names. A path that comes from outside
    of the file is relative to the working directory."""

    check_reference(text)

    def value(found: re.Match[str]) -> str:
        given = os.environ.get(found[1])
        if not given:
            raise FloatlensError(f"{text}: the environment variable {found[1]} is not set; set it, or write the path")
        path = Path(given).expanduser()
        return str(path.absolute()) if found.start() == 0 and path.exists() else given

    return _VARIABLE.sub(value, text)


def read_study(given: StudyLike) -> Source:
    """Read a study and check its form. Example: `read_study("study.yaml").study.models[0].ref`"""
    if isinstance(given, Study):
        return Source(given, Path())
    if isinstance(given, Mapping):
        return Source(_validated(dict(given), Origin("study")), Path(), Origin("study"))
    path = Path(given)
    try:
        there = path.is_file() or (path.exists() and not path.is_dir())
        text = read_bounded(path, MOST_BYTES).decode("utf-8") if there or path.is_symlink() else None
    except UnicodeDecodeError:
        raise FloatlensError(f"{path}: not a text file in UTF-8; a study is a YAML file") from None
    if text is None:
        raise FloatlensError(f"{shown(path)}: no such file; give a study.yaml (docs/studies.md shows one)")
    origin = Origin(str(path), _parsed(path, text))
    values = _plain(origin.tree)
    check_values(values, str(path), _DIGITS)
    return Source(_validated(values, origin), path.parent, origin)


def schema() -> str:
    """The JSON schema of a study, for editors that check YAML as it is typed."""
    made = Study.model_json_schema()
    for field, *parts in (("models", "StudyModel", "StudySnapshots"), ("data", "StudyData")):
        known = [{"$ref": f"#/$defs/{part}"} for part in parts]
        made["properties"][field]["items"] = {"anyOf": [{"type": "string"}, *known]}  # a bare text is a reference
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=2)


def _parsed(path: Path, text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    check_yaml(text, str(path))
    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except DuplicateKeyError as error:
        twice = re.search(r'found duplicate key "([^"]*)"', str(error.problem))
        name = twice[1] if twice else "a key"
        raise FloatlensError(f"{path}:{_number(error)}: {name} is given twice; give it once") from None
    except MarkedYAMLError as error:
        raise FloatlensError(f"{path}:{_number(error)}: not valid YAML ({error.problem})") from None
    except YAMLError as error:
        raise FloatlensError(f"{path}: not valid YAML ({str(error)[:200]})") from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, AssertionError, RecursionError) as error:
        # what its constructors raise of `!!int abc`, the 45th of the month or a list as a key
        raise FloatlensError(f"{path}: not valid YAML ({str(error)[:200] or type(error).__name__})") from None
    if not isinstance(tree, Mapping):
        raise FloatlensError(f"{path}: a study is a mapping with the keys models and data; docs/studies.md shows one")
    return tree


def _number(error: Any) -> int:
    return int(error.problem_mark.line) + 1 if error.problem_mark is not None else 1


def _plain(node: Any) -> Any:
    """Plain Python values of a YAML document."""
    if isinstance(node, Mapping):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def _validated(values: dict[str, Any], origin: Origin) -> Study:
    try:
        return Study.model_validate(values)
    except FloatlensError as error:  # of the stress settings
        raise origin.error(str(error), "stress") from None
    except ValidationError as error:
        raise origin.errors(_meant(problems(error, Study), values)) from None


def _meant(found: list[Problem], values: Mapping[str, Any]) -> list[Problem]:
    """Without a missing key that a misspelled one was meant to be: `model:` for `models:` is one mistake."""
    unknown = [str(one.key[-1]) for one in found if len(one.key) == 1 and str(one.key[-1]) not in Study.model_fields]
    hints = " ".join(did_you_mean(name, Study.model_fields) for name in unknown)
    return [one for one in found if not (one.key[0] not in values and f'"{one.key[0]}"?' in hints)] or found


def _line(node: Any, key: Iterable[int | str]) -> int:
    """The line of the innermost part of a key that is written in the file."""
    line = int(node.lc.line) + 1
    for part in key:
        places: Any = getattr(node, "lc", None)
        if isinstance(node, Mapping) and part in node and places is not None:
            line, node = int(places.key(part)[0]) + 1, node[part]
        elif isinstance(node, list) and isinstance(part, int) and part < len(node) and places is not None:
            line, node = int(places.item(part)[0]) + 1, node[part]
        else:
            break
    return line
