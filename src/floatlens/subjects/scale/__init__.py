"""Scale models: a made-up world, four small models trained on it by one recipe, and their weights.

`fl.load("scale:llama" | "scale:qwen" | "scale:llada" | "scale:dream")` reads them like any other checkpoint. They make
the demo and the tests real without a download, and a controlled comparison possible: same data, size, tokens and
optimiser; only the mask and the objective differ. What they show is true of them, and need not be true of models a
thousand times larger. The trainer is in the repository, in `lab/floatlens_lab/scale`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
