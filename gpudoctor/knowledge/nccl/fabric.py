"""What this machine has that a setting of NCCL could switch off: RDMA ports, NVLink, several GPUs."""

from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.network.rdma_selection import usable_ports
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.snapshot import Reading, Snapshot, read


def rdma_port_names(machine: Snapshot) -> tuple[str, ...]:
    """ "mlx5_0:1 (InfiniBand, 400 Gb/s)" of every port that NCCL could use. Raises `NotRead`."""
    names = []
    for device, port in usable_ports(machine):
        rate = port.rate_gbps.value_or(None)
        speed = f", {rate:g} Gb/s" if rate else ""
        names.append(f"{device.name}:{port.number} ({port.link_layer.value}{speed})")
    return tuple(names)


def ports_in_words(names: tuple[str, ...]) -> str:
    """ "1 ACTIVE RDMA port, mlx5_0:1 (...)"."""
    return f"{counted(len(names), 'ACTIVE RDMA port')}: {listed(names, 2)}"


def has_several_gpus(machine: Snapshot) -> bool:
    """Whether GPUs of this machine could talk to each other. Raises `NotRead`."""
    return gpu_count(machine) > 1


def nvlink_gpu_count(machine: Snapshot) -> int:
    """GPUs with an active NVLink. Raises `NotRead`."""
    gpus = if_present(machine.nvidia.gpus) or ()
    return sum(any(link.active for link in if_present(gpu.nvlinks) or ()) for gpu in gpus)


def has_nvlink_sharp(machine: Snapshot) -> bool:
    """Whether NVSwitch can add up for the GPUs: Hopper or later behind a switch (NCCL 2.17). Raises `NotRead`."""
    gpus = if_present(machine.nvidia.gpus) or ()
    return len(gpus) > 1 and all(
        (if_present(gpu.compute_capability) or (0, 0)) >= (9, 0)
        and any(link.active and link.remote == "switch" for link in if_present(gpu.nvlinks) or ())
        for gpu in gpus
    )


def ports_seen(machine: Snapshot) -> Reading[str]:
    """The usable ports as evidence of one line. Raises `NotRead`."""
    return read(machine.network.rdma_devices.source, ports_in_words(rdma_port_names(machine)))


def gpus_seen(machine: Snapshot) -> Reading[str]:
    """The GPUs and their links as evidence of one line. Raises `NotRead`."""
    linked = nvlink_gpu_count(machine)
    return read(machine.nvidia.gpus.source, f"{counted(gpu_count(machine), 'GPU')}, {linked} with NVLink")
