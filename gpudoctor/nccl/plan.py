"""What a test measures, and with which ranks: sizes, collectives, backend, ranks a node. Pure rules."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from gpudoctor.errors import BadInput
from gpudoctor.fleet.messages import Measurement
from gpudoctor.knowledge.visible.devices import VARIABLE, select_on
from gpudoctor.knowledge.visible.now import visible_count
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.lazy import lazy_re
from gpudoctor.nccl.result import GLOO_ASKED_FOR
from gpudoctor.snapshot import NotApplicable, NotRead, Snapshot

Backend = Literal["nccl", "gloo"]
Device = Literal["cuda", "cpu"]

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
SMALLEST_BYTES = 4
"""One float32."""
LARGEST_BYTES = 1 << 40
"""No GPU has as much memory."""
MOST_SIZES = 200
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""As nccl-tests reads its sizes: powers of two."""
SIZE = lazy_re(r"(\d{1,16}(?:\.\d{1,9})?)\s*([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of "8", "64K", "1.5G", "8GiB" (always powers of two). Raises `ValueError` with one line for the user."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text[:40]!r} is no size; write bytes, or a number with K, M, G or T (8G is 8 GiB)")
    number, unit = match.groups()
    whole, _, fraction = number.partition(".")
    # In whole numbers: a float would round large sizes.
    amount = int(whole + fraction) * UNITS[unit.upper()] // int(10 ** len(fraction))
    if not SMALLEST_BYTES <= amount <= LARGEST_BYTES:
        raise BadInput(f"{text.strip()} is {amount} bytes; sizes are from {SMALLEST_BYTES} bytes to 1T")
    return amount


def sizes(minimum: int, maximum: int, factor: int) -> tuple[int, ...]:
    """`minimum`, then each `factor` times the one before, up to `maximum`. Raises `ValueError`."""
    if factor < 2:
        raise BadInput(f"the factor between sizes is at least 2, not {factor}")
    if not SMALLEST_BYTES <= minimum <= LARGEST_BYTES or maximum > LARGEST_BYTES:
        raise BadInput(f"sizes are from {SMALLEST_BYTES} bytes to 1T, not from {minimum} to {maximum} bytes")
    if minimum > maximum:
        raise BadInput(f"the smallest size ({minimum} bytes) is larger than the largest ({maximum} bytes)")
    powers = (minimum * factor**step for step in range(MOST_SIZES))
    return tuple(itertools.takewhile(lambda size: size <= maximum, powers))


def measurements(collectives: Iterable[str], sizes: Iterable[int]) -> tuple[Measurement, ...]:
    """Every collective at every size, one collective after the other. Raises `ValueError` for an unknown one."""
    asked = tuple(sizes)
    names = tuple(dict.fromkeys(collectives))
    for name in names:
        if name not in COLLECTIVES:
            raise BadInput(f"there is no collective {name!r}; there are {listed(COLLECTIVES, most=len(COLLECTIVES))}")
    return tuple(Measurement(name, size) for name in names for size in asked)


def ranks_for(
    snapshot: Snapshot,
    backend: str,
    wanted: int = 0,
    *,
    nodes: int = 2,
    settings: Mapping[str, str] | None = None,
) -> int:
    """Ranks that this node gets: `wanted` (0: not said), else one a GPU that a program started there gets.

    On gloo, which needs no GPU: one a node, or two where there is only one of the `nodes`. `settings` are what the
    launch sets for the ranks; its CUDA_VISIBLE_DEVICES replaces the node's own. Raises `ValueError` when the node has
    fewer GPUs than wanted, or none, or when that could not be read and nobody said a number.
    """
    if wanted < 0:
        raise BadInput(f"the number of ranks a node is at least 1, not {wanted}")
    if backend == "gloo":
        return wanted or (1 if nodes > 1 else 2)
    try:
        count = gpu_count(snapshot, settings or {})
    except NotRead as error:
        if wanted:
            return wanted  # the ranks will find out
        raise BadInput(
            f"the GPUs of {name_of(snapshot)} could not be counted ({error.reading.reason}); "
            "say how many ranks each node gets with --gpus-per-node"
        ) from None
    if count == 0:
        raise BadInput(f"{name_of(snapshot)}: {_none_seen(snapshot, settings or {})}")
    if wanted > count:
        raise BadInput(
            f"{wanted} ranks a node are wanted; a program on {name_of(snapshot)} sees {counted(count, 'GPU')}"
        )
    return wanted or count


def choose_backend(
    snapshots: Sequence[Snapshot], wanted: str = "auto", *, settings: Mapping[str, str] | None = None
) -> tuple[Backend, Device, str]:
    """The backend, the device of its buffers, and why: a clause, "n01 and n02 have no NVIDIA GPU".

    NCCL where every node has GPUs and a torch with NCCL, else gloo. A backend that was asked for is taken; but
    `ValueError` when it is NCCL and a node is known to be without a GPU or NCCL.
    """
    if wanted == "gloo":
        return "gloo", "cpu", GLOO_ASKED_FOR
    lacking: dict[str, list[str]] = {}
    known = False
    for snapshot in snapshots:
        reason, certain = _without_nccl(snapshot, settings or {})
        if reason:
            known |= certain
            lacking.setdefault(reason, []).append(name_of(snapshot))
    why = "; ".join(f"{listed(names)}: {reason}" for reason, names in lacking.items())
    if wanted == "nccl":
        if known:
            raise BadInput(f"--backend nccl cannot run ({why}); --backend gloo tests the network over CPU")
        return "nccl", "cuda", "--backend nccl asks for it" + (f" ({why})" if why else "")
    if lacking:
        return "gloo", "cpu", why
    return "nccl", "cuda", "every node has GPUs and a torch with NCCL"


def gpu_count(snapshot: Snapshot, settings: Mapping[str, str]) -> int:
    """GPUs that a rank started there sees; 0 where there is none. Raises `NotRead`."""
    try:
        if VARIABLE in settings:
            return len(select_on(snapshot, settings[VARIABLE]).devices)
        return visible_count(snapshot)
    except NotApplicable:
        facts = snapshot.training.torch.value_or(None)  # an AMD GPU is no NVML's, but torch's
        return facts.device_count if facts is not None and facts.hip_version else 0


def name_of(snapshot: Snapshot) -> str:
    return snapshot.host.hostname.value_or("a node")


def _none_seen(snapshot: Snapshot, settings: Mapping[str, str]) -> str:
    """Why a rank sees no GPU."""
    value = settings.get(VARIABLE, snapshot.environment.value_or({}).get(VARIABLE))
    if value is not None and snapshot.nvidia.gpus.is_read and snapshot.nvidia.gpus.value:
        return f"{VARIABLE}={value!r} leaves no GPU"
    return "no NVIDIA GPU"


def _without_nccl(snapshot: Snapshot, settings: Mapping[str, str]) -> tuple[str, bool]:
    """Why ranks on this node cannot use NCCL, and whether that is certain; an empty reason when they can."""
    try:
        if gpu_count(snapshot, settings) == 0:
            return _none_seen(snapshot, settings), True
    except NotRead as error:
        return f"its GPUs could not be read ({error.reading.reason})", False
    facts = snapshot.training.torch.value_or(None)
    if facts is not None:
        has = facts.nccl_version is not None or "nccl" in facts.distributed_backends
        return ("" if has else f"torch {facts.version} is built without NCCL"), True
    files = snapshot.training.torch_files
    if files.missing_kind == "absent":
        return "its Python has no torch", True
    if not files.is_read:
        return f"its torch could not be read ({files.reason})", False
    # NVIDIA's and AMD's builds bring NCCL or RCCL; the CPU build has neither.
    built_for_gpus = files.value.cuda or files.value.hip
    return ("" if built_for_gpus else f"torch {files.value.version} is built for the CPU only"), True
