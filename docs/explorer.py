"""Makes the pictures of the report and the explorer for README and docs, with Playwright and Debian's chromium.

    .venv/bin/python docs/explorer.py animate runs/gallery/gold4
    .venv/bin/python docs/explorer.py pictures runs/demo/report.html

`animate` plays the explorer over the traces of runs and writes docs/explorer.webp (or a .gif, or the last frame as
.png, by the ending of --out). `pictures` takes the sections of a report, in the light and in the dark, on a desk and on
a phone, to docs/report. `make browser` installs what they need.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from floatlens.analysis import ANALYSES
from floatlens.report import explore

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
TIMES = {"first": 1600, "step": 900, "last": 2600}
"""Duration of frames in milliseconds."""
LARGEST = 290_000
"""Bytes of a picture of a section in full colour."""
SECTIONS = ("numbers", "claims", "explore", *ANALYSES, "qa", "stress", "edits", "patching", "manifest")


@contextmanager
def page_of(path: Path, fragment: str = "", **context: Any) -> Iterator[Any]:
    """A page in a browser, ready for input."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("FLOATLENS_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium; make browser installs it")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_context(**context).new_page()
        page.goto(path.resolve().as_uri() + fragment)
        page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
        yield page
        browser.close()


def picture(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content)).convert("RGB")


def animate(runs: list[Path], out: Path, view: str, width: int, height: int) -> None:
    """The explorer step by step."""
    with tempfile.TemporaryDirectory() as folder:
        path = explore(runs, examples=6).save(Path(folder) / "explorer.html")
        size = {"width": width, "height": height}
        with page_of(path, f"#explore:{view}", viewport=size, reduced_motion="reduce") as page:
            # Show the controls, the answer and the maps; the docs explain them.
            page.evaluate(
                "() => { for (const one of document.querySelectorAll('.explain, .keys')) one.hidden = true; }"
            )
            page.evaluate("() => scrollTo(0, 0)")
            frames = [page.screenshot()]
            for _ in range(int(page.locator("#x-step").get_attribute("max"))):
                page.locator("#x-next").click()
                page.mouse.move(5, 5)
                frames.append(page.screenshot())
    times = [TIMES["first"], *[TIMES["step"]] * (len(frames) - 2), TIMES["last"]][: len(frames)]
    first, *rest = [picture(frame) for frame in frames]
    if out.suffix == ".png":
        (rest or [first])[-1].save(out, optimize=True)
    elif out.suffix == ".gif":
        first.save(out, save_all=True, append_images=rest, duration=times, loop=0, optimize=True)
    else:
        first.save(out, save_all=True, append_images=rest, duration=times, loop=0, quality=88, method=4)
    sys.stderr.write(f"{out}: {len(frames)} frames, {out.stat().st_size / 1e3:.0f} kB\n")


def pictures(report: Path, out: Path, view: str) -> None:
    """Sections of a report; the explorer also in the dark and on a phone."""
    out.mkdir(parents=True, exist_ok=True)
    desk = {"width": 1240, "height": 900}
    with page_of(report, f"#explore:{view}", viewport=desk, reduced_motion="reduce") as page:
        _settle(page)
        for name in SECTIONS:
            _take(page, f"#{name}", out / f"{name}.png")
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        _take(page, "#explore", out / "explore-dark.png")
    alone = "&".join(part for part in view.split("&") if not part.startswith("b="))
    phone = {"width": 390, "height": 844}
    with page_of(report, f"#explore:{alone}", viewport=phone, reduced_motion="reduce") as page:
        _settle(page)
        _take(page, "#explore", out / "explore-phone.png")


def _settle(page: Any) -> None:
    """Every figure drawn, and nothing that sticks to the window in the way."""
    drawn = "() => [...document.querySelectorAll('.chart')].every(one => one.dataset.drawn)"
    page.wait_for_function(drawn, timeout=240_000)
    page.evaluate(
        "() => { for (const one of document.querySelectorAll('.top, .transport')) one.style.position = 'static'; }"
    )


def _take(page: Any, selector: str, path: Path) -> None:
    found = page.locator(selector)
    if found.count() and found.is_visible():
        shot = picture(found.screenshot())
        shot.save(path, optimize=True)
        if path.stat().st_size > LARGEST:  # an octree keeps small patches of colour, which median cut loses
            shot.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)
        sys.stderr.write(f"{path}: {path.stat().st_size / 1e3:.0f} kB\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("animate", "pictures"))
    parser.add_argument("source", nargs="+", type=Path, help="runs of traces to animate, or one report to picture")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--view", help="as in the address of the explorer")
    parser.add_argument("--size", default="1240x720", help="of the animation")
    given = parser.parse_args()
    if given.what == "animate":
        width, height = map(int, given.size.split("x"))
        view = given.view or "e=0&a=2&b=0&l=mean&g=all&s=0"
        animate(given.source, given.out or HERE / "explorer.webp", view, width, height)
    else:
        pictures(given.source[0], given.out or HERE / "report", given.view or "e=0&a=2&b=0&l=mean&g=all&s=3")


if __name__ == "__main__":
    main()
