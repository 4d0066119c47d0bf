"""A registry imports lazily, takes entry points of installed packages, and refuses in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.core.registry import Registry, UnknownNameError

GROUP = "floatlens.tested_things"
BUILTIN = {"path": "pathlib:Path", "joiner": "posixpath:join"}


def install(folder: Path, name: str, points: dict[str, str], source: str = "") -> None:
    """What pip leaves of a package: a module and a dist-info folder with entry points."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def made() -> Registry[object]:
    return Registry("thing", GROUP, BUILTIN)


def test_built_in_entries_are_imported_when_first_used() -> None:
    things: Registry[object] = Registry("thing", GROUP, {**BUILTIN, "absent": "no_such_module_at_all:Thing"})
    assert list(things) == ["path", "joiner", "absent"]
    assert things["path"] is Path
    with pytest.raises(ModuleNotFoundError):  # ours: a bug, not a message
        things["absent"]


def test_entries_of_other_packages_come_after_ours(site: Path) -> None:
    install(
        site, "tested_plugin", {"zeta": "tested_plugin:Z", "alpha": "tested_plugin:A"}, "class A: pass\nclass Z: pass\n"
    )
    things = made()
    assert list(things) == ["path", "joiner", "alpha", "zeta"]
    assert len(things) == 4
    assert "zeta" in things
    assert "tested_plugin" not in sys.modules
    assert things["zeta"].__name__ == "Z"  # type: ignore[attr-defined]


def test_a_name_that_is_taken_is_refused_with_the_package(site: Path) -> None:
    install(site, "tested_clash", {"path": "tested_clash:P"}, "class P: pass\n")
    with pytest.raises(FloatlensError, match='package tested_clash adds a thing "path", and that name is taken'):
        list(made())


def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "tested_first", {"same": "tested_first:P"}, "class P: pass\n")
    install(site, "tested_second", {"same": "tested_second:P"}, "class P: pass\n")
    with pytest.raises(FloatlensError, match='adds a thing "same", and that name is taken'):
        list(made())


@pytest.mark.parametrize(
    ("source", "said"), [("raise RuntimeError('no\\nluck')\n", "RuntimeError: no luck"), ("", "AttributeError")]
)
def test_a_broken_plug_in_is_one_line_that_names_it(site: Path, source: str, said: str) -> None:
    name = f"tested_broken{len(source)}"
    install(site, name, {"broken": f"{name}:Thing"}, source)
    things = made()
    assert things["path"] is Path  # the others still work
    with pytest.raises(FloatlensError) as caught:
        things["broken"]
    message = str(caught.value)
    assert message.startswith(f'the thing "broken" of the package {name} ({name}:Thing) cannot be imported: {said}')
    assert "\n" not in message
    things.check_foreign(object, ["path", "other"])  # neither is of that package
    with pytest.raises(FloatlensError, match=f'the thing "broken" of the package {name} .* cannot be imported'):
        things.check_foreign(object)


def test_an_entry_of_another_type_is_refused_when_it_is_checked(site: Path) -> None:
    install(site, "tested_typed", {"three": "tested_typed:N"}, "N = 3\n")
    made().check_foreign(int)
    line = r'^the thing "three" of the package tested_typed \(tested_typed:N\) has the type int; it must be a str'
    with pytest.raises(FloatlensError, match=line):
        made().check_foreign(str)


def test_an_unknown_name_suggests_a_close_one() -> None:
    things = made()
    with pytest.raises(UnknownNameError, match=r'^no thing "jioner"; did you mean "joiner"\?$'):
        things["jioner"]
    assert things.get("nothing") is None  # a Mapping, so .get works


def test_entries_can_be_added_and_removed_but_not_replaced() -> None:
    things = made()
    things.add("mine", 3)
    assert things["mine"] == 3
    assert list(things)[-1] == "mine"
    with pytest.raises(ValueError, match='the thing "path" exists already'):
        things.add("path", 4)
    things.remove("mine")
    assert "mine" not in things
