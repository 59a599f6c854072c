"""What is verified before the first step: where the model is, and the weights that it starts from."""

import os
import socket
from typing import Any, Callable, Dict, Optional

from collective_member import bus_id
from train_blame import fault, number_text, odd_ones, one_rank, ranks_text
from train_digest import bits_of, digest, float_of, relative
from train_reference import Reference
from train_way import Context, FaultFound


def on_their_devices(context: Context, model: Any, device_of: Optional[Callable[[str], Any]]) -> None:
    """Every parameter and buffer, and a GPU of its own for each rank. Raises `FaultFound` on all ranks alike."""
    wrong: Dict[str, Any] = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        wanted = context.device if device_of is None else device_of(name)
        if tensor.device != wanted or tensor.dtype is not context.torch.float32:
            wrong = {"name": name, "seen": _place(tensor.device, tensor.dtype), "wanted": _place(wanted)}
            break
    identity = ""
    if context.device.type == "cuda":
        current = context.torch.cuda.current_device()
        if current != context.device.index:
            wrong = wrong or {
                "name": "",
                "seen": f"current CUDA device {current}",
                "wanted": _place(context.device),
            }
        identity = gpu_identity(context.torch, context.device)
    every = context.team.exchange({"wrong": wrong, "gpu": identity, "place": _place(context.device)})
    for rank, answer in enumerate(every):
        bad = answer.get("wrong") or {}
        if bad:
            name, seen, want = (str(bad.get(key, "")) for key in ("name", "seen", "wanted"))
            raise FaultFound(fault("device", rank, name, seen=seen, wanted=want))
    if context.launch.get("ranks_share_gpu"):
        return
    holder: Dict[str, int] = {}
    for rank, answer in enumerate(every):
        gpu = str(answer.get("gpu", ""))
        if gpu and gpu in holder:
            seen = f"ranks {holder[gpu]} and {rank} train on the same GPU, {gpu.partition(' ')[2]}"
            raise FaultFound(fault("device", rank, seen=seen, wanted="a GPU of its own for each rank"))
        holder[gpu] = rank


def as_the_seed_gives(context: Context, reference: Reference, tensors: Dict[str, Any], when: str) -> None:
    """The same weights on all ranks, those of the reference. Raises `FaultFound` on all ranks alike."""
    wanted = {**reference.parameters(), **dict(reference.model.named_buffers())}
    names = [name for name in wanted if name in tensors]
    numbers = []
    for name in names:
        numbers.append(digest(context.torch, tensors[name]))
        numbers.append(bits_of(relative(context.torch, tensors[name], wanted[name])))
    rows = context.team.gather_integers(numbers)
    for place, name in enumerate(names):
        digests = [row[2 * place] for row in rows]
        differences = [float_of(row[2 * place + 1]) for row in rows]
        if len(set(digests)) == 1 and any(difference <= 0.0 for difference in differences):
            continue
        wrong = odd_ones(digests, differences, 0.0)
        most = number_text(max(differences[rank] for rank in wrong or range(context.team.ranks)))
        alike = len(set(digests)) == 1
        on = f"on {ranks_text(wrong)} " if wrong else "the same on all ranks, " if context.team.ranks > 1 else ""
        seen = f"{when}: {on}relative difference {most} to the weights that the seed gives"
        if not alike and not wrong:
            seen = f"{when}: the ranks have different weights, and none has those that the seed gives"
        raise FaultFound(
            fault(
                "initial weights",
                one_rank(wrong, context.team.ranks),
                name,
                seen=seen,
                wanted=f"the same weights on all ranks (seed {context.plan['seed']})",
            )
        )


def gpu_identity(torch: Any, device: Any) -> str:
    """Which GPU of which machine this is; "" when that is not known, or for a slice of one (MIG)."""
    if "MIG" in os.environ.get("CUDA_VISIBLE_DEVICES", ""):
        return ""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            machine = file.read().strip()
    except OSError:
        return ""  # a container's host name may be that of another machine's container
    bus = bus_id(torch, device)
    return f"{machine} {bus} of {socket.gethostname()[:100]}" if bus else ""


def _place(device: Any, dtype: Any = None) -> str:
    dtype_text = "float32" if dtype is None else str(dtype).replace("torch.", "")
    return f"{dtype_text} on {device}"
