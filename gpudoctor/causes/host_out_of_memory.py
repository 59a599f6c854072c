from gpudoctor.cause import Cause, Fix, Judged, command
from gpudoctor.remedies import fixes_of

MORE = (
    "[SLURM: --mem; Kubernetes: resources.limits.memory; docker: --memory; LSF: -M; PBS: -l mem=...; SGE: -l "
    "h_vmem=...; HTCondor: request_memory]"
)
CAUSE = Cause(
    id="host-out-of-memory",
    title="the memory of the host ran out",
    stages=("rendezvous", "communicator", "first collective", "training"),
    kind="host-memory",
    restart="after a fix",
    judged={
        "evicted": Judged("host-memory", "node", "elsewhere"),
    },
    hangs_by="gone",
    meaning=(
        "The machine's memory, or the limit of the container, cgroup or job step, was used up. The kernel kills a "
        "process for it by SIGKILL, which says nothing itself, or the program's own request is refused."
    ),
    like=("rank-died",),
    fix=Fix(
        f"Give the job or the container more memory {MORE}, or start fewer DataLoader workers with smaller batches.",
        (command("free -h"), command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill'")),
    ),
    variants={
        **fixes_of("host-memory"),
        "slurm": Fix(
            "Ask for more memory (--mem, --mem-per-gpu), or start fewer DataLoader workers.",
            (command("sacct --format=JobID,State,ReqMem,MaxRSS"),),
        ),
        "limit": Fix(
            "Ask for more memory than the job's record shows that it used (LSF: -M and -R 'rusage[mem=...]'; PBS: -l "
            "mem=...; SGE: -l h_vmem=...), or start fewer DataLoader workers with smaller batches."
        ),
        "pod": Fix(
            "Raise resources.limits.memory of that container (a volume of medium Memory, as /dev/shm, counts too), or "
            "let it hold less: fewer worker processes, smaller batches.",
            (command("kubectl describe pod"), command("kubectl top pods")),
        ),
        "evicted": Fix(
            "Give the pod a memory request and limit that it fits into, so that it is not the first to go.",
            (command("kubectl top nodes"),),
        ),
        "ray": (
            "Ray ends its newest worker where the node's memory is nearly full; its table of memory users shows who "
            "holds it. Start fewer workers on that node, let these hold less (batches, rollouts, replay buffers, what "
            "is offloaded to the host), ask for more memory, or lift RAY_memory_usage_threshold."
        ),
        "allocation": (
            "That process itself holds more at once there than the machine or its limit gives: split the input and "
            "work on each part alone, read it in pieces (a memory map, streaming) or with fewer processes at once, or "
            f"give the job more memory {MORE}."
        ),
    },
    meanings={
        "ray": "",
    },
    confirm="The kernel's log tells of an oom-kill, or oom_kill grows in memory.events of the rank's cgroup.",
    foreseen_by=("cgroup-memory-limit-low", "memory-low", "process-killed-by-oom"),
    source="kernel mm/oom_kill.c, cgroup-v2 memory controller; torch c10 alloc_cpu.cpp",
)
