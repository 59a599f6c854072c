from gpudoctor.cause import Cause, Fix, command

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
