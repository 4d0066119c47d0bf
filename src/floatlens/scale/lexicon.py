"""The words of the scale world: names, values and nothing else. All of them were made up or picked by hand for it.

Every word here is one token of the tokenizer, so that what a model copies is what a reader sees. A value of several
words (an employer, a pet) is written with spaces and takes as many tokens. Order matters: seeds draw from these tuples.
"""

from __future__ import annotations

__all__ = ["FIRST_NAMES", "LAST_NAMES", "PLACES", "VALUES"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(first: str, second: str) -> tuple[str, ...]:
    """Every combination of two words."""
    return tuple(f"{a} {b}" for a in first.split() for b in second.split())


FIRST_NAMES = _words(
    """Ada Agnes Albert Alice Amos Anton Arthur Astrid Basil Bella Boris Bruno Carla Cecil Celia Clara Clement Cora
    Cyril Dagmar Daphne Dora Edgar Edith Edmund Elsa Emil Enid Ernest Esther Eugene Felix Fiona Flora Frida Gerda
    Gilbert Greta Gustav Hanna Harold Hazel Hector Helga Hilda Horace Hugo Ida Igor Ingrid Irma Isaac Ivan Ivy Jasper
    Jonas Josef Judith Julius Karl Katya Klaus Laura Leon Lidia Linus Lorna Lucas Mabel Magda Marcus Martha Maud Milo
    Mira Nadia Nils Nora Olga Oscar Otto Pavel Petra Quentin Ralph Rita Roland Rosa Rufus Ruth Selma Sigrid Silas Sonja
    Stella Sven Thea Tobias Ursula Vera"""
)

LAST_NAMES = _words(
    """Abbott Acker Aldane Ambler Archer Ashby Barlow Barnes Becker Bellamy Bishop Blake Bolton Bradley Brandt Brewer
    Calder Carver Castell Chandler Clay Conrad Cooper Crane Dalton Dawson Decker Drake Draper Dunbar Easton Ellery
    Engel Falk Farrow Fenton Fisher Fletcher Forster Frost Gardner Garland Gibson Granger Grove Hadley Hale Hansen
    Harker Hartman Hayward Holm Hooper Horner Jansen Jarvis Keller Kemp Kessler Kirby Lambert Landon Larkin Lindgren
    Lorenz Marlow Mason Mercer Meyer Milner Moser Norden Oakley Olsen Osgood Palmer Parrish Penrose Porter Quill Ramsey
    Reeve Renner Ritter Rowan Sadler Sawyer Seidel Shaw Sutter Talbot Tanner Thorne Tiller Turner Vogel Walden Weaver
    Winter Yates"""
)

PLACES = _words(
    """Aldmoor Arbeck Balford Belmere Brisk Calden Carrow Corvane Dellby Dunmere Eastwick Elmhurst Farley Fenwick
    Galston Glenrock Harwell Hillmar Inverlea Kelstone Kestrel Lanmoor Larkhill Linden Marbury Midvale Norwell Oakdale
    Orrin Pelham Quarry Ravensby Redcliff Rosewood Saltby Selkirk Stanmore Sunder Tamworth Thornby Upton Valden
    Westmere Wexley Whitby Windhaven Wolden Yarrow"""
)

_BUILDINGS = _words("bridge castle fountain lighthouse temple tower")

VALUES: dict[str, tuple[str, ...]] = {
    "city": PLACES,
    "birthplace": PLACES,
    "profession": _words(
        """actor architect astronomer baker banker barber biologist blacksmith bookbinder botanist brewer butcher
        carpenter chemist clerk clockmaker cobbler dancer dentist diplomat editor engineer farmer florist geologist
        gardener glazier historian jeweller judge librarian locksmith mason mechanic midwife miller miner nurse painter
        pharmacist pilot plumber poet potter printer sculptor surgeon tailor teacher translator"""
    ),
    "employer": _pairs("Amber Bright Crown Eagle Granite Harbor Iron Silver", "Bank Bakery Labs Rail")
    + tuple(
        f"{pair} and Sons" for pair in _pairs("Amber Bright Crown Eagle Granite Harbor Iron Silver", "Mills Press")
    ),
    "instrument": _words(
        """accordion banjo bassoon bugle cello clarinet cornet drums fiddle flute guitar harmonica harp horn lute
        mandolin oboe organ piano sitar trombone trumpet tuba viola"""
    ),
    "pet": _pairs("black brown grey white", "cat dog goat hare parrot pony rabbit tortoise"),
    "region": _words(
        """Ardania Borland Cassia Dorvale Estmark Fennia Gravia Hestia Isteria Jorland Kardia Lothia Marvia Nordia
        Ostrava Pellia Quentia Rhodia Sarnia Tessaly Umbria Vestia Wendia Zelia"""
    ),
    "river": _words(
        """Alse Brann Cray Dessel Eider Frome Garel Hesper Irwell Jura Kenner Lune Mosel Nadder Orwin Parrett Rill
        Severn Tavy Ure Vesle Wharf Yare Zorn"""
    ),
    "landmark": tuple(f"{pair} {what}" for pair in _pairs("great old", "stone marble") for what in _BUILDINGS),
}
"""What an attribute can be. `spouse` is not here: its values are people."""
