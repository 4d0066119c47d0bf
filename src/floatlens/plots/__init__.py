"""Figures: one description for each, drawn by matplotlib and by the page. Nothing here computes, saves or shows.

    from floatlens.plots import plot_drift
    plot_drift(drift(trace)).savefig("drift.svg")

`plot_x` draws what `x` returns, or takes what `x` takes; with `ax=` it draws into given axes. Names are imported when
they are first used (they are listed in __init__.pyi), and matplotlib when the first figure is drawn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
