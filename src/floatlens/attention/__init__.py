"""The streamed attention function: blocks of exact rows, masks, the capture session and its recorder.

Probes reduce what it computes (`floatlens.probes`), edits change it (`floatlens.edits`). Nothing here analyses.
"""
