"""What a checkpoint holds, without its numbers: tensors, the storages they look into, and objects of other code."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "qint8": 1,
    "quint8": 1,
    "qint32": 4,
    "quint4x2": 1,
    "quint2x4": 1,
}
"""torch's names of dtypes, and the bytes of one element."""
STORAGE_DTYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
    "UntypedStorage": "uint8",
}
"""Classes of torch and torch.cuda by which a storage names its type (torch/storage.py)."""


class Name(NamedTuple):
    """Something that a pickle wants to import; nothing is imported here."""

    module: str
    name: str

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Storage:
    """A run of numbers in the file. Tensors with one key share it."""

    key: str
    dtype: str
    elements: int
    location: str = "cpu"
    """The device that it was saved from: "cuda:3"."""
    view: int = 0
    """Elements from the beginning of the key's numbers, in the legacy format."""

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]

    @property
    def size(self) -> int:
        """Bytes."""
        return self.elements * self.item_bytes


TensorKind = Literal["dense", "sparse", "quantized", "shard", "meta", "subclass", "nested"]


@dataclass(eq=False, slots=True)
class Tensor:
    """One tensor: which numbers of which storage."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """Elements."""
    storage: Storage | None
    """None: it has no numbers of its own here (meta, sparse, a shard's whole)."""
    kind: TensorKind = "dense"
    subclass: str = ""
    local_shape: tuple[int, ...] = ()
    """Of the part that this file holds, for a shard of a distributed tensor."""
    placements: str = ""
    """ "Shard(dim=0)"."""
    requires_grad: bool = False
    parts: "tuple[Tensor, ...]" = ()
    """Of which a sparse tensor is made."""

    @property
    def elements(self) -> int:
        return product(self.shape)

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]

    @property
    def span(self) -> int:
        """Elements of the storage from its first to its last one, both counted."""
        if not self.elements:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    @property
    def is_dense(self) -> bool:
        """Every element between the first and the last one is its own."""
        return self.span == self.elements and len(self.shape) == len(self.stride)

    @property
    def is_contiguous(self) -> bool:
        return self.stride == contiguous(self.shape) or not self.elements or self._same_order

    @property
    def _same_order(self) -> bool:
        wanted = contiguous(self.shape)
        return all(size == 1 or a == b for size, a, b in zip(self.shape, self.stride, wanted, strict=True))


@dataclass(eq=False, slots=True)
class Object:
    """Something of other code, as its pickle describes it: never made, never called."""

    of: Name
    args: tuple[Any, ...] = ()
    state: Any = None
    called: bool = False
    """By the pickle's REDUCE: a function or class with arguments."""
    items: dict[Any, Any] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)


def product(numbers: tuple[int, ...]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor whose elements follow one another."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
