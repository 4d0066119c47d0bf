"""docs/extending.md followed literally: its files written, its package installed, its commands run in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from shared.pages import ROOT, blocks

PAGE = ROOT / "docs" / "extending.md"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files, and an environment that sees this one's packages besides its own."""
    folder = tmp_path_factory.mktemp("extending")
    for block in blocks(PAGE):
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    venv.create(folder / ".venv")
    site = next((folder / ".venv" / "lib").glob("python*/site-packages"))
    (site / "parent.pth").write_text(f"{ROOT / 'src'}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    for name, module in (("floatlens", "floatlens"), ("pip", "pip")):
        script = folder / ".venv" / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{folder}/.venv/bin/python" -m {module} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return folder


def _run(folder: Path, script: str) -> str:
    env = os.environ | {"PATH": f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}", "MPLBACKEND": "Agg"}
    env |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.pop("PYTHONPATH", None)
    done = subprocess.run(["bash", "-eu", "-c", script], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_page_works_from_install_to_report(folder: Path) -> None:
    for block in blocks(PAGE):
        if block.language == "bash" and not block.skipped:
            _run(folder, block.text)
    tables = folder / "runs"
    assert "hide_first" in (tables / "hide" / "tables" / "effects.csv").read_text(encoding="utf-8")
    assert "repeat" in (tables / "repeat" / "tables" / "curves.csv").read_text(encoding="utf-8")
    assert (tables / "sharp" / "tables" / "sharpness.csv").is_file()
    assert (tables / "sharp" / "figures" / "sharpness.png").is_file()
    assert "deep-sharper" in (tables / "sharp" / "tables" / "claims.csv").read_text(encoding="utf-8")
    for name in ("hide", "repeat", "faq", "sharp", "left", "tinylm"):
        assert (tables / name / "report.html").is_file(), name
    assert "Length of answers" in (tables / "faq" / "report.html").read_text(encoding="utf-8")
    report = (tables / "sharp" / "report.html").read_text(encoding="utf-8")
    assert "how sharp is attention?" in report
    assert "deep layers attend more sharply" in report


def test_python_of_this_process_is_untouched() -> None:
    """The package was installed into the environment of the folder, not into this one."""
    found = subprocess.run([sys.executable, "-c", "import mylens"], capture_output=True)
    assert found.returncode != 0
