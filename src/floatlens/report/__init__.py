"""The report of runs as one HTML file, and the explorer that shows attention move. Nothing is measured here.

    from floatlens.report import report, explore
    report(["runs/llada", "runs/qwen"], "report.html")
    explore(trace)                                     # in a notebook

Python collects and packs (`view`, `sections`, `findings`), `render` puts it into a page whose scripts and styles lie in
page/ and which loads nothing. docs/report.md says how the page is made safe, small and readable.
"""

from floatlens.report.build import Made, report
from floatlens.report.notebook import Explorer, explore

__all__ = ["Explorer", "Made", "explore", "report"]
