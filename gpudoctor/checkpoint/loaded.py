"""A checkpoint as it was read: the values that it holds, and where their numbers lie."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from gpudoctor.checkpoint.source import Region
from gpudoctor.checkpoint.values import Name, Storage

Format = Literal["torch zip", "torch legacy", "safetensors"]


@dataclass
class Loaded:
    """Values without their numbers. `region` says where the numbers of a storage lie; it raises `BadFile`."""

    format: Format
    root: Any
    region: Callable[[Storage], Region]
    names: dict[Name, int] = field(default_factory=dict)
    """What its pickle wants to import."""
    called: set[Name] = field(default_factory=set)
    big_endian: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    """Of safetensors."""
    checks_crc: bool = False
    """Whether its records promise a checksum that is worth to be checked."""
    is_index: bool = False
    """The first of several files, which an index names."""
