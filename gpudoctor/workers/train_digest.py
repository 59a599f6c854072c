"""Tensors compared: a digest of their bits, which ranks can exchange, and relative differences."""

import math
import struct
from typing import Any, Dict, List, Optional, Tuple

_multipliers: Dict[Tuple[int, str], Any] = {}


def digest(torch: Any, tensor: Optional[Any]) -> int:
    """64 bits that tell tensors of the same shape apart, computed where the tensor is; 0 for None.

    A sum of the elements' bits, each times an odd number that looks random: exact in integers, in whatever order the
    device adds. Equal tensors have equal digests; a difference stays unseen with a chance of about 2^-64.
    """
    if tensor is None:
        return 0
    flat = tensor.detach().contiguous().reshape(-1)
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(flat.element_size())
    if integers is None:
        flat, integers = flat.to(torch.float64), torch.int64
    bits = flat.view(integers).to(torch.int64)
    bits = bits ^ (bits >> 32)  # the sign bit alone, times any odd number, would be itself wherever it stands
    return int((bits * _odd_numbers(torch, bits)).sum().item())


def _odd_numbers(torch: Any, like: Any) -> Any:
    """As many odd numbers as `like` has elements: the finaliser of splitmix64 over 1, 2, 3 ..., arithmetic shifts."""
    key = (like.numel(), str(like.device))
    if key not in _multipliers:
        number = torch.arange(1, like.numel() + 1, dtype=torch.int64, device=like.device) * -7046029254386353131
        number = (number ^ (number >> 30)) * -4658895280553007687
        number = (number ^ (number >> 27)) * -7723592293110705685
        _multipliers[key] = (number ^ (number >> 31)) | 1
    return _multipliers[key]


def bits_of(number: float) -> int:
    """A float as a 64-bit integer, so that it can travel with integers."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def float_of(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def norm(torch: Any, tensors: List[Any]) -> float:
    """The Euclidean norm of all elements, in float64."""
    return math.sqrt(sum(float(tensor.detach().double().pow(2).sum().item()) for tensor in tensors))


def relative(torch: Any, seen: Optional[Any], wanted: Any, floor: float = 0.0) -> float:
    """|seen - wanted| / max(|wanted|, floor); infinite for a missing, misshapen or not finite tensor."""
    if seen is None or seen.shape != wanted.shape:
        return float("inf")
    seen, wanted = seen.detach().double().cpu(), wanted.detach().double().cpu()
    difference = float((seen - wanted).norm())
    size = max(float(wanted.norm()), floor)
    if not difference < float("inf"):
        return float("inf")
    if size == 0.0:
        return 0.0 if difference == 0.0 else float("inf")
    return difference / size


def ratio(torch: Any, seen: List[Any], wanted: List[Any]) -> Tuple[float, float]:
    """The factor f for which f * wanted is nearest to seen, and what is left of seen then, relative to it."""
    left = torch.cat([tensor.detach().double().cpu().reshape(-1) for tensor in seen])
    right = torch.cat([tensor.detach().double().cpu().reshape(-1) for tensor in wanted])
    size = float(right.dot(right))
    if size == 0.0 or not float(left.norm()) < float("inf") or float(left.norm()) == 0.0:
        return 0.0, float("inf")
    factor = float(left.dot(right)) / size
    return factor, float((left - factor * right).norm() / left.norm())
