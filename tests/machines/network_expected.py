"""What must be said of each machine of network_machines.py, decided from NCCL's rules and not from what gpudoctor says.

NCCL is 2.29.7 on all of them, so interfaces must be running, and `docker*`, `lo*` and `virbr*` come last. Of an
address-bearing interface NCCL takes the first address, all of IPv4 before all of IPv6. NET/IB takes every port that
is ACTIVE and InfiniBand or Ethernet; without libibverbs or /dev/infiniband it takes none. GPUDirect RDMA reaches
as far as PXB: the HCA below the same PCIe switches as the GPU.
"""

from collections.abc import Mapping
from typing import NamedTuple

RAILS = tuple(f"mlx5_{index}" for index in range(8))


class Expected(NamedTuple):
    """The right answers about one machine."""

    interfaces: tuple[str, ...]
    """Of NCCL's sockets, in its order: the first carries bootstrap."""
    hcas: tuple[str, ...] = ()
    """RDMA devices that NET/IB takes, in any order."""
    gpu_direct: Mapping[int, tuple[str, ...]] = {}
    """GPU -> the HCAs with which it uses GPUDirect RDMA; a GPU without any is left out."""
    problems: frozenset[str] = frozenset()
    """Checks of network and nccl that find something; each fault is named by one."""
    environment: Mapping[str, str] = {}
    """What `gpudoctor env --nodes 2` sets."""


def rails(*without: int) -> dict[int, tuple[str, ...]]:
    """Each GPU with the HCA of its own number."""
    return {index: (f"mlx5_{index}",) for index in range(8) if index not in without}


DGX_RAILS = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")

EXPECTED: Mapping[str, Expected] = {
    # The storage ports are ACTIVE, so NCCL takes them too; other nodes may not reach them.
    "network-dgx-h100": Expected(
        ("eno3", "enp226s0f0np0", "enp227s0f0np0"),
        (*DGX_RAILS, "mlx5_1", "mlx5_7"),
        {index: (name,) for index, name in enumerate(DGX_RAILS)},
        environment={"NCCL_IB_HCA": "=" + ",".join(DGX_RAILS)},
    ),
    # IPoIB with an address comes before any other interface.
    "network-a100-hdr": Expected(("ib0",), RAILS, rails()),
    # Seven of eight equal rails work: what is wrong is the rail, whether its HCA is gone or its port is down.
    "network-port-polling": Expected(
        ("eth0",), tuple(name for name in RAILS if name != "mlx5_3"), rails(3), frozenset({"rdma-rail-missing"})
    ),
    "network-only-port-down": Expected(("eno1",), problems=frozenset({"rdma-port-down"})),
    "network-subnet-manager-gone": Expected(("eno1",), problems=frozenset({"rdma-port-without-subnet-manager"})),
    "network-rail-missing": Expected(
        ("eth0",), tuple(name for name in RAILS if name != "mlx5_5"), rails(5), frozenset({"rdma-rail-missing"})
    ),
    # No libibverbs: NET/IB cannot start, and NET/Socket runs over IPoIB.
    "network-ipoib-only": Expected(("ib0",), problems=frozenset({"rdma-library-missing"})),
    # The members of a bond have no address of their own. Each bond is a network of its own, with no gateway to the
    # others: rails, which NCCL must not cross.
    "network-roce-bonded": Expected(
        ("eno1", "bond0", "bond1", "bond2", "bond3"),
        tuple(f"mlx5_bond_{number}" for number in range(4)),
        {index: (f"mlx5_bond_{index // 2}",) for index in range(8)},
        environment={"NCCL_CROSS_NIC": "0"},
    ),
    # NCCL takes the v1 GID of the IPv4 address (ncclUpdateGidIndex), which works within one Ethernet segment and which
    # no router forwards; nothing that could be set brings v2. The card is on the other socket: no GPUDirect RDMA for
    # any GPU, which is worth knowing.
    "network-roce-without-v2": Expected(
        ("eno1", "ens1np0"), ("mlx5_0",), problems=frozenset({"roce-without-v2-gid", "gpu-direct-rdma-off"})
    ),
    # NCCL_IB_MERGE_NICS=1 makes one device of both; both are taken.
    "network-dual-port-merged": Expected(
        ("eno1", "ens1f0np0", "ens1f1np1"), ("mlx5_0", "mlx5_1"), dict.fromkeys(range(2), ("mlx5_0", "mlx5_1"))
    ),
    # EFA's link layer is neither InfiniBand nor Ethernet: only aws-ofi-nccl drives it.
    "network-efa": Expected(("ens32", "ens65", "ens98", "ens131"), problems=frozenset({"efa-without-plugin"})),
    "network-efa-with-plugin": Expected(("ens32", "ens65", "ens98", "ens131")),
    # NCCL's documentation of both variables: 4 for generic 100G networks; docker0 is not running.
    "network-tcp-100g": Expected(("ens1",), environment={"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"}),
    # A bridge of docker's comes first; the veths have IPv6 only and come last. The hostname resolves to enp6s0.
    "network-many-bridges": Expected(
        ("br-3f9d12ab77c0", "enp6s0", "cni0", "flannel.1", "veth0000", "veth0001", "veth0002"),
        problems=frozenset({"socket-interface-virtual"}),
        environment={"NCCL_SOCKET_IFNAME": "=enp6s0"},
    ),
    # The hostname resolves to 127.0.1.1, where gloo of another node finds nobody.
    "network-laptop": Expected(("wlp1s0",), environment={"GLOO_SOCKET_IFNAME": "wlp1s0"}),
    "network-vm": Expected(("ens5",)),
    # Opening a device fails without its node, and NCCL goes on without it: nothing needs to be set.
    "network-container-without-infiniband": Expected(("eth0",), problems=frozenset({"rdma-devices-unusable"})),
}
