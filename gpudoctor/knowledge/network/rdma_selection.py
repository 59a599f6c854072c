"""Which RDMA ports NCCL's own IB transport takes, and why it leaves the others.

Source: NCCL src/transport/net_ib/init.cc and src/misc/utils.cc (read at 2.30; the same rules since 2.8 but for the
rail and plane fields of an entry, which 2.30.7 added and which choose nothing; before it, a colon without a number
behind it named port 0, which no device has).
"""

import re
from typing import NamedTuple

from gpudoctor.knowledge.nccl.settings import effective, set_integer, set_names, version_if_known
from gpudoctor.snapshot import DeviceNode, RdmaDevice, RdmaPort, Snapshot

NODES = "/dev/infiniband"
LINK_LAYERS = ("InfiniBand", "Ethernet")
EMPTY_PORT_IS_ANY_SINCE = (2, 30, 7)
GID_ASKED_AT_START_SINCE = (2, 32, 0)
"""From here on (tried on 2.32.3, 2.31 was not seen) a port's GID is asked for when NCCL looks for ports, and where that
fails there is no IB transport; before, each connection over that port fails."""
MAXIMUM_DEVICES = 32
"""MAX_IB_DEVS: ports beyond it are not looked at, entries of NCCL_IB_HCA beyond it not read."""


class WantedPort(NamedTuple):
    """One entry of NCCL_IB_HCA: a device, or the beginning of its name, and a port (None: any)."""

    device: str
    port: int | None


class HcaFilter(NamedTuple):
    """NCCL_IB_HCA as NCCL reads it."""

    excludes: bool
    exact: bool
    entries: tuple[WantedPort, ...]

    def names(self, device: str, port: int) -> bool:
        """Whether an entry fits this port; a list without entries fits every one."""
        return not self.entries or any(
            (device == entry.device if self.exact else device.startswith(entry.device)) and entry.port in (None, port)
            for entry in self.entries
        )

    def takes(self, device: str, port: int) -> bool:
        return self.names(device, port) != self.excludes


class RdmaChoice(NamedTuple):
    """What NCCL's IB transport takes, as (device, port), and what it passes over, with the reason."""

    taken: tuple[tuple[str, int], ...]
    passed_over: tuple[tuple[str, int, str], ...]
    hca_filter: str
    """NCCL_IB_HCA; empty when it is not set."""
    filter_matched: bool
    """False when ports were usable and the filter left none of them."""
    refused: tuple[tuple[str, int], ...] = ()
    """Ports at which NCCL's IB transport gives up altogether, so that none is taken: their GID table does not reach to
    NCCL_IB_GID_INDEX."""


def parse_filter(text: str, version: tuple[int, ...] | None = None) -> HcaFilter:
    """NCCL_IB_HCA: `[^][=]device[:port][,...]`. `version` is NCCL's; None: of releases that differ, the newest."""
    empty = -1 if version is None or version >= EMPTY_PORT_IS_ANY_SINCE else 0
    excludes = text.startswith("^")
    text = text[excludes:]
    exact = text.startswith("=")
    entries = []
    for part in text[exact:].split(","):
        device, *fields = part.split(":")
        if device:
            port = -1 if not fields else _atoi(fields[0]) if fields[0] else empty
            entries.append(WantedPort(device, None if port == -1 else port))
    return HcaFilter(excludes, exact, tuple(entries[:MAXIMUM_DEVICES]))


def _atoi(text: str) -> int:
    """C's atoi: the number a text begins with, else 0."""
    match = re.match(r"\s*([+-]?[0-9]{1,9})", text)
    return int(match[1]) if match else 0


def usable(port: RdmaPort) -> bool:
    """Whether NCCL could take a port: ACTIVE, and InfiniBand or Ethernet. Raises `NotRead`."""
    return not why_unusable(port)


def why_unusable(port: RdmaPort) -> str:
    """Why NCCL could not take a port, in words; empty when it could. Raises `NotRead`."""
    if port.state.value != "ACTIVE":
        return f"its port is {port.state.value}"
    if port.link_layer.value not in LINK_LAYERS:
        return f"its link layer is {port.link_layer.value}, which NCCL's IB transport does not speak"
    return ""


def usable_ports(machine: Snapshot) -> tuple[tuple[RdmaDevice, RdmaPort], ...]:
    """Every port that NCCL could take, whatever the settings say. Raises `NotRead`."""
    return tuple(
        (device, port) for device in machine.network.rdma_devices.value for port in device.ports if usable(port)
    )


def verbs_nodes(machine: Snapshot) -> list[DeviceNode]:
    """/dev/infiniband/uverbs*, which libibverbs opens. Raises `NotRead`."""
    return [node for node in machine.network.rdma_nodes.value if node.path.rpartition("/")[2].startswith("uverbs")]


def cannot_open(machine: Snapshot) -> str:
    """Why no RDMA device can be opened by this process at all; empty when nothing forbids it. Raises `NotRead`."""
    devices = machine.network.rdma_devices.value
    reasons = [why_closed(machine, device) for device in devices]
    if not devices or not all(reasons):
        return ""
    verbs = verbs_nodes(machine)
    if not verbs:
        return "there is no /dev/infiniband/uverbs* here"
    if not any(node.readable and node.writable for node in verbs):
        return "/dev/infiniband/uverbs* may not be opened by this user"
    return reasons[0]


def why_closed(machine: Snapshot, device: RdmaDevice) -> str:
    """Why this process cannot open a device, in words; empty when nothing forbids it. Raises `NotRead`.

    Where nothing says which file is the device's, any that can be opened counts."""
    verbs = verbs_nodes(machine)
    if device.uverbs:
        verbs = [node for node in verbs if node.path == f"{NODES}/{device.uverbs}"]
    name = device.uverbs or "uverbs*"
    if not verbs:
        return f"there is no {NODES}/{name} here"
    if not any(node.readable and node.writable for node in verbs):
        return f"{NODES}/{name} may not be opened by this user"
    if not machine.network.verbs_library.value:
        return "libibverbs.so.1 is not installed"
    return ""


def rdma_choice(machine: Snapshot) -> RdmaChoice:
    """What NCCL takes of the RDMA ports here, by its settings. Raises `NotRead`."""
    settings = effective(machine)
    text, version = set_names(settings, "NCCL_IB_HCA"), version_if_known(machine)
    chosen = parse_filter(text, version)
    index = set_integer(settings, "NCCL_IB_GID_INDEX", -1) if (version or (0,)) >= GID_ASKED_AT_START_SINCE else -1
    refused: list[tuple[str, int]] = []
    disabled = set_integer(settings, "NCCL_IB_DISABLE", 0) != 0
    taken: list[tuple[str, int]] = []
    passed: list[tuple[str, int, str]] = []
    left_out = 0
    for device in machine.network.rdma_devices.value:
        closed = why_closed(machine, device)
        for port in device.ports:
            reason = why_unusable(port)
            if not reason and disabled:
                reason = f"NCCL_IB_DISABLE={settings['NCCL_IB_DISABLE'].value} turns RDMA off"
            if not reason and closed:
                reason = closed
            if not reason and not chosen.takes(device.name, port.number):
                reason = f"NCCL_IB_HCA={text} leaves it out"
                left_out += 1
            if not reason and len(taken) >= MAXIMUM_DEVICES:
                reason = f"NCCL takes {MAXIMUM_DEVICES} ports at most"
            if reason:
                passed.append((device.name, port.number, reason))
            else:
                taken.append((device.name, port.number))
                if port.link_layer.value == "Ethernet" and 0 < port.gid_entries.value_or(0) <= index:
                    refused.append((device.name, port.number))
    matched = bool(taken) or not left_out
    if refused:
        reason = f"NCCL_IB_GID_INDEX={index} is beyond the GID table of {refused[0][0]}, and RDMA is given up for it"
        passed += [(*place, reason) for place in taken]
        taken = []
    return RdmaChoice(tuple(taken), tuple(passed), text, matched, tuple(refused))
