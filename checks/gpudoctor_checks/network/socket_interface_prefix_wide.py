"""NCCL_SOCKET_IFNAME matches more interfaces than the one it spells out.

Why it matters: without "=" NCCL compares beginnings: eth1 is also eth10 to eth19. NET/Socket then sends data over all
of them, and a run hangs or slows down when the others lead elsewhere.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_multi_node
from gpudoctor.knowledge.nccl.interfaces import IFNAME, is_set, nccl_choice, parse
from gpudoctor.knowledge.nccl.settings import effective, set_text, where
from gpudoctor.knowledge.network.interface_roles import seen
from gpudoctor.knowledge.wording import listed


@check("socket-interface-prefix-wide", title="NCCL_SOCKET_IFNAME matches what it spells out")
def socket_interface_prefix_wide(machine: Snapshot) -> Problems:
    names = {interface.name for interface in machine.network.interfaces.value}
    settings = effective(machine)
    value = set_text(settings, IFNAME)
    pattern = parse(value)
    if not is_set(value) or pattern.excludes or pattern.exact:
        return
    exact = [entry for entry in pattern.entries if entry in names]
    # An entry that is no interface's whole name is meant as a prefix ("eth", "ib").
    prefixes = tuple(entry for entry in pattern.entries if entry not in names)
    taken = nccl_choice(machine).names
    stray = [name for name in taken if name not in exact and not (prefixes and name.startswith(prefixes))]
    if exact and stray:
        others = "" if not prefixes else f"; {listed(prefixes)} stays a prefix only without it"
        yield Problem(
            severity="warning" if is_multi_node(machine.environment.value) else "info",
            summary=f"{IFNAME} is {value}{where(settings[IFNAME])}, which as a prefix also matches {listed(stray)}",
            meaning="NCCL's sockets use these too; a run over several nodes hangs when they lead elsewhere.",
            evidence=(machine.environment, seen(machine, *taken)),
            fix=Fix(
                f"Put = in front, which makes the names exact{others}.",
                commands=(command("export {:variable}={:value}", IFNAME, "=" + ",".join(exact)),),
            ),
        )
