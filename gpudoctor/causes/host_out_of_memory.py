"""The memory of the host ran out."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="host-out-of-memory",
    title="the memory of the host ran out",
    stages=("rendezvous", "communicator", "first collective", "training"),
    blame="node",
    hangs_by="gone",
    meaning=(
        "The machine's memory, or the limit of the container, cgroup or SLURM step, was used up. The kernel kills a "
        "process for it by SIGKILL, which says nothing itself, or the program's own request is refused."
    ),
    like=("rank-died",),
    fix=Fix(
        "Give the job or the container more memory, or start fewer DataLoader workers with smaller batches.",
        (command("free -h"), command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill'")),
    ),
    variants={
        "slurm": Fix("Ask for more memory (--mem, --mem-per-gpu), or start fewer DataLoader workers."),
        "ray": Fix("Start fewer workers per node, give more memory, or lift RAY_memory_usage_threshold."),
    },
    confirm="The kernel's log tells of an oom-kill, or oom_kill grows in memory.events of the rank's cgroup.",
    foreseen_by=("cgroup-memory-limit-low", "memory-low", "process-killed-by-oom"),
    source="kernel mm/oom_kill.c, cgroup-v2 memory controller; torch c10 alloc_cpu.cpp",
)
