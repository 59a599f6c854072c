"""This machine's clock is seconds away from its time source.

Why it matters: torchrun's c10d rendezvous compares the heartbeats of other nodes with its own clock. A node whose clock
is more than 15 s behind or ahead counts as dead: the others train without it, with a smaller world size and without a
message, while it waits. Before that, credentials are refused and the logs of several nodes cannot be put in order.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command

LOST_SECONDS = 15.0
"""torch's c10d rendezvous: a keep-alive every 5 s, and a node is dead after 3 that are missing. Measured with torch
2.13: 14 s was fine, with 17 s rank 0 trained alone."""
LARGE_SECONDS = 5.0
"""One keep-alive; a clock that a daemon keeps is within milliseconds (our rule of thumb)."""


@check("clock-offset-large", title="The clock agrees with its time source")
def clock_offset_large(machine: Snapshot) -> Problems:
    offset = machine.host.clock_offset_seconds
    seconds = abs(offset.value)
    if seconds < LARGE_SECONDS:
        return
    lost = seconds > LOST_SECONDS
    in_container = machine.host.container.value_or("none") != "none"
    step = (
        command("sudo chronyc makestep")
        if offset.source.startswith("chronyc")
        else command("sudo systemctl restart ntpd")
    )
    yield Problem(
        severity="error" if lost else "warning",
        summary=f"This machine's clock is {seconds:.1f} s {'behind' if offset.value < 0 else 'ahead of'} its time "
        "source; a clock that is kept is within milliseconds",
        meaning=f"Over {LOST_SECONDS:.0f} s, torchrun's c10d rendezvous takes this node for dead, and the others train "
        "without it and without a message."
        if lost
        else f"From {LOST_SECONDS:.0f} s on, torchrun's c10d rendezvous loses nodes without a message; file times and "
        "logs of several nodes disagree already.",
        evidence=(offset,),
        fix=Fix(
            "Set the clock at once instead of waiting for the daemon to slew it, while no job runs"
            + (", on the host, whose clock this container has." if in_container else "."),
            commands=()
            if in_container
            else (step, command("chronyc tracking") if "chronyc" in step else command("ntpq -n -p")),
        ),
    )
