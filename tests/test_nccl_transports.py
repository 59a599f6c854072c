"""By which way NCCL joins two GPUs, and by which ports it serves them; on the real NCCL: tests/test_nccl_oracle.py."""

import pytest
from msgspec import structs

from gpudoctor.knowledge.environment import recorded
from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.rails import rails
from gpudoctor.knowledge.nccl.transports import Transport, transports
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.snapshot import Reading, Snapshot, read
from gpudoctor.testing.machines import but, h100_node

pytestmark = pytest.mark.quick


def node(linked: bool = True, processor: str = "AMD EPYC 9654", **settings: str) -> Snapshot:
    machine = but(h100_node(), "host.cpu_model", processor)
    machine = but(machine, "environment", recorded(settings))
    if linked:
        return machine
    gpus = tuple(structs.replace(gpu, nvlinks=read("NVML", ())) for gpu in machine.nvidia.gpus.value)
    return but(machine, "nvidia.gpus", gpus)


def way(machine: Snapshot, one: int, other: int) -> Transport:
    return next(each for each in transports(machine) if (each.gpu, each.other) == (one, other))


def refusing(machine: Snapshot, one: int, other: int) -> Snapshot:
    said: Reading[object] = machine.nvidia.peers
    assert said.is_read
    peers = tuple(
        structs.replace(each, read="chipset-not-supported") if {each.from_gpu, each.to_gpu} == {one, other} else each
        for each in machine.nvidia.peers.value
    )
    return but(machine, "nvidia.peers", peers)


def test_nvlink_is_used_directly() -> None:
    assert way(node(), 0, 7)[2:] == ("P2P", "over NVLink")


def test_a_setting_leads_through_host_memory() -> None:
    found = way(node(NCCL_P2P_DISABLE="1"), 0, 1)
    assert found.kind == "SHM"
    assert "NCCL_P2P_DISABLE=1 allows LOC" in found.reason
    assert way(node(NCCL_P2P_DISABLE="yes"), 0, 1).kind == "P2P"


def test_without_host_memory_the_network_is_left_and_then_nothing() -> None:
    assert way(node(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1"), 0, 1).kind == "NET"
    off = node(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_NET_DISABLE_INTRA="1")
    assert way(off, 0, 1).kind == "none"


def test_refused_access_over_nvlink_ends_nccl() -> None:
    assert way(refusing(node(), 2, 3), 2, 3).kind == "none"
    assert way(refusing(node(NCCL_IGNORE_DISABLED_P2P="1"), 2, 3), 2, 3).kind == "SHM"


@pytest.mark.parametrize(
    ("processor", "kind"),
    [("AMD EPYC 9654", "NET"), ("Intel(R) Xeon(R) Platinum 8480C", "NET"), ("GenuineIntel", None)],
)
def test_between_sockets_ports_may_be_faster(processor: str, kind: str | None) -> None:
    assert way(node(linked=False, processor=processor), 0, 7).kind == kind
    assert way(node(linked=False, processor=processor), 0, 1).kind == "SHM"


def test_ports_that_nccl_does_not_take_serve_nobody() -> None:
    machine = node(NCCL_IB_HCA="^mlx5_0")
    address = sysfs_address(machine.nvidia.gpus.value[0])
    names = {device.name for device in rails(machine, address, set(rdma_choice(machine).taken))}
    assert names == {"mlx5_1", "mlx5_2", "mlx5_3"}
