"""floatlens: how attention moves while a language model writes.

    import floatlens as fl
    model = fl.load("GSAI-ML/LLaDA-8B-Instruct")
    trace = fl.trace(model, question="Who built it?", documents=["Ann built it.", "It rained."], gold=0)
    fl.drift(trace)                            # a result with a table as its repr
    fl.plot_drift(fl.drift(trace))             # plot_x draws what x returns

The public names are listed in `__init__.pyi`. Each is imported when it is first used, so `import floatlens` and the
command line start without torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
