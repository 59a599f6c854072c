"""Other processes hold a considerable part of a GPU's memory.

Why it matters: a training that fits on the empty GPU fails with "CUDA out of memory", often only at its first large
batch. Frequent causes: the remains of a crashed run, a notebook that is still open, another user's job.
"""

from typing import Any

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.snapshot import GpuProcess, Reading

GIB = 1024**3
HELD_BYTES = 2 * GIB  # Primus' node_smoke fails a GPU that has this much in use before it is touched
HELD_SHARE = 0.25  # our rule of thumb for GPUs of 4 and 6 GiB; a desktop takes less


@gpu_check(
    "gpu-memory-held",
    title="GPU memory is free before training",
    short="in use",
    follows=("zombie-holds-gpu", "process-stuck-in-driver"),
)
def gpu_memory_held(gpu: Gpu, machine: Snapshot) -> Problems:
    total, used = gpu.memory_total_bytes.value, gpu.memory_used_bytes.value
    limit = min(HELD_BYTES, int(total * HELD_SHARE))
    if used < limit:
        return
    processes = gpu.processes.value_or(())
    own = sum(process.memory_bytes or 0 for process in processes if process.is_own)
    foreign = [process for process in processes if not process.is_own]
    if used - own < limit or (
        not foreign and any(process.is_own and process.memory_bytes is None for process in processes)
    ):
        return
    yield Problem(
        severity="warning",
        summary=f"{label(gpu)}: {(used - own) / GIB:.1f} of {total / GIB:.1f} GiB are in use before the training starts"
        + _holders(foreign, used - own, limit),
        meaning='The training has that much less memory on this GPU: "CUDA out of memory", perhaps only after a while.'
        + _whence(gpu, machine, foreign),
        evidence=_evidence(gpu, machine, foreign),
        fix=_fix(gpu, foreign),
    )


def _fix(gpu: Gpu, foreign: list[GpuProcess]) -> Fix:
    if not foreign:
        return Fix.of(
            "Find who has the device file open; the second line lists processes that are ending but not gone.",
            command("sudo fuser -v /dev/nvidia{:number}", gpu.minor_number.value)
            if gpu.minor_number.is_read
            else command("sudo fuser -v /dev/nvidia*"),
            command("ps -eo pid,ppid,user,stat,args | awk '$4 ~ /^[DZ]/'"),
        )
    look = tuple(command("ps -o pid,user,lstart,args -p {:pid}", process.pid) for process in foreign[:4])
    if any(not process.command.is_read for process in foreign):
        return Fix(
            "Look for these pids on the host, where they are valid: inside this container a pid can be another "
            "process. Then end them there, wait, or leave this GPU out with CUDA_VISIBLE_DEVICES.",
            commands=look,
        )
    first = foreign[0].pid
    return Fix(
        f"End what is yours (`kill {first}`; `kill -9 {first}` if that does not help). Else wait, or leave this GPU "
        "out with CUDA_VISIBLE_DEVICES.",
        commands=look,
    )


def _holders(foreign: list[GpuProcess], held: int, limit: int) -> str:
    """Who has it: " (pid 4711 user ann python train.py 38.2 GiB)"; and what no process accounts for."""
    known = sum(process.memory_bytes or 0 for process in foreign)
    named = [_named(process) for process in sorted(foreign, key=lambda process: -(process.memory_bytes or 0))[:3]]
    if len(foreign) > 3:
        named.append(f"and {len(foreign) - 3} more")
    unaccounted = held - known
    if unaccounted >= limit and all(process.memory_bytes is not None for process in foreign):
        named.append(f"{unaccounted / GIB:.1f} GiB by no process that is visible from here")
    return f" ({'; '.join(named)})" if named else ""


def _named(process: GpuProcess) -> str:
    words = [f"pid {process.pid}"]
    if process.user.is_read:
        words.append(f"user {process.user.value}")
    if process.command.is_read:
        words.append(process.command.value)
    if process.memory_bytes is not None:
        words.append(f"{process.memory_bytes / GIB:.1f} GiB")
    return " ".join(words)


def _whence(gpu: Gpu, machine: Snapshot, foreign: list[GpuProcess]) -> str:
    """Why the holder may not be visible."""
    if not gpu.processes.is_read:
        return f" Who holds it could not be read: {gpu.processes.reason}."
    if foreign:
        hidden = [process for process in foreign if not process.command.is_read]
        return " The pids are the host's; the processes are not visible from here." if hidden else ""
    stuck = machine.host.stuck_processes.value_or(())
    if stuck:
        listed = ", ".join(f"{process.pid} ({process.name}, state {process.state})" for process in stuck[:3])
        return f" Processes that are stuck in the kernel or not reaped may hold it: {listed}."
    if machine.host.private_pid_namespace.value_or(False):
        return " The holder runs outside this container, where its pid cannot be seen."
    return " No visible process holds it: one in a container, or one that is ending and hangs in the driver."


def _evidence(gpu: Gpu, machine: Snapshot, foreign: list[GpuProcess]) -> tuple[Reading[Any], ...]:
    stuck = machine.host.stuck_processes
    blames_stuck = not foreign and gpu.processes.is_read and bool(stuck.value_or(()))
    return (gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.processes, *((stuck,) if blames_stuck else ()))
