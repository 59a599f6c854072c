"""The machine's clock is not kept in time by anything.

Why it matters: nodes whose clocks drift apart disagree on file times (so checkpoints and builds look newer than they
are), refuse each other's certificates and tokens, and write logs that cannot be put in order.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_multi_node


@check("clock-unsynchronised", title="The clock is synchronised")
def clock_unsynchronised(machine: Snapshot) -> Problems:
    clock = machine.host.clock_synchronised
    # WSL2 takes the time from Windows without telling the kernel, and so do some hypervisors' guest tools.
    if clock.value or machine.host.virtualization.value_or("") == "wsl2":
        return
    several = is_multi_node(machine.environment.value)
    in_container = machine.host.container.value_or("none") != "none"
    yield Problem(
        severity="warning" if several else "info",
        summary="The kernel says that nothing synchronises this machine's clock (adjtimex: STA_UNSYNC)",
        meaning="Nodes drift apart: credentials are refused, and the logs of several nodes cannot be put in order.",
        evidence=(clock,),
        fix=Fix(
            "Start a time service"
            + (" on the host, whose clock this container has." if in_container else " (systemd-timesyncd, or chrony)."),
            commands=() if in_container else (command("sudo timedatectl set-ntp true"), command("timedatectl status")),
        ),
    )
