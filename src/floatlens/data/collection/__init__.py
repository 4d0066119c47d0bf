"""Collections of documents that change: dated versions, retrieval as of a date, and what is right at that date.

collection = open_collection("corpus.jsonl")
index = DatedIndex(collection)
index.move_to("2022-06")
index.search("Who keeps the lighthouse?", 5)
"""

from floatlens.data.collection.index import DatedIndex, LiveBm25
from floatlens.data.collection.versions import DatedCollection, Version, open_collection
from floatlens.data.collection.view import View, view_at

__all__ = ["DatedCollection", "DatedIndex", "LiveBm25", "Version", "View", "open_collection", "view_at"]
