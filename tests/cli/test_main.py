"""The entry: exit codes, one line per error, nothing heavy before it is needed, and text that stays text."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from floatlens import FloatlensError, FloatlensWarning

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Let `floatlens models` raise this."""

    def set_up(error: BaseException) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr("floatlens.models.compatibility.families", fail)

    return set_up


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from floatlens.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'torch', 'transformers', 'numpy', 'xarray', 'zarr', 'yaml'} & set(sys.modules);"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    for arguments in (["--help"], ["trace", "--help"], ["intervene", "--help"], ["--version"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "floatlens", "--version"], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout == "floatlens 0.1.0\n"


def test_help_names_the_commands(floatlens: Run) -> None:
    code, out, _ = floatlens("--help")
    assert code == 0
    assert all(name in out for name in ("trace", "show", "models", "--debug", "--install-completion"))
    panels = [out.index(f"─ {name} ─") for name in ("Studies", "Results", "Models", "Development")]
    assert panels == sorted(panels)


@pytest.mark.parametrize("command", [(), ("scale",), ("trace",), ("scale", "train"), ("report",)])
def test_help_names_no_types_of_flags_and_breaks_no_paragraphs(
    floatlens: Run, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = floatlens(*command, "-h")
    assert (code, out) == (0, floatlens(*command, "--help")[1])
    assert "<bool>" not in out
    assert "list[" not in out
    assert max(map(len, out.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "1000")
    wide = floatlens(*command, "-h")[1]
    described = wide.partition("─ ")[0].strip().splitlines()[2:]
    paragraphs = [line for line in described if line.strip("╭ ")]
    assert all(line.rstrip().endswith(".") for line in paragraphs)


def test_each_command_is_one_line_at_80_columns(floatlens: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for line in floatlens("--help")[1].partition("─ Studies ─")[2].splitlines()[1:]:
        if line.startswith("│"):
            assert line[2] != " ", line
            assert line.rstrip("│ ").endswith("."), line


def test_the_version(floatlens: Run) -> None:
    assert floatlens("-V") == floatlens("--version") == (0, "floatlens 0.1.0\n", "")


def test_completion_for_shells() -> None:
    asked = {"_FLOATLENS_COMPLETE": "complete_bash", "COMP_WORDS": "floatlens cl", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from floatlens.cli import main; main([])"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked},
    )
    assert done.stdout.split() == ["claims"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["trac"], "floatlens: No such command 'trac'. Did you mean 'trace'?; see floatlens --help\n"),
        (["show"], "floatlens: Missing argument 'TRACE'; see floatlens show --help\n"),
        (["models", "--famly", "x"], "No such option: --famly"),
        (["trace", "m", "--out", "x", "--question", "q", "--heads", "some"], "'some' is not one of 'all', 'mean'"),
    ],
)
def test_a_wrong_call_is_one_line(floatlens: Run, arguments: list[str], line: str) -> None:
    code, out, err = floatlens(*arguments)
    assert (code, out) == (2, "")
    assert line in err
    assert err.startswith("floatlens: ")
    assert err.count("\n") == 1


def test_a_user_error_is_printed_as_it_is(floatlens: Run, failing: Callable[[BaseException], None]) -> None:
    failing(FloatlensError("a.jsonl:3: [red]no[/red] \x1b[31mcolour\x1b[0m\u202e here"))
    assert floatlens("models") == (2, "", "floatlens: a.jsonl:3: [red]no[/red] [31mcolour[0m here\n")


def test_anything_else_is_a_bug(floatlens: Run, failing: Callable[[BaseException], None]) -> None:
    failing(KeyError("x"))
    code, out, err = floatlens("models")
    assert (code, out) == (70, "")
    assert err == "floatlens: this is a bug: KeyError: 'x'; run it again with --debug and report what it shows\n"


@pytest.mark.parametrize("error", [FloatlensError("wrong"), KeyError("x"), OSError("disk")])
@pytest.mark.parametrize("arguments", [("--debug", "models"), ("models", "--debug")])
def test_debug_shows_tracebacks(
    floatlens: Run, failing: Callable[[BaseException], None], error: Exception, arguments: tuple[str, ...]
) -> None:
    failing(error)
    with pytest.raises(type(error)):
        floatlens(*arguments)


def test_trouble_with_a_file_is_no_bug(floatlens: Run, failing: Callable[[BaseException], None]) -> None:
    failing(PermissionError(13, "Permission denied", "/data/x"))
    assert floatlens("models") == (2, "", "floatlens: /data/x: Permission denied\n")


def test_ctrl_c(floatlens: Run, failing: Callable[[BaseException], None]) -> None:
    failing(KeyboardInterrupt())
    assert floatlens("models") == (130, "", "")
    failing(EOFError("cut"))
    code, _, err = floatlens("models")
    assert code == 70
    assert "this is a bug: EOFError: cut" in err


def test_warnings_are_one_line_each_and_those_of_libraries_need_debug(
    floatlens: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn() -> tuple[()]:
        for _ in range(2):
            warnings.warn("two\nlines", FloatlensWarning, stacklevel=1)
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
        return ()

    monkeypatch.setattr("floatlens.models.compatibility.families", warn)

    def library(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        sys.stderr.write(f"{category.__name__}: {message}")

    monkeypatch.setattr(warnings, "showwarning", library)
    code, _, err = floatlens("models")
    assert (code, err) == (0, "floatlens: warning: two lines\n" * 2)
    assert "DeprecationWarning: old thing" in floatlens("--debug", "models")[2]
    assert warnings.showwarning is library


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = f"{sys.executable} -m floatlens models | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1)  # 0 if all was written before the reader went
    assert done.stderr == ""


def test_a_character_the_terminal_lacks_is_replaced() -> None:
    code = "import sys; from floatlens.cli.terminal import *; forgiving_streams(); say('→ ok')"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == "floatlens: ? ok\n"
