"""The machines and settings that NCCL is asked about: as they are met, or different from such in one thing."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from tests.lab import machines
from tests.lab.nccl import wheels
from tests.lab.nccl.node import Device, Hca, Interface, Node, address, behind_switch
from tests.lab.nccl.oracle import Case

BUSES = [0x1B + 0x10 * index for index in range(8)]
NODE_LEVEL = 40
"""NVML's word for GPUs of one NUMA node below different host bridges."""
RELEASES = list(wheels.NCCL_RELEASES)
ALONE = dict.fromkeys(("NCCL_PXN_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"), "1") | {"NCCL_RUNTIME_CONNECT": "0"}
"""PXN: else most GPUs go through another one; the rest: else nothing goes through a port on a single node."""


def gpus(count: int = 8) -> list[Device]:
    return [Device(behind_switch(bus), index // 4) for index, bus in enumerate(BUSES[:count])]


def rails(count: int = 8, **facts: str) -> list[Hca]:
    """An HCA below the switch of each GPU."""
    return [
        Hca(behind_switch(bus, 1, bus + 1), index // 4, f"mlx5_{index}", {"1": dict(facts)})
        for index, bus in enumerate(BUSES[:count])
    ]


def ethernet(name: str, gid: str, interface: str, bus: int, **facts: str) -> Hca:
    """A RoCE port of its own, below a root port."""
    port = {"link_layer": "Ethernet", "rate": "25 Gb/sec (1X EDR)", "lid": "0x0", "sm_lid": "0x0"} | facts
    gids = {
        "0": ["fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", interface],
        "3": [gid, "RoCE v2", interface],
    }
    root = bus - 1
    return Hca([f"pci0000:{root:02x}", address(root, 1), address(bus)], 1, name, {"1": port}, gids)


ETH = {"eth0": Interface(["10.1.0.1/24"])}
TWO = {"eth0": Interface(["10.1.0.1/24"]), "eth1": Interface(["10.20.0.1/24"])}
CONTAINERS = {
    "br-3f9d12ab77c0": Interface(["172.18.0.1/16"], "bridge"),
    "docker0": Interface(["172.17.0.1/16"], "bridge"),
    "enp6s0": Interface(["10.1.0.1/24"]),
    "virbr0": Interface(["192.168.122.1/24"], "bridge"),
}


def interface_cases() -> Iterator[Case]:
    lists: list[dict[str, str]] = [{}]
    for value in ("eth", "eth0", "=eth0", "^eth0", "^=eth0", "eth1,eth0", "=eth1", "nosuch", "^docker,lo", "e", "lo",
                  "eth0:5000", " eth0", "eth0 ", "", "^", "=", "eth1:1,eth0:2", "^docker", "en,br"):  # fmt: skip
        lists.append({"NCCL_SOCKET_IFNAME": value})
    families = [{"NCCL_SOCKET_FAMILY": value} for value in ("AF_INET", "AF_INET6", "AF_UNIX", "")]
    mixed = {
        "eth0": Interface(["10.1.0.1/24", "2001:db8::1/64"]),
        "eth1": Interface(["2001:db8:1::1/64"]),
        "eth10": Interface(["10.30.0.1/24"]),
    }
    nodes = {
        "one": ETH,
        "two": TWO,
        "containers": CONTAINERS,
        "mixed": mixed,
        "docker only": {"docker0": Interface(["172.17.0.1/16"], "bridge")},
        "nothing": {},
        "down": {"eth0": Interface(["10.1.0.1/24"], up=False), "eth1": Interface(["10.20.0.1/24"])},
        "no carrier": {"br0": Interface(["10.2.0.1/24"], "bridge"), "eth1": Interface(["10.20.0.1/24"])},
        "ib": {
            "eth0": Interface(["10.1.0.1/24"]),
            "ib0": Interface(["10.9.0.1/24"]),
            "ibp12s0": Interface(["10.8.0.1/24"]),
        },
        "no address": {"eth0": Interface([]), "eth1": Interface(["10.20.0.1/24"])},
        "IPv6 only": {"eth0": Interface(["2001:db8::1/64"])},
        "many addresses": {
            "eth0": Interface(["10.1.0.1/24", "10.1.0.2/24"]),
            "bond0": Interface(["10.3.0.1/24"]),
        },
    }
    for name, interfaces in nodes.items():
        settings = lists + families if name in ("two", "mixed", "containers") else [*lists[:8], *families[:2]]
        yield Case(f"interfaces: {name}", "interface", Node(interfaces, gpus(1)), settings, RELEASES)
    addresses = ["10.1.0.1:5000", "10.20.0.1:5000", "10.20.0.77:5000", "192.168.7.7:5000", "127.0.0.1:5000",
                 "localhost:5000", "[2001:db8::1]:5000"]  # fmt: skip
    communicator = [{"NCCL_COMM_ID": each} for each in addresses]
    named = [{**each, "NCCL_SOCKET_IFNAME": "eth1"} for each in communicator]
    yield Case("interfaces: NCCL_COMM_ID", "interface", Node(TWO, gpus(1)), communicator + named, RELEASES)


def file_cases() -> Iterator[Case]:
    texts = {
        "plain": "NCCL_SOCKET_IFNAME=eth1\n",
        "carriage return": "NCCL_SOCKET_IFNAME=eth1\r\n",
        "blanks": " NCCL_SOCKET_IFNAME = eth1 \n",
        "comment": "# NCCL_SOCKET_IFNAME=eth1\n",
        "no newline": "NCCL_SOCKET_IFNAME=eth1",
        "quotes": 'NCCL_SOCKET_IFNAME="eth1"\n',
        "export": "export NCCL_SOCKET_IFNAME=eth1\n",
        "twice": "NCCL_SOCKET_IFNAME=eth1\nNCCL_SOCKET_IFNAME=eth0\n",
    }
    for name, text in texts.items():
        node = Node(TWO, gpus(1), files={"/etc/nccl.conf": text})
        yield Case(f"file: {name}", "interface", node, [{}, {"NCCL_SOCKET_IFNAME": "eth0"}], RELEASES)
    homes = {
        "/etc/passwd": "root:x:0:0:root:/etc/home-of-passwd:/bin/sh\n",
        "/etc/home-of-passwd/.nccl.conf": "NCCL_SOCKET_IFNAME=eth1\n",
        "/etc/home/.nccl.conf": "NCCL_SOCKET_IFNAME=eth2\n",
        "/etc/own.conf": "NCCL_SOCKET_IFNAME=eth3\n",
        "/etc/nccl.conf": "NCCL_SOCKET_IFNAME=eth4\n",
    }
    five = {f"eth{index}": Interface([f"10.{index}.0.1/24"]) for index in range(5)}
    settings = [
        {"HOME": home, **named}
        for home in ("/etc/home", "/etc/home-of-passwd", "/etc/empty", "")
        for named in ({}, {"NCCL_CONF_FILE": "/etc/own.conf"}, {"NCCL_CONF_FILE": "/etc/nosuch.conf"})
    ]
    settings.append({"HOME": "/etc/home", "NCCL_SOCKET_IFNAME": "eth0"})
    settings.append({"HOME": "/etc/home", "NCCL_SOCKET_IFNAME": ""})
    yield Case("files: homes", "interface", Node(five, gpus(1), files=homes), settings, RELEASES)
    last = {name: text for name, text in homes.items() if name in ("/etc/passwd", "/etc/nccl.conf")}
    yield Case("files: last", "interface", Node(five, gpus(1), files=last), settings[:6], RELEASES)


def hca_cases() -> Iterator[Case]:
    lists: list[dict[str, str]] = [{}]
    for value in ("mlx5_0", "=mlx5_0", "mlx5_1", "=mlx5_1", "^mlx5_0", "^=mlx5_1", "mlx5_0:1", "mlx5_0:2",
                  "mlx5_0:", "mlx5", "nosuch", "=mlx5_0,mlx5_2", "mlx5_0:1,mlx5_1:1", "",
                  "^mlx5", " mlx5_0", "mlx5_1 "):  # fmt: skip
        lists.append({"NCCL_IB_HCA": value})
    switches = [{"NCCL_IB_DISABLE": value} for value in ("0", "1", "yes", "2", "")]
    nets = [{"NCCL_NET": value} for value in ("IB", "Socket", "socket", "ib")]
    plugins = [{"NCCL_NET_PLUGIN": value} for value in ("none", "nosuch", "")]
    broken = {"/etc/libnccl-net-text.so": "# no library\n", "/etc/libnccl-net-empty.so": ""}
    storage = ethernet("mlx5_8", "0000:0000:0000:0000:0000:ffff:0a01:0001", "eth0", 0xA5)
    nodes = {
        "rails": rails(),
        "rails and storage": [*rails(), storage],
        "ten": [Hca(behind_switch(0x1B, index + 1, 0x20 + index), 0, f"mlx5_{index}") for index in range(11)],
        "one down": [*rails(3), *rails(4, state="1: DOWN")[3:]],
        "init": rails(2, state="2: INIT"),
        "none": [],
        "one closed": [*rails(2), Hca(behind_switch(BUSES[2], 1, BUSES[2] + 1), 0, "mlx5_2", verbs=False)],
        "all but one closed": [
            Hca(hca.path, hca.numa, hca.name, verbs=index == 1) for index, hca in enumerate(rails(4))
        ],
        "two ports": [Hca(behind_switch(0x1B, 1, 0x1C), 0, "mlx5_0", {"1": {}, "2": {}})],
        "unspecified layer": rails(2, link_layer="Unspecified"),
        "with a RoCE port": [*rails(1), ethernet("mlx5_9", "0000:0000:0000:0000:0000:ffff:0a01:0001", "eth0", 0x2C)],
    }
    indices = [{"NCCL_IB_GID_INDEX": value, **more} for value in ("3", "15", "16", "99")
               for more in ({}, {"NCCL_IB_HCA": "^mlx5_9"}, {"NCCL_NET": "IB"})]  # fmt: skip
    for name, hcas in nodes.items():
        full = name in ("rails and storage", "ten")
        settings = lists + switches + nets + plugins if full else [*lists[:6], *switches[:2]]
        if "RoCE" in name:
            settings = indices
        if name in ("rails", "none"):
            settings = settings + [{"NCCL_NET_PLUGIN": path} for path in broken]
        yield Case(f"hcas: {name}", "hca", Node(ETH, gpus(1), hcas, files=broken), settings, RELEASES)


def levels_of(devices: list[Device]) -> dict[str, int]:
    """NVML's levels of each two GPUs, as it would find them by the same tree."""
    internal, single, multiple, host_bridge, system = 0, 10, 20, 30, 50

    def level(one: Device, other: Device) -> int:
        if one is other:
            return internal
        if one.path[0] != other.path[0]:
            return system if one.numa != other.numa else NODE_LEVEL
        shared = sum(
            1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one.path, other.path, strict=False))
        )
        if shared == 1:
            return host_bridge
        return single if len(one.path) - shared <= 2 else multiple

    return {f"level.{i}.{j}": level(one, other) for i, one in enumerate(devices) for j, other in enumerate(devices)}


def of_tree(name: str, kind: str, devices: list[Device], hcas: list[Hca], *, nvlink: bool) -> Case:
    """A machine whose GPUs stand where these devices do."""
    machine = machines.hgx_h100(len(devices))
    for index, device in enumerate(devices):
        own: dict[str, str | int | None] = {"pci": f"0000{device.path[-1][:-2].upper()}.0"}
        machine = machine.but_gpu(index, **own, **({} if nvlink else dict.fromkeys(("nvlinks", "nvlink.active"))))
    machine = replace(machine, facts={**machine.facts, **levels_of(devices)})
    node = Node(ETH, devices, hcas, nvswitch=nvlink)
    return Case(name, kind, node, [{}], RELEASES, machine, len(devices))


def path_cases() -> Iterator[Case]:
    pcie = [Device(behind_switch(BUSES[0], port, BUSES[0] + port)) for port in range(2)]
    pcie += [Device(behind_switch(BUSES[4], port, BUSES[4] + port), 1) for port in range(2)]
    roots = [Device([f"pci0000:{bus:02x}", address(bus, 1), address(bus + 1)], index // 2)
             for index, bus in enumerate((0x17, 0x2A, 0x97, 0xAA))]  # fmt: skip
    one_root = [Device(["pci0000:00", address(0, index + 1), address(index + 1)]) for index in range(4)]
    flat = [Device(["pci0000:00", address(0, index + 5)]) for index in range(4)]
    far = [Hca(["pci0000:c0", address(0xC0, 1), address(0xC1)], 1, "mlx5_0")]
    levels = [ALONE | {"NCCL_NET_GDR_LEVEL": level} for level in ("LOC", "PIX", "PXB", "PHB", "SYS", "3")]
    for name, devices, hcas in (
        ("HGX H100", gpus(), rails()),
        ("HGX H100 without modules", gpus(), rails()),
        ("PCIe switches", pcie, [Hca(behind_switch(BUSES[0], 5, 0x20), 0, "mlx5_0"), *far]),
        ("root ports", roots, far),
        ("one root", one_root, [Hca(["pci0000:00", address(0, 9), address(9)], 0, "mlx5_0")]),
        ("flat in a VM", flat, [Hca(["pci0000:00", address(0, 9)], 0, "mlx5_0")]),
    ):
        case = of_tree(f"paths: {name}", "path", devices, hcas, nvlink=name.startswith("HGX"))
        case.node.modules = [] if "without" in name else ["nvidia_peermem"]
        yield case
        yield replace(case, name=f"gpudirect: {name}", kind="gpudirect", settings=[ALONE, *levels])


def transport_cases() -> Iterator[Case]:
    """By which way each two GPUs are joined, on machines as they are met."""
    pcie = [Device(behind_switch(BUSES[0], port, BUSES[0] + port)) for port in range(2)]
    pcie += [Device(behind_switch(BUSES[4], port, BUSES[4] + port), 1) for port in range(2)]
    near = [Hca(behind_switch(BUSES[at], 5, BUSES[at] + 5), at // 4, f"mlx5_{at}") for at in (0, 4)]
    roots = [Device([f"pci0000:{bus:02x}", address(bus, 1), address(bus + 1)], index // 2)
             for index, bus in enumerate((0x17, 0x2A, 0x97, 0xAA))]  # fmt: skip
    far = [Hca([f"pci0000:{bus:02x}", address(bus, 1), address(bus + 1)], index, f"mlx5_{index}")
           for index, bus in enumerate((0x40, 0xC0))]  # fmt: skip
    settings: list[dict[str, str]] = [{}, {"NCCL_P2P_DISABLE": "1"}, {"NCCL_P2P_LEVEL": "SYS"},
        {"NCCL_SHM_DISABLE": "1"}, {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
        {"NCCL_SHM_DISABLE": "1", "NCCL_NET_DISABLE_INTRA": "1"}]  # fmt: skip
    blackwell: dict[str, str | int | None] = {"name": "NVIDIA B200", "major_capability": 10}
    superchip = blackwell | {"name": "NVIDIA GB200"}
    for name, devices, hcas, facts in (
        ("HGX H100", gpus(4), rails(4), {}),
        ("HGX B200", gpus(4), rails(4), blackwell),
        ("GB200", roots, far, superchip),
        ("PCIe with near ports", pcie, near, None),
        ("root ports", roots, far, None),
        ("two of one root", roots[:2], [], None),
    ):
        case = of_tree(f"transports: {name}", "transport", devices, hcas, nvlink=facts is not None)
        for index in range(len(devices) if facts else 0):
            case.machine = case.machine.but_gpu(index, **(facts or {}))
        yield replace(case, settings=settings)
        if hcas:
            off = settings[4] | {"NCCL_PXN_DISABLE": "1"}
            yield replace(case, name=f"rails: {name}", kind="rail", settings=[off, off | {"NCCL_IB_HCA": "mlx5_0"}])


def error_cases() -> Iterator[Case]:
    """Why NCCL does not start: what `explain` is to say was written before NCCL was asked."""
    wrong, network, gid = ("nccl-settings",), ("wrong-nic", "nccl-settings"), ("roce-gid-index",)
    lost, only_ib = ("rail-cross-nic", "ib-link-down", "roce-gid-index"), ("rdma-unused", "nccl-settings")
    of_all: list[tuple[dict[str, str], tuple[str, ...]]] = [
        ({}, ()),
        ({"NCCL_SOCKET_IFNAME": "nosuch"}, network),
        ({"NCCL_COMM_ID": "192.168.7.7:5000"}, (*network, "master-unreachable")),
        ({"NCCL_NET": "nosuch"}, wrong),
        ({"NCCL_ALGO": "nosuch"}, wrong),
        ({"NCCL_PROTO": "nosuch"}, wrong),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET_DISABLE_INTRA": "1"}, wrong),
    ]
    of_ports: list[tuple[dict[str, str], tuple[str, ...]]] = [
        ({"NCCL_NET": "IB", "NCCL_IB_HCA": "nosuch"}, (*only_ib, "wrong-nic")),
        ({"NCCL_NET": "IB", "NCCL_IB_DISABLE": "1"}, only_ib),
        (ALONE | {"FAKE_RDMA_FAULT": "110"}, lost),
        # The kernel's defaults, before 5.16 and since: too little for two GPUs (64 MiB is, too).
        *(
            (ALONE | {"FAKE_RDMA_FAULT": "memlock", "FAKE_RDMA_MEMLOCK": size}, ("memlock-limit",))
            for size in ("65536", "8388608")
        ),
        (ALONE | {"NCCL_IB_GID_INDEX": "99"}, ()),
        (ALONE | {"NCCL_IB_GID_INDEX": "99", "NCCL_NET": "IB"}, gid),
        ({"NCCL_NET_PLUGIN": "/etc/libnccl-net-text.so"}, ()),
        (ALONE | {"FAKE_RDMA_FAULT": "port-down", "NCCL_NET": "IB"}, ("rdma-unused", "ib-link-down")),
    ]
    rdma = ethernet("mlx5_0", "0000:0000:0000:0000:0000:ffff:0a01:0001", "eth0", 0x0C)
    refused = dict.fromkeys((f"p2p.read.{one}.{1 - one}" for one in (0, 1)), 1)
    for name, hcas, nvlink, shm, further in (
        ("sockets", [], False, "1g", [({"NCCL_NET": "IB"}, only_ib)]),
        ("ports", [rdma], False, "1g", of_ports),
        ("verbs", [rdma], False, "1g", []),
        ("NVLink refused", [rdma], True, "1g", []),
        ("small /dev/shm", [], False, "1m", []),
    ):
        case = of_tree(f"errors: {name}", "error", gpus(2), hcas, nvlink=nvlink)
        case.node.shm = shm
        tried = [*of_all, *further]
        if name == "verbs":
            tried = [(ALONE, ()), (ALONE | {"FAKE_RDMA_FAULT": "22"}, gid)]
        if nvlink:
            case.machine = replace(case.machine, facts={**case.machine.facts, **refused})
            # NCCL says itself that it is probably the hardware (graph/paths.cc).
            tried = [({}, ("xid-gpu-lost",)), ({"NCCL_P2P_DISABLE": "1"}, ())]
        if shm == "1m":
            tried = [({"NCCL_P2P_DISABLE": "1"}, ("shm-too-small",)), ({"NCCL_P2P_LEVEL": "SYS"}, ())]
        wanted = {repr(each): cause for each, cause in tried}
        for each, (until, cause) in OLDER.items():
            wanted |= {f"{release} {each}": cause for release in RELEASES[: RELEASES.index(until) + 1]}
        case.node.files = {"/etc/libnccl-net-text.so": "# no library\n"}
        yield replace(case, settings=[each for each, _ in tried], wanted=wanted)


OLDER: dict[str, tuple[str, tuple[str, ...]]] = {
    # Words are looked at since 2.24 (graph/tuning.cc).
    repr({"NCCL_ALGO": "nosuch"}): ("2.21.5", ()),
    repr({"NCCL_PROTO": "nosuch"}): ("2.21.5", ()),
    # Its proxies share 7 MB there, whichever way GPUs are joined (proxy.cc).
    repr({"NCCL_P2P_LEVEL": "SYS"}): ("2.21.5", ("shm-too-small",)),
    # It readies all networks, whatever NCCL_NET says (plugin/net.cc): its log is that of an unknown one.
    repr(ALONE | {"FAKE_RDMA_FAULT": "port-down", "NCCL_NET": "IB"}): ("2.27.5", ("rdma-unused", "nccl-settings")),
    # A GID is asked for when connections are made.
    repr(ALONE | {"NCCL_IB_GID_INDEX": "99"}): ("2.30.7", ("roce-gid-index",)),
}
"""What is otherwise up to a release."""


def gid_cases() -> Iterator[Case]:
    """A RoCE port with addresses of both families, and one with IPv6 alone."""
    v4, v6 = "0000:0000:0000:0000:0000:ffff:0a01:0001", "2001:0db8:0000:0000:0000:0000:0000:0001"
    local = "fe80:0000:0000:0000:0000:0000:0000:0001"
    kinds = ("IB/RoCE v1", "RoCE v2")
    looks: list[dict[str, str]] = [{}, {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, {"NCCL_IB_ADDR_RANGE": "10.77.0.0/16"}]
    for name, addresses in (("both families", (local, v6, v4)), ("IPv6 only", (local, v6))):
        port = ethernet("mlx5_0", v4, "eth0", 0x0C)
        entries = [[each, kind, "eth0"] for each in addresses for kind in kinds]
        port.gids = {str(index): entry for index, entry in enumerate(entries)}
        case = of_tree(f"gids: {name}", "gid", gpus(2), [port], nvlink=False)
        yield replace(case, settings=[ALONE | each for each in looks])


def all_cases() -> Iterator[Case]:
    yield from gid_cases()
    yield from transport_cases()
    yield from error_cases()
    yield from interface_cases()
    yield from file_cases()
    yield from hca_cases()
    yield from path_cases()
