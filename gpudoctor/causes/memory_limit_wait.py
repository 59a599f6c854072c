"""The kernel lets a rank wait for memory that its cgroup does not grant, and kills nobody."""

from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="memory-limit-wait",
    title="a rank waits for memory that its cgroup does not grant",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="host-memory",
    blame="environment",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "The cgroup has reached its limit, and nothing of it is killed: the kernel makes who asks for more memory wait "
        "until some is given back. The others wait for this rank."
    ),
    like=("kernel-wait", "storage-stall", "host-out-of-memory"),
    fix=Fix(
        "Raise the limit (SLURM --mem, the pod's memory, docker --memory), or let the ranks hold less: fewer "
        "DataLoader workers, smaller batches, less prefetched.",
        (command("free -h"), command("systemd-cgtop --order=memory --iterations=1")),
    ),
    variants={
        "high": (
            "Raise memory.high of that cgroup (MemoryHigh= of systemd; SLURM sets it to what --mem asks for; "
            "Kubernetes with memory QoS to a part of the pod's limit), or let the ranks hold less: fewer DataLoader "
            "workers, smaller batches, less prefetched. Page cache counts too."
        ),
        "no killer": (
            "Raise that limit, or have the kernel kill at it: its OOM killer is switched off there (docker run "
            "--oom-kill-disable, memory.oom_control), and whoever asks for memory then waits for ever."
        ),
    },
    confirm="memory.usage_in_bytes (memory.current) of that cgroup is at its limit, and falls when a process ends.",
    foreseen_by=("cgroup-memory-limit-low",),
    source="kernel mm/memcontrol.c (mem_cgroup_handle_over_high), mm/memcontrol-v1.c (mem_cgroup_oom_synchronize)",
)
