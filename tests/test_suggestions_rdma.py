"""What `gpudoctor env` suggests for RDMA, and that its advice settles whatever interfaces and devices there are."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.snapshot import (
    Gid,
    PciPath,
    Snapshot,
    read,
)
from gpudoctor.testing.machines import but, h100_node, t4_node, unread
from gpudoctor.testing.networks import (
    changed_port,
    default_route,
    gpu_address,
    interface,
    port,
    rdma_device,
    roce_gids,
    roce_port,
    with_interfaces,
    with_network,
    with_rdma,
)
from tests.suggesting import applied, environment, nccl, only, values


def roce(count: int = 2, version: tuple[int, ...] = (2, 29, 7)) -> Snapshot:
    """GPUs with a RoCE rail each, every rail a network of its own."""
    devices = [
        rdma_device(n, roce_port(f"mlx5_{n}", interface=f"rdma{n}", address=f"198.51.{n}.11")) for n in range(count)
    ]
    nics = [interface(f"rdma{n}", f"198.51.{n}.11/24", speed_mbps=200_000) for n in range(count)]
    machine = with_interfaces(with_rdma(h100_node(count), *devices), interface("eth0", "192.0.2.11/24"), *nics)
    return nccl(machine, version)


# ---------------------------------------------------------------- RDMA


@pytest.mark.parametrize("variable", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_rdma_that_somebody_switched_off_is_not_called_right(variable: dict[str, str]) -> None:
    ((name, value),) = variable.items()
    silent = suggest(environment(h100_node(), **variable)).silent
    assert f"only because {name}={value} keeps it from RDMA" in silent and "own choices are right" not in silent
    assert "own choices are right" in suggest(environment(h100_node(), NCCL_IB_DISABLE="true")).silent


def test_rdma_without_its_library_is_not_called_right_beside_other_suggestions() -> None:
    advice = suggest(with_network(h100_node(), verbs_library=""))
    assert advice.suggestions and "can use no port of mlx5_0" in advice.silent


def test_storage_ports_beside_the_rails_are_left_out() -> None:
    storage = rdma_device(8, name="mlx5_8", pci_bus_id="0000:05:00.0", board_id="MT_0000000224")
    machine = with_rdma(h100_node(), *h100_node().network.rdma_devices.value, storage)
    found = only(suggest(machine), "NCCL_IB_HCA")
    assert found.value == "=" + ",".join(f"mlx5_{n}" for n in range(8))
    assert "mlx5_8" in found.reason


def test_hcas_of_gpus_that_a_container_does_not_show_are_no_storage() -> None:
    machine = h100_node()
    assert suggest(but(machine, "nvidia.gpus", machine.nvidia.gpus.value[:2])).suggestions == ()


def test_a_rail_at_half_its_rate_is_a_fault_and_stays() -> None:
    assert suggest(changed_port(h100_node(), "mlx5_3", rate_gbps=200.0)).suggestions == ()


def test_a_slow_port_of_another_kind_beside_a_gpu_is_not_its_rail() -> None:
    """NCCL looks at bandwidth first: the GPU's traffic goes over the faster port behind the bridge."""
    slow = port("mlx5_8", rate_gbps=25.0)
    machine = h100_node(2)
    devices = machine.network.rdma_devices.value
    beside = rdma_device(8, slow, name="mlx5_8", pci_bus_id="0000:1a:00.0", board_id="MT_0000000224")
    farther = replace(devices[0], pci_bus_id=read("x", "0000:05:00.0"))
    paths = machine.network.pci_paths.value
    place = replace(paths["0000:18:00.0"], bus_id="0000:1a:00.0")
    machine = but(
        with_rdma(machine, farther, devices[1], beside), "network.pci_paths", {**paths, "0000:1a:00.0": place}
    )
    assert only(suggest(machine), "NCCL_IB_HCA").value == "=mlx5_0,mlx5_1"


def test_a_list_that_fits_nothing_is_replaced() -> None:
    found = only(suggest(environment(h100_node(2), NCCL_IB_HCA="=mlx4_0")), "NCCL_IB_HCA")
    assert (found.value, found.replaces) == ("=mlx5_0,mlx5_1", "=mlx4_0")
    assert suggest(environment(h100_node(2), NCCL_IB_HCA="mlx5_0")).suggestions == ()


def test_what_hcas_put_right_needs_no_sockets() -> None:
    assert set(values(suggest(environment(h100_node(2), NCCL_IB_HCA="mlx4_0")))) == {"NCCL_IB_HCA"}


def test_only_a_port_of_a_device_is_named_by_its_number() -> None:
    ports = (
        roce_port("mlx5_0", interface="a", address="192.0.2.1"),
        roce_port("mlx5_0", 2, interface="b", address="192.0.2.2", rate_gbps=25.0, gids=()),
    )
    machine = with_rdma(h100_node(1), rdma_device(0, *ports))
    assert values(suggest(machine)) == {"NCCL_IB_HCA": "=mlx5_0:1"}


def test_a_gid_that_somebody_chose_of_several_stays() -> None:
    machine = roce(2, (2, 20, 5))
    vlan = Gid(5, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "vlan5")
    for device in machine.network.rdma_devices.value:
        machine = changed_port(machine, device.name, gids=(*device.ports[0].gids.value, vlan))
    assert "NCCL_IB_GID_INDEX" not in values(suggest(environment(machine, NCCL_IB_GID_INDEX="5")))
    assert values(suggest(environment(machine, NCCL_IB_GID_INDEX="2")))["NCCL_IB_GID_INDEX"] == "3"


def test_point_to_point_rails_are_routed_and_may_be_crossed() -> None:
    nics = [interface(f"rdma{n}", f"198.51.{n}.11/31", speed_mbps=200_000) for n in range(2)]
    machine = with_interfaces(roce(), interface("eth0", "192.0.2.11/24"), *nics)
    assert "NCCL_CROSS_NIC" in values(suggest(roce()))
    assert "NCCL_CROSS_NIC" not in values(suggest(machine))


def test_rdma_is_switched_off_only_where_nccl_would_stumble_over_it() -> None:
    machine = nccl(
        with_rdma(h100_node(1), rdma_device(0, roce_port(interface="a", address="192.0.2.1", gids=()))), (2, 29)
    )
    found = only(suggest(machine), "NCCL_IB_DISABLE")
    assert (found.value, found.kind) == ("1", "work-around")
    assert "The cure is" in found.reason
    assert "NCCL_IB_DISABLE" not in values(suggest(changed_port(h100_node(1), "mlx5_0", state="DOWN")))
    assert "NCCL_IB_DISABLE" not in values(suggest(with_rdma(h100_node(1))))


@pytest.mark.parametrize(("version", "value"), [((2, 20, 5), "3"), ((2, 21, 5), None), ((2, 27, 5), None)])
def test_the_gid_index_is_for_old_nccl_only(version: tuple[int, ...], value: str | None) -> None:
    assert values(suggest(roce(version=version))).get("NCCL_IB_GID_INDEX") == value


def test_gids_at_different_places_cannot_be_told_in_one_number() -> None:
    machine = roce(version=(2, 20, 5))
    moved = tuple(replace(gid, index=gid.index + 4) for gid in roce_gids("rdma1", "198.51.1.11"))
    advice = suggest(changed_port(machine, "mlx5_1", gids=moved))
    assert "NCCL_IB_GID_INDEX" not in values(advice)
    assert any(each.what == "NCCL_IB_GID_INDEX" and "different indices" in each.reason for each in advice.unjudged)


def test_infiniband_never_gets_a_gid_index() -> None:
    machine = changed_port(h100_node(1), "mlx5_0", gids=(Gid(0, "fe80:0:0:0:0:0:0:1", "IB/RoCE v1"),))
    assert suggest(nccl(machine, (2, 18, 1))).suggestions == ()


def test_rails_of_their_own_are_not_crossed() -> None:
    assert values(suggest(roce())) == {"NCCL_CROSS_NIC": "0"}
    routed = with_network(roce(), routes=(default_route("eth0"), default_route("rdma0", "198.51.0.1")))
    assert suggest(routed).suggestions == ()
    assert suggest(environment(roce(), NCCL_CROSS_NIC="1")).suggestions == ()


def test_a_vm_that_hides_its_switches_gets_gpu_direct() -> None:
    machine = h100_node(2)
    devices = machine.network.rdma_devices.value
    flat = [*map(gpu_address, range(2)), *(device.pci_bus_id.value for device in devices)]
    machine = with_network(machine, pci_paths={bus: PciPath(bus, (), "pci0000:00", 0) for bus in flat})
    assert suggest(machine).suggestions == ()  # on bare metal it is no VM's doing
    machine = but(machine, "host.virtualization", "kvm")
    answer = machine.cuda.all.value
    known = replace(answer, devices=tuple(replace(each, gpu_direct_rdma=True, dma_buf=True) for each in answer.devices))
    machine = but(but(machine, "cuda.all", known), "cuda.visible", known)
    assert values(suggest(machine)) == {"NCCL_NET_GDR_LEVEL": "PHB"}
    assert suggest(environment(machine, NCCL_TOPO_FILE="/opt/topo.xml")).suggestions == ()
    assert suggest(environment(machine, NCCL_NET_GDR_LEVEL="SYS")).suggestions == ()


# ---------------------------------------------------------------- whatever there is

ANY_INTERFACES = st.lists(
    st.builds(
        interface,
        st.sampled_from(["eth0", "eth1", "ib0", "docker0", "br-0", "veth1", "wlan0", "virbr0", "lo1", "ens1f0np0"]),
        *[st.sampled_from(["192.0.2.1/24", "169.254.1.1/16", "fe80::1/64", "2001:db8::1/64", "absurd/99"])] * 2,
        kind=st.sampled_from(["ethernet", "bridge", "veth", "docker", "tun", "other", "ipoib"]),
        speed_mbps=st.sampled_from([None, -1, 0, 10, 1_000, 25_000, 100_000, 10**30]),
        is_running=st.booleans(),
        is_up=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda nic: nic.name,
)


@settings(max_examples=300, deadline=None)
@given(nics=ANY_INTERFACES, routed=st.sampled_from(["eth0", "docker0", "nowhere"]), nodes=st.sampled_from([None, 1, 2]))
def test_whatever_interfaces_there_are_the_advice_settles(nics: list[Any], routed: str, nodes: int | None) -> None:
    machine = with_interfaces(t4_node(), *nics)
    machine = with_network(machine, routes=(default_route(routed),))
    first = suggest(machine, nodes)
    names = {nic.name for nic in nics}
    chosen = values(first).get("NCCL_SOCKET_IFNAME", "=").removeprefix("=")
    assert set(chosen.split(",")) <= names | {""}
    assert suggest(applied(machine, first), nodes).suggestions == ()


ANY_PORT = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["ACTIVE", "ACTIVE", "DOWN", "INIT", "", unread()]),
        "link_layer": st.sampled_from(["InfiniBand", "Ethernet", "Unspecified", unread()]),
        "rate_gbps": st.sampled_from([0.0, 25.0, 200.0, 400.0, float("inf"), unread()]),
        "gids": st.sampled_from(
            [(), (Gid(9, "x", ""),), (Gid(3, "fe80:0:0:0:0:0:0:1", "RoCE v2"),), roce_gids("a", "192.0.2.1"), unread()]
        ),
    },
)
ANY_DEVICE = st.fixed_dictionaries(
    {"ports": st.lists(ANY_PORT, max_size=2)},
    optional={
        "board_id": st.sampled_from(["", "MT_0000000224", unread()]),
        "pci_bus_id": st.sampled_from(["", "0000:05:00.0", "absurd", unread()]),
        "interfaces": st.just(("eth0",)),
    },
)


@settings(max_examples=300, deadline=None)
@given(
    devices=st.lists(ANY_DEVICE, max_size=4),
    version=st.sampled_from([(2, 18, 1), (2, 20, 5), (2, 27, 5), (2, 29, 7)]),
    vm=st.booleans(),
    variables=st.dictionaries(
        st.sampled_from(["NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_GDR_LEVEL", "NCCL_SOCKET_IFNAME"]),
        st.sampled_from(["", "mlx5", "=mlx5_1:1", "^", "1", "true", "Socket", "SYS", "eth0", "absurd"]),
    ),
)
def test_whatever_rdma_there_is_the_advice_settles(
    devices: list[dict[str, Any]], version: tuple[int, ...], vm: bool, variables: dict[str, str]
) -> None:
    built = [
        rdma_device(
            n,
            *(port(f"mlx5_{n}", number, **facts) for number, facts in enumerate(fields["ports"], start=1)),
            **{name: value for name, value in fields.items() if name != "ports"},
        )
        for n, fields in enumerate(devices)
    ]
    machine = environment(nccl(with_rdma(h100_node(2), *built), version), **variables)
    if vm:
        machine = but(machine, "host.virtualization", "kvm")
    first = suggest(machine)
    assert suggest(applied(machine, first)).suggestions == ()
