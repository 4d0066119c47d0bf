"""Training curves: a line per run in the colour of its model, in both panels."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_hex

from floatlens.plots import plot_training


def test_training_curves() -> None:
    log = [
        {"tokens": 1e6 * (i + 1), "answer_loss": 3.0 - i, "accuracy": i / 4, "stage": "words" if i < 2 else "documents"}
        for i in range(3)
    ]
    figure = plot_training({"llada": log, "qwen": log})
    loss, accuracy = figure.axes
    for axes, expected in ((loss, [3.0, 2.0, 1.0]), (accuracy, [0, 25, 50])):
        lines = {line.get_label(): line for line in axes.lines if len(line.get_xdata()) == 3}
        assert set(lines) == {"llada", "qwen"}
        assert np.allclose(lines["llada"].get_ydata(), expected)
        assert to_hex(lines["llada"].get_color()) == "#d55e00"
    assert [text.get_text() for text in loss.texts] == ["words", "documents"]
