"""The ways of training that the rank program knows, by name (train/ways.py has the same names)."""

from typing import Dict, Tuple, Type

from train_accelerate import Accelerate
from train_dp import DataParallel
from train_fsdp import Fsdp
from train_lightning import Lightning
from train_lightning_spawn import LightningSpawn
from train_plain import Ddp, NoSync, Single
from train_spawn import Spawn
from train_split import Split
from train_way import Way
from train_xla import Xla

KNOWN: Tuple[Type[Way], ...] = (
    Single,
    DataParallel,
    Ddp,
    NoSync,
    Spawn,
    Fsdp,
    Split,
    Lightning,
    LightningSpawn,
    Accelerate,
    Xla,
)

WAYS: Dict[str, Type[Way]] = {way.name: way for way in KNOWN}
