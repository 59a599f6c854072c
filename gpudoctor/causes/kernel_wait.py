"""A rank waits in the kernel, for no file system that is known."""

from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="kernel-wait",
    title="a rank waits in the kernel for a driver",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="storage",
    blame="node",
    restart="elsewhere",
    hangs_by="gone",
    meaning=(
        "A driver or a file system there does not answer, and nothing ends the process before it does: no signal and "
        "no time-out reaches it. The others wait for this rank."
    ),
    like=("storage-stall", "xid-gpu-lost"),
    fix=Fix(
        "See what the kernel says of GPUs, NICs and file systems.",
        (command("sudo dmesg -T | tail -n 60"), command("gpudoctor check")),
    ),
    confirm=("The process stays in state D, and /proc/PID/wchan names the function it waits in."),
    foreseen_by=("process-stuck-in-driver",),
    source=("proc(5); kernel hung_task"),
)
