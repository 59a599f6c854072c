"""Cases of the checks in checks/gpudoctor_checks/network/ about interfaces and the rendezvous."""

from typing import Any

from gpudoctor.snapshot import Firewall, Interface, Reading, Rendezvous, Snapshot, absent, missing, read
from tests.build import but, h100_node, t4_node, unread
from tests.build_network import (
    changed_interface,
    interface,
    rdma_device,
    roce_port,
    with_interfaces,
    with_network,
    with_rdma,
)
from tests.cases import Case

H100, T4 = h100_node(), t4_node()
TWO_NODES = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
UNREAD = but(H100, "network.interfaces", unread("getifaddrs"))
ETH0 = interface("eth0", "192.0.2.11/24")
DOCKER = interface("docker0", "172.17.0.1/16", kind="docker")
BRIDGE = interface("br-0123456789ab", "172.18.0.1/16", kind="docker")
VPN = interface("tailscale0", "100.64.0.7/32", kind="tun")


def under(machine: Snapshot, variables: dict[str, str] | None = None, **more: str) -> Snapshot:
    """The machine with these environment variables."""
    return but(machine, "environment", read("environment of gpudoctor", (variables or {}) | more))


def on(*interfaces: Interface, variables: dict[str, str] | None = None, **more: str) -> Snapshot:
    """Two T4 with no RDMA and these interfaces."""
    return under(with_interfaces(T4, *interfaces), variables, **more)


def no_link(one: Interface) -> Interface:
    return interface(one.name, *(f"{a.address}/{a.prefix_length}" for a in one.addresses), is_running=False)


def old_nccl(machine: Snapshot) -> Snapshot:
    """The machine with NCCL 2.26.2, which takes interfaces that are down."""
    machine = but(machine, "training.libraries", read("test", ()))
    facts = but(machine.training.torch.value, "nccl_version", (2, 26, 2))
    return but(machine, "training.torch", read("import torch", facts))


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
    return under(with_network(machine, rendezvous=read("environment", entry)), environment)


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


INTERFACE_CASES = [
    Case(
        "socket-interface-missing",
        fires=on(ETH0, NCCL_SOCKET_IFNAME="eth3"),
        silent=on(ETH0, NCCL_SOCKET_IFNAME="eth"),
        unread=UNREAD,
        says=("NCCL_SOCKET_IFNAME is 'eth3'", "there is no such interface", "eth0"),
        commands=("export NCCL_SOCKET_IFNAME='=eth0'",),
    ),
    Case(
        "socket-interface-missing",  # a blank after the comma; only one of the names is lost, and NCCL takes the rest
        fires=on(ETH0, GLOO_SOCKET_IFNAME="docker1, eth0"),
        silent=on(ETH0, NCCL_SOCKET_IFNAME="eth0, eth1"),
        says=("docker1", "' eth0'"),
    ),
    Case("socket-interface-missing", fires=on(ETH0, NCCL_SOCKET_IFNAME="^eth,lo"), says=("excludes every",)),
    Case(
        "socket-interface-missing",
        fires=on(ETH0, TP_SOCKET_IFNAME="ib0"),
        severity="warning",
        commands=("export TP_SOCKET_IFNAME=eth0",),
    ),
    Case(
        "socket-interface-down",
        fires=on(ETH0, no_link(interface("eth1", "10.0.0.1/24")), NCCL_SOCKET_IFNAME="eth1"),
        silent=on(ETH0, no_link(interface("eth1", "10.0.0.1/24"))),
        unread=UNREAD,
        says=("eth1", "has no link"),
        commands=("ip -br address show dev eth1",),
    ),
    Case(
        "socket-interface-down",
        fires=old_nccl(on(no_link(interface("eth1", "10.0.0.1/24")), ETH0, variables=TWO_NODES)),
        says=("NCCL takes eth1 first", "every one but docker* and lo*"),
    ),
    Case(
        "socket-interface-down",
        fires=old_nccl(on(no_link(interface("eth1", "10.0.0.1/24")), ETH0)),
        severity="info",
    ),
    Case(
        "socket-interface-down",
        fires=on(ETH0, interface("eth1", is_up=False, is_running=False), GLOO_SOCKET_IFNAME="eth1"),
        says=("GLOO_SOCKET_IFNAME names eth1", "(down)"),
        commands=("sudo ip link set eth1 up",),
    ),
    Case(
        "socket-interface-prefix-wide",
        fires=on(interface("eth1", "10.0.0.1/24"), interface("eth10", "10.0.1.1/24"), NCCL_SOCKET_IFNAME="eth1"),
        silent=on(interface("eth1", "10.0.0.1/24"), interface("eth10", "10.0.1.1/24"), NCCL_SOCKET_IFNAME="=eth1"),
        unread=under(UNREAD, NCCL_SOCKET_IFNAME="eth1"),
        severity="info",
        says=("eth10",),
        commands=("export NCCL_SOCKET_IFNAME='=eth1'",),
    ),
    Case(
        "socket-interface-prefix-wide",
        fires=on(
            interface("eth1", "10.0.0.1/24"),
            interface("eth10", "10.0.1.1/24"),
            variables=TWO_NODES,
            NCCL_SOCKET_IFNAME="eth1",
        ),
        silent=on(interface("eth1", "10.0.0.1/24"), interface("eth10", "10.0.1.1/24"), NCCL_SOCKET_IFNAME="eth"),
        severity="warning",
    ),
    Case(
        "socket-interface-loopback",
        fires=on(ETH0, variables=TWO_NODES, NCCL_SOCKET_IFNAME="lo"),
        silent=on(ETH0, NCCL_SOCKET_IFNAME="lo"),
        unread=under(UNREAD, TWO_NODES),
        says=("lo", "several nodes"),
        commands=("export NCCL_SOCKET_IFNAME='=eth0'",),
    ),
    Case(
        "socket-interface-virtual",
        fires=on(BRIDGE, ETH0, variables=TWO_NODES),
        silent=on(DOCKER, ETH0, variables=TWO_NODES),
        unread=under(UNREAD, TWO_NODES),
        says=("br-0123456789ab", "172.18.0.1", "eth0 leads out"),
        commands=("export NCCL_SOCKET_IFNAME='=eth0'",),
    ),
    Case(  # on one node it does no harm
        "socket-interface-virtual",
        fires=on(BRIDGE, ETH0),
        severity="info",
        says=("br-0123456789ab",),
    ),
    Case(
        "socket-interface-virtual",
        fires=on(VPN, variables=TWO_NODES),
        silent=on(interface("eth0", "10.244.0.7/24", kind="veth"), variables=TWO_NODES),  # in a container
        severity="warning",
        says=("a network of containers", "no other interface"),
    ),
    Case(
        "socket-interfaces-stray",
        fires=on(ETH0, BRIDGE, variables=TWO_NODES),
        silent=under(with_interfaces(H100, ETH0, BRIDGE), TWO_NODES),  # RDMA carries the data
        unread=under(but(T4, "network.interfaces", unread()), TWO_NODES),
        severity="warning",
        says=("br-0123456789ab (a bridge of docker)",),
        commands=("export NCCL_SOCKET_IFNAME='=eth0'",),
    ),
    Case("socket-interfaces-stray", fires=on(ETH0, VPN), silent=on(ETH0, DOCKER), severity="info"),
    Case(
        "socket-interface-off-route",
        fires=meeting(with_interfaces(T4, interface("eth9", "198.51.100.1/24"), ETH0)),
        silent=meeting(with_interfaces(T4, ETH0, interface("eth9", "198.51.100.1/24"))),
        unread=meeting(but(T4, "network.interfaces", unread())),
        severity="info",
        says=("eth9", "eth0"),
        commands=("export NCCL_SOCKET_IFNAME='=eth0'",),
    ),
    Case(
        "gloo-interface-loopback",
        fires=under(
            but(H100, "host.hostname_addresses", read("getaddrinfo node-1", ("198.51.100.99",))), MASTER_ADDR="head"
        ),
        silent=but(H100, "host.hostname_addresses", read("getaddrinfo node-1", ("127.0.1.1",))),
        unread=UNREAD,
        says=("127.0.0.1", "no address of this machine"),
        commands=("export GLOO_SOCKET_IFNAME=eth0",),
    ),
    Case(
        "gloo-interface-loopback",
        fires=under(H100, TWO_NODES, GLOO_SOCKET_IFNAME="lo"),
        silent=under(H100, GLOO_SOCKET_IFNAME="lo"),
        says=("GLOO_SOCKET_IFNAME is lo",),
    ),
    Case(
        "interface-speed-below-siblings",
        fires=four_ports(speed_mbps=25_000),
        silent=four_ports(driver="igb", speed_mbps=1000),
        unread=UNREAD,
        severity="warning",
        says=("ens2 runs at 25 Gb/s", "3 ports", "100 Gb/s"),
    ),
    Case(
        "bond-member-down",
        fires=bonded(False),
        silent=bonded(True),
        unread=UNREAD,
        severity="warning",
        says=("bond0 has 2 members", "ens1 has no link"),
    ),
    Case(
        "mtu-differs-between-nics",
        fires=roce_rails(1500),
        silent=roce_rails(9000),
        unread=UNREAD,
        severity="warning",
        says=("rail1 has MTU 1500", "9000"),
        commands=("sudo ip link set rail1 mtu 9000",),
    ),
]
RENDEZVOUS_CASES = [
    Case(
        "master-addr-unresolvable",
        fires=meeting(resolved=()),
        silent=meeting(),
        unread=NO_MEETING,
        says=("head", "no such name"),
        commands=("getent ahosts head",),
    ),
    Case(
        "master-addr-unresolvable",
        fires=meeting(resolved=missing("getaddrinfo head", "no name server answered", "timeout")),
        unread=UNTRIED,
        says=("no name server answered",),
    ),
    Case(
        "master-addr-loopback",
        fires=here(TWO_NODES, resolved=("127.0.1.1",)),
        silent=here(address="localhost", resolved=("127.0.0.1",)),
        unread=UNTRIED,
        says=("head", "127.0.1.1"),
        commands=("export MASTER_ADDR=192.0.2.11",),
    ),
    Case("master-addr-loopback", fires=here(resolved=("127.0.1.1",)), severity="warning"),
    Case(
        "master-addr-elsewhere",
        fires=meeting(variables={"RANK": "0"}),
        silent=meeting(variables={"RANK": "8", "NODE_RANK": "1"}),
        unread=but(UNTRIED, "environment", read("test", {"NODE_RANK": "0"})),
        severity="warning",
        says=("rank 0", "192.0.2.10"),
    ),
    Case(
        "master-addr-ipv6-only",
        fires=meeting(resolved=("2001:db8::10",), connection="unreachable"),
        silent=meeting(resolved=("2001:db8::10", "192.0.2.10")),
        unread=UNTRIED,
        says=("2001:db8::10", "this machine has none"),
        commands=("getent ahostsv4 head",),
    ),
    Case(
        "master-port-busy",
        fires=here(listener="pid 4711 python"),
        silent=here({"TORCHELASTIC_RUN_ID": "none", "RANK": "0"}, listener="pid 4711 python"),
        unread=here(listener=unread("/proc/net/tcp")),
        says=("29500", "pid 4711 python"),
        commands=("ps -o pid,user,lstart,args -p 4711", "export MASTER_PORT=29501"),
    ),
    Case(
        "master-port-busy",
        fires=here({"NODE_RANK": "0"}, listener="a process of user id 1000 that is not visible here"),
        silent=here({"NODE_RANK": "1"}, listener="pid 4711 python"),
        commands=("sudo ss -ltnp 'sport = :29500'",),
    ),
    Case(
        "master-port-closed",
        fires=meeting(connection="refused"),
        silent=meeting(),
        unread=meeting(connection=unread("connect")),
        severity="info",
        says=("head answers", "29500"),
    ),
    Case(
        "master-unreachable",
        fires=meeting(connection="no answer"),
        silent=meeting(),
        unread=meeting(connection=unread("connect")),
        says=("head (192.0.2.10) port 29500 gives no answer",),
        commands=("ip route get 192.0.2.10",),
    ),
    Case("master-unreachable", fires=meeting(connection="unreachable"), says=("no route",)),
    Case(
        "master-port-invalid",
        fires=meeting(port="$PORT"),
        silent=meeting(),
        unread=under(NO_MEETING, MASTER_PORT="x"),
        says=("'$PORT'",),
        commands=("export MASTER_PORT=29500",),
    ),
    Case(
        "master-port-ephemeral",
        fires=here(port=45000),
        silent=here(),
        unread=but(here(), "network.ephemeral_ports", unread()),
        severity="info",
        says=("45000", "32768 to 60999"),
        commands=("export MASTER_PORT=29500",),
    ),
    Case(
        "firewall-drops-nodes",
        fires=under(
            but(
                H100,
                "network.firewalls",
                read("nft", (Firewall("nft", True, ("input (input): type filter hook input; policy drop;",)),)),
            ),
            TWO_NODES,
        ),
        silent=but(H100, "network.firewalls", read("nft", (Firewall("nft", True, ("policy drop",)),))),
        unread=under(but(H100, "network.firewalls", unread("nft")), TWO_NODES),
        severity="warning",
        says=("nft", "1 rule", "policy drop"),
        commands=("sudo nft list ruleset",),
    ),
    Case(
        "proxy-before-master",
        fires=meeting(proxies=("HTTP_PROXY", "http_proxy")),
        silent=here(proxies=("http_proxy",)),
        unread=NO_MEETING,
        severity="info",
        says=("HTTP_PROXY, http_proxy", "MASTER_ADDR head"),
        commands=('export no_proxy=head"${no_proxy:+,$no_proxy}"',),
    ),
]
CASES = INTERFACE_CASES + RENDEZVOUS_CASES
