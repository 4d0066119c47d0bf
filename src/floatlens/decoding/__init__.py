"""Decoding: samplers as generators of `Step` events, the same for every family. Attention is not looked at here.

`SAMPLERS` holds the samplers by name; other packages add theirs through the entry-point group "floatlens.samplers".
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
