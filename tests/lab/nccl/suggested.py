"""What `gpudoctor env` suggests on a described machine, tried on NCCL: without it, and with it.

    tried = try_out(MACHINES["rails and storage"])

What is wanted of each machine is written down with it: what NCCL takes by itself, which variables are suggested, and
what NCCL takes with them. NCCL's log is read as in oracle.py.
"""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from msgspec import structs

from gpudoctor.knowledge.suggest.advice import Advice
from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.snapshot import AcsBridge, Snapshot, from_json
from gpudoctor.testing.machines import but
from tests.lab.nccl import wheels
from tests.lab.nccl.cases import ALONE, CONTAINERS, ETH, ethernet, gpus, of_tree, rails
from tests.lab.nccl.node import NO_GID, Device, Hca, Interface, Node, address, behind_switch
from tests.lab.nccl.oracle import NONE, Case, as_seen, in_node, interfaces_of, ports_of, run_of

PATIENCE = 120.0
"""Seconds until a machine has been read, on a crowded one."""


class Taken(NamedTuple):
    """What NCCL took, by its log."""

    bootstrap: str
    sockets: tuple[str, ...]
    """Of NET/Socket; () where it goes over NET/IB."""
    ports: tuple[str, ...]
    """Devices of NET/IB; () where it goes over sockets."""


class Machine(NamedTuple):
    """A machine, and what is to be seen of it."""

    node: Node
    by_itself: Taken
    suggested: dict[str, str]
    """As `gpudoctor env --nodes 2` prints it."""
    then: Taken
    settings: Mapping[str, str] = MappingProxyType({})
    """What is set already."""


class Tried(NamedTuple):
    suggested: dict[str, str]
    unjudged: tuple[str, ...]
    by_itself: Taken
    then: Taken


def try_out(machine: Machine, release: str = wheels.NEWEST_NCCL) -> Tried:
    """Read the machine, ask what is suggested for two nodes, and start NCCL without it and with it."""
    logs, advice, values = tried_on(Case("env", "interface", machine.node), dict(machine.settings), release)
    first, last = map(taken, logs)
    return Tried(values, tuple(f"{each.what}: {each.reason}" for each in advice.unjudged), first, last)


def tried_on(
    case: Case, already: dict[str, str], release: str, seen: Callable[[Snapshot], Snapshot] = lambda machine: machine
) -> tuple[list[str], Advice, dict[str, str]]:
    """NCCL's log without what is suggested and with it, and what that is. `seen`: what a namespace cannot show of a
    machine, put into what was read of it."""
    with tempfile.TemporaryDirectory(prefix="gpudoctor-nccl-") as place:
        folder = Path(place)
        with in_node(case, {"captures": [already], "runs": [], "open": True}, folder) as node:
            wait_for(folder / "captured", node)
            snapshot = as_seen(from_json((folder / "snapshot-0.json").read_bytes()), release, already)
            advice = suggest(seen(snapshot), 2)
            # Threads and gloo are none of NCCL's.
            values = {each.name: each.value for each in advice.suggestions if each.name.startswith("NCCL_")}
            runs = [run_of(case, release, each) for each in (already, already | values)]
            (folder / "draft").write_text(json.dumps(runs))
            (folder / "draft").rename(folder / "runs.json")
            said, _ = node.communicate(timeout=PATIENCE)
        if not (folder / "1.log").exists():
            raise RuntimeError(said)
        return [(folder / f"{number}.log").read_text(errors="replace") for number in (0, 1)], advice, values


def wait_for(file: Path, node: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE
    while not file.exists():
        if node.poll() is not None or time.monotonic() > until:
            node.kill()
            raise RuntimeError(f"the machine was not read: {node.communicate()[0]}")
        time.sleep(0.02)


def taken(log: str) -> Taken:
    bootstrap, sockets = interfaces_of(log)
    ports = tuple(dict.fromkeys(name for name, _ in ports_of(log)))
    return Taken(bootstrap, () if ports else tuple(sockets), ports)


# ---------------------------------------------------------------- machines


def over(*names: str, first: str = "") -> Taken:
    """NET/Socket over these interfaces."""
    return Taken(first or names[0], names, ())


def by(bootstrap: str, *ports: str) -> Taken:
    """NET/IB over these devices."""
    return Taken(bootstrap, (), ports)


def bridge(address: str) -> Interface:
    return Interface([address], "bridge")


def tcp(interfaces: dict[str, Interface], **files: str) -> Node:
    return Node(interfaces, gpus(1), files={f"/etc/{name.replace('_', '.')}": text for name, text in files.items()})


def rdma(hcas: list[Hca], interfaces: dict[str, Interface] = ETH) -> Node:
    return Node(interfaces, gpus(8), hcas)


ROUTED = "0000:0000:0000:0000:0000:ffff:0a01:0001"
"""10.1.0.1 as a GID."""
STORAGE = ethernet("mlx5_8", ROUTED, "eth0", 0xA5)
ALL_RAILS = tuple(f"mlx5_{index}" for index in range(8))
EXACTLY_RAILS = {"NCCL_IB_HCA": "=" + ",".join(ALL_RAILS)}
BRIDGE_FIRST = {"br-3f9d12ab77c0": bridge("172.18.0.1/16"), "eth0": Interface(["10.1.0.1/24"])}


ETH0 = Interface(["10.1.0.1/24"])
OUT = {"NCCL_SOCKET_IFNAME": "=eth0"}
"""What is suggested where eth0 is the only way out."""


def beside(name: str, address_: str) -> Machine:
    """A bridge that NCCL takes too, and whose name comes before eth0's or behind it."""
    node = tcp({name: bridge(address_), "eth0": ETH0})
    return Machine(node, over(name, "eth0"), OUT, over("eth0"))


def named(value: str, *alone: str) -> Machine:
    """NCCL_SOCKET_IFNAME is set, to what leads nowhere or fits none."""
    node = tcp({"docker0": bridge("172.17.0.1/16"), "eth0": ETH0})
    first = over(*alone, first="" if alone else NONE)
    return Machine(node, first, OUT, over("eth0"), {"NCCL_SOCKET_IFNAME": value})


RAILS = by("eth0", *ALL_RAILS)
FAR = Hca(["pci0000:c0", address(0xC0, 1), address(0xC1)], 1, "mlx5_9", {"1": {"rate": "100 Gb/sec (2X HDR)"}})
NO_ADDRESS = replace(STORAGE, gids={"15": [NO_GID, "", ""]})
BRIDGED_RAILS = rdma([*rails(), STORAGE], BRIDGE_FIRST)
TWO_ALIKE = {"eth0": ETH0, "eth1": Interface(["10.20.0.1/24"])}
MACHINES = {
    "one interface": Machine(tcp(ETH), over("eth0"), {}, over("eth0")),
    "two that are alike": Machine(tcp(TWO_ALIKE), over("eth0", "eth1"), {}, over("eth0", "eth1")),
    "a container's bridge": beside("br-3f9d12ab77c0", "172.18.0.1/16"),
    "podman's": beside("podman0", "10.88.0.1/16"),
    "Kubernetes'": beside("cni0", "10.244.0.1/24"),
    "weave's": beside("weave", "10.32.0.1/12"),
    "LXD's": beside("lxdbr0", "10.10.10.1/24"),
    "virbr0, which NCCL leaves out": Machine(
        tcp({"virbr0": bridge("192.168.122.1/24"), "eth0": ETH0}), over("eth0"), {}, over("eth0")
    ),
    "bridges of several kinds": Machine(
        tcp(CONTAINERS), over("br-3f9d12ab77c0", "enp6s0"), {"NCCL_SOCKET_IFNAME": "=enp6s0"}, over("enp6s0")
    ),
    "a name that fits none": named("nosuch"),
    "docker's by name": named("docker0", "docker0"),
    "all but the way out": named("^eth", "lo", "docker0"),
    "loopback by name": named("lo", "lo"),
    "a file names the bridge": Machine(
        tcp(BRIDGE_FIRST, nccl_conf="NCCL_SOCKET_IFNAME=br-\n"), over("br-3f9d12ab77c0"), OUT, over("eth0")
    ),
    "eight rails": Machine(rdma(rails()), RAILS, {}, RAILS),
    "rails and storage": Machine(rdma([*rails(), STORAGE]), by("eth0", *ALL_RAILS, "mlx5_8"), EXACTLY_RAILS, RAILS),
    "rails and a slower port far away": Machine(
        rdma([*rails(), FAR]), by("eth0", *ALL_RAILS, "mlx5_9"), EXACTLY_RAILS, RAILS
    ),
    "rails, and HCAs by names that fit none": Machine(
        rdma(rails()), over("eth0"), EXACTLY_RAILS, RAILS, {"NCCL_IB_HCA": "ib0"}
    ),
    "rails and a bridge": Machine(rdma(rails(), BRIDGE_FIRST), by("br-3f9d12ab77c0", *ALL_RAILS), OUT, RAILS),
    "rails, storage and a bridge": Machine(
        BRIDGED_RAILS, by("br-3f9d12ab77c0", *ALL_RAILS, "mlx5_8"), OUT | EXACTLY_RAILS, RAILS
    ),
    "RoCE without an address": Machine(
        rdma([NO_ADDRESS]), by("eth0", "mlx5_8"), {"NCCL_IB_DISABLE": "1"}, over("eth0")
    ),
    "RoCE alone": Machine(rdma([STORAGE]), by("eth0", "mlx5_8"), {}, by("eth0", "mlx5_8")),
}


# ---------------------------------------------------------------- ways between GPUs


class Joined(NamedTuple):
    """Two GPUs, what is suggested for them, and the ways that NCCL's log names without it and with it."""

    case: Case
    suggested: dict[str, str]
    without: set[str]
    then: set[str]
    seen: Callable[[Snapshot], Snapshot] = lambda machine: machine
    settings: Mapping[str, str] = MappingProxyType({})
    release: str = wheels.NEWEST_NCCL


WAYS = {
    "P2P": r"via P2P/",
    "SHM": r"via SHM/",
    "NET": r"via NET/",
    "GPUDirect": r"via NET/\S+/GDRDMA",
    "4 x 4 sockets": r"NET/Socket: Using 4 threads and 4 sockets per thread",
    "no space": r"No space left on device|failed to extend /dev/shm",
}


def joined(machine: Joined) -> tuple[dict[str, str], set[str], set[str]]:
    logs, _, values = tried_on(machine.case, dict(machine.settings), machine.release, machine.seen)
    without, then = ({way for way, words in WAYS.items() if re.search(words, log)} for log in logs)
    return values, without, then


def two(devices: list[Device], hcas: list[Hca], shm: str = "1g", **facts: int) -> Case:
    case = of_tree("env", "transport", devices, hcas, nvlink=False)
    case.node.modules, case.node.shm = ["nvidia_peermem"], shm
    apart = {f"p2p.{name}.{one}.{1 - one}": value for one in (0, 1) for name, value in facts.items()}
    case.machine = replace(case.machine, facts={**case.machine.facts, **apart})
    return case


def below(*buses: int) -> list[list[str]]:
    return [[f"pci0000:{bus:02x}", address(bus, 1), address(bus + 1)] for bus in buses]


def bent(machine: Snapshot) -> Snapshot:
    """ACS of a switch's ports, on bare metal: a namespace shows no configuration space."""
    ports = (AcsBridge("0000:1a:00.0", False), AcsBridge("0000:1b:00.0", True))
    return but(but(machine, "host.acs_bridges", ports), "host.virtualization", "none")


def fast(machine: Snapshot) -> Snapshot:
    interfaces = machine.network.interfaces.value
    return but(machine, "network.interfaces", tuple(structs.replace(each, speed_mbps=100_000) for each in interfaces))


def in_docker(machine: Snapshot) -> Snapshot:
    return but(machine, "host.container", "docker")


ONE_SWITCH = [Device(behind_switch(0x1B, port, 0x1B + port)) for port in range(2)]
SOCKETS_APART = [Device(path, node) for node, path in enumerate(below(0x17, 0x97))]
IN_A_VM = [Device(path) for path in below(0x17, 0x2A)]
OLDER = "2.27.5"
"""The last here whose proxies fit into docker's /dev/shm with two GPUs."""
EAGER = {"NCCL_RUNTIME_CONNECT": "0"}
TINY = two(SOCKETS_APART, [], "64m", read=1)
SHM_OFF = {"NCCL_SHM_DISABLE": "1"}
JOINED = {
    "ACS": Joined(two(ONE_SWITCH, [], nvlink=5), {"NCCL_P2P_DISABLE": "1"}, {"P2P"}, {"SHM"}, bent),
    "docker's /dev/shm": Joined(
        TINY, SHM_OFF, {"SHM", "no space"}, {"NET"}, in_docker, EAGER, OLDER
    ),
    "docker's /dev/shm, which the network needs too": Joined(
        TINY, {}, {"SHM", "no space"}, {"SHM", "no space"}, in_docker, EAGER
    ),
    "a VM without switches": Joined(
        two(IN_A_VM, [Hca(below(0x40)[0], 0, "mlx5_0")]), {"NCCL_NET_GDR_LEVEL": "PHB"}, {"NET"}, {"NET", "GPUDirect"},
        lambda machine: but(machine, "host.virtualization", "kvm"), ALONE,
    ),
    "TCP on 100 Gb/s": Joined(
        two(SOCKETS_APART, []), {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"}, {"NET"},
        {"NET", "4 x 4 sockets"}, fast, ALONE,
    ),
}  # fmt: skip
"""NCCL_P2P_LEVEL=NVL is compared by `transports:`; NCCL_CROSS_NIC shows between nodes of several rails alone."""
