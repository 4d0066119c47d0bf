"""Models that come along, so that everything can be tried without a download from a hub."""
