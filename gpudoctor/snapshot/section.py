"""The base class of a snapshot's parts."""

from msgspec import Struct


class Section(Struct, frozen=True, omit_defaults=True):
    """Base of every part of a snapshot: immutable, and silent in JSON about what was left at its default."""
