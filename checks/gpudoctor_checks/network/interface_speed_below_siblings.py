"""A network port runs slower than its siblings.

Why it matters: collectives move at the pace of the slowest link. A port that came up at 25 of its 100 Gb/s, because of
a cable, a transceiver or the switch's setting, costs the whole job and shows in no log.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.interfaces import nccl_choice
from gpudoctor.knowledge.network.interface_roles import seen, siblings
from gpudoctor.knowledge.wording import counted

MAJORITY = 3
"""So many ports of one driver, and most of them faster, are one fabric (our rule of thumb). Of two, the slower one may
be for management on purpose, and counts when NCCL takes it."""


@check("interface-speed-below-siblings", title="Network ports of one kind run at one speed")
def interface_speed_below_siblings(machine: Snapshot) -> Problems:
    for group in siblings(machine):
        speeds = [port.speed_mbps for port in group if port.speed_mbps]
        fastest = max(speeds, default=0)
        slow = [port for port in group if port.speed_mbps and port.speed_mbps < fastest]
        if not slow:
            continue
        if len(speeds) < MAJORITY or len(slow) * 2 >= len(speeds):
            # One card for training and one for the rest is common: only what NCCL puts beside a faster one counts.
            taken = nccl_choice(machine).names
            slow = [port for port in slow if port.name in taken and len(set(taken) & {p.name for p in group}) > 1]
        for port in slow:
            yield Problem(
                severity="warning",
                summary=f"{port.name} runs at {_gigabits(port.speed_mbps)}; "
                f"{counted(sum(1 for speed in speeds if speed == fastest), 'port')} of its kind ({port.driver}) "
                f"at {_gigabits(fastest)}",
                meaning="Traffic that is spread over the ports moves at the pace of the slowest.",
                evidence=(seen(machine, *(interface.name for interface in group)),),
                fix=Fix.of(
                    "Look at cable, transceiver and switch port, and at the speeds that both ends offer.",
                    command("sudo ethtool {:interface}", port.name),
                    command("sudo ethtool -m {:interface}", port.name),
                ),
            )


def _gigabits(megabits: int | None) -> str:
    return f"{(megabits or 0) / 1000:g} Gb/s"
