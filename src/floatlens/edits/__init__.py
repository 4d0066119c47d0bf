"""Edits: does an answer change when attention is moved? One file per edit (methods §10).

    import floatlens as fl
    with fl.edit(model, fl.edits.DropAnchors(k=5)):
        fl.decode(model, ids, gen_length=16)

`EDITS` holds them by the names used on the command line; other packages add theirs through the entry-point group
"floatlens.edits". The public names are listed in `__init__.pyi` and imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
