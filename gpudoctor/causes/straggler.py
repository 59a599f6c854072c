from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="straggler",
    title="a rank is slow, and all wait for it in every step",
    stages=("training",),
    kind="slow-rank",
    blame="node",
    restart="elsewhere",
    hangs_by="together",
    while_running="always",
    meaning=(
        "The job is not hung: one rank takes longer (a GPU that throttles, a busy or misplaced CPU, slow "
        "storage), and collectives go at the pace of the slowest."
    ),
    like=("slow-rank-timeout",),
    fix=Fix(
        "Look at clocks, temperature and power of that rank's GPU, at other processes on its node, and at its CPU "
        "binding.",
        (command("gpudoctor check gpu host"),),
    ),
    variants={
        "no-workers": Fix(
            "Give the DataLoader workers (num_workers=4, persistent_workers=True), so that samples are made while the "
            "step computes.",
        ),
        "few-workers": Fix(
            "Give the DataLoader more workers (num_workers, prefetch_factor), or less to do for each sample: decode "
            "and resize beforehand.",
            (command("nproc"),),
        ),
        "cpu-quota": Fix(
            "Raise the CPU quota of that rank's cgroup (--cpus-per-task of Slurm, the CPU limit of the pod, --cpus of "
            "docker), or start fewer threads and workers.",
            (command("gpudoctor check host"),),
        ),
        "memory-high": Fix(
            "Raise memory.high of that cgroup (MemoryHigh= of systemd; SLURM sets it to what --mem asks for), or let "
            "its ranks hold less: fewer DataLoader workers, less prefetched. Page cache counts too.",
            (command("gpudoctor check host"),),
        ),
        "cpu-shared": Fix(
            "Give each rank processors of its own: look at which CPUs each may run on, and at what else runs on that "
            "node.",
            (command("gpudoctor check host"), command("ps -eo pid,psr,pcpu,args --sort=-pcpu | head")),
        ),
        "storage": Fix(
            "Keep what is read and written in every step on a local disk, or let workers read ahead of the step.",
            (command("gpudoctor check host"), command("mount | grep -E 'nfs|lustre|fuse|gpfs|beegfs'")),
        ),
        "gpu": Fix(
            "Look at clocks, temperature and power of that rank's GPU, and at other processes on it; leave the node "
            "out where a check names it.",
            (command("gpudoctor check gpu"), command("nvidia-smi -q -d PERFORMANCE,CLOCK")),
        ),
        "gpu-work": Fix(
            "Compare what the ranks give their GPUs in a step: samples and their lengths, padding, tokens of experts. "
            "Where it is the same, measure that GPU by itself.",
            (command("gpudoctor amp"), command("gpudoctor check gpu")),
        ),
        "network": Fix(
            "Look at that node's network: the cable and the port at the switch, the speed that was negotiated, errors "
            "and drops of the interface; leave the node out until it is as fast as the others.",
            (command("gpudoctor check network"), command("grep -s . /sys/class/net/*/speed"), command("ip -s link")),
        ),
        "host-code": Fix(
            "Look at what that rank does at this line in every step and the others do not: do it less often, in a "
            "thread, or on all ranks.",
        ),
    },
    judged={
        "no-workers": Judged("slow-rank", "program", "after a fix"),
        "few-workers": Judged("slow-rank", "program", "after a fix"),
        "cpu-quota": Judged("slow-rank", "environment", "after a fix"),
        "memory-high": Judged("slow-rank", "environment", "after a fix"),
        "cpu-shared": Judged("slow-rank", "environment", "after a fix"),
        "gpu-work": Judged("slow-rank", "program", "not decided"),
        "host-code": Judged("slow-rank", "program", "after a fix"),
    },
    confirm=("In three looks the counters move, and the same rank comes last every time."),
    foreseen_by=(
        "clocks-held-down",
        "power-limit-lowered",
        "gpu-too-hot",
        "memory-too-hot",
        "cpu-governor-slow",
        "gpu-cpus-excluded",
        "pcie-link-narrow",
    ),
    source=("reports in several public threads"),
)
