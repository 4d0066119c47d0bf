"""Models of every family behind one interface: `load` a checkpoint, get a `LanguageModel`.

Weights go into transformers' own classes, never through code of a checkpoint. torch and transformers are
imported when something is loaded, not when this package is, so listing families is fast.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
