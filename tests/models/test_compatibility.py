"""The compatibility table: its rows are the families' own, and docs/models.md shows the same."""

from __future__ import annotations

from pathlib import Path

from floatlens.models.compatibility import Compatible, compatibility, markdown
from floatlens.models.plan import VERIFIED, Family
from floatlens.models.registry import FAMILIES, families

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_page_shows_the_table():
    assert markdown(compatibility()) in PAGE.read_text(encoding="utf-8"), (
        "docs/models.md differs; replace its table by the output of "
        "python -c 'from floatlens.models.compatibility import *; print(markdown(compatibility()))'"
    )


def test_the_page_explains_each_verification():
    text = PAGE.read_text(encoding="utf-8")
    for name, meaning in VERIFIED.items():
        assert f"**{name}**" in text
        assert meaning in " ".join(text.split())


def test_every_family_has_a_row_and_names_its_checkpoints():
    rows = compatibility()
    assert {row.family for row in rows} == {family.name for family in families()} | {"adapted"}
    assert all(family.published for family in families())
    assert {row.verified for row in rows} <= set(VERIFIED)


def test_samplers_of_the_table_exist():
    from floatlens.decoding import SAMPLERS

    assert {row.sampler for row in compatibility()} <= set(SAMPLERS)


def test_a_family_of_another_package_appears_as_experimental():
    other = Family("tinylm", "arm", shift=True, about="an | example", claims=lambda _: False, plan=lambda _: None)
    FAMILIES.add("tinylm", other)
    try:
        found = [row for row in compatibility() if row.family == "tinylm"]
    finally:
        FAMILIES.remove("tinylm")
    assert found == [Compatible("tinylm", "an | example", "causal", True, "ar", "experimental")]
    assert r"an \| example" in markdown(found)
