"""A node as a file describes it, in namespaces of its own: interfaces, /sys with PCI tree and HCAs, /dev/infiniband.

    unshare -n -m -u --propagation private python -m tests.lab.nccl.node DESCRIPTION.json COMMAND...

`Node` is the description; `enter` makes the namespaces it is called in look so. NCCL and gpudoctor then read the same
files. The GPUs themselves are those of the fake driver (tests/lab/nvidia.py), at the same PCI addresses. As root.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BRIDGE, GPU_CLASS, NIC_CLASS, SWITCH_CLASS = "0x060400", "0x030200", "0x020700", "0x068000"
HEALTHY_PORT = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "lid": "0x1a",
    "sm_lid": "0x1",
}
NO_GID = ":".join(["0000"] * 8)
NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}


@dataclass
class Device:
    """A PCI device by its way from the root: "pci0000:17", addresses of bridges, its own address."""

    path: list[str]
    numa: int = 0


@dataclass
class Hca(Device):
    name: str = "mlx5_0"
    ports: dict[str, dict[str, str]] = field(default_factory=lambda: {"1": {}})
    """What differs from a healthy port, by number."""
    gids: dict[str, list[str]] = field(default_factory=dict)
    """[GID, type, interface] by index; none: one as InfiniBand has it."""
    guid: str = ""
    verbs: bool = True
    """Whether /dev/infiniband has its file, as in a container that was given it."""


@dataclass
class Interface:
    addresses: list[str] = field(default_factory=list)
    kind: str = "veth"
    """Or "bridge", "dummy"; "lo" is there without."""
    up: bool = True


@dataclass
class Node:
    interfaces: dict[str, Interface] = field(default_factory=dict)
    gpus: list[Device] = field(default_factory=list)
    hcas: list[Hca] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Further files: /etc/nccl.conf, ..."""
    shm: str = "1g"
    modules: list[str] = field(default_factory=lambda: ["nvidia_peermem"])
    hostname: str = "node-1"
    nvswitch: bool = True

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "Node":
        given = json.loads(text)
        given["interfaces"] = {name: Interface(**each) for name, each in given["interfaces"].items()}
        given["gpus"] = [Device(**each) for each in given["gpus"]]
        given["hcas"] = [Hca(**each) for each in given["hcas"]]
        return cls(**given)


def address(bus: int, slot: int = 0) -> str:
    return f"0000:{bus:02x}:{slot:02x}.0"


def behind_switch(bus: int, port: int = 0, device: int | None = None) -> list[str]:
    """The way to a device below the switch whose first place is bus `bus`."""
    root = f"pci0000:{bus - 3:02x}"
    return [
        root,
        address(bus - 3, 1),
        address(bus - 2),
        address(bus - 1, port),
        address(bus if device is None else device),
    ]


# ---------------------------------------------------------------- the files of /sys

Files = dict[str, str | Path | None]
"""By path below /sys: a text, None for a folder, a Path for a link."""


def pci_device(way: list[str], numa: int, kind: str, vendor: str, model: str) -> Files:
    path = "/devices/" + "/".join(way)
    own, bus = way[-1], way[-1][:7]
    up = "../" * path.count("/")
    facts = {
        "class": kind,
        "vendor": vendor,
        "device": model,
        "subsystem_vendor": vendor,
        "subsystem_device": "0x1626",
        "max_link_speed": "32.0 GT/s PCIe",
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_width": "16",
        "current_link_width": "16",
        "numa_node": str(numa),
        "local_cpulist": "0-1",
        "local_cpus": "3",
    }
    files: Files = {f"{path}/{name}": text for name, text in facts.items()}
    parent = path.rpartition("/")[0]
    files[f"{path}/subsystem"] = Path(f"{up}bus/pci")
    files[f"{parent}/pci_bus/{bus}"] = None
    files[f"/class/pci_bus/{bus}"] = Path(f"../..{parent}/pci_bus/{bus}")
    files[f"/bus/pci/devices/{own}"] = Path(f"../../..{path}")
    return files


def with_bridges(device: Device, kind: str, vendor: str, model: str) -> Files:
    files: Files = {}
    for length in range(2, len(device.path)):
        files |= pci_device(device.path[:length], device.numa, BRIDGE, "0x1000", "0xc030")
    return files | pci_device(device.path, device.numa, kind, vendor, model)


def hca_files(hca: Hca, number: int) -> Files:
    path = "/devices/" + "/".join(hca.path)
    place = f"/class/infiniband/{hca.name}"
    guid = hca.guid or f"a088:c203:00{number:02x}:1111"
    files = with_bridges(hca, NIC_CLASS, "0x15b3", "0x1021")
    files |= {
        f"{path}/driver": Path("../" * path.count("/") + "bus/pci/drivers/mlx5_core"),
        "/bus/pci/drivers/mlx5_core": None,
        f"{place}/device": Path(f"../../..{path}"),
        f"{place}/board_id": "MT_0000000838",
        f"{place}/fw_ver": "28.39.1002",
        f"{place}/node_guid": guid,
        f"{place}/sys_image_guid": guid,
        f"{place}/node_type": "1: CA",
        f"/class/infiniband_verbs/uverbs{number}/ibdev": hca.name,
        f"/class/infiniband_verbs/uverbs{number}/device": Path(f"../../..{path}"),
        f"/class/infiniband_verbs/uverbs{number}/dev": f"231:{192 + number}",
    }
    gids = hca.gids or {"0": [f"fe80:0000:0000:0000:{guid}", "IB/RoCE v1", ""]}
    for port, facts in hca.ports.items():
        files |= {f"{place}/ports/{port}/{name}": text for name, text in (HEALTHY_PORT | facts).items()}
        for index in range(16):
            gid, kind, interface = gids.get(str(index), [NO_GID, "", ""])
            files[f"{place}/ports/{port}/gids/{index}"] = gid
            if kind:
                files[f"{place}/ports/{port}/gid_attrs/types/{index}"] = kind
            if interface:
                files[f"{place}/ports/{port}/gid_attrs/ndevs/{index}"] = interface
    return files


def sysfs(node: Node) -> Files:
    files: Files = {"/bus/pci/devices": None, "/kernel/mm": None, "/module": None, "/class/net": None}
    files |= {"/devices/virtual": None, "/devices/system/cpu/online": "0-1", "/devices/system/cpu/possible": "0-1"}
    for numa in (0, 1):
        place = f"/devices/system/node/node{numa}"
        files |= {f"{place}/cpumap": "3", f"{place}/cpulist": "0-1", f"{place}/distance": "10 21"}
    for gpu in node.gpus:
        files |= with_bridges(gpu, GPU_CLASS, "0x10de", "0x2330")
    for number, hca in enumerate(node.hcas):
        files |= hca_files(hca, number)
    if node.nvswitch:
        files |= with_bridges(Device(["pci0000:05", "0000:05:01.0", "0000:07:00.0"]), SWITCH_CLASS, "0x10de", "0x22a3")
    for module in node.modules:
        files[f"/module/{module}/version"] = "580.95.05"
    return files


def write(root: Path, files: Mapping[str, str | Path | None]) -> None:
    for path, content in files.items():
        place = Path(f"{root}{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.mkdir(exist_ok=True)
        elif isinstance(content, Path):
            if not place.is_symlink():
                place.symlink_to(content)
        else:
            place.write_text(f"{content}\n")


# ---------------------------------------------------------------- the namespaces


def run(*words: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def commands(interfaces: Mapping[str, Interface], other: int) -> Iterator[tuple[object, ...]]:
    """What makes these interfaces; the other end of each pair is in a namespace of its own."""
    yield "ip", "link", "set", "lo", "up"
    for name, interface in interfaces.items():
        if name == "lo":
            pass
        elif interface.kind == "veth":
            yield "ip", "link", "add", name, "type", "veth", "peer", "name", "end", "netns", other
            yield "nsenter", "-t", other, "-n", "ip", "link", "set", "end", "name", f"of-{name}"[:15], "up"
        else:
            yield "ip", "link", "add", name, "type", interface.kind
        for each in interface.addresses:
            yield ("ip", "address", "add", each, "dev", name, *(["nodad"] if ":" in each else []))
        yield "ip", "link", "set", name, "up" if interface.up else "down"


def die_with_parent() -> None:
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


@contextlib.contextmanager
def another_network() -> Iterator[int]:
    """A process in another network namespace. It lives on, for its ends of pairs, until this process has ended."""
    ours, its = os.pipe()
    words = ["unshare", "-n", "sh", "-c", f"echo >&{its}; exec sleep 3000"]
    keeper = subprocess.Popen(
        words,
        pass_fds=[its],
        preexec_fn=die_with_parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(its)
    os.read(ours, 1)
    os.close(ours)
    yield keeper.pid


def wait_for_carriers(names: list[str]) -> None:
    """The kernel tells of a carrier up to a second late, and until then an interface does not count as running."""
    deadline = time.monotonic() + 20
    while names:
        said = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, timeout=30, check=False).stdout
        up = {line.split(":")[1].split("@")[0].strip() for line in said.splitlines() if " state UP " in line}
        names = [name for name in names if name not in up]
        if names and time.monotonic() > deadline:
            raise RuntimeError(f"not running after 20 s: {', '.join(names)}")
        time.sleep(0.02 if names else 0)


def enter(node: Node, stage: Path) -> None:
    """Make this process's namespaces look so. `stage`: a folder to make, which stays empty for everybody else."""
    run("hostname", node.hostname)
    with another_network() as other:
        for command in commands(node.interfaces, other):
            run(*command)
    wait_for_carriers([name for name, each in node.interfaces.items() if each.up and each.kind == "veth"])
    build(node, stage)
    if node.files:
        upper = f"lowerdir=/etc,upperdir={stage}/upper,workdir={stage}/work"
        run("mount", "-t", "overlay", "overlay", "-o", upper, "/etc")
        for path, text in node.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(text.encode())
    if (beside := stage.with_name(BESIDE)).exists():
        build(Node.of(beside.read_text()), stage.with_name("stage-beside"))
    for name in ("dev", "sys"):
        run("mount", "--rbind", stage / name, f"/{name}")


BESIDE = "beside.json"
"""A second node, in the network of the first: who binds its sys and dev over his own is there."""


def build(node: Node, stage: Path) -> None:
    """What /sys and /dev of a node are to be."""
    stage.mkdir()
    run("mount", "-t", "tmpfs", "none", stage)
    for name in ("sys", "real", "dev", "dev/shm", "dev/pts", "dev/infiniband", "upper", "work"):
        (stage / name).mkdir()
    write(stage / "sys", sysfs(node))
    run("mount", "-t", "sysfs", "none", stage / "real")
    for part in ("class/net", "devices/virtual"):  # those of this network namespace
        run("mount", "--bind", stage / "real" / part, stage / "sys" / part)
    for name, (major, minor) in NODES.items():
        os.mknod(stage / "dev" / name, 0o020666, os.makedev(major, minor))
    for number, hca in enumerate(node.hcas):
        if hca.verbs:
            os.mknod(stage / "dev/infiniband" / f"uverbs{number}", 0o020666, os.makedev(231, 192 + number))
    (stage / "dev/fd").symlink_to("/proc/self/fd")
    run("mount", "-t", "tmpfs", "-o", f"size={node.shm}", "none", stage / "dev/shm")


def main() -> Any:
    description = Path(sys.argv[1])
    enter(Node.of(description.read_text()), description.with_name("stage"))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
