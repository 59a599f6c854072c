"""Looking at RDMA ports: which there are, how messages name them, which are alike."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpudoctor.knowledge.network.rdma_selection import usable
from gpudoctor.knowledge.presence import read_first
from gpudoctor.snapshot import RdmaDevice, RdmaPort, Reading, Snapshot, is_left_out


class DevicePort(NamedTuple):
    """A port with its device."""

    device: RdmaDevice
    port: RdmaPort

    @property
    def name(self) -> str:
        """ "mlx5_0", or "mlx5_0 port 2" of a device with several."""
        return self.device.name if len(self.device.ports) < 2 else f"{self.device.name} port {self.port.number}"


def places(machine: Snapshot, first: Callable[[RdmaPort], Reading[Any]] | None = None) -> list[DevicePort]:
    """Every port, those first of which the fact `first` was read. Raises `NotRead`."""
    every = [DevicePort(device, port) for device in machine.network.rdma_devices.value for port in device.ports]
    return every if first is None else read_first(every, lambda place: first(place.port))


def active(machine: Snapshot) -> list[DevicePort]:
    """The ports that NCCL could take. Raises `NotRead`."""
    return [place for place in places(machine) if usable(place.port)]


def alike(machine: Snapshot) -> list[tuple[RdmaDevice, ...]]:
    """Devices of the same board, virtual functions left out, in groups of two or more."""
    groups: dict[tuple[str, ...], list[RdmaDevice]] = {}
    for device in machine.network.rdma_devices.value:
        if device.is_virtual_function:
            continue
        if device.board_id.is_read:
            groups.setdefault((device.driver, device.board_id.value), []).append(device)
        elif is_left_out(device.board_id):  # pasted output: the same firmware on the same kind of link is as good
            layers = (port.link_layer.value_or("") for port in device.ports)
            groups.setdefault(("", device.firmware.value_or(""), *layers), []).append(device)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def taken(machine: Snapshot, chosen: tuple[tuple[str, int], ...]) -> Iterator[DevicePort]:
    """The ports of a choice of NCCL's (`rdma_choice(...).taken`)."""
    for place in places(machine):
        if (place.device.name, place.port.number) in chosen:
            yield place


def is_roce(port: RdmaPort) -> bool:
    """Raises `NotRead`."""
    return port.link_layer.value == "Ethernet"


def rate(gigabits: float) -> str:
    """ "400 Gb/s"."""
    return f"{gigabits:g} Gb/s"
