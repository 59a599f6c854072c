"""A member of a bond has no link.

Why it matters: the bond stays up, so nothing fails; it carries half of what it should, and the next fault takes the
node off the network in the middle of a run.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.interface_roles import find, seen
from gpudoctor.knowledge.wording import counted, listed


@check("bond-member-down", title="Every member of a bond has a link")
def bond_member_down(machine: Snapshot) -> Problems:
    interfaces = machine.network.interfaces.value
    for bond in interfaces:
        if bond.kind != "bond" or not bond.is_up:
            continue
        members = [member for name in bond.members if (member := find(interfaces, name)) is not None]
        down = [member for member in members if not member.is_running]
        if not down:
            continue
        yield Problem(
            severity="warning",
            summary=f"{bond.name} has {counted(len(members), 'member')}, and "
            f"{listed(member.name for member in down)} {'has' if len(down) == 1 else 'have'} no link",
            meaning="The bond carries less than it should, and what is left of it has no spare.",
            evidence=(seen(machine, bond.name, *bond.members),),
            fix=Fix.of(
                "Look at cable, transceiver and switch port of that member.",
                command("cat /proc/net/bonding/{:interface}", bond.name),
                *(command("sudo ethtool {:interface}", member.name) for member in down),
            ),
        )
