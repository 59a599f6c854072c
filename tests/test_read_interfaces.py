"""Interfaces, routes, packet filters and the rendezvous as they are read: fake trees, the real machine, and garbage."""

import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gpudoctor.read import firewall, routes
from gpudoctor.read.firewall import from_iptables, from_nft, has_nftables, read_firewalls
from gpudoctor.read.interfaces import FOLDER, interfaces, ipv4_table, ipv6_table, read_interfaces
from gpudoctor.read.names import look_up
from gpudoctor.read.rendezvous import connect, port_number, read_rendezvous, who_listens
from gpudoctor.read.routes import parse_ipv4, parse_ipv6, read_ephemeral_ports, read_routes
from gpudoctor.read.system import System
from gpudoctor.snapshot import Address, Firewall, Interface, Reading, Rendezvous, Route
from tests.fake_tree import Link, Refusing, fake

Files = dict[str, str | bytes | Link]
PLAIN: Files = {"type": "1", "flags": "0x1003", "operstate": "up", "mtu": "1500", "address": "02:00:00:00:00:01"}


def tree(name: str, *, index: int = 2, **files: Any) -> Files:
    """An interface's folder; file names with / as __."""
    content: Files = {**PLAIN, "ifindex": str(index), "iflink": str(index), "uevent": f"INTERFACE={name}", **files}
    return {f"{FOLDER}/{name}/{file.replace('__', '/')}": text for file, text in content.items()}


def looked(root: Path, files: Files, *names: str) -> tuple[Interface, ...]:
    return interfaces(fake(root, files), dict.fromkeys(names, ()))


def looked_at(root: Path, name: str, **files: Any) -> Interface:
    return looked(root, tree(name, **files), name)[0]


# --- interfaces ---------------------------------------------------------------------------------------------------


def test_a_physical_port(tmp_path: Path) -> None:
    found = looked_at(
        tmp_path,
        "eth0",
        speed="100000",
        mtu="9000",
        device__numa_node="1",
        device__driver=Link("../../../../bus/pci/drivers/mlx5_core"),
    )
    assert found == Interface(
        "eth0", 2, "ethernet", (), True, True, "up", 100_000, 9000, "02:00:00:00:00:01",
        driver="mlx5_core", numa_node=1,
    )  # fmt: skip


def test_the_pci_function(tmp_path: Path) -> None:
    """/sys/class/net/* are links into /sys/devices; a virtio NIC is one step below its PCI function."""
    target = "../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0"
    files = {f"/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/{file}": text for file, text in PLAIN.items()}
    files |= {"/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/device": Link("../../../virtio0")}
    files |= {"/sys/class/net/eth0": Link(target)}
    assert looked(tmp_path, files, "eth0")[0].pci_bus_id == "0000:00:03.0"


@pytest.mark.parametrize(
    ("name", "files", "kind"),
    [
        ("lo", {"type": "772"}, "loopback"),
        ("ibs1", {"type": "32", "device__vendor": "0x15b3"}, "ipoib"),
        ("bond0", {"bonding__slaves": "eth0 eth1", "uevent": "DEVTYPE=bond"}, "bond"),
        ("eth0.100", {"uevent": "DEVTYPE=vlan\nINTERFACE=eth0.100"}, "vlan"),
        ("br0", {"bridge__bridge_id": "8000", "uevent": "DEVTYPE=bridge"}, "bridge"),
        ("docker0", {"bridge__bridge_id": "8000"}, "docker"),
        ("br-0123456789ab", {"bridge__bridge_id": "8000"}, "docker"),
        ("virbr0", {"bridge__bridge_id": "8000"}, "bridge"),
        ("veth12ab", {"iflink": "7"}, "veth"),
        ("eth0", {"iflink": "7"}, "veth"),  # inside a container
        ("tailscale0", {"type": "65534", "tun_flags": "0x1"}, "tun"),
        ("wg0", {"type": "65534", "uevent": "DEVTYPE=wireguard"}, "tunnel"),
        ("flannel.1", {"uevent": "DEVTYPE=vxlan"}, "tunnel"),
        ("tunl0", {"type": "768"}, "tunnel"),
        ("wlan0", {"phy80211__name": "phy0", "device__vendor": "0x8086"}, "wireless"),
        ("eth1", {"device__physfn__vendor": "0x15b3"}, "virtual-function"),
        ("eth1", {"device__vendor": "0x15b3"}, "ethernet"),
        ("dummy0", {}, "dummy"),
        ("ifb0", {}, "other"),
        ("macvlan0", {"iflink": "7", "uevent": "DEVTYPE=macvlan"}, "other"),
    ],
)
def test_kinds(tmp_path: Path, name: str, files: dict[str, str], kind: str) -> None:
    assert looked_at(tmp_path, name, **files).kind == kind


@pytest.mark.parametrize(
    ("flags", "operstate", "is_up", "is_running"),
    [
        ("0x1003", "up", True, True),
        ("0x9", "unknown", True, True),  # lo
        ("0x1003", "down", True, False),
        ("0x1003", "lowerlayerdown", True, False),
        ("0x1002", "down", False, False),
        ("garbage", "up", False, False),
    ],
)
def test_up_and_running(tmp_path: Path, flags: str, operstate: str, is_up: bool, is_running: bool) -> None:
    found = looked_at(tmp_path, "eth0", flags=flags, operstate=operstate)
    assert (found.is_up, found.is_running) == (is_up, is_running)


@pytest.mark.parametrize("speed", ["-1", "", "4294967295", "0", "fast", b"\xff\xfe"])
def test_a_speed_that_nobody_knows(tmp_path: Path, speed: str | bytes) -> None:
    assert looked_at(tmp_path, "eth0", device__vendor="0x15b3", speed=speed).speed_mbps is None


def test_a_bond_and_its_members(tmp_path: Path) -> None:
    files = tree("bond0", bonding__slaves="eth0 eth1\n", uevent="DEVTYPE=bond", speed="200000")
    files |= tree("eth0", index=3, master=Link("../bond0"), device__vendor="0x15b3")
    bond, member = looked(tmp_path, files, "bond0", "eth0")
    assert bond.members == ("eth0", "eth1") and bond.speed_mbps == 200_000
    assert member.master == "bond0"


def test_an_interface_that_went_away(tmp_path: Path) -> None:
    assert looked(tmp_path, {}, "eth0")[0] == Interface("eth0", 0, "other")


def test_a_label_of_an_address(tmp_path: Path) -> None:
    """getifaddrs names an address by its label; the interface is the part before the colon."""
    assert looked(tmp_path, tree("eth0", device__vendor="0x15b3"), "eth0:1")[0].kind == "ethernet"


def test_ipv6(tmp_path: Path) -> None:
    system = fake(
        tmp_path,
        {
            "/proc/net/if_inet6": "00000000000000000000000000000001 01 80 10 80       lo\n"
            "fe800000000000000000000000000002 02 40 20 80     eth0\n"
            "20010db8000000000000000000000002 02 40 00 80     eth0\n"
            "garbage\n20010db8000000000000000000000003 02 zz 00 80     eth0\n"
        },
    )
    assert ipv6_table(system) == {
        "lo": (Address("inet6", "::1", 128, "host"),),
        "eth0": (Address("inet6", "2001:db8::2", 64), Address("inet6", "fe80::2", 64, "link")),
    }


def test_a_tree_has_no_getifaddrs(tmp_path: Path) -> None:
    assert not read_interfaces(fake(tmp_path, tree("eth0")))["network.interfaces"].is_read


def test_this_machine() -> None:
    """As the kernel's own calls say: names, and the address that leads nowhere but here."""
    found = {each.name: each for each in read_interfaces(System())["network.interfaces"].value}
    assert {name.partition(":")[0] for name in found} == {name for _, name in socket.if_nameindex()}
    assert found["lo"].kind == "loopback"
    assert Address("inet", "127.0.0.1", 8, "host") in found["lo"].addresses
    assert all(each.index == socket.if_nametoindex(name) for name, each in found.items() if ":" not in name)
    assert set(ipv4_table()) == set(found)


def test_too_many_interfaces() -> None:
    table: Mapping[str, tuple[Address, ...]] = {f"eth{n}": () for n in range(5000)}
    reading = read_interfaces(System("/nonexistent"), lambda: table)["network.interfaces"]
    assert "5000 interfaces" in reading.reason


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["type", "flags", "operstate", "mtu", "speed", "ifindex", "iflink", "uevent", "address", "tun_flags"]
        ),
        st.one_of(st.binary(max_size=40), st.sampled_from([b"-1", b"99999999999999999999", b"0x", b"0xffffffffff"])),
    ),
    st.binary(max_size=200),
)
def test_garbage_in_sysfs_is_no_traceback(tmp_path_factory: Any, files: dict[str, bytes], ipv6: bytes) -> None:
    root = tmp_path_factory.mktemp("tree")
    content: Files = {f"{FOLDER}/eth0/{name}": text for name, text in files.items()}
    content |= {"/proc/net/if_inet6": ipv6, f"{FOLDER}/eth0/device/numa_node": ipv6}
    reading = read_interfaces(fake(root, content), lambda: {"eth0": ()})["network.interfaces"]
    assert reading.is_read and reading.value[0].name == "eth0"


# --- routes -------------------------------------------------------------------------------------------------------

ROUTE = """Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	100	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth1	0000000A	00000000	0000	0	0	0	000000FF	0	0	0
*	0000000A	00000000	0201	0	0	0	000000FF	0	0	0
short line
"""
ROUTE6 = (
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 20010db8000000000000000000000001 "
    "00000400 00000001 00000000 00000003     eth0\n"
    "20010db8000000000000000000000002 80 00000000000000000000000000000000 00 00000000000000000000000000000000 "
    "00000000 00000001 00000000 80200001       lo\n"
    "ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 "
    "00000100 00000001 00000000 00000001     eth0\n"
)


@pytest.mark.skipif(sys.byteorder != "little", reason="the text is of a little-endian machine")
def test_routes(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/proc/net/route": ROUTE, "/proc/net/ipv6_route": ROUTE6})
    assert read_routes(system)["network.routes"].value == (
        Route("0.0.0.0/0", "192.0.2.1", "eth0", 100),
        Route("::/0", "2001:db8::1", "eth0", 1024),
        Route("192.0.2.0/24", "", "eth0", 0),
    )
    assert read_routes(System("/nonexistent"))["network.routes"].missing_kind == "failed"


@given(st.text(max_size=300))
def test_garbage_for_routes(text: str) -> None:
    assert all(route.interface for route in [*parse_ipv4("head\n" + text), *parse_ipv6(text)])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("32768\t60999", (32768, 60999)), ("60999 32768", None), ("1", None), ("0 5", None), ("", None)],
)
def test_ephemeral_ports(tmp_path: Path, text: str, wanted: tuple[int, int] | None) -> None:
    found = read_ephemeral_ports(fake(tmp_path, {routes.PORTS_FILE: text}))["network.ephemeral_ports"]
    assert found.value_or(None) == wanted


# --- packet filters -----------------------------------------------------------------------------------------------

NFT = """table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		tcp dport 22 accept comment "drop nothing here"
		jump input_more
	}

	chain input_more {
		ip saddr 198.51.100.0/24 reject with icmp port-unreachable
	}

	chain forward {
		type filter hook forward priority filter; policy accept;
	}
}
"""
DOCKER = """table ip filter {
	chain DOCKER-ISOLATION-STAGE-2 {
		oifname "docker0" counter packets 0 bytes 0 drop
	}

	chain FORWARD {
		type filter hook forward priority filter; policy drop;
		counter packets 0 bytes 0 jump DOCKER-ISOLATION-STAGE-2
	}

	chain INPUT {
		type filter hook input priority filter; policy accept;
	}
}
"""
IPTABLES = """-P INPUT ACCEPT
-P FORWARD DROP
-P OUTPUT ACCEPT
-N ufw-before-input
-A INPUT -j ufw-before-input
-A ufw-before-input -m comment --comment "-j DROP" -j ACCEPT
-A ufw-before-input -p tcp -j REJECT --reject-with icmp-port-unreachable
"""


def test_what_nft_lists() -> None:
    assert from_nft(NFT) == Firewall(
        "nft",
        True,
        (
            "input (input): type filter hook input priority filter; policy drop;",
            "input_more: ip saddr 198.51.100.0/24 reject with icmp port-unreachable",
        ),
    )
    docker = from_nft(DOCKER)  # containers are kept apart; what comes in is let in
    assert not docker.drops_input and len(docker.rules) == 2
    assert from_nft("") == Firewall("nft", False, ())


def test_what_iptables_lists() -> None:
    found = from_iptables(IPTABLES)
    assert found.drops_input
    assert found.rules == ("-P FORWARD DROP", IPTABLES.splitlines()[-1])
    assert not from_iptables("-P INPUT ACCEPT\n-P FORWARD DROP\n").drops_input
    assert from_iptables("-P INPUT DROP\n").drops_input


@given(st.text(max_size=300), st.text(alphabet='-AP INPUTDROPjump{}chain\n;"', max_size=300))
def test_garbage_for_packet_filters(text: str, alike: str) -> None:
    for each in (text, alike):
        assert len(from_nft(each).rules) <= 20 and len(from_iptables(each).rules) <= 20


ADMINISTRATOR = {"/proc/self/status": "Name:\tpython\nCapEff:\t000001ffffffffff\n"}


def answering(root: Path, *scripts: tuple[str, str], files: Mapping[str, str] | None = None) -> Reading[Any]:
    """The reader's answer on a machine with these commands, each a shell script."""
    system = fake(
        root, {**ADMINISTRATOR, **{f"/usr/sbin/{n}": f"#!/bin/sh\n{s}\n" for n, s in scripts}, **(files or {})}
    )
    for name, _ in scripts:
        system.at(f"/usr/sbin/{name}").chmod(0o755)
    return read_firewalls(system)["network.firewalls"]


@pytest.mark.thorough
def test_packet_filters_by_the_tools(tmp_path: Path) -> None:
    loaded = {"/proc/modules": "nf_tables 1 0 - Live 0x0\n"}
    found = answering(
        tmp_path / "a", ("nft", "echo 'chain c { hook input ;'; echo 'chain c {'; echo drop"), files=loaded
    )
    assert found.value[0].rules == ("c: drop",)
    assert "no command nft" in answering(tmp_path / "b", files=loaded).reason
    assert answering(tmp_path / "c", files={"/proc/modules": "ext4 1 0\n"}).value == ()
    legacy = {"/proc/modules": "", "/proc/net/ip_tables_names": "filter\n"}
    found = answering(tmp_path / "d", ("iptables-legacy", "echo -P INPUT DROP"), files=legacy)
    assert found.value == (Firewall("iptables", True, ("-P INPUT DROP",)),)
    assert "no command to list" in answering(tmp_path / "e", files=legacy).reason


def test_packet_filters_are_for_root(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/proc/self/status": "CapEff:\t0000000000000000\n"})
    assert read_firewalls(system)["network.firewalls"].missing_kind == "denied"
    assert firewall.may_ask(fake(tmp_path / "other", ADMINISTRATOR))


def test_nothing_is_loaded_for_the_asking(tmp_path: Path) -> None:
    """The tool is not run where the kernel would have to load nf_tables for it."""
    modules = {"/proc/modules": "ext4 1 0 - Live 0x0\n"}
    assert has_nftables(fake(tmp_path / "a", {**modules})) is False
    builtin = {"/proc/sys/kernel/osrelease": "6.8.0", "/lib/modules/6.8.0/modules.builtin": "kernel/net/nf_tables.ko\n"}
    assert has_nftables(fake(tmp_path / "b", {**modules, **builtin})) is True
    assert has_nftables(Refusing(fake(tmp_path / "c", {**modules}), "/proc/modules")) is None
    found = answering(tmp_path / "d", ("nft", f"touch {tmp_path}/ran"), files=modules)
    assert found.value == () and not (tmp_path / "ran").exists()


# --- rendezvous ---------------------------------------------------------------------------------------------------


def met(
    root: Path,
    answer: Any = ("192.0.2.10",),
    *,
    own: tuple[str, ...] = (),
    connection: str = "accepted",
    files: Files | None = None,
    **variables: str,
) -> Reading[Rendezvous]:
    environment = {"MASTER_ADDR": "head", "MASTER_PORT": "29500", **variables}

    def resolver(name: str) -> list[str]:
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    system = fake(root, files or {}, environment)
    found = read_rendezvous(system, resolver, lambda address: address in own, lambda *_: connection)
    return found["network.rendezvous"]


def test_no_rendezvous(tmp_path: Path) -> None:
    assert read_rendezvous(fake(tmp_path, {}))["network.rendezvous"].missing_kind == "absent"
    assert read_rendezvous(fake(tmp_path, {}, {"MASTER_ADDR": " "}))["network.rendezvous"].missing_kind == "absent"


def test_a_head_node_elsewhere(tmp_path: Path) -> None:
    found = met(tmp_path).value
    assert (found.address, found.port, found.resolved.value) == ("head", 29500, ("192.0.2.10",))
    assert found.is_local.value is False and found.connection.value == "accepted"
    assert found.listener.missing_kind == "absent"


def test_the_best_answer_of_several_addresses(tmp_path: Path) -> None:
    answers = iter(["unreachable", "refused"])
    system = fake(tmp_path, {}, {"MASTER_ADDR": "head", "MASTER_PORT": "1"})
    found = read_rendezvous(system, lambda _: ["2001:db8::1", "192.0.2.1"], lambda _: False, lambda *_: next(answers))
    assert found["network.rendezvous"].value.connection.value == "refused"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), None),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "timeout"),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure"), "failed"),
        (UnicodeError("label too long"), None),
    ],
)
def test_a_name_that_does_not_resolve(tmp_path: Path, error: Exception, kind: str | None) -> None:
    found = met(tmp_path, error).value
    assert found.resolved.missing_kind == kind and found.resolved.value_or(()) == ()
    assert not found.is_local.is_read and not found.connection.is_read


def test_a_look_up_that_hangs() -> None:
    answered = threading.Event()

    def hangs(name: str) -> list[str]:
        answered.wait()
        return [name]

    found = look_up("head", 0.01, hangs)
    answered.set()
    assert found.missing_kind == "timeout"


TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B0200C0:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1 0 100 0 0 10 0
   2: 0B0200C0:733D 0A0200C0:0016 01 00000000:00000000 00:00000000 00000000     0        0 18 1 0 100 0 0 10 0
   x: garbage
"""
STAT = "4711 (pt_main_thread) S 1 1 1 0 -1 4194304 1 1 1 1 1 1 1 1 20 0 1 0 99 1 1 1"


@pytest.mark.skipif(sys.byteorder != "little", reason="the text is of a little-endian machine")
def test_who_listens(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/proc/net/tcp": TCP, "/proc/4711/stat": STAT, "/proc/4711/fd/3": Link("socket:[4242]")})
    own = frozenset({"192.0.2.11"})
    assert who_listens(system, 29500, own) == "pid 4711 pt_main_thread"
    assert who_listens(system, 29500, frozenset({"127.0.0.1"})) == ""  # bound to another address
    assert who_listens(system, 29501, own) == ""  # connected, not listening
    assert who_listens(system, 22, own) == "a process of user id 0 that is not visible here"


def test_a_listener_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert who_listens(System(), port, frozenset({"127.0.0.1"})).startswith("pid ")
        assert connect("127.0.0.1", port, 3) == "accepted"
    assert connect("127.0.0.1", port, 3) == "refused"


def test_nothing_is_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert connect("127.0.0.1", server.getsockname()[1], 3) == "accepted"
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b""  # closed, and nothing before


def test_a_local_head_node(tmp_path: Path) -> None:
    found = met(tmp_path, ["192.0.2.11"], own=("192.0.2.11",), files={"/proc/net/tcp": "head\n"}).value
    assert found.is_local.value and found.listener.value == "" and found.connection.missing_kind == "absent"


@pytest.mark.parametrize(
    ("text", "port"),
    [("29500", 29500), (" 80 ", 80), ("0", None), ("65536", None), ("-1", None), ("", None), ("٣", None)],
)
def test_port_numbers(text: str, port: int | None) -> None:
    assert port_number(text) == port


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.text(st.characters(exclude_characters="\0"), max_size=40))
def test_garbage_at_the_rendezvous(tmp_path_factory: Any, table: bytes, text: str) -> None:
    files: Files = {"/proc/net/tcp": b"head\n" + table, "/proc/net/tcp6": table}
    variables = {"MASTER_ADDR": text, "MASTER_PORT": text}
    system = fake(tmp_path_factory.mktemp("tree"), files, variables)
    found = read_rendezvous(system, lambda _: ["127.0.0.1"], lambda _: True, lambda *_: "refused")["network.rendezvous"]
    assert found.is_read or found.missing_kind == "absent"
