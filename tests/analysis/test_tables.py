"""Tables of texts: text from data stays text in every format."""

from __future__ import annotations

import csv
import io

from floatlens.analysis.tables import Table


def test_hostile_names_stay_text() -> None:
    name = "=cmd|<b>\\input{x}_&%$#~^[a](b)"
    table = Table((("", 1), ("A | B_%", 2)), ("model", "Acc", "F1"), ((name, "1.0", "0.5"),), "A caption of 5 %.")
    line = next(line for line in table.to_markdown().splitlines() if "cmd" in line)
    assert r"\|" in line
    assert r"\<b\>" in line
    assert r"\[a\](b)" in line
    read = list(csv.reader(io.StringIO(table.to_csv())))
    assert read[1][0] == f"'{name}"
    assert read[0][1] == "A | B_% Acc"
    tex = table.to_latex()
    assert r"\textbackslash{}input\{x\}\_\&\%\$\#\textasciitilde{}\^{}" in tex
    assert r"\multicolumn{2}{c}{A | B\_\%}" in tex
    assert r"A caption of 5 \%." in tex
