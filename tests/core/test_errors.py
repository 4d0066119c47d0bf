from __future__ import annotations

from floatlens.core.errors import FloatlensError, did_you_mean


def test_an_error_is_one_line_whatever_it_was_given() -> None:
    assert str(FloatlensError("a\n  b\tc ")) == "a b c"


def test_a_close_name_is_suggested_and_otherwise_all_are_listed() -> None:
    assert did_you_mean("draem", ["llada", "dream"]) == '; did you mean "dream"?'
    assert did_you_mean("zzz", ["llada", "dream"]) == "; known: dream, llada"
