"""safetensors: the length of a JSON header, the header, the numbers. Nothing in it can be run."""

import msgspec

from gpudoctor.checkpoint.allowance import for_listing
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.source import OpenFile, Region
from gpudoctor.checkpoint.unreadable import BadFile, DamagedFile, printable
from gpudoctor.checkpoint.values import ITEM_BYTES, Storage, Tensor, contiguous, product

MOST_HEADER_BYTES = 100_000_000
"""The format's own limit."""
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class _Told(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def looks_like_it(head: bytes, size: int) -> bool:
    """8 bytes of length, and a header that begins as JSON."""
    if len(head) < 9:
        return False
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= length <= max(MOST_HEADER_BYTES, size)


def load(source: OpenFile) -> Loaded:
    """Raises `BadFile`."""
    length = int.from_bytes(source.read(0, 8), "little")
    if length > MOST_HEADER_BYTES:
        raise BadFile(f"its header claims {length} bytes; safetensors allows {MOST_HEADER_BYTES}")
    if 8 + length > source.size:
        raise DamagedFile(f"it is cut off: its header claims {length} bytes, and {source.size} are there in all")
    for_listing(length)
    try:
        header = msgspec.json.decode(source.read(8, length), type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(header.pop("__metadata__", msgspec.Raw(b"{}")), type=dict[str, str])
        tensors = {name: msgspec.json.decode(raw, type=_Told) for name, raw in header.items()}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadFile(f"its header is no header of safetensors: {printable(str(error))}") from None
    start, room = 8 + length, source.size - 8 - length
    by_name: dict[str, Tensor] = {}
    reached = 0
    for name, each in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        begin, end = each.data_offsets
        if begin != reached or end < begin:
            raise DamagedFile(
                f"its tensor {printable(name)} lies at bytes {begin} to {end}, after byte {reached}: damaged"
            )
        reached = end
        by_name[name] = _tensor(name, each)
    if reached > room:
        raise DamagedFile(
            f"it is cut off: its tensors reach to byte {start + reached}, and it has {source.size}; copy it again"
        )
    if reached < room:
        raise BadFile(f"it has {room - reached} bytes after its tensors, which safetensors does not allow")

    def region(storage: Storage) -> Region:
        begin, end = tensors[storage.key].data_offsets
        return Region(start + begin, end - begin)

    return Loaded("safetensors", {name: by_name[name] for name in tensors}, region, metadata=metadata)


def _tensor(name: str, entry: _Told) -> Tensor:
    dtype = DTYPES.get(entry.dtype)
    if dtype is None:
        raise BadFile(f"its tensor {printable(name)} has the type {printable(entry.dtype)}, which is not read here")
    if len(entry.shape) > 64 or any(not 0 <= size < 1 << 62 for size in entry.shape):
        raise BadFile(f"its tensor {printable(name)} has an absurd shape")
    shape = tuple(entry.shape)
    begin, end = entry.data_offsets
    if product(shape) * ITEM_BYTES[dtype] != end - begin:
        raise DamagedFile(f"its tensor {printable(name)} has shape {list(shape)} in {end - begin} bytes: damaged")
    return Tensor(dtype, shape, contiguous(shape), 0, Storage(name, dtype, product(shape)))
