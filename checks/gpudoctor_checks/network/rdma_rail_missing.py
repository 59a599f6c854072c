"""One of several identical HCAs is missing or has no link.

Why it matters: machines with an HCA for each GPU are built so that each GPU has a rail of its own. NCCL does not
say that one is missing: two GPUs share an HCA, the job is slower on every node, and rails that differ between nodes
can end in connection timeouts.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import is_pasted
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.network.rdma_ports import alike
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import RdmaDevice, is_left_out

FEWEST_RAILS = 3  # our rule of thumb: of two, one can be idle on purpose


@check("rdma-rail-missing", title="Every rail of a multi-rail machine is up", follows=("rdma-port-down",))
def rdma_rail_missing(machine: Snapshot) -> Problems:
    if is_pasted(machine) and not machine.nvidia.gpus.is_read:
        yield from _of_ports_alone(machine)
        return
    gpus = gpu_count(machine)
    for group in alike(machine):
        rails = _rails(group)
        up = [device for device in rails if _is_up(device)]
        down = [device for device in rails if not _is_up(device)]
        # Known are GPUs and HCAs in equal numbers; any other relation may be meant to be as it is.
        if len(up) < FEWEST_RAILS or len(up) >= gpus or gpus - len(rails) not in (0, 1):
            continue
        if len(down) > len(up):
            continue
        absent = gpus - len(rails)
        states = [f"{device.name} is {_state(device)}" for device in down]
        yield Problem(
            severity="warning",
            summary=f"{len(up)} of {gpus} rails are up for {gpus} GPUs"
            + (f": {listed(states)}" if states else f": {absent} HCA of this model is not there"),
            meaning="Two GPUs share an HCA, so collectives between nodes lose bandwidth; nothing says so.",
            evidence=tuple(port.state for device in down or up[:1] for port in device.ports),
            fix=Fix(
                "Repair the link, or the HCA that is missing."
                if down
                else "See whether the HCA is on the PCI bus and its driver came up; replace it when not.",
                commands=tuple(command("ibstat {:interface}", device.name) for device in down[:4])
                or (command("lspci -D | grep -i mellanox"), command("sudo dmesg | grep -i mlx5 | tail -20")),
            ),
        )


def _of_ports_alone(machine: Snapshot) -> Problems:
    """Of pasted output that tells of no GPUs: a port that is switched on and has no link, beside its like that have."""
    for group in alike(machine):
        up = [device for device in group if _is_up(device)]
        down = [device for device in group if not _is_up(device) and _waits(device)]
        if len(up) < FEWEST_RAILS or not down or len(down) > len(up):
            continue
        yield Problem(
            severity="warning",
            summary=f"{listed(f'{device.name} is {_state(device)}' for device in down)}; "
            f"{len(up)} others like it are up",
            meaning="Where each GPU has an HCA, two now share one, and collectives between nodes lose bandwidth. Ports "
            "that are not cabled on purpose need nothing.",
            evidence=tuple(port.state for device in down for port in device.ports),
            fix=Fix(
                "Look at cable, transceiver and the switch's port.",
                commands=tuple(command("ibstat {:interface}", device.name) for device in down[:4]),
            ),
        )


def _waits(device: RdmaDevice) -> bool:
    return any(port.physical_state.value_or("") == "Polling" for port in device.ports)


def _rails(group: tuple[RdmaDevice, ...]) -> list[RdmaDevice]:
    """Functions of one card count as one rail: a card's second port is often not cabled. The one that is up counts."""
    cards: dict[str, RdmaDevice] = {}
    for device in group:
        address = device.pci_bus_id
        card = device.name if is_left_out(address) else address.value.rpartition(".")[0]
        if card not in cards or (_is_up(device) and not _is_up(cards[card])):
            cards[card] = device
    return list(cards.values())


def _is_up(device: RdmaDevice) -> bool:
    return any(port.state.value == "ACTIVE" for port in device.ports)


def _state(device: RdmaDevice) -> str:
    """ "DOWN (Polling)"."""
    for port in device.ports:
        physical = port.physical_state.value_or("")
        return port.state.value + (f" ({physical})" if physical else "")
    return "without a port"
