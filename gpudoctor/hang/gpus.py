"""What a rank has to do with its GPU: whether it uses one, which one, and whether it waits for it.

Nothing in Python says that `if loss > best:` waits for a GPU: the call is written in C, and the line may have any form.
The thread tells. It stands at one line in two looks, does not hold the interpreter's lock (torch gives it back before
it asks the driver), and yet is never asleep: the driver's wait takes all of a processor. A loop in Python holds the
lock; what computes on processors without it leaves the GPU idle, or has many threads do so. One more is NCCL's own: the
thread that moves a communicator's data over the network polls without rest as long as an operation is not over, and has
the name of the program (NCCL proxy.cc, ncclProxyProgress; NCCL_SET_THREAD_NAME=1 would name it). Seen so on an H200.
"""

from collections.abc import Sequence

from gpudoctor.knowledge.places import Place, main_thread
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import GpuUse, NodeEvidence, ProcessEvidence, Recorder, Sample, Thread

DRIVER = lazy_re(r"libcuda\.so(\.\d+)*")
"""/proc/PID/maps names the file behind the link libcuda.so.1: libcuda.so.580.95.05."""
BUSY = 95
"""Percent: a kernel that waits for other GPUs keeps its own busy."""
IDLE = 50
"""Percent, below which nothing waits on a GPU that was asked about the last second."""
RUNNABLE_FROM = 0.8
"""Of the time between two looks: the thread ran, or would have if others had not had the processors."""
QUIET_SECONDS = 10.0
"""For which a rank has begun no collective, and an older one is not over, from which it stands though its GPU does not
tell: our rule of thumb, longer than nearly all steps."""
OF_THE_LIBRARIES = lazy_re(r"NCCL|pt_nccl|cuda|pt_")
"""Threads beside the main one that may work while it waits for its GPU."""


def uses_gpu(process: ProcessEvidence, node: NodeEvidence) -> bool:
    """Whether a rank's collectives run on a GPU, as far as is seen."""
    if process.recorder is not None and process.recorder.backend:
        return "ccl" in process.recorder.backend
    return any(process.pid in gpu.pids for gpu in node.gpus) or any(map(DRIVER.fullmatch, process.libraries))


def gpus_of(process: ProcessEvidence, node: NodeEvidence, local_rank: int | None) -> tuple[GpuUse, ...]:
    """A rank's GPUs: those on which NVML sees it; where it names no process (in a container, often) that of its number,
    as nearly all programs choose."""
    if any(gpu.pids for gpu in node.gpus):
        return tuple(gpu for gpu in node.gpus if process.pid in gpu.pids)
    if local_rank is None:
        return ()
    visible = process.process.environment.get("CUDA_VISIBLE_DEVICES", "").strip()
    chosen = [name.strip() for name in visible.split(",")] if visible else [str(gpu.index) for gpu in node.gpus]
    if not chosen:
        return ()
    name = chosen[local_rank] if local_rank < len(chosen) else chosen[0]
    return tuple(
        gpu for gpu in node.gpus if name == str(gpu.index) or (not name.isdecimal() and gpu.uuid.startswith(name))
    )


def waits_for_others(gpu: GpuUse) -> bool:
    """A collective's kernel that waits keeps the GPU busy and moves no memory (nccl#968)."""
    busy, memory = gpu.utilization_percent, gpu.memory_utilization_percent
    return busy is not None and busy >= BUSY and memory == 0


def computes(gpu: GpuUse) -> bool:
    return (gpu.memory_utilization_percent or 0) > 0 and not is_idle(gpu)


def is_idle(gpu: GpuUse) -> bool:
    return gpu.utilization_percent is not None and gpu.utilization_percent < IDLE


def share_of_time(first: Thread | None, last: Thread | None, seconds: float) -> float | None:
    """In which a thread ran or could have run, between two samples; None where that was not counted."""
    if first is None or last is None or first.cpu_seconds is None or last.cpu_seconds is None or seconds <= 0:
        return None
    delayed = (last.delayed_seconds or 0.0) - (first.delayed_seconds or 0.0)
    return (last.cpu_seconds - first.cpu_seconds + delayed) / seconds


def waits_in_driver(process: ProcessEvidence, first: Place, last: Place, gpus: Sequence[GpuUse]) -> bool:
    """Whether a rank that uses a GPU, in a call that no frame tells of, waits for that GPU."""
    if len(process.samples) < 2 or last.kind != "user code" or last.operation or first != last:
        return False
    one, other = process.samples[0], process.samples[-1]
    before, after = main_thread(one, process.pid), main_thread(other, process.pid)
    if before is None or after is None or before.owns_gil or after.owns_gil:
        return False
    if any(map(is_idle, gpus)):
        return False
    if process.recorder is not None and process.recorder.entries and not is_open(process.recorder):
        return False  # whatever it waits for is no other rank
    share = share_of_time(before, after, other.at - one.at)
    if share is None or share < RUNNABLE_FROM:
        return False
    return _threads_that_run(one, other, process.pid) <= _proxies(process.recorder)


def _proxies(recorder: Recorder | None) -> int:
    """How many communicators may have a thread of NCCL that polls: those with an operation that is not over."""
    open_groups = {entry.group for entry in recorder.entries if entry.state != "completed"} if recorder else set()
    return max(1, len(open_groups))


YIELDS = 0.1
"""Of what the waiting thread has used, less than which a thread that could run gives its processor away (our rule of
thumb): where processors are crowded, who computes gets as much as any other, and who polls and yields next to none."""


def _threads_that_run(first: Sample, last: Sample, pid: int) -> int:
    """How many other threads of a process have run all the time: of an operator on processors, or NCCL's."""
    before = {thread.id: thread for thread in first.threads}
    main = main_thread(last, pid)
    least = YIELDS * _used(before.get(pid), main)
    return sum(
        share is not None and share >= RUNNABLE_FROM and _used(before.get(thread.id), thread) >= least
        for thread in last.threads
        if thread.id != pid and not OF_THE_LIBRARIES.match(thread.name)
        for share in (share_of_time(before.get(thread.id), thread, last.at - first.at),)
    )


def _used(first: Thread | None, last: Thread | None) -> float:
    """CPU seconds between two samples of a thread."""
    if first is None or last is None or first.cpu_seconds is None or last.cpu_seconds is None:
        return 0.0
    return last.cpu_seconds - first.cpu_seconds


def is_open(recorder: Recorder) -> bool:
    """Whether it has a collective that is not over."""
    return any(entry.state != "completed" for entry in recorder.entries)


def is_quiet(recorder: Recorder | None, seconds: float) -> bool:
    """Whether a rank had begun no collective for so long when it wrote its recorder, and had one that was not over."""
    if recorder is None or recorder.dumped_at <= 0 or not is_open(recorder):
        return False
    newest = max((entry.created_ns for entry in recorder.entries), default=0) / 1e9
    return newest > 0 and recorder.dumped_at - newest >= seconds
