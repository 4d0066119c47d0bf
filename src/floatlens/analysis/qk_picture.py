"""The old name, until no caller is left."""

from floatlens.analysis.qk_maps import qk_maps as qk_picture

__all__ = ["qk_picture"]
