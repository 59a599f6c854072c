"""Which ports NCCL gives to a GPU, and how fast it takes a way to be: ncclTopoGetLocal in graph/topo.cc, 2.21.5 on.

The fastest way counts first, and how near it is only among equals. Bandwidths are NCCL's own numbers, by PCIe's
generation, the port's rate and the sockets' interconnect; the links of NICs and bridges are taken for wide enough.
"""

from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.settings import version_if_known
from gpudoctor.knowledge.network.topology import ORDER, address_of, class_or_reason, gpu_at, nccl_class
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import Gpu, RdmaDevice, RdmaPort, Snapshot

GBPS_OF_A_LANE = {1: 0.1875, 2: 0.375, 3: 0.75, 4: 1.5, 5: 3.0, 6: 6.0}
"""By generation of PCIe."""
RATE_UNKNOWN = 10.0
"""Gb/s that NCCL takes a port for that does not tell."""
INTEL = lazy_re(r"(?:Platinum|Gold|Silver|Bronze) \d(\d)\d\d")
INTERCONNECT = {"1": 10.0, "2": 10.0, "3": 10.0, "4": 22.0, "5": 40.0}
"""Between sockets, by the second digit of Intel's model: Skylake to Emerald Rapids."""
MANY_INTELS = (2, 26, 2)
"""From here on the last two are told apart from the others."""


def between_sockets(machine: Snapshot) -> float | None:
    """GB/s; None where the processor's name does not tell."""
    model = machine.host.cpu_model.value_or("")
    if is_arm(machine):
        return 6.0
    if "AMD" in model:
        return 16.0
    found = INTEL.search(model)
    known = INTERCONNECT.get(found[1]) if found else None
    old = (version_if_known(machine) or MANY_INTELS) < MANY_INTELS
    return min(known, 10.0) if known and old else known


def is_arm(machine: Snapshot) -> bool:
    return machine.host.architecture.value_or("").startswith(("aarch64", "arm"))


def rate(machine: Snapshot, gpu: Gpu, port: RdmaPort, path: str) -> float | None:
    """GB/s from a GPU over a port that is so far away; None where the sockets' interconnect is not known."""
    lane = GBPS_OF_A_LANE.get(gpu.pcie_generation_max.value_or(0))
    own = lane * gpu.pcie_width_max.value_or(16) if lane else float("inf")
    between = between_sockets(machine) if path == "SYS" else float("inf")
    return None if between is None else min(own, (port.rate_gbps.value_or(0) or RATE_UNKNOWN) / 8, between)


def rails(machine: Snapshot, address: str, taken: set[tuple[str, int]]) -> tuple[RdmaDevice, ...]:
    """The devices whose ports, of those that NCCL takes, serve the GPU at this address; () where no way is known."""
    gpu = gpu_at(machine, address)
    ways: dict[tuple[float, int], dict[str, RdmaDevice]] = {}
    for device in machine.network.rdma_devices.value_or(()):
        path = nccl_class(class_or_reason(machine, sysfs_address(gpu), address_of(device))[0]) if gpu else ""
        for port in device.ports:
            if gpu is not None and path and (device.name, port.number) in taken:
                known = rate(machine, gpu, port, path)
                ways.setdefault((-(known or 0.0), ORDER.index(path)), {})[device.name] = device
    return tuple(ways[min(ways)].values()) if ways else ()
