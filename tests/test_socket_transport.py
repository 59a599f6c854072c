"""Whether NCCL's data between nodes goes over TCP: one answer for the checks and for `gpudoctor env`."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpudoctor.knowledge.nccl.socket_transport import data_over_sockets
from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.snapshot import NotRead, Reading, Snapshot, absent, read
from gpudoctor.testing.machines import h100_node, t4_node, unread
from gpudoctor.testing.networks import changed_port, rdma_device, roce_port, with_network, with_rdma
from tests.suggesting import environment, nccl, values

H100, T4 = h100_node(1), t4_node()
PLUGIN = read("loader", ("/opt/amazon/ofi-nccl/libnccl-net.so",))


def roce(**facts: Any) -> Snapshot:
    return with_rdma(H100, rdma_device(0, roce_port(interface="a", address="192.0.2.1", **facts)))


@pytest.mark.parametrize(
    ("machine", "variables", "over_tcp"),
    [
        (H100, {}, False),
        (T4, {}, True),
        (roce(), {}, False),
        (roce(gids=()), {}, False),  # NCCL takes the port, and its connections fail
        (roce(state="DOWN"), {}, True),
        (changed_port(H100, "mlx5_0", state="DOWN"), {}, True),
        (H100, {"NCCL_NET": "socket"}, True),
        (H100, {"NCCL_IB_DISABLE": "1"}, True),
        (H100, {"NCCL_IB_HCA": "bnxt"}, True),
        (T4, {"NCCL_NET": "IB"}, False),
    ],
)
def test_where_the_data_goes(machine: Snapshot, variables: Mapping[str, str], over_tcp: bool) -> None:
    assert data_over_sockets(environment(machine, **variables)) is over_tcp


@pytest.mark.parametrize(
    ("plugins", "variables", "over_tcp"),
    [
        (PLUGIN, {}, False),
        (PLUGIN, {"NCCL_NET_PLUGIN": "none"}, True),
        (absent("loader", "no loader here"), {}, True),
    ],
)
def test_a_plugin_comes_first(plugins: Reading[Any], variables: Mapping[str, str], over_tcp: bool) -> None:
    assert data_over_sockets(environment(with_network(T4, net_plugins=plugins), **variables)) is over_tcp


def test_what_is_not_read_is_no_tcp() -> None:
    with pytest.raises(NotRead):
        data_over_sockets(with_network(H100, rdma_devices=unread("/sys/class/infiniband")))


def test_advice_for_a_port_that_cannot_connect_goes_over_tcp_once_it_is_followed() -> None:
    machine = nccl(roce(gids=()), (2, 29))
    advised = environment(machine, **values(suggest(machine, 2)))
    assert not data_over_sockets(machine)
    assert data_over_sockets(advised)
