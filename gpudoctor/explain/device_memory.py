"""torch's message of a GPU without room, read: how much was wanted, who holds what, and what follows from it.

The forms are those of c10/cuda/CUDACachingAllocator.cpp: 1.0 to 1.13 ("(GPU 0; 23.69 GiB total capacity; 21.40 GiB
already allocated; ..."), and 2.0 on, which lists the processes of that GPU as NVML counts them.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.cause import Fix
from gpudoctor.command import command
from gpudoctor.explain.tracebacks import FRAME
from gpudoctor.lazy import lazy_re

SIZE = r"\d{1,5}(?:\.\d{1,2})? (?:bytes|[KMGT]iB)"
WANTED = lazy_re(rf"Tried to allocate (?P<size>{SIZE})")
NEW = lazy_re(rf"GPU (?P<gpu>\d{{1,3}}) has a total capaci?ty of (?P<total>{SIZE}) of which (?P<free>{SIZE}) is free")
OLD = lazy_re(
    rf"\(GPU (?P<gpu>\d{{1,3}}); (?P<total>{SIZE}) total capacity; (?P<allocated>{SIZE}) already allocated; "
    rf"(?P<free>{SIZE}) free; (?P<reserved>{SIZE}) (?:reserved in total by PyTorch|cached)"
)
OWN = lazy_re(rf"this process has (?P<size>{SIZE}) memory in use")
OTHER = lazy_re(rf"\bProcess (?P<pid>\d{{1,10}}) has (?P<size>{SIZE}) memory in use")
OF_TORCH = lazy_re(
    rf"(?P<allocated>{SIZE}) is allocated by PyTorch[^\n]{{0,80}}?\band (?P<loose>{SIZE}) is reserved by PyTorch but"
)
UNITS = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}
MUCH, CONTEXT = 0.1, 2.0
"""A share of the GPU that counts, and GiB that CUDA's context and libraries hold besides torch's (our bounds)."""
MOST_OWN = 0.7
"""A share of the GPU: who holds as much has filled it by himself (our bound)."""
OF_TRAINER = "Instantaneous batch size per device"
"""As transformers' trainer.py tells per_device_train_batch_size."""
BATCHES: tuple[re.Pattern[str], ...] = (
    lazy_re(r"(?P<name>per_device_train_batch_size)[\"']?(?:=|: ?| )[\"']?(?P<value>\d{1,5})\b"),
    lazy_re(r"(?P<name>" + OF_TRAINER + r")\s{0,3}= (?P<value>\d{1,5})\b"),
    lazy_re(r"--(?P<name>micro[-_]batch[-_]size)(?:=| )(?P<value>\d{1,5})\b"),
    lazy_re(r"^\s{0,4}(?P<name>micro_batch_size) \.{3,60} (?P<value>\d{1,5})\s*$"),
    lazy_re(r"[\"'](?P<name>train_micro_batch_size_per_gpu)[\"']: (?P<value>\d{1,5})\b"),
    lazy_re(r"--(?P<name>(?:train[-_])?batch[-_]size)(?:=| )(?P<value>\d{1,5})\b"),
)
SERVES = lazy_re(r"(?i)\bvllm\b|sglang|tensorrt_llm|text[-_]generation[-_]inference|\bcomfy|\bimport llama_cpp")


class DeviceMemory(NamedTuple):
    """In GiB."""

    gpu: str
    total: float
    free: float
    wanted: float
    own: float | None
    allocated: float
    loose: float
    """Reserved by torch, and given to no tensor."""
    others: tuple[tuple[str, float], ...]


def held(text: str) -> DeviceMemory | None:
    """What such a message tells; None of another line."""
    at, wanted = NEW.search(text) or OLD.search(text), WANTED.search(text)
    if at is None or wanted is None:
        return None
    processes = [(match["pid"], _gib(match["size"])) for match in OTHER.finditer(text)]
    own_match, of_torch = OWN.search(text), OF_TORCH.search(text)
    own = _gib(own_match["size"]) if own_match else None
    allocated, loose = (_gib(of_torch[name]) for name in ("allocated", "loose")) if of_torch else (0.0, 0.0)
    if "reserved" in at.re.groupindex:
        allocated, reserved = _gib(at["allocated"]), _gib(at["reserved"])
        own, loose = reserved, max(0.0, reserved - allocated)
    elif own is None and of_torch and len(processes) > 1:  # numbers of a container's host: its own is listed too
        mine = min(
            (each for each in processes if each[1] >= allocated + loose - 0.01), key=lambda each: each[1], default=None
        )
        if mine is not None:
            processes.remove(mine)
            own = mine[1]
    return DeviceMemory(
        *(at["gpu"], _gib(at["total"]), _gib(at["free"]), _gib(wanted["size"])),
        *(own, allocated, loose, tuple(processes) if own is not None else ()),
    )


def _gib(size: str) -> float:
    number, _, unit = size.partition(" ")
    return float(number) * UNITS[unit]


def of_memory(seen: DeviceMemory, texts: Sequence[str], place: str, *, shared: bool) -> Fix | None:
    """What to do about it. `place`: the line that names the program's own frame. `shared`: several ranks tell of the
    same GPU."""
    theirs = sum(size for _, size in seen.others)
    if theirs >= max(CONTEXT, seen.total * MUCH, seen.wanted):
        return _of_others(seen, shared=shared)
    if seen.own is None:
        return None
    unlisted = seen.total - seen.free - seen.own - theirs
    if not seen.others and unlisted >= max(2 * CONTEXT, seen.total * 2 * MUCH, seen.wanted):
        return Fix(
            f"This process holds {seen.own:.1f} of GPU {seen.gpu}'s {seen.total:.1f} GiB and {seen.free:.1f} are free: "
            f"the other {unlisted:.1f} GiB are another process's. See whose (nvidia-smi), and end it where an earlier "
            "run left it, or take another GPU.",
            (command("nvidia-smi"),),
        )
    if seen.wanted > seen.total or seen.wanted > seen.own:
        frame = FRAME.search(place)
        where = f" at {frame['file']}:{frame['line']}" if frame else ""
        return Fix(
            f"One tensor of {seen.wanted:.1f} GiB is asked for{where}, of a GPU of {seen.total:.1f} GiB: look at the "
            "shape that is made there. Attention without a fused kernel grows with the length squared, logits with "
            "tokens times vocabulary, distances with points squared: make it in parts, or cut what it grows with."
        )
    if seen.loose >= max(seen.wanted, seen.total * MUCH / 2):
        return Fix(
            f"{seen.loose:.1f} GiB are reserved by this process and lie in pieces too small for the {seen.wanted:.2f} "
            "GiB that are asked for: let torch's segments grow, before it starts.",
            (command("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),),
        )
    if seen.own < seen.total * MOST_OWN or any(SERVES.search(text) for text in texts):
        return None
    return _of_batch(seen, texts)


def _of_others(seen: DeviceMemory, *, shared: bool) -> Fix:
    listed = ", ".join(f"process {pid} {size:.1f} GiB" for pid, size in seen.others[:4])
    own = "" if seen.own is None else f", this one {seen.own:.1f}"
    if shared:
        return Fix(
            f"Several ranks are on GPU {seen.gpu} ({listed}{own}, of {seen.total:.1f}): give each rank its own before "
            "anything is put on a GPU (torch.cuda.set_device(int(os.environ['LOCAL_RANK'])), and .to() or map_location "
            "of that device, not of cuda:0)."
        )
    pids = [pid for pid, _ in seen.others[:4]]
    return Fix(
        f"Others hold GPU {seen.gpu}: {listed}{own}, of {seen.total:.1f} GiB. See what they are: what an earlier run "
        f"left behind is to be ended (kill {' '.join(pids)}), for another's job take another GPU, and where they are "
        "ranks of this job give each its own GPU (torch.cuda.set_device(LOCAL_RANK)). A smaller batch changes little.",
        (command("ps -o pid,user,lstart,cmd -p {:numbers}", ",".join(pids)), command("nvidia-smi")),
    )


def _of_batch(seen: DeviceMemory, texts: Sequence[str]) -> Fix | None:
    found = next((at for words in BATCHES for text in texts if (at := words.search(text))), None)
    filled = f"This process itself fills GPU {seen.gpu} ({seen.own:.1f} of {seen.total:.1f} GiB)"
    if found is None:
        return None
    name, value = found["name"].replace(OF_TRAINER, "per_device_train_batch_size"), int(found["value"])
    if value > 1:
        return Fix(
            f"{filled}: lower {name} from {value} to {value // 2}, and double gradient_accumulation_steps where as "
            "many samples a step are wanted; where that is not enough, gradient_checkpointing."
        )
    return Fix(
        f"{filled}, and {name} is 1 already: turn gradient_checkpointing on, shorten the sequences, or shard the model "
        "over the GPUs (FSDP, ZeRO-3; with offload to the host)."
    )


__all__ = ["DeviceMemory", "held", "of_memory"]
