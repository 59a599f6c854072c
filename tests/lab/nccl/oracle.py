"""What NCCL does on a described machine, beside what gpudoctor says that it does.

    for outcome in ask(case):             # a case: a node, and settings and releases that are tried on it
        print(outcome.release, outcome.settings, outcome.differences)

An outcome compares things of one kind: "interface" (bootstrap's and NET/Socket's), "hca" (NET/IB's ports), "path" (the
class of each two devices), "gpudirect" (each GPU with each port), "gid" (by which entry a RoCE port connects),
"transport" (by which way each two GPUs are joined), "rail" (the ports of each GPU that goes over them) and "error" (why
NCCL does not start, by `explain`). What NCCL answers is else read from its log by patterns of this file, and not by
gpudoctor's reader, which has its own tests.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpudoctor import diagnose, explain
from gpudoctor.knowledge.environment import recorded
from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.interfaces import nccl_choice
from gpudoctor.knowledge.nccl.rails import rails
from gpudoctor.knowledge.nccl.settings import effective
from gpudoctor.knowledge.nccl.socket_transport import data_over_sockets
from gpudoctor.knowledge.nccl.transports import transports
from gpudoctor.knowledge.network.gids import nccl_index
from gpudoctor.knowledge.network.gpu_direct import verdicts
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.network.topology import nccl_class, path_class, tree_class
from gpudoctor.snapshot import NotRead, Snapshot, from_json
from gpudoctor.testing.machines import but, h100_node
from tests.lab import machines
from tests.lab.nccl import standins, wheels
from tests.lab.nccl.node import Node
from tests.lab.nvidia import Machine

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NONE = "none"
WITHOUT_GDAKI = {"NCCL_GIN_TYPE": "2"}
"""2.28 ends with SIGSEGV in ncclNetInit where its GPU-initiated network starts and finds no device (NVIDIA/nccl#1881,
mended in 2.29): on the stand-ins' ports, too, with several GPUs in a process."""
LOOKED_UP = ("HOME", "NCCL_COMM_ID", "NCCL_CONF_FILE", "NCCL_NET_PLUGIN", "NCCL_TOPO_FILE")
"""Settings that a capture follows: a snapshot taken without them lacks what they name."""


@dataclass
class Case:
    """A node, and what is tried on it."""

    name: str
    kind: str
    node: Node
    settings: list[dict[str, str]] = field(default_factory=lambda: [{}])
    releases: list[str] = field(default_factory=lambda: [wheels.NEWEST_NCCL])
    machine: Machine = field(default_factory=machines.hgx_h100)
    gpus: int = 1
    """So many of its GPUs are in NCCL's communicator."""
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of an "error": what `explain` is to say under each setting (its repr, of one release with that before it); ():
    NCCL goes on."""
    foreseen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of an "error": checks of which one is to speak of the node as it is under a setting; without: not asked."""
    more: tuple[str, ...] = ()
    """Words for rank.py, beside what a kind has."""


@dataclass
class Outcome:
    case: str
    kind: str
    release: str
    settings: dict[str, str]
    compared: int
    """So many things within it: interfaces, ports, pairs."""
    differences: list[str]
    said: str
    """NCCL's last word where it failed."""

    @property
    def agrees(self) -> bool:
        return not self.differences


def ask(case: Case, own_captures: bool = False) -> Iterator[Outcome]:
    """Start the node and NCCL in it; each release under each setting.

    With `own_captures` gpudoctor reads the node under each setting too; else only where that finds something else.
    """
    runs = [(release, settings) for release in case.releases for settings in case.settings]
    captures: list[dict[str, str]] = []

    def capture(settings: dict[str, str]) -> int:
        wanted = settings if own_captures else {name: settings[name] for name in LOOKED_UP if name in settings}
        if wanted not in captures:
            captures.append(wanted)
        return captures.index(wanted)

    numbers = [capture(settings) for _, settings in runs]
    with tempfile.TemporaryDirectory(prefix="gpudoctor-nccl-") as place:
        folder = Path(place)
        start(case, runs, captures, folder)
        snapshots = [from_json((folder / f"snapshot-{n}.json").read_bytes()) for n in range(len(captures))]
        for number, (release, settings) in enumerate(runs):
            log = (folder / f"{number}.log").read_text(errors="replace")
            seen = as_seen(snapshots[numbers[number]], release, None if own_captures else settings)
            if case.kind == "error":
                yield explained(case, release, settings, folder / f"{number}.log", seen)
            else:
                yield compare(case, release, settings, seen, log)


def start(case: Case, runs: list[tuple[str, dict[str, str]]], captures: list[dict[str, str]], folder: Path) -> None:
    plan = {"captures": captures, "runs": [run_of(case, *run) for run in runs]}
    with in_node(case, plan, folder) as node:
        said, _ = node.communicate(timeout=1200)
    if not (folder / f"snapshot-{len(captures) - 1}.json").exists():
        raise RuntimeError(f"{case.name}: {said}")


def run_of(case: Case, release: str, settings: dict[str, str]) -> dict[str, object]:
    """One run of a plan: NCCL of a release under settings."""
    return {
        "library": str(wheels.fetch_nccl(release) / "libnccl.so.2"),
        "gpus": case.gpus,
        "runtime": "12080" if wheels.NCCL_RELEASES[release].endswith("cu12") else "13000",
        "more": [*(["pairs"] if case.kind in ("transport", "rail", "error") else []), *case.more],
        "settings": settings | (WITHOUT_GDAKI if release.startswith("2.28.") else {}),
    }


def in_node(case: Case, plan: dict[str, object], folder: Path) -> "subprocess.Popen[str]":
    """Start the node with what inside.py is to do there; a folder for what comes of it."""
    libraries = standins.for_nccl()
    if case.kind == "error":
        libraries = standins.with_faulty_verbs(libraries, folder)
    (folder / "node.json").write_text(case.node.text())
    (folder / "machine.txt").write_text(case.machine.text())
    plan = {"rank": str(HERE / "rank.py"), "standins": str(libraries), **plan}
    (folder / "plan.json").write_text(json.dumps(plan))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CUDA_"))},
        "LD_LIBRARY_PATH": str(libraries),
        "FAKE_NVIDIA_MACHINE": str(folder / "machine.txt"),
        "PYTHONPATH": str(ROOT),
    }
    inside = [sys.executable, str(HERE / "inside.py"), str(folder / "plan.json"), str(folder)]
    node = [sys.executable, str(HERE / "node.py"), str(folder / "node.json"), *inside]
    namespaces = ["unshare", "-n", "-m", "-u", "--propagation", "private"]
    return subprocess.Popen(
        [*namespaces, *node],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def as_seen(snapshot: Snapshot, release: str, settings: Mapping[str, str] | None) -> Snapshot:
    """The snapshot, as it would have been taken with this NCCL and these settings; None: they are in it."""
    version = tuple(int(part) for part in release.split("."))
    training = but(h100_node(), "training.torch.nccl_version", version).training
    seen = but(snapshot, "training", training)
    return seen if settings is None else but(seen, "environment", recorded(settings))


# ---------------------------------------------------------------- NCCL's answers

BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?([^:\s]+):")
SOCKETS = re.compile(r"NET/Socket : Using ((?:\[\d+\]\S+ ?)+)")
PORTS = re.compile(r"NET/IB : Using (\[\d+\].*?) ?(?:\[RO\])?; OOB")
PORT = re.compile(r"([\w.-]+):(\d+)[\d:-]*/(?:IB|RoCE)")
"""Alone, with its rail, or in one device of two ports: [0]={[0] mlx5_0:1/IB, [1] mlx5_0:2/IB}."""
NETWORK = re.compile(r"Using network (\S+)")
RESULT = re.compile(r"^RESULT init (-?\d+) (.*)$", re.M)
RESULTS = re.compile(r"^RESULT (?:init|pairs|async) (-?\d+)", re.M)
STEPS, SURE = 2, 0.5
ROW = re.compile(r"NCCL INFO ((?:GPU|NET)/\S+) :(\S.*)$", re.M)
CELL = re.compile(r"((?:GPU|NET)/\S+) \(\d+/[\d.]+/(\w+)\)")
DIRECT = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU(?:/\d+-(?P<decimal>\d+) \(rank \d+\) - NET/\d+-| (?P<hex>\w+) / HCA )"
    r"(?P<net>\w+) \((?P<why>.*)\)"
)

"""Of every GPU with every port: 2.21.5 and 2.29.7 of those here. Others say what they use, where they connect."""
VIA = re.compile(
    r" (?P<sender>\d+)\[\d+\] -> (?P<receiver>\d+)\[\d+\] \[(?P<way>send|receive)\] "
    r"via NET/\w+/(?P<net>\d+)(?P<through>\(\d+\))?(?P<direct>/GDRDMA)?"
)

JOINED = re.compile(r" (?P<sender>\d+)\[\w+\] -> (?P<receiver>\d+)\[\w+\](?: \[\w+\])? via (?P<kind>P2P|SHM|NET)/")
REFUSES = re.compile("No transport found for rank|P2P is disabled between NVLINK connected GPUs")
GID = re.compile(r"IbDev (?P<device>\d+) Port (?P<port>\d+) .*?GID (?P<index>\d+) \(")
UNTYPED = "open failed in ncclIbRoceGetVersionNum"
"""A stand-in's entry that is empty has no file for its type; a kernel's has one that cannot be read."""


def interfaces_of(log: str) -> tuple[str, list[str]]:
    bootstrap, sockets = BOOTSTRAP.search(log), SOCKETS.search(log)
    words = sockets[1].split() if sockets else []  # "[0]eth0:10.1.0.1<0>"
    names = [re.sub(r"^\[\d+\]", "", word).split(":")[0] for word in words]
    return bootstrap[1] if bootstrap else NONE, names


def ports_of(log: str) -> list[tuple[str, int]]:
    network, found = NETWORK.search(log), PORTS.search(log)
    if network and network[1] != "IB":  # NCCL has looked at the ports for its other uses of them
        return []
    return [(name, int(port)) for name, port in PORT.findall(found[1])] if found else []


def low(name: str) -> str:
    """Older releases write a bus with capitals."""
    return name[:4] + name[4:].lower()


def paths_of(log: str) -> dict[tuple[str, str], str]:
    """The class of each two devices; from a port's row where there is one, for a GPU's may go through another GPU."""
    found: dict[tuple[str, str], str] = {}
    for row, cells in ROW.findall(log):
        for other, kind in CELL.findall(cells):
            if row.startswith("NET/") or other.startswith("GPU/"):
                found[low(row), low(other)] = kind
    return found


# ---------------------------------------------------------------- comparing


def compare(case: Case, release: str, settings: dict[str, str], machine: Snapshot, log: str) -> Outcome:
    compared, differences = KINDS[case.kind](machine, log, case)
    result = RESULT.search(log)
    said = "" if result and result[1] == "0" else result[2] if result else log[-300:]
    return Outcome(case.name, case.kind, release, settings, compared, differences, said)


def explained(case: Case, release: str, settings: dict[str, str], file: Path, machine: Snapshot) -> Outcome:
    """What `explain` says of the log, where NCCL fails; where it does not, nothing is to be found. And what `check` has
    said of the node before."""
    wanted = case.wanted.get(f"{release} {settings!r}", case.wanted[repr(settings)])
    log = file.read_text(errors="replace")
    codes = [int(each) for each in RESULTS.findall(log)]
    failed = any(codes) or len(codes) < STEPS
    causes = [cause for cause in explain(paths=[file]).causes if cause.confidence >= SURE]
    first = causes[0].cause or "" if causes else ""
    differences = []
    if failed is not bool(wanted):
        differences.append(f"NCCL {'fails' if failed else 'goes on'}, we say it {'fails' if wanted else 'goes on'}")
    elif failed and first not in wanted:
        differences.append(f"explain says {first or 'nothing sure'}, wanted {'/'.join(wanted)}")
    foreseen = case.foreseen.get(repr(settings), ())
    found = {result.check for result in diagnose(machine).results if result.problems} if foreseen else set()
    if foreseen and not found & {*foreseen}:
        differences.append(f"check finds {', '.join(sorted(found))}, wanted {'/'.join(foreseen)}")
    return Outcome(
        case.name, case.kind, release, settings, 1 + bool(foreseen), differences, log[-600:] if differences else ""
    )


Compared = tuple[int, list[str]]


def interfaces(machine: Snapshot, log: str, case: Case) -> Compared:
    bootstrap, sockets = interfaces_of(log)
    try:
        choice = nccl_choice(machine)
    except NotRead as error:
        return 1, [f"NCCL: {bootstrap}; we do not know: {error}"]
    differences = []
    if bootstrap != (choice.first or NONE):
        differences.append(f"bootstrap: NCCL takes {bootstrap}, we say {choice.first or NONE} ({choice.rule})")
    if sockets and sockets != list(choice.names):
        differences.append(f"NET/Socket: NCCL takes {sockets}, we say {list(choice.names)}")
    return 1 + bool(sockets), differences


def ports(machine: Snapshot, log: str, case: Case) -> Compared:
    real = ports_of(log)
    choice = rdma_choice(machine)
    sockets, network = data_over_sockets(machine), NETWORK.search(log)
    ours = [] if sockets else list(choice.taken)
    differences = [] if sorted(real) == sorted(ours) else [f"NCCL takes {real}, we say {ours}"]
    if network and (network[1] == "Socket") is not sockets:
        differences.append(f"NCCL uses {network[1]}, we say {'TCP' if sockets else 'a plugin or RDMA'}")
    return max(1, len(real), len(ours)) + (network is not None), differences


def addresses(case: Case, log: str) -> dict[str, str]:
    """NCCL's names of devices -> PCI addresses: "GPU/0-1b000" by its bus, "NET/0-3" by its place among the ports."""
    found: dict[str, str] = {}
    by_name = {hca.name: hca.path[-1] for hca in case.node.hcas}
    for gpu in case.node.gpus:
        domain, bus, slot = gpu.path[-1].split(":")
        number = f"{int(domain, 16):x}{bus}{slot.split('.')[0]}0".lstrip("0")
        found |= {f"GPU/{number}": gpu.path[-1], f"GPU/0-{number}": gpu.path[-1]}
    for index, (name, _) in enumerate(ports_of(log)):
        found |= {f"NET/{index}": by_name[name], f"NET/0-{index}": by_name[name]}
    return found


def paths(machine: Snapshot, log: str, case: Case) -> Compared:
    places = addresses(case, log)
    by_index = {gpu.index: sysfs_address(gpu) for gpu in machine.nvidia.gpus.value}
    over_ports = [{by_index[way.gpu], by_index[way.other]} for way in transports(machine) if way.kind == "NET"]
    compared, differences = 0, []
    for (one, other), real in sorted(paths_of(log).items()):
        if one == other or one not in places or other not in places:
            continue
        find = tree_class if "NET" in one + other else path_class
        try:
            ours = nccl_class(find(machine, places[one], places[other]))
        except (NotRead, ValueError) as error:
            ours = f"unknown ({error})"
        if {places[one], places[other]} in over_ports:
            ours = "NET"
        compared += 1
        if real not in (ours, "LOC") and (real, ours) != ("NVB", "SYS"):
            differences.append(f"{one} {other}: NCCL says {real}, we say {ours}")
    return compared, differences or ([] if compared else ["NCCL logged no paths"])


def direct(machine: Snapshot, log: str, case: Case) -> Compared:
    names = [name for name, _ in ports_of(log)]
    by_bus = {int(gpu.path[-1].split(":")[1], 16): index for index, gpu in enumerate(case.node.gpus)}
    try:
        ours = {(verdict.gpu, verdict.device): verdict.used for verdict in verdicts(machine)}
    except NotRead as error:
        return 1, [f"we do not know: {error}"]
    said: set[tuple[int, str, bool, str]] = set()
    for found in DIRECT.finditer(log):
        bus = (int(found["decimal"]) if found["decimal"] else int(found["hex"], 16)) >> 12
        net, why = int(found["net"], 16), found["why"]
        if "PXN" not in why and net < len(names) and bus in by_bus:
            said.add((by_bus[bus], names[net], found[1] == "Enabled", why))
    for found in VIA.finditer(log):  # one process with all GPUs: the rank is the GPU
        gpu = int(found["receiver" if found["way"] == "receive" else "sender"])
        said.add((gpu, names[int(found["net"])], found["direct"] is not None, found["way"]))
    differences = [
        f"GPU {gpu} and {port}: NCCL {'takes it' if real else 'does not'} ({why}), we say {ours.get((gpu, port))}"
        for gpu, port, real, why in sorted(said)
        if ours.get((gpu, port)) is not real
    ]
    return len(said), differences or ([] if said else ["NCCL logged nothing of GPUDirect"])


def gids(machine: Snapshot, log: str, case: Case) -> Compared:
    names = ports_of(log)
    said = {(names[int(each["device"])], int(each["index"])) for each in GID.finditer(log)}
    settings = effective(machine)
    tables = {
        (device.name, port.number): port.gids.value
        for device in machine.network.rdma_devices.value
        for port in device.ports
    }
    differences = [
        f"{name} port {number}: NCCL takes GID {index}, we say {ours}"
        for (name, number), index in sorted(said)
        if (ours := nccl_index(tables[name, number], settings)) != index
    ]
    if not said and UNTYPED in log:
        return 0, []
    return len(said), differences or ([] if said else ["NCCL logged no GID"])


def joined(machine: Snapshot, log: str, case: Case) -> Compared:
    """Each two GPUs, in both directions; where we say that NCCL refuses, it has."""
    said: dict[tuple[int, int], set[str]] = {}
    for found in JOINED.finditer(log):
        said.setdefault((int(found["sender"]), int(found["receiver"])), set()).add(found["kind"])
    refused = REFUSES.search(log) is not None
    differences, compared = [], 0
    for way in transports(machine):
        for pair in ((way.gpu, way.other), (way.other, way.gpu)):
            real = said.get(pair, set())
            if way.kind == "none" and refused:
                real = real | {"none"}
            if not real:  # NCCL, or what stands in for a GPU, has ended before
                continue
            compared += 1
            if way.kind not in real or len(real - {"none"}) > 1:
                differences.append(f"{pair[0]} -> {pair[1]}: NCCL {sorted(real)}, we say {way.kind} ({way.reason})")
    return compared, differences or ([] if compared else ["no answer within this try: NCCL joined none"])


def ports_of_gpus(machine: Snapshot, log: str, case: Case) -> Compared:
    """The ports by which each GPU sends to others by name (connection 1) are among those that we say; TCP has none.

    Rings are searched for as a whole, and may take others."""
    names = ports_of(log)
    taken = set(rdma_choice(machine).taken)
    used: dict[int, set[str]] = {}
    if not names and not taken:
        return 1, []
    for found in VIA.finditer("\n".join(line for line in log.splitlines() if "/1 :" in line)):
        gpu = int(found["receiver" if found["way"] == "receive" else "sender"])
        used.setdefault(gpu, set()).add(names[int(found["net"])][0])
    near = {
        gpu.index: {device.name for device in rails(machine, sysfs_address(gpu), taken)}
        for gpu in machine.nvidia.gpus.value
    }
    differences = [
        f"GPU {gpu}: NCCL uses {sorted(real)}, we say {sorted(near[gpu])}"
        for gpu, real in sorted(used.items())
        if not real <= near[gpu]
    ]
    return len(used), differences or ([] if used else ["NCCL went over no port"])


KINDS = {
    "interface": interfaces,
    "hca": ports,
    "path": paths,
    "gpudirect": direct,
    "gid": gids,
    "transport": joined,
    "rail": ports_of_gpus,
}
