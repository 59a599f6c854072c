"""The functions of torch by which a pickle makes tensors (torch/_utils.py), and plain containers that it calls for."""

from typing import Any

from gpudoctor.checkpoint.unreadable import BadFile, DamagedFile, printable
from gpudoctor.checkpoint.values import (
    ITEM_BYTES,
    STORAGE_DTYPES,
    Name,
    Object,
    Storage,
    Tensor,
    contiguous,
    product,
)

MOST_ELEMENTS = 1 << 62
MOST_DIMENSIONS = 64
"""torch's own limit."""
MOST_PARTS = 16
"""Of a tensor that is made of others; torch's have up to five."""


def rebuilt(function: Name, args: tuple[Any, ...]) -> Any:
    """What a call gives, for the functions that are known here; None for others. Raises `BadFile`."""
    full = function.full
    if full in ("collections.OrderedDict", "collections.Counter", "collections.defaultdict", "builtins.dict"):
        return _dictionary(args)
    if full in ("builtins.set", "builtins.frozenset", "builtins.list", "collections.deque"):
        return list(args[0]) if args and isinstance(args[0], (list, tuple)) else []
    if full == "torch.Size":
        return tuple(args[0]) if args and isinstance(args[0], (list, tuple)) else ()
    if full == "torch.device":
        return ":".join(
            str(part[:32] if isinstance(part, str) else part) for part in args[:2] if isinstance(part, (str, int))
        )
    if full == "torch.serialization._get_layout":
        return args[0] if args and isinstance(args[0], str) else "torch.strided"
    if function.module == "torch._utils" and function.name.startswith("_rebuild_"):
        make = _REBUILD.get(function.name)
        return make(args) if make else None
    if full == "torch._tensor._rebuild_from_type_v2":
        return _from_type(args)
    return None


def storage_of(parts: tuple[Any, ...]) -> Storage:
    """A storage by its persistent id: ("storage", type, key, location, elements), with a view in the legacy format."""
    if len(parts) not in (5, 6):
        raise DamagedFile("its list of tensors is damaged: a storage is not described whole")
    kind, key, location, elements = parts[1:5]
    dtype = STORAGE_DTYPES.get(kind.name) if isinstance(kind, Name) else None
    if dtype is None:
        raise BadFile(f"it holds a storage of the unknown type {printable(getattr(kind, 'name', '?'))}")
    if type(elements) is not int or not 0 <= elements < MOST_ELEMENTS or not isinstance(key, (str, int)):
        raise DamagedFile("its list of tensors is damaged: a storage is not described whole")
    view = 0
    if len(parts) == 6 and parts[5] is not None:
        if type(parts[5]) is not tuple or len(parts[5]) != 3:
            raise DamagedFile("its list of tensors is damaged: a view of a storage is not described whole")
        _, view, elements = parts[5]
        if (
            type(view) is not int
            or type(elements) is not int
            or not 0 <= min(view, elements) <= max(view, elements) < MOST_ELEMENTS
        ):
            raise DamagedFile("its list of tensors is damaged: a view of a storage is not described whole")
    place = location if isinstance(location, str) else "cpu"
    return Storage(str(key), dtype, elements, place[:64], view)


def dtype_of(value: Any) -> str:
    """A dtype as a pickle names it."""
    if isinstance(value, Name) and value.module == "torch":
        if value.name in ITEM_BYTES:
            return value.name
        raise BadFile(f"it holds a tensor of the unknown type torch.{printable(value.name)}")
    raise DamagedFile("its list of tensors is damaged: a tensor has no dtype")


def sizes(value: Any) -> tuple[int, ...]:
    """A shape or strides."""
    if isinstance(value, Object) and value.of.full == "torch.Size":
        value = value.args[0] if value.args else ()
    if not isinstance(value, (tuple, list)) or len(value) > MOST_DIMENSIONS:
        raise DamagedFile("its list of tensors is damaged: a tensor has no shape")
    if any(type(number) is not int or not 0 <= number < MOST_ELEMENTS for number in value):
        raise DamagedFile("its list of tensors is damaged: a tensor's shape is none")
    if product(tuple(value)) >= MOST_ELEMENTS:
        raise BadFile(f"it holds a tensor of the absurd shape {tuple(value)}")
    return tuple(value)


def strided(
    storage: Any, offset: Any, shape: Any, stride: Any, dtype: str | None = None, requires_grad: Any = False
) -> Tensor:
    """A tensor that looks into a storage; must lie within it."""
    if not isinstance(storage, Storage) or type(offset) is not int or offset < 0:
        raise DamagedFile("its list of tensors is damaged: a tensor has no storage")
    tensor = Tensor(dtype or storage.dtype, sizes(shape), _strides(stride), offset, storage)
    if len(tensor.shape) != len(tensor.stride):
        raise DamagedFile("its list of tensors is damaged: a tensor's shape and strides differ in length")
    tensor.requires_grad = requires_grad is True
    if tensor.elements and (offset + tensor.span) * tensor.item_bytes > storage.size:
        raise BadFile(
            f"a tensor of shape {list(tensor.shape)} reaches past the end of its storage of {storage.size} bytes"
        )
    return tensor


def _strides(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or len(value) > MOST_DIMENSIONS:
        raise DamagedFile("its list of tensors is damaged: a tensor has no strides")
    if any(type(number) is not int or not 0 <= number < MOST_ELEMENTS for number in value):
        raise DamagedFile("its list of tensors is damaged: a tensor's strides are none")
    return tuple(value)


def _dictionary(args: tuple[Any, ...]) -> dict[Any, Any]:
    """OrderedDict() or OrderedDict([[key, value], ...]), as Python 2 wrote it."""
    first = next((arg for arg in args if isinstance(arg, (list, dict))), None)
    if isinstance(first, dict):
        return dict(first)
    pairs_read: dict[Any, Any] = {}
    for pair in first or ():
        if isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], (str, int)):
            pairs_read[pair[0]] = pair[1]
    return pairs_read


def _tensor(args: tuple[Any, ...]) -> Tensor:
    storage, offset, shape, stride, *rest = _least(args, 4)
    return strided(storage, offset, shape, stride, requires_grad=rest[0] if rest else False)


def _tensor_v3(args: tuple[Any, ...]) -> Tensor:
    storage, offset, shape, stride, requires_grad, _, dtype = _least(args, 7)[:7]
    return strided(storage, offset, shape, stride, dtype_of(dtype), requires_grad)


def _parameter(args: tuple[Any, ...]) -> Any:
    return _least(args, 1)[0]


def _quantized(args: tuple[Any, ...]) -> Tensor:
    tensor = _tensor(_least(args, 5)[:4])
    tensor.kind = "quantized"
    return tensor


def _sparse(args: tuple[Any, ...]) -> Tensor:
    layout, data = _least(args, 2)[:2]
    if not isinstance(data, tuple):
        raise DamagedFile("its list of tensors is damaged: a sparse tensor has no parts")
    parts = tuple(part for part in data if isinstance(part, Tensor))
    shape = next((part for part in data if isinstance(part, (tuple, list))), ())
    dtype = parts[-1].dtype if parts else "float32"
    return Tensor(
        dtype,
        sizes(shape),
        (),
        0,
        None,
        "sparse",
        subclass=layout[:64] if isinstance(layout, str) else "",
        parts=parts[:MOST_PARTS],
    )


def _meta(args: tuple[Any, ...]) -> Tensor:
    dtype, shape, stride = _least(args, 3)[:3]
    return Tensor(dtype_of(dtype), sizes(shape), _strides(stride), 0, None, "meta")


def _nested(args: tuple[Any, ...]) -> Tensor:
    parts = tuple(part for part in args if isinstance(part, Tensor))
    if not parts:
        raise DamagedFile("its list of tensors is damaged: a nested tensor has no parts")
    return Tensor(parts[0].dtype, parts[0].shape, (), 0, None, "nested", parts=parts[:MOST_PARTS])


def _wrapper(args: tuple[Any, ...]) -> Tensor:
    kind, dtype, shape, stride = _least(args, 4)[:4]
    name = kind.full if isinstance(kind, Name) else ""
    return Tensor(dtype_of(dtype), sizes(shape), _strides(stride), 0, None, "subclass", subclass=name)


def _from_cpu(args: tuple[Any, ...]) -> Tensor:
    least = _least(args, 1)[0]
    if not isinstance(least, Tensor):
        raise DamagedFile("its list of tensors is damaged: a tensor of another device has no numbers")
    return least


def _from_type(args: tuple[Any, ...]) -> Any:
    """A tensor subclass: how its tensor is made, its class, the arguments, its attributes."""
    function, kind, inner, state = _least(args, 4)[:4]
    if not isinstance(function, Name) or not isinstance(inner, tuple):
        raise DamagedFile("its list of tensors is damaged: a tensor's class is not described whole")
    inner_value = rebuilt(function, inner)
    if not isinstance(inner_value, Tensor):
        return None
    if not isinstance(kind, Name) or kind.full in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        return inner_value
    state = _attributes(state)
    if kind.name == "DTensor":
        return _distributed(inner_value, state)
    inner_value.kind, inner_value.subclass = "subclass", kind.full
    inner_value.parts = tuple(part for part in state.values() if isinstance(part, Tensor))[:MOST_PARTS]
    return inner_value


def _attributes(state: Any) -> dict[Any, Any]:
    """Of an object's state: its attributes, or (attributes, slots)."""
    attributes: dict[Any, Any] = {}
    for each in state if isinstance(state, tuple) else (state,):
        if isinstance(each, dict):
            attributes.update(each)
    return attributes


def _distributed(whole: Tensor, state: dict[Any, Any]) -> Tensor:
    """A DTensor: whole when its part has the whole's shape and is not a partial sum, else a shard."""
    local, spec = state.get("_local_tensor"), state.get("_spec")
    if not isinstance(local, Tensor):
        raise DamagedFile("its list of tensors is damaged: a distributed tensor has no part here")
    placements = _placements(spec)
    if local.shape == whole.shape and "Partial" not in placements:
        local.subclass, local.placements = "torch.distributed.tensor.DTensor", placements
        return local
    whole.kind, whole.subclass = "shard", "torch.distributed.tensor.DTensor"
    whole.local_shape, whole.placements, whole.parts = local.shape, placements, (local,)
    return whole


def _placements(spec: Any) -> str:
    """ "Shard(dim=0)", "Replicate"; empty when the file does not tell."""
    placements = _attributes(spec.state).get("placements") if isinstance(spec, Object) else None
    words = []
    for placement in (placements if isinstance(placements, (tuple, list)) else ())[:8]:
        if isinstance(placement, Object):
            dim = _attributes(placement.state).get("dim", placement.args[0] if placement.args else None)
            words.append(f"{placement.of.name}(dim={dim})" if isinstance(dim, int) else placement.of.name)
    return printable(", ".join(words))


def _least(args: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    if len(args) < count:
        raise DamagedFile("its list of tensors is damaged: a tensor is not described whole")
    return args


_REBUILD = {
    "_rebuild_tensor": _tensor,
    "_rebuild_tensor_v2": _tensor,
    "_rebuild_tensor_v3": _tensor_v3,
    "_rebuild_parameter": _parameter,
    "_rebuild_parameter_with_state": _parameter,
    "_rebuild_qtensor": _quantized,
    "_rebuild_sparse_tensor": _sparse,
    "_rebuild_meta_tensor_no_storage": _meta,
    "_rebuild_nested_tensor": _nested,
    "_rebuild_wrapper_subclass": _wrapper,
    "_rebuild_device_tensor_from_cpu_tensor": _from_cpu,
}

__all__ = ["contiguous", "dtype_of", "rebuilt", "sizes", "storage_of", "strided"]
