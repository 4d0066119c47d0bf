"""The streamed attention function, its masks, the capture session, and the base classes of probes and edits."""
