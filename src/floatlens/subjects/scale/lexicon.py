"""The words of the scale world: names, values and nothing else. All of them were made up or picked by hand for it.

Every word here is one token of the tokenizer, so what a model copies is what a reader sees. A value of several
words (an employer, a pet) is written with spaces and takes as many tokens. Order matters: seeds draw from these tuples.
"""

from __future__ import annotations

__all__ = ["FILLERS", "FIRST_NAMES", "LAST_NAMES", "PLACES", "VALUES"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(first: str, second: str) -> tuple[str, ...]:
    """Every combination of two words."""
    return tuple(f"{a} {b}" for a in first.split() for b in second.split())


FIRST_NAMES = _words(
    """Ada Albert Bella Boris Clara Cyril Dora Edgar Elsa Felix Flora Greta Hugo Ida Ivan Jasper Judith Karl Laura Linus
    Martha Milo Nadia Nils Olga Otto Petra Rufus Selma Silas Thea Viktor"""
)

LAST_NAMES = _words(
    """Abbott Archer Barlow Becker Calder Carver Dalton Drake Easton Falk Fletcher Frost Gardner Hale Harker Jansen
    Keller Lambert Marlow Mercer Norden Oakley Palmer Quill Ramsey Sawyer Talbot Thorne Vogel Weaver Winter Yates"""
)

PLACES = _words(
    """Aldmoor Balford Calden Corvane Dunmere Elmhurst Fenwick Galston Harwell Inverlea Kelstone Larkhill Marbury
    Norwell Orrin Pelham Ravensby Saltby Tamworth Upton Valden Westmere Yarrow Zeeland"""
)

_FIRMS = "Amber Crown Eagle Harbor"
_BUILDINGS = _words("bridge castle tower")

VALUES: dict[str, tuple[str, ...]] = {
    "city": PLACES,
    "birthplace": PLACES,
    "profession": _words(
        """actor baker botanist carpenter chemist clerk dancer dentist editor farmer gardener historian jeweller
        librarian miner nurse painter pilot poet potter sculptor surgeon tailor translator"""
    ),
    "employer": _pairs(_FIRMS, "Bank Labs") + tuple(f"{pair} and Sons" for pair in _pairs(_FIRMS, "Mills Press")),
    "instrument": _words(
        """banjo bassoon cello clarinet drums fiddle flute guitar harp horn lute oboe organ piano trumpet viola"""
    ),
    "pet": _pairs("black brown grey white", "cat dog parrot tortoise"),
    "region": _words("Ardania Borland Cassia Dorvale Estmark Fennia Gravia Hestia Jorland Kardia Lothia Marvia"),
    "river": _words("Brann Cray Dessel Eider Frome Garel Hesper Lune Mosel Nadder Severn Tavy"),
    "landmark": tuple(f"{pair} {what}" for pair in _pairs("great old", "stone marble") for what in _BUILDINGS),
}
"""What an attribute can be. `spouse` is not here: its values are people."""

FILLERS = _words("is was has in at the a to of by as for on where lives works plays keeps")
"""Words of the sentences, for lines that only mean to keep a name and its value apart."""
