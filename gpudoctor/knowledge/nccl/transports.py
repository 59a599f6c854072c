"""By which way NCCL joins two GPUs of one machine, and why: each other's memory, host memory or the network.

    for way in transports(machine):
        print(way.gpu, way.other, way.kind, way.reason)        # 0 1 SHM "PHB apart, and NCCL's default allows PXB"

NCCL asks its transports in turn (transport.cc): P2P where the distance is allowed and the driver lets them, SHM on one
host, NET. Two GPUs of different sockets, each with a port nearer than the other socket, go over the network though they
share a host, where that is faster. Sources: graph/paths.cc (ncclTopoCheckP2p, ncclTopoCheckNet, ncclTopoTrimSystem),
transport/p2p.cc, shm.cc and net.cc of 2.21.5 to 2.30.7; tried on the real NCCL up to 2.32.3 (tests/lab/nccl).
All GPUs are taken to be in one communicator, and its ranks in one container.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.rails import between_sockets, is_arm, rate
from gpudoctor.knowledge.nccl.settings import Setting, dotted, effective, nccl_version, set_integer, topology_file
from gpudoctor.knowledge.nccl.socket_transport import data_over_sockets
from gpudoctor.knowledge.network.gpu_direct import LEVEL_NAMES, parsed_level, verdicts
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.network.topology import address_of, nccl_class, nvlinks_between, path_class, shares_switch
from gpudoctor.snapshot import Gpu, NotRead, Snapshot

Kind = Literal["P2P", "SHM", "NET", "none"]
Version = tuple[int, int, int]

PXB_EVERYWHERE: Version = (2, 23, 4)
"""From here on the CPU carries no P2P, but between two GPUs on AMD; before, Intel and ARM alone were left out."""
PORTS_KEPT: Version = (2, 28, 7)
"""Before, a communicator of one host forgot its ports where all GPUs were joined without them."""
NET_FORGOTTEN, NET_BACK = (2, 30, 3), (2, 32, 0)
"""In between SHM joins what the network was found faster for. 2.31 was not seen."""


class Transport(NamedTuple):
    """How NCCL joins two GPUs, by NVML's indices."""

    gpu: int
    other: int
    kind: Kind | None
    """ "none": NCCL refuses to start. None where nobody can tell."""
    reason: str


class _Rule(NamedTuple):
    """How far apart GPUs may be for P2P."""

    level: str
    why: str

    def allows(self, path: str) -> bool:
        return LEVEL_NAMES.index(path) <= LEVEL_NAMES.index(self.level)


def transports(machine: Snapshot) -> tuple[Transport, ...]:
    """Every two GPUs. Raises `NotRead` where nothing can be told of any."""
    return _Machine(machine).transports()


class _Machine:
    """What the answers rest on, read once."""

    def __init__(self, machine: Snapshot) -> None:
        self.machine = machine
        self.gpus: Sequence[Gpu] = machine.nvidia.gpus.value
        self.settings: Mapping[str, Setting] = effective(machine)
        self.version = nccl_version(machine)
        self.paths: dict[tuple[int, int], str] = {}
        self.unknown: dict[tuple[int, int], str] = {}
        file = topology_file(machine)
        for pair in itertools.combinations(range(len(self.gpus)), 2):
            if file:
                self.unknown[pair] = f"NCCL goes by {file}, and not by what is between them here"
                continue
            try:
                self.paths[pair] = self._path(*pair)
            except (NotRead, ValueError) as error:
                self.unknown[pair] = str(error)

    def transports(self) -> tuple[Transport, ...]:
        first = {pair: self._alone(pair, len(self.gpus)) for pair in self.paths}
        domains = self._domains(first)
        found = []
        for pair in itertools.combinations(range(len(self.gpus)), 2):
            indices = self.gpus[pair[0]].index, self.gpus[pair[1]].index
            if pair in self.unknown:
                found.append(Transport(*indices, None, self.unknown[pair]))
            else:
                found.append(Transport(*indices, *self._joined(pair, first, domains)))
        return tuple(found)

    def _joined(
        self, pair: tuple[int, int], first: dict[tuple[int, int], tuple[Kind | None, str]], domains: list[int]
    ) -> tuple[Kind | None, str]:
        """After NCCL has parted GPUs that nothing joins but the network, each part counts by itself."""
        kind, reason = first[pair]
        if kind in (None, "none"):
            return kind, reason
        if domains[pair[0]] != domains[pair[1]]:
            return self._between_parts(reason)
        if kind != "NET":
            return self._alone(pair, domains.count(domains[pair[0]]))
        parted = len(set(domains)) > 1
        if self.version < PORTS_KEPT and not parted:
            return self._alone(pair, len(self.gpus), ports=False)
        return self._alone(pair, domains.count(domains[pair[0]]), ports=self._direct(pair))

    def _between_parts(self, reason: str) -> tuple[Kind | None, str]:
        if set_integer(self.settings, "NCCL_NET_DISABLE_INTRA", 0) == 1:
            return "none", "no P2P, no SHM, and NCCL_NET_DISABLE_INTRA=1 keeps the network out"
        shared = set_integer(self.settings, "NCCL_SHM_DISABLE", 0) != 1
        if shared and NET_FORGOTTEN <= self.version < NET_BACK:
            if self.version >= (2, 31, 0):
                return None, f"whether NCCL {dotted(self.version)} keeps to the network here was not seen"
            return "SHM", f"{reason}, which NCCL {dotted(self.version)} does not take up"
        return "NET", reason

    def _alone(self, pair: tuple[int, int], together: int, ports: bool | None = True) -> tuple[Kind | None, str]:
        """What the transports answer of two GPUs, of so many that count together."""
        path, rule = self.paths[pair], self._rule(together)
        faster = self._faster_over_ports(pair) if ports is not False else ""
        near, why = rule.allows(path), f"{path} apart, and {rule.why} allows {rule.level}"
        if near:
            refused = self._refused(pair)
            if refused and path in ("NVL", "NVB") and set_integer(self.settings, "NCCL_IGNORE_DISABLED_P2P", 0) == 0:
                return "none", f"NVLink joins them, and the driver refuses access ({refused}): NCCL does not start"
            near, why = refused == "", f"{path} apart, and the driver refuses access ({refused})"
            if refused is None:
                return None, "whether the driver lets them read each other's memory was not read"
        if faster:
            return "NET", faster
        if faster is None or ports is None:
            return None, "whether the network is faster than the way between the sockets cannot be told"
        if near:
            over = {"NVL": "NVLink", "NVB": "NVLink of a third GPU"}.get(path, f"PCIe ({path})")
            return "P2P", f"over {over}"
        if set_integer(self.settings, "NCCL_SHM_DISABLE", 0) != 1:
            return "SHM", why
        if set_integer(self.settings, "NCCL_NET_DISABLE_INTRA", 0) == 1:
            return "none", f"{why}; NCCL_SHM_DISABLE and NCCL_NET_DISABLE_INTRA leave no other way"
        return "NET", f"{why}, and NCCL_SHM_DISABLE={self.settings['NCCL_SHM_DISABLE'].value} forbids host memory"

    def _path(self, one: int, other: int) -> str:
        gpus = self.gpus[one], self.gpus[other]
        path = nccl_class(path_class(self.machine, *map(sysfs_address, gpus)))
        if path != "NVL" and set_integer(self.settings, "NCCL_NVB_DISABLE", 0) == 0:
            for third in self.gpus:
                if third not in gpus and all(nvlinks_between(self.machine, third, each) for each in gpus):
                    return "NVB"
        return path

    def _rule(self, together: int) -> _Rule:
        disable, level = self.settings.get("NCCL_P2P_DISABLE"), self.settings.get("NCCL_P2P_LEVEL")
        if disable and set_integer(self.settings, "NCCL_P2P_DISABLE", 0) == 1:
            return _Rule("LOC", f"NCCL_P2P_DISABLE={disable.value}")
        if level and parsed_level(level.value):
            return _Rule(parsed_level(level.value), f"NCCL_P2P_LEVEL={level.value}")
        model = self.machine.host.cpu_model.value_or("")
        if self.version >= PXB_EVERYWHERE:
            far = "AMD" in model and together <= 2
        else:
            far = not ("Intel" in model or is_arm(self.machine) or "hoaxin" in model)
        return _Rule("SYS" if far else "PXB", f"NCCL {dotted(self.version)}'s default")

    def _refused(self, pair: tuple[int, int]) -> str | None:
        """Why the driver does not let them; "" where it does, None when it was not read."""
        ends = {self.gpus[end].index for end in pair}
        said = [each.read for each in self.machine.nvidia.peers.value_or(()) if {each.from_gpu, each.to_gpu} == ends]
        if not said or "unknown" in said:
            return None
        return next((each for each in said if each != "ok"), "")

    def _faster_over_ports(self, pair: tuple[int, int]) -> str | None:
        """Why the network is faster between them; "" where it is not, None where nobody can tell."""
        if self.paths[pair] != "SYS" or set_integer(self.settings, "NCCL_NET_DISABLE_INTRA", 0) == 1:
            return ""
        rates = [self._rate(self.gpus[end]) for end in pair]
        if not all(rates):
            return ""
        between = between_sockets(self.machine)
        if between is None:
            return None
        if min(rates) <= between:
            return ""
        return f"each has a port of {min(rates):g} GB/s nearer than the other, and sockets count as {between:g} GB/s"

    def _rate(self, gpu: Gpu) -> float:
        """GB/s to the fastest port that no CPU is between, as NCCL counts; 0 without one."""
        if data_over_sockets(self.machine):
            return 0.0
        taken = set(rdma_choice(self.machine).taken)
        rates = [0.0]
        for device in self.machine.network.rdma_devices.value:
            try:
                path = path_class(self.machine, sysfs_address(gpu), address_of(device))
            except (NotRead, ValueError):
                continue
            for port in device.ports:
                if shares_switch(path) and (device.name, port.number) in taken:
                    rates.append(rate(self.machine, gpu, port, path) or 0.0)
        return max(rates)

    def _direct(self, pair: tuple[int, int]) -> bool | None:
        """Whether both GPUs' near ports are used without the CPU: else these are far once NCCL has looked again."""
        used = {True: set[int](), None: set[int]()}
        for verdict in verdicts(self.machine):
            if verdict.used is not False and verdict.path in ("PIX", "PXB"):
                used[verdict.used].add(verdict.gpu)
        ends = {self.gpus[end].index for end in pair}
        if ends <= used[True]:
            return True
        return None if ends <= used[True] | used[None] else False

    def _domains(self, first: dict[tuple[int, int], tuple[Kind | None, str]]) -> list[int]:
        """The part of each GPU, as ncclTopoTrimSystem counts them."""
        domains = list(range(len(self.gpus)))
        for later in range(len(domains)):
            for earlier in range(later):
                if first.get((earlier, later), ("NET", ""))[0] not in ("NET", "none"):
                    domains[later] = min(domains[later], domains[earlier])
        return domains
