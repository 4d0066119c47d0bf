"""Bundled models: everything can be tried without a download from a hub."""
