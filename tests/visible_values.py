"""Values of CUDA_VISIBLE_DEVICES as people, launchers and bad luck write them, made for a machine's GPUs."""

import random
from collections.abc import Sequence

JUNK = ["", " ", "-1", "-0", "+0", "cuda:0", "gpu0", "all", "none", "NoDevFiles", "0x1", "1e0", "0-1", "0;1", "[0"]
JUNK += ["007", "010", "99", "2147483648", "4294967296", "99999999999999999999", "+", "-", "\t1", "1\t", "0 1", "'0'"]
JUNK += [
    "GPU-",
    "MIG-",
    "gpu-",
    "GPU-ffffffff",
    "MIG-GPU-ffffffff/0/0",
    "é",
    "²",
    "/dev/nvidia0",
    "$HOME",
    "*",
    "1gpu2",
]
FIXED = ["", " ", ",", ",,", "0,", ",0", "0,0", "0,,0", "-1,0", "0,2,-1,1", "0, 1", "1,0", "0-", "0,1,2,3,4,5,6,7"]


def generated(uuids: Sequence[str], count: int, seed: int = 1) -> list[str]:
    """`count` different values for GPUs (and MIG devices) with these UUIDs; the same for the same seed."""
    chance = random.Random(seed)
    values = dict.fromkeys([*FIXED, *uuids])
    while len(values) < count:
        length = chance.choice([1, 1, 2, 2, 3, 4, len(uuids) + 1])
        style = chance.choice(["plain", "plain", "uuids", "mostly", "any"])
        values[",".join(_entry(chance, uuids, style) for _ in range(length))] = None
    return list(values)[:count]


def _entry(chance: random.Random, uuids: Sequence[str], style: str) -> str:
    if style == "any" or (style == "mostly" and chance.random() < 0.25):
        return chance.choice([*JUNK, _damaged(chance, chance.choice(uuids))])
    if style != "uuids" and chance.random() < 0.6:
        return chance.choice(["", "", "", " ", "+", "0"]) + str(chance.randrange(len(uuids) + 1))
    uuid = chance.choice(uuids)
    return uuid if chance.random() < 0.5 or uuid.startswith("MIG-") else uuid[: chance.randrange(4, len(uuid))]


def _damaged(chance: random.Random, uuid: str) -> str:
    return chance.choice([uuid.upper(), uuid.lower(), uuid[4:], " " + uuid, uuid + " ", uuid + "0", uuid[:-1] + "g"])
