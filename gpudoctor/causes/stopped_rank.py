from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="stopped-rank",
    title="a rank is stopped",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="stopped",
    blame="user",
    restart="not decided",
    hangs_by="gone",
    while_running="always",
    meaning=(
        "A process was stopped by a signal (Ctrl-Z, SIGSTOP), a debugger, a frozen cgroup, or waits for "
        "somebody to type (breakpoint, pdb). It does not go on by itself, and the others wait. A stopped launcher "
        "neither starts its ranks nor notices that one ends."
    ),
    like=("storage-stall", "slow-rank-timeout"),
    fix=Fix("Continue the process (kill -CONT with its PID), leave the debugger, or take the breakpoint out."),
    variants={
        "signal": (
            "Let it go on, and find what stopped it: Ctrl-Z, a debugger, a scheduler that suspends jobs, "
            "a frozen cgroup."
        ),
        "frozen": (
            "Thaw it by what has frozen it: docker unpause, podman unpause, systemctl thaw, a scheduler that resumes "
            "the job, a checkpoint tool (CRIU) that has ended."
        ),
        "traced": "Let the debugger go on or detach; it holds the process.",
        "input": (
            "Remove the breakpoint, or the question on standard input: a rank under a launcher has nobody who answers."
        ),
    },
    confirm=("Its state in /proc/PID/status is T or t, or its stack stands in pdb or input."),
    source=("proc(5), signal(7), cgroup-v2 freezer"),
)
