"""Question answering data: formats and readers, retrieval, gold documents, and stress tests.

Data is checked where it enters. Nothing here builds prompts or runs models.
"""

from floatlens.data.examples import Example, mark_gold
from floatlens.data.formats import FORMATS
from floatlens.data.reader import read_examples
from floatlens.data.retrieval import Index, open_index, retrieve
from floatlens.data.sources import QUESTION_SOURCES, SETS, Data, open_data

__all__ = [
    "FORMATS",
    "QUESTION_SOURCES",
    "SETS",
    "Data",
    "Example",
    "Index",
    "mark_gold",
    "open_data",
    "open_index",
    "read_examples",
    "retrieve",
]
