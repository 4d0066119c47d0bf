"""Probes: one file each, with what it reduces and the trace variables it writes.

`PROBES` holds them by name; other packages add theirs through the entry-point group "floatlens.probes". The public
names are listed in `__init__.pyi` and imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
