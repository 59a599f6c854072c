"""Cases of the checks in checks/gpudoctor_checks/network/ about interfaces and the rendezvous."""

from typing import Any

from gpudoctor.snapshot import Firewall, Interface, Reading, Rendezvous, Snapshot, absent, missing, read
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, h100_node, t4_node, unread
from gpudoctor.testing.networks import (
    changed_interface,
    interface,
    rdma_device,
    roce_port,
    with_interfaces,
    with_network,
    with_rdma,
)

H100, T4 = h100_node(), t4_node()
TWO_NODES = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
UNREAD = but(H100, "network.interfaces", unread("getifaddrs"))
ETH0 = interface("eth0", "192.0.2.11/24")
DOCKER = interface("docker0", "172.17.0.1/16", kind="docker")
BRIDGE = interface("br-0123456789ab", "172.18.0.1/16", kind="docker")
VPN = interface("tailscale0", "100.64.0.7/32", kind="tun")


def under(machine: Snapshot, variables: dict[str, str] | None = None, **more: str) -> Snapshot:
    """The machine with these environment variables."""
    return but(machine, "environment", (variables or {}) | more)


def on(*interfaces: Interface, variables: dict[str, str] | None = None, **more: str) -> Snapshot:
    """Two T4 with no RDMA and these interfaces."""
    return under(with_interfaces(T4, *interfaces), variables, **more)


def no_link(one: Interface) -> Interface:
    return interface(one.name, *(f"{a.address}/{a.prefix_length}" for a in one.addresses), is_running=False)


def old_nccl(machine: Snapshot) -> Snapshot:
    """The machine with NCCL 2.26.2, which takes interfaces that are down."""
    machine = but(machine, "training.libraries", ())
    facts = but(machine.training.torch.value, "nccl_version", (2, 26, 2))
    return but(machine, "training.torch", facts)


def meeting(
    machine: Snapshot = H100,
    variables: dict[str, str] | None = None,
    proxies: tuple[str, ...] = (),
    **facts: Any,
) -> Snapshot:
    """The machine with MASTER_ADDR=head, which by default is another one that accepts connections."""
    found: dict[str, Any] = {
        "resolved": ("192.0.2.10",),
        "is_local": False,
        "listener": absent("/proc/net/tcp", "MASTER_ADDR is another machine"),
        "connection": "accepted",
    }
    address, port = facts.pop("address", "head"), facts.pop("port", 29500)
    sourced = {
        name: value if isinstance(value, Reading) else read(f"tried {name}", value)
        for name, value in (found | facts).items()
    }
    environment = {"MASTER_ADDR": address, "MASTER_PORT": str(port)} | (variables or {})
    entry = Rendezvous(address, port if isinstance(port, int) else None, **sourced, proxies=proxies)
    return under(with_network(machine, rendezvous=entry), environment)


def here(variables: dict[str, str] | None = None, **facts: Any) -> Snapshot:
    """MASTER_ADDR is this machine."""
    own: dict[str, Any] = {"resolved": ("192.0.2.11",), "is_local": True, "listener": ""}
    return meeting(variables=variables, **(own | {"connection": absent("connect", "this machine")} | facts))


NO_MEETING = but(H100, "network.rendezvous", unread("environment"))
UNTRIED = meeting(resolved=missing("getaddrinfo head", "the name could not be looked up"))


def four_ports(**of_third: Any) -> Snapshot:
    ports = [interface(f"ens{slot}", f"10.0.{slot}.1/24", mtu=9000) for slot in range(4)]
    return changed_interface(with_interfaces(H100, *ports), "ens2", **of_third)


def roce_rails(mtu: int) -> Snapshot:
    """Two RoCE ports that NCCL takes, of which the second has this MTU."""
    ports = [interface(f"rail{n}", f"10.0.{n}.1/24", mtu=9000 if n == 0 else mtu) for n in range(2)]
    devices = [
        rdma_device(n, roce_port(f"mlx5_{n}", interface=f"rail{n}", address=f"10.0.{n}.1"), interfaces=(f"rail{n}",))
        for n in range(2)
    ]
    return with_rdma(with_interfaces(H100, ETH0, *ports), *devices)


def bonded(is_running: bool) -> Snapshot:
    bond = interface("bond0", "192.0.2.11/24", kind="bond", members=("ens0", "ens1"))
    members = [interface("ens0", master="bond0"), interface("ens1", master="bond0", is_running=is_running)]
    return with_interfaces(H100, bond, *members)


INTERFACE_CASES = {
    "socket-interface-missing": [
        error(
            on(ETH0, NCCL_SOCKET_IFNAME="eth3"),
            "NCCL_SOCKET_IFNAME is 'eth3'",
            "there is no such interface",
            "eth0",
            runs="export NCCL_SOCKET_IFNAME='=eth0'",
        ),
        # a blank after the comma; only one of the names is lost, and NCCL takes the rest
        error(on(ETH0, GLOO_SOCKET_IFNAME="docker1, eth0"), "docker1", "' eth0'"),
        error(on(ETH0, NCCL_SOCKET_IFNAME="^eth,lo"), "excludes every"),
        warning(on(ETH0, TP_SOCKET_IFNAME="ib0"), runs="export TP_SOCKET_IFNAME=eth0"),
        silent(on(ETH0, NCCL_SOCKET_IFNAME="eth")),
        skipped(UNREAD),
    ],
    "socket-interface-down": [
        error(
            on(ETH0, no_link(interface("eth1", "10.0.0.1/24")), NCCL_SOCKET_IFNAME="eth1"),
            "eth1",
            "has no link",
            runs="ip -br address show dev eth1",
        ),
        error(
            old_nccl(on(no_link(interface("eth1", "10.0.0.1/24")), ETH0, variables=TWO_NODES)),
            "NCCL takes eth1 first",
            "every one but docker* and lo*",
        ),
        info(old_nccl(on(no_link(interface("eth1", "10.0.0.1/24")), ETH0))),
        error(
            on(ETH0, interface("eth1", is_up=False, is_running=False), GLOO_SOCKET_IFNAME="eth1"),
            "GLOO_SOCKET_IFNAME names eth1",
            "(down)",
            runs="sudo ip link set eth1 up",
        ),
        silent(on(ETH0, no_link(interface("eth1", "10.0.0.1/24")))),
        skipped(UNREAD),
    ],
    "socket-interface-prefix-wide": [
        info(
            on(interface("eth1", "10.0.0.1/24"), interface("eth10", "10.0.1.1/24"), NCCL_SOCKET_IFNAME="eth1"),
            "eth10",
            runs="export NCCL_SOCKET_IFNAME='=eth1'",
        ),
        warning(
            on(
                interface("eth1", "10.0.0.1/24"),
                interface("eth10", "10.0.1.1/24"),
                variables=TWO_NODES,
                NCCL_SOCKET_IFNAME="eth1",
            )
        ),
        silent(on(interface("eth1", "10.0.0.1/24"), interface("eth10", "10.0.1.1/24"), NCCL_SOCKET_IFNAME="eth")),
        skipped(under(UNREAD, NCCL_SOCKET_IFNAME="eth1")),
    ],
    "socket-interface-loopback": [
        error(
            on(ETH0, variables=TWO_NODES, NCCL_SOCKET_IFNAME="lo"),
            "lo",
            "several nodes",
            runs="export NCCL_SOCKET_IFNAME='=eth0'",
        ),
        silent(on(ETH0, NCCL_SOCKET_IFNAME="lo")),
        skipped(under(UNREAD, TWO_NODES)),
    ],
    "socket-interface-virtual": [
        error(
            on(BRIDGE, ETH0, variables=TWO_NODES),
            "br-0123456789ab",
            "172.18.0.1",
            "eth0 leads out",
            runs="export NCCL_SOCKET_IFNAME='=eth0'",
        ),
        info(on(BRIDGE, ETH0), "br-0123456789ab"),  # on one node it does no harm
        warning(on(VPN, variables=TWO_NODES), "a network of containers", "no other interface"),
        silent(on(DOCKER, ETH0, variables=TWO_NODES)),
        # in a container
        silent(on(interface("eth0", "10.244.0.7/24", kind="veth"), variables=TWO_NODES)),
        skipped(under(UNREAD, TWO_NODES)),
    ],
    "socket-interfaces-stray": [
        warning(
            on(ETH0, BRIDGE, variables=TWO_NODES),
            "br-0123456789ab (a bridge of docker)",
            runs="export NCCL_SOCKET_IFNAME='=eth0'",
        ),
        info(on(ETH0, VPN)),
        # RDMA carries the data
        silent(under(with_interfaces(H100, ETH0, BRIDGE), TWO_NODES), on(ETH0, DOCKER)),
        skipped(under(but(T4, "network.interfaces", unread()), TWO_NODES)),
    ],
    "socket-interface-off-route": [
        info(
            meeting(with_interfaces(T4, interface("eth9", "198.51.100.1/24"), ETH0)),
            "eth9",
            "eth0",
            runs="export NCCL_SOCKET_IFNAME='=eth0'",
        ),
        silent(meeting(with_interfaces(T4, ETH0, interface("eth9", "198.51.100.1/24")))),
        skipped(meeting(but(T4, "network.interfaces", unread()))),
    ],
    "gloo-interface-loopback": [
        error(
            under(but(H100, "host.hostname_addresses", ("198.51.100.99",)), MASTER_ADDR="head"),
            "127.0.0.1",
            "no address of this machine",
            runs="export GLOO_SOCKET_IFNAME=eth0",
        ),
        error(under(H100, TWO_NODES, GLOO_SOCKET_IFNAME="lo"), "GLOO_SOCKET_IFNAME is lo"),
        silent(but(H100, "host.hostname_addresses", ("127.0.1.1",))),
        silent(under(H100, GLOO_SOCKET_IFNAME="lo")),
        skipped(UNREAD),
    ],
    "interface-speed-below-siblings": [
        warning(four_ports(speed_mbps=25_000), "ens2 runs at 25 Gb/s", "3 ports", "100 Gb/s"),
        silent(four_ports(driver="igb", speed_mbps=1000)),
        skipped(UNREAD),
    ],
    "bond-member-down": [
        warning(bonded(False), "bond0 has 2 members", "ens1 has no link"),
        silent(bonded(True)),
        skipped(UNREAD),
    ],
    "mtu-differs-between-nics": [
        warning(roce_rails(1500), "rail1 has MTU 1500", "9000", runs="sudo ip link set rail1 mtu 9000"),
        silent(roce_rails(9000)),
        skipped(UNREAD),
    ],
}
RENDEZVOUS_CASES = {
    "master-addr-unresolvable": [
        error(meeting(resolved=()), "head", "no such name", runs="getent ahosts head"),
        error(
            meeting(resolved=missing("getaddrinfo head", "no name server answered", "timeout")),
            "no name server answered",
        ),
        silent(meeting()),
        skipped(UNTRIED),
    ],
    "master-addr-loopback": [
        error(here(TWO_NODES, resolved=("127.0.1.1",)), "head", "127.0.1.1", runs="export MASTER_ADDR=192.0.2.11"),
        warning(here(resolved=("127.0.1.1",))),
        silent(here(address="localhost", resolved=("127.0.0.1",))),
        skipped(UNTRIED),
    ],
    "master-addr-elsewhere": [
        warning(meeting(variables={"RANK": "0"}), "rank 0", "192.0.2.10"),
        silent(meeting(variables={"RANK": "8", "NODE_RANK": "1"})),
        skipped(but(UNTRIED, "environment", {"NODE_RANK": "0"})),
    ],
    "master-addr-ipv6-only": [
        error(
            meeting(resolved=("2001:db8::10",), connection="unreachable"),
            "2001:db8::10",
            "this machine has none",
            runs="getent ahostsv4 head",
        ),
        silent(meeting(resolved=("2001:db8::10", "192.0.2.10"))),
        skipped(UNTRIED),
    ],
    "master-port-busy": [
        error(
            here(listener="pid 4711 python"),
            "29500",
            "pid 4711 python",
            runs=("ps -o pid,user,lstart,args -p 4711", "export MASTER_PORT=29501"),
        ),
        error(
            here({"NODE_RANK": "0"}, listener="a process of user id 1000 that is not visible here"),
            runs="sudo ss -ltnp 'sport = :29500'",
        ),
        silent(here({"TORCHELASTIC_RUN_ID": "none", "RANK": "0"}, listener="pid 4711 python")),
        skipped(here(listener=unread("/proc/net/tcp"))),
    ],
    "master-port-closed": [
        info(meeting(connection="refused"), "head answers", "29500"),
        silent(meeting()),
        skipped(meeting(connection=unread("connect"))),
    ],
    "master-unreachable": [
        error(
            meeting(connection="no answer"),
            "head (192.0.2.10) port 29500 gives no answer",
            runs="ip route get 192.0.2.10",
        ),
        error(meeting(connection="unreachable"), "no route"),
        silent(meeting()),
        skipped(meeting(connection=unread("connect"))),
    ],
    "master-port-invalid": [
        error(meeting(port="$PORT"), "'$PORT'", runs="export MASTER_PORT=29500"),
        silent(meeting()),
        skipped(under(NO_MEETING, MASTER_PORT="x")),
    ],
    "master-port-ephemeral": [
        info(here(port=45000), "45000", "32768 to 60999", runs="export MASTER_PORT=29500"),
        silent(here()),
        skipped(but(here(), "network.ephemeral_ports", unread())),
    ],
    "firewall-drops-nodes": [
        warning(
            under(
                but(
                    H100,
                    "network.firewalls",
                    (Firewall("nft", True, ("input (input): type filter hook input; policy drop;",)),),
                ),
                TWO_NODES,
            ),
            "nft",
            "1 rule",
            "policy drop",
            runs="sudo nft list ruleset",
        ),
        silent(but(H100, "network.firewalls", (Firewall("nft", True, ("policy drop",)),))),
        skipped(under(but(H100, "network.firewalls", unread("nft")), TWO_NODES)),
    ],
    "proxy-before-master": [
        info(
            meeting(proxies=("HTTP_PROXY", "http_proxy")),
            "HTTP_PROXY, http_proxy",
            "MASTER_ADDR head",
            runs='export no_proxy=head"${no_proxy:+,$no_proxy}"',
        ),
        silent(here(proxies=("http_proxy",))),
        skipped(NO_MEETING),
    ],
}
CASES = {**INTERFACE_CASES, **RENDEZVOUS_CASES}
