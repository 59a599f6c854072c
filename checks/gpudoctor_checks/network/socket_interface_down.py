"""The interface that NCCL or gloo is told to use, or takes, is down or has no address.

Why it matters: NCCL before 2.28.3 takes an interface that is down as long as it has an address, and waits for the
others on it until the time-out; later releases pass it over, and end with an error when it was the one that was named.
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.job import is_multi_node
from gpudoctor.knowledge.nccl.interfaces import IFNAME, is_set, nccl_choice, parse
from gpudoctor.knowledge.nccl.settings import effective, set_text
from gpudoctor.knowledge.network import gloo_interface
from gpudoctor.knowledge.network.interface_roles import find, seen
from gpudoctor.snapshot import Interface


@check("socket-interface-down", title="The interfaces that NCCL and gloo use are up")
def socket_interface_down(machine: Snapshot) -> Problems:
    interfaces = machine.network.interfaces.value
    several = is_multi_node(machine.environment.value)
    for name in gloo_interface.listed(machine.environment.value.get(gloo_interface.IFNAME, "")):
        named = find(interfaces, name)
        if named is not None and not (named.is_running and named.addresses):
            fails = several or not named.addresses
            yield _problem(machine, named, f"{gloo_interface.IFNAME} names {name}", "error" if fails else "info")
    value = set_text(effective(machine), IFNAME)
    choice = nccl_choice(machine)
    first = find(interfaces, choice.first)
    if first is not None and not first.is_running:
        # An address without a link still leads to the machine itself, which is enough for one node.
        severity: Severity = "error" if several else "info"
        yield _problem(machine, first, f"NCCL takes {first.name} first ({choice.first_rule})", severity)
    elif not choice.names and is_set(value):
        pattern = parse(value)
        for interface in [
            interface for interface in interfaces if pattern.takes(interface.name) and not pattern.excludes
        ][:1]:
            yield _problem(machine, interface, f"NCCL can use only {interface.name} ({choice.rule})", "error")


def _problem(machine: Snapshot, interface: Interface, who: str, severity: Severity) -> Problem:
    state = _state(interface)
    commands = [command("ip -br address show dev {:interface}", interface.name)]
    if not interface.is_up:
        commands.insert(0, command("sudo ip link set {:interface} up", interface.name))
    return Problem(
        severity=severity,
        summary=f"{who}, and that interface {state}",
        meaning="One node works as long as the interface has an address. Over several, the job ends with an error, or "
        "waits for the others until its time-out."
        if severity == "info"
        else "The job ends with an error about its socket interface, or waits for the other ranks until its time-out.",
        evidence=(seen(machine, interface.name), machine.environment),
        fix=Fix(
            "Bring the interface up and give it its address (and look at cable and switch port), or name another one.",
            commands=tuple(commands),
        ),
    )


def _state(interface: Interface) -> str:
    if not interface.is_up:
        return "is switched off (down)"
    if not interface.is_running:
        return f"has no link (operstate {interface.operstate or 'unknown'})"
    return "has no address that can be used" if interface.addresses else "has no address"
