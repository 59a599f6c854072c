"""Which NICs --find-slow tries one by one."""

from gpudoctor.nccl.nics import nic_settings
from gpudoctor.snapshot import Snapshot
from gpudoctor.testing.machines import h100_node
from gpudoctor.testing.networks import interface, with_interfaces


def machine(last: int, *more: str) -> Snapshot:
    names = ("eth0", "eth1")[: 2 if not more else 1]
    nics = [interface(name, f"192.0.{number}.{last}/24") for number, name in enumerate(names)]
    return with_interfaces(h100_node(), *nics, *(interface(name, "172.17.0.1/16", kind="bridge") for name in more))


def test_every_interface_that_leads_to_the_partner_is_tried() -> None:
    assert nic_settings(machine(1), machine(2), "gloo") == {
        "eth0": {"GLOO_SOCKET_IFNAME": "eth0"},
        "eth1": {"GLOO_SOCKET_IFNAME": "eth1"},
    }


def test_a_bridge_with_the_same_address_everywhere_is_no_nic() -> None:
    """A test bound to docker0 hangs on every healthy machine, and the NIC would be named."""
    assert nic_settings(machine(1, "docker0"), machine(2, "docker0"), "gloo") == {}
