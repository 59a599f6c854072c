"""Machines and settings that hypothesis makes: what nobody thought of when the others were written by hand.

`drawn(count, seed)` gives so many cases of each kind, the same for the same seed.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed as seeded, settings as how, strategies as st

from tests.lab.nccl.cases import ALONE, BUSES, ETH, ethernet, gpus, of_tree
from tests.lab.nccl.node import Device, Hca, Interface, Node, address, behind_switch
from tests.lab.nccl.oracle import Case

Made = TypeVar("Made")
NAMES = (
    *("eth0", "eth1", "eth10", "eno1", "enp6s0", "ens1f0np0", "ib0", "ib1", "ibp12s0", "ibs4", "bond0", "bond1"),
    *("docker0", "docker_gwbridge", "br-3f9d12ab77c0", "virbr0", "veth1a2b3c", "wlan0", "tun0", "lo0", "e", "hsn0"),
)
LONE = ("", "^", "=", ",", "^=", "lo", "^lo", "=lo", "eth", "en", "ib", "^ib,eth", "br", "docker", "nosuch", "^nosuch")
SETTINGS = 6


@st.composite
def interfaces(draw: st.DrawFn) -> dict[str, Interface]:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=6, unique=True))
    found: dict[str, Interface] = {}
    for number, name in enumerate(names):
        addresses = draw(
            st.sampled_from(
                (
                    [f"10.{number}.0.1/24"],
                    [f"10.{number}.0.1/24", f"2001:db8:{number}::1/64"],
                    [f"2001:db8:{number}::1/64"],
                    [f"169.254.{number}.7/16"],
                    [f"10.{number}.0.1/24", f"10.{number}.0.2/24"],
                    [],
                )
            )
        )
        kind = draw(st.sampled_from(("veth", "veth", "veth", "bridge")))
        found[name] = Interface(addresses, kind, draw(st.integers(0, 5)) > 0)
    return found


@st.composite
def chosen(draw: st.DrawFn, names: list[str], ports: bool) -> str:
    """A list as NCCL_SOCKET_IFNAME or NCCL_IB_HCA takes it."""
    if not names or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(LONE))
    parts = []
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
        part = name[: draw(st.integers(1, len(name)))] if draw(st.booleans()) else name
        if ports and draw(st.integers(0, 2)) == 0:
            part += draw(st.sampled_from((":1", ":2", ":", ":0", ":x")))
        parts.append(part)
    return draw(st.sampled_from(("", "", "=", "^", "^="))) + draw(st.sampled_from((",", ",", ",,", ", "))).join(parts)


@st.composite
def interface_case(draw: st.DrawFn) -> Case:
    found = draw(interfaces())
    settings: list[dict[str, str]] = [{}] + [
        draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "NCCL_SOCKET_IFNAME": chosen(list(found), ports=False),
                    "NCCL_SOCKET_FAMILY": st.sampled_from(("AF_INET", "AF_INET6", "af_inet", "")),
                },
            )
        )
        for _ in range(SETTINGS)
    ]
    return Case("drawn: interfaces", "interface", Node(found, gpus(1)), settings)


@st.composite
def hca(draw: st.DrawFn, index: int) -> Hca:
    bus = BUSES[index]
    facts = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "state": st.sampled_from(("1: DOWN", "2: INIT", "3: ARMED", "4: ACTIVE")),
                "link_layer": st.sampled_from(("InfiniBand", "Ethernet", "Unspecified")),
                "rate": st.sampled_from(("200 Gb/sec (4X HDR)", "25 Gb/sec (1X EDR)", "400 Gb/sec (4X NDR)")),
            },
        )
    )
    name = draw(st.sampled_from((f"mlx5_{index}", f"mlx5_bond_{index}", f"ibp{index}s0", f"bnxt_re{index}")))
    if facts.get("link_layer") == "Ethernet":
        made = ethernet(name, f"0000:0000:0000:0000:0000:ffff:0a{index:02x}:0001", "eth0", bus, **facts)
    else:
        ports = {str(number + 1): dict(facts) if number == 0 else {} for number in range(draw(st.integers(1, 2)))}
        made = Hca(behind_switch(bus, 1, bus + 1), index // 4, name, ports)
    made.verbs = draw(st.integers(0, 4)) > 0
    return made


@st.composite
def hca_case(draw: st.DrawFn) -> Case:
    hcas = [draw(hca(index)) for index in range(draw(st.integers(0, 4)))]
    settings: list[dict[str, str]] = [{}] + [
        draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "NCCL_IB_HCA": chosen([each.name for each in hcas], ports=True),
                    "NCCL_IB_DISABLE": st.sampled_from(("0", "1", "", "no", "-1", "0x1", "01")),
                    "NCCL_NET": st.sampled_from(("IB", "Socket", "ib", "SOCKET")),
                    "NCCL_IB_GID_INDEX": st.sampled_from(("-1", "0", "3", "15", "16", "99", "")),
                },
            )
        )
        for _ in range(SETTINGS)
    ]
    return Case("drawn: hcas", "hca", Node(ETH, gpus(1), hcas), settings)


@st.composite
def path_case(draw: st.DrawFn) -> Case:
    """GPUs and ports at root ports and below switches of up to four roots in two sockets."""
    taken = dict.fromkeys(range(4), 0)

    def way() -> tuple[list[str], int]:
        root = draw(st.integers(0, 3))
        base, switch = 0x10 + 0x38 * root, draw(st.integers(0, 2))
        taken[root] += 1
        at = f"pci0000:{base:02x}"
        own = address(base + 8 + taken[root])
        if switch == 0:
            return [at, address(base, 8 + taken[root]), own], root // 2
        above = base + 2 * switch
        return [at, address(base, switch), address(above), address(above + 1, taken[root]), own], root // 2

    devices = sorted((Device(*way()) for _ in range(draw(st.integers(2, 6)))), key=lambda device: device.path[-1])
    hcas = [Hca(*way(), f"mlx5_{index}") for index in range(draw(st.integers(0, 4)))]
    return of_tree("drawn: paths", "path", devices, hcas, nvlink=False)


ENTRIES = (
    ("fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1"),
    ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"),
    ("0000:0000:0000:0000:0000:ffff:0a01:0001", "IB/RoCE v1"),
    ("0000:0000:0000:0000:0000:ffff:0a01:0001", "RoCE v2"),
    ("0000:0000:0000:0000:0000:ffff:0a02:0001", "RoCE v2"),
    ("2001:0db8:0000:0000:0000:0000:0000:0001", "IB/RoCE v1"),
    ("2001:0db8:0000:0000:0000:0000:0000:0001", "RoCE v2"),
    ("fd00:0001:0000:0000:0000:0000:0000:0001", "RoCE v2"),
)
RANGES = ("10.1.0.0/16", "10.2.0.0/16", "10.1.0.0/40", "10.1.0.0", "2001:db8::/32", "2001:db8::/40", "fd00::/8", "x/8")


@st.composite
def gid_case(draw: st.DrawFn) -> Case:
    """One RoCE port, over which two GPUs must go."""
    entry = st.sampled_from(ENTRIES)
    table = {0: draw(entry)} | draw(st.dictionaries(st.integers(1, 7), entry, max_size=6))
    port = ethernet("mlx5_0", "", "eth0", 0x0C)
    port.gids = {str(index): [*table[index], "eth0"] for index in sorted(table)}
    case = of_tree("drawn: gids", "gid", gpus(2), [port], nvlink=False)
    options = {
        "NCCL_IB_ADDR_FAMILY": st.sampled_from(("AF_INET", "AF_INET6", "AF_INET6", "af_inet6", "")),
        "NCCL_IB_ADDR_RANGE": st.sampled_from(RANGES),
        "NCCL_IB_ROCE_VERSION_NUM": st.sampled_from(("1", "2", "3", "")),
    }
    several = [draw(st.fixed_dictionaries({}, optional=options)) for _ in range(SETTINGS - 2)]
    named = {"NCCL_IB_GID_INDEX": draw(st.sampled_from(("0", "1", "3", "-1", "9")))}
    case.settings = [ALONE | each for each in ({}, {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, named, *several)]
    return case


@st.composite
def direct_case(draw: st.DrawFn) -> Case:
    """Such trees with ports, and which of them NCCL reaches from each GPU without the host's memory."""
    case = draw(path_case().filter(lambda each: bool(each.node.hcas)))
    case.node.modules = draw(st.sampled_from((["nvidia_peermem"], [])))
    level = draw(st.sampled_from(("LOC", "PIX", "PXB", "PHB", "SYS", "0", "2", "4")))
    settings = [ALONE, ALONE | {"NCCL_NET_GDR_LEVEL": level}]
    return replace(case, name="drawn: gpudirect", kind="gpudirect", settings=settings)


WAYS = {
    "NCCL_P2P_DISABLE": st.sampled_from(("1", "1", "0", "2", "", "yes", "0x1")),
    "NCCL_P2P_LEVEL": st.sampled_from(("LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "SYS", "0", "2", "9", "sys", "")),
    "NCCL_SHM_DISABLE": st.sampled_from(("1", "0", "yes")),
    "NCCL_NET_DISABLE_INTRA": st.sampled_from(("1", "0")),
    "NCCL_IGNORE_DISABLED_P2P": st.sampled_from(("1", "0")),
    "NCCL_IB_DISABLE": st.sampled_from(("1", "0")),
}
CHIPSET, UNSUPPORTED = 1, 5
"""Words of nvmlGpuP2PStatus_t."""


@st.composite
def transport_case(draw: st.DrawFn) -> Case:
    """Such trees, with NVLink or not, where the driver refuses some pairs, and what may join two GPUs."""
    case = draw(path_case())
    if draw(st.integers(0, 3)) == 0:
        case = of_tree("", "", case.node.gpus, case.node.hcas, nvlink=True)
    for port in (hca.ports["1"] for hca in case.node.hcas):
        port["rate"] = draw(st.sampled_from(("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", "100 Gb/sec (4X EDR)")))
    case.node.modules = draw(st.sampled_from((["nvidia_peermem"], [])))
    pairs = st.tuples(st.integers(0, case.gpus - 1), st.integers(0, case.gpus - 1))
    refused = draw(st.lists(pairs, max_size=2)) if draw(st.integers(0, 2)) == 0 else []
    status = draw(st.sampled_from((CHIPSET, UNSUPPORTED)))
    facts = {f"p2p.read.{one}.{other}": status for pair in refused for one, other in (pair, pair[::-1])}
    machine = replace(case.machine, facts={**case.machine.facts, **facts})
    settings: list[dict[str, str]] = [{}] + [draw(st.fixed_dictionaries({}, optional=WAYS)) for _ in range(SETTINGS)]
    return replace(case, name="drawn: transports", kind="transport", settings=settings, machine=machine)


@st.composite
def rail_case(draw: st.DrawFn) -> Case:
    """Such trees whose GPUs have nothing but the ports."""
    case = draw(path_case().filter(lambda each: bool(each.node.hcas)))
    off = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_PXN_DISABLE": "1"}
    one = draw(st.sampled_from([hca.name for hca in case.node.hcas]))
    return replace(case, name="drawn: rails", kind="rail", settings=[off, off | {"NCCL_IB_HCA": f"^={one}"}])


def drawn(count: int, seed: int) -> Iterator[Case]:
    for make in (
        interface_case(),
        hca_case(),
        path_case(),
        direct_case(),
        gid_case(),
        transport_case(),
        rail_case(),
    ):
        for number, case in enumerate(examples(make, count, seed)):
            case.name += f" {number}"
            yield case


def examples(strategy: st.SearchStrategy[Made], count: int, seed: int) -> list[Made]:
    """The same ones for the same seed."""
    found: list[Made] = []

    @seeded(seed)
    @how(
        max_examples=count,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(made: Made) -> None:
        found.append(made)

    collect()
    return found
