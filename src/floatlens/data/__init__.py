"""Question answering: data in the formats it comes in, retrieval, and the scores of an answer.

It reads data and checks it where it enters. It builds no prompts and runs no models.
"""

from floatlens.data.examples import Example, read_examples
from floatlens.data.gold import mark_gold
from floatlens.data.retrieval import Index, open_index, retrieve
from floatlens.data.sets import paper_table, set_named
from floatlens.data.sources import Data, open_data

__all__ = [
    "Data",
    "Example",
    "Index",
    "mark_gold",
    "open_data",
    "open_index",
    "paper_table",
    "read_examples",
    "retrieve",
    "set_named",
]
