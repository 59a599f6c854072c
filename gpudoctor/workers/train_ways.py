"""The ways of training that the rank program knows, by name (train/ways.py has the same names)."""

from typing import Dict, Tuple, Type

from train_plain import Ddp, NoSync, Single
from train_way import Way

KNOWN: Tuple[Type[Way], ...] = (Single, Ddp, NoSync)

WAYS: Dict[str, Type[Way]] = {way.name: way for way in KNOWN}
