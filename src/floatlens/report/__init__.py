"""The report of runs as one HTML file, and the explorer that shows attention move. Nothing is measured here.

    from floatlens.report import Inputs, explore, report
    report(Inputs(results=results, claims=claims(results)), "report.html")
    explore(trace)                                     # in a notebook

`floatlens.runs.reporting` collects the inputs from run folders. Python arranges and packs what it is given; `render`
puts it into a page whose scripts and styles are in page/ and which loads nothing. docs/report.md says how the page is
made safe, small and readable.
"""

from floatlens.report.build import Made, report
from floatlens.report.explorer import Explorer, explore
from floatlens.report.inputs import Inputs, RunAnswers

__all__ = ["Explorer", "Inputs", "Made", "RunAnswers", "explore", "report"]
