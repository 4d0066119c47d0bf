"""How the scale models were made: recipe, training rows, objectives, trainer, evaluation and model cards.

The world, its questions and the trained weights are in `floatlens.subjects.scale`.
"""
