"""A rank is stopped."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix

CAUSE = Cause(
    id="stopped-rank",
    title="a rank is stopped",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    blame="rank",
    hangs_by="gone",
    while_running="always",
    meaning=(
        "A process was stopped by a signal (Ctrl-Z, SIGSTOP), a debugger, a frozen cgroup, or waits for "
        "somebody to type (breakpoint, pdb). It does not go on by itself, and the others wait."
    ),
    fix=Fix("Continue the process (kill -CONT with its PID), leave the debugger, or take the breakpoint out."),
    confirm=("Its state in /proc/PID/status is T or t, or its stack stands in pdb or input."),
    source=("proc(5), signal(7), cgroup-v2 freezer"),
)
