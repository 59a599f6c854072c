"""Pickles made by hand to use a reader up: small, and they ask for time or memory. Instructions as in pickletools."""

import struct
from collections.abc import Callable

from tests.checkpoint_files import tensor


def text(value: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def put(index: int) -> bytes:
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index)


def colliding(keys: list[bytes]) -> bytes:
    return b"\x80\x02}(" + b"".join(key + b"N" for key in keys) + b"u."


MODULUS = (1 << 61) - 1
"""Python's: numbers that differ by it have one hash."""
ORDERED = b"ccollections\nOrderedDict\n"


def whole_module(name: bytes, depth: int) -> bytes:
    """Modules in modules, each with a tensor, all under one name, as nn.Module is pickled."""
    begin = b"cm\nM\n)\x81}("
    state = text(b"_parameters") + get(1) + text(b"_buffers") + b"}" + text(b"_modules") + b"}"
    nested = state
    for _ in range(depth):
        nested = state + get(2) + begin + nested + b"ub" + b"s"
    return b"\x80\x02" + tensor()[2:-1] + put(1) + b"0" + text(name) + put(2) + b"0" + begin + nested + b"ub."


def doubled(levels: int) -> bytes:
    """A pair of a pair of a pair, each told twice."""
    return b")" + put(0) + b"".join(b"0" + get(n) + get(n) + b"\x86" + put(n + 1) for n in range(levels))


def with_tensor(value: bytes) -> bytes:
    """A state dict's only tensor beside some other value."""
    return b"\x80\x02}(" + text(b"x") + value + tensor()[4:-2] + b"u."


BOMBS: dict[str, Callable[[], bytes]] = {
    "an index of four billion in the memo": lambda: b"\x80\x02}r\xff\xff\xff\xff.",
    "a hundred thousand places in the memo": lambda: b"\x80\x02}" + b"".join(put(n) for n in range(100_000)) + b".",
    "a number of two gigabytes": lambda: b"\x80\x02\x8b\xff\xff\xff\x7f" + b"a" * 1000,
    "a number of four thousand digits": lambda: b"\x80\x02I" + b"9" * 4000 + b"\n.",
    "a text of four gigabytes": lambda: b"\x80\x02X\xff\xff\xff\xffa.",
    "bytes of 2**63": lambda: b"\x80\x04\x8e" + struct.pack("<Q", 1 << 63) + b"a.",
    "a list that holds itself a hundred thousand times": lambda: (
        b"\x80\x02](" + b"K\x01" * 100 + b"e" + put(0) + (get(0) + b"a") * 100_000 + b"."
    ),
    "lists in lists, two hundred thousand deep": lambda: b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "marks, a million": lambda: b"\x80\x02" + b"(" * 1_000_000 + b".",
    "pairs of pairs, doubled sixty times": lambda: with_tensor(doubled(60)),
    "pairs of pairs as a key": lambda: b"\x80\x02}" + doubled(60) + b"Ns.",
    "pairs of pairs as a sparse tensor's layout": lambda: (
        b"\x80\x02}" + text(b"w") + b"ctorch._utils\n_rebuild_sparse_tensor\n(" + doubled(60) + b"((K\x01tttRs."
    ),
    "keys that are multiples of 2**61-1": lambda: colliding([number(n * MODULUS) for n in range(1, 60_000)]),
    "keys that collide in a table's low bits": lambda: colliding([number(n << 30) for n in range(1, 60_000)]),
    "keys that are floats of one hash": lambda: colliding(
        [b"G" + struct.pack(">d", 2.0 ** (61 * n)) for n in range(-15, 16)] * 2000
    ),
    "keys that are pairs of numbers of one hash": lambda: colliding(
        [number(n * MODULUS) + b"K\x01\x86" for n in range(1, 60_000)]
    ),
    "keys -1 and -2": lambda: colliding([b"J\xff\xff\xff\xff", b"J\xfe\xff\xff\xff"] * 50_000),
    "a set of numbers of one hash": lambda: (
        b"\x80\x04(" + b"".join(number(n * MODULUS) for n in range(60_000)) + b"\x91."
    ),
    "a dictionary copied by a call, again and again": lambda: (
        b"\x80\x02}("
        + b"".join(text(b"%d" % n) + b"N" for n in range(50_000))
        + b"u"
        + put(0)
        + (b"0" + ORDERED + get(0) + b"\x85R") * 2000
        + b"."
    ),
    "lists made of copies of lists": lambda: (
        b"\x80\x02]("
        + b"N" * 50_000
        + b"e"
        + put(0)
        + b"".join(b"cbuiltins\nlist\n" + get(0) + b"\x85R" for _ in range(20_000))
        + b"."
    ),
    "a device named by a text joined a thousand times": lambda: (
        b"\x80\x02" + text(b"a" * 1_000_000) + put(0) + (b"0ctorch\ndevice\n(" + get(0) * 1000 + b"tR") * 200 + b"."
    ),
    "imports of names of a megabyte": lambda: (
        b"\x80\x04"
        + text(b"m" * 500_000)
        + put(0)
        + text(b"n" * 500_000)
        + put(1)
        + (get(0) + get(1) + b"\x930") * 50_000
        + b"."
    ),
    "sixty-five thousand imports": lambda: b"\x80\x02" + b"".join(b"cm%d\nn\n0" % n for n in range(65_000)) + b"}.",
    "modules in modules whose names add up": lambda: whole_module(b"n" * 1000, 300),
    "calls of calls": lambda: (
        b"\x80\x02cm\nf\n"
        + put(0)
        + b")"
        + b"".join(b"R" + put(1) + b"0" + get(0) + get(1) + b"\x85" for _ in range(50_000))
        + b"R."
    ),
    "a tensor of tensors, told by a thousand names": lambda: (
        tensor()[:4]
        + text(b"n")
        + b"ctorch._utils\n_rebuild_nested_tensor\n("
        + tensor()[10:-2]
        + put(5)
        + get(5) * 20_000
        + b"tR"
        + put(6)
        + b"".join(text(b"t%d" % n) + get(6) for n in range(20_000))
        + b"u."
    ),
    "an attribute set on itself": lambda: b"\x80\x02cm\nM\n)\x81" + b"2b" * 100_000 + b".",
    "tensors of 2**61 elements without numbers": lambda: (
        b"\x80\x02}("
        + b"".join(
            text(b"m%d" % n)
            + b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat64\n("
            + number(1 << 61)
            + b"t(K\x01t\x89tR"
            for n in range(100)
        )
        + b"u."
    ),
}
