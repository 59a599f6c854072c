"""In what the machines of a fleet differ from most of them."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from gpudoctor.fleet.majority import parties
from gpudoctor.fleet.names import folded, have
from gpudoctor.knowledge.nccl.rank_settings import OF_EACH_RANK
from gpudoctor.knowledge.nccl.settings import dotted, effective, nccl_version
from gpudoctor.knowledge.network.interface_roles import inside_reason
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import NotApplicable, NotRead, Snapshot

NONE = "none"
NOT_SET = "not set"
SETTINGS = ("NCCL_", "TORCH_NCCL_", "GLOO_", "TORCH_DISTRIBUTED_")
IDS = {
    "torch": "torch-versions-differ",
    "CUDA of torch": "cuda-versions-differ",
    "NCCL": "nccl-versions-differ-between-nodes",
    "Python": "python-versions-differ",
    "GPUs": "gpus-differ-between-nodes",
    "settings": "settings-differ-between-nodes",
}
"""What nccl-test calls a difference of this fact; all others are "nodes-differ"."""
OTHER_VALUES = 6
"""Of one fact that are told in words."""
LONGEST = 120
"""Of a value, in characters: what is longer is a list of its own, and differs by its end."""


class AlikeNodes(Struct, frozen=True):
    """Nodes that have the same value."""

    value: str
    nodes: tuple[str, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """A fact that is not the same on all nodes, or not known of all of them."""

    fact: str
    """ "driver", "torch", "NCCL", "kernel", "GPUs", "NCCL_IB_HCA" ..."""
    majority: str
    """What most nodes have; of two values that are as common, that of the first node. Empty: known of none."""
    count: int
    """How many have it."""
    others: tuple[AlikeNodes, ...]
    """Who has something else, the most common first."""
    unread: tuple[AlikeNodes, ...] = ()
    """Nodes where it could not be read, by the reason."""

    @property
    def id(self) -> str:
        return IDS["settings"] if self.fact.startswith(SETTINGS) else IDS.get(self.fact, "nodes-differ")

    @property
    def odd(self) -> tuple[str, ...]:
        """The nodes that have not what most have."""
        return tuple(name for group in (*self.others, *self.unread) for name in group.nodes)

    @property
    def words(self) -> str:
        """ "driver: n03 has 550.54, n05 could not tell (nvml: no permission); 14 nodes have 580.95"."""
        rare = [_has(have(group.nodes), folded(group.nodes), group.value) for group in self.others[:OTHER_VALUES]]
        if len(self.others) > OTHER_VALUES:
            more = self.others[OTHER_VALUES:]
            rare.append(
                f"{counted(sum(len(group.nodes) for group in more), 'node')} more have {len(more)} other values"
            )
        rare += [f"{folded(group.nodes)} could not tell ({group.value})" for group in self.unread[:OTHER_VALUES]]
        count = counted(self.count, "node")
        usual = _has(f"{count} {'has' if self.count == 1 else 'have'}", count, self.majority)
        return f"{self.fact}: {', '.join(rare)}; {usual}"


def _has(who_has: str, who: str, value: str) -> str:
    return f"not set on {who}" if value == NOT_SET else f"{who_has} {value}"


def differences(snapshots: Mapping[str, Snapshot]) -> tuple[Difference, ...]:
    """What differs, by the names of the nodes. A fact that some nodes have and others do not know differs too."""
    per_fact = [_difference(fact, snapshots, value) for fact, value in FACTS.items()]
    per_fact += _settings(snapshots)
    return tuple(difference for difference in per_fact if difference is not None)


def _difference(fact: str, snapshots: Mapping[str, Snapshot], value: Callable[[Snapshot], str]) -> Difference | None:
    values: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for name, snapshot in snapshots.items():
        try:
            values[name] = value(snapshot)
        except NotApplicable:
            values[name] = NONE
        except NotRead as error:
            # Nobody asked for it anywhere (--no-torch): nothing to compare.
            if error.reading.missing_kind != "not-asked":
                reasons[name] = str(error)
    return _judged(fact, values, reasons)


def _judged(fact: str, values: Mapping[str, str], reasons: Mapping[str, str]) -> Difference | None:
    camps = parties(values)
    unread = tuple(AlikeNodes(party.value, party.nodes) for party in parties(reasons))
    if len(camps) < 2 and not (camps and unread):
        return None
    usual, *rare = camps
    return Difference(
        fact=fact,
        majority=usual.value,
        count=len(usual.nodes),
        others=tuple(AlikeNodes(party.value, party.nodes) for party in rare),
        unread=unread,
    )


# --- facts --------------------------------------------------------------------------------------------------------


def _gpus(machine: Snapshot) -> str:
    names = [gpu.name.value_or("unreadable GPU") for gpu in machine.nvidia.gpus.value]
    return ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names)) or NONE


def _cuda_of_torch(machine: Snapshot) -> str:
    facts = machine.training.torch.value_or(None)
    return (facts.cuda_version if facts else machine.training.torch_files.value.cuda) or NONE


def _nccl(machine: Snapshot) -> str:
    return dotted(nccl_version(machine))


def _interfaces(machine: Snapshot) -> list[tuple[str, str, int | None, bool]]:
    """(name, kind, MTU, whether it has a link) of those that other nodes may be behind."""
    every = machine.network.interfaces.value
    return [
        (interface.name, interface.kind, interface.mtu, interface.is_running)
        for interface in every
        if interface.is_up and not inside_reason(interface, every)
    ]


def _mtus(machine: Snapshot) -> str:
    return ", ".join(f"{name} {mtu}" for name, _, mtu, _ in sorted(_interfaces(machine)) if mtu) or NONE


def _links(machine: Snapshot) -> str:
    return ", ".join(name for name, _, _, is_running in sorted(_interfaces(machine)) if is_running) or NONE


def _rdma(machine: Snapshot) -> str:
    """ "8x InfiniBand 400 Gb/s ACTIVE"."""
    kinds = []
    for device in machine.network.rdma_devices.value:
        for port in device.ports:
            rate = port.rate_gbps.value_or(None)
            speed = f"{rate:g} Gb/s" if rate is not None else "rate unknown"
            layer, state = port.link_layer.value_or("?"), port.state.value_or("state unknown")
            kinds.append(f"{layer} {speed} {state}")
    return ", ".join(f"{kinds.count(kind)}x {kind}" for kind in sorted(dict.fromkeys(kinds))) or NONE


def _firmware(machine: Snapshot) -> str:
    versions = {device.firmware.value_or("unknown") for device in machine.network.rdma_devices.value}
    return ", ".join(sorted(versions)) or NONE


def _memory(machine: Snapshot) -> str:
    """In steps of 4 GiB: firmware keeps a few hundred MiB more here than there."""
    return f"{round(machine.host.memory_total_bytes.value / (4 << 30)) * 4} GiB"


def _python(machine: Snapshot) -> str:
    return machine.training.python_version.value


def _clock(machine: Snapshot) -> str:
    return "synchronised" if machine.host.clock_synchronised.value else "not synchronised"


def _driver_cuda(machine: Snapshot) -> str:
    return "{}.{}".format(*machine.nvidia.cuda_version.value)


FACTS: dict[str, Callable[[Snapshot], str]] = {
    "GPUs": _gpus,
    "driver": lambda machine: machine.nvidia.driver_version.value,
    "CUDA of the driver": _driver_cuda,
    "torch": lambda machine: machine.training.torch_version,
    "CUDA of torch": _cuda_of_torch,
    "NCCL": _nccl,
    "Python": _python,
    "kernel": lambda machine: machine.host.kernel_release.value,
    "CPU": lambda machine: machine.host.cpu_model.value,
    "CPUs": lambda machine: str(machine.host.cpus.value),
    "memory": _memory,
    "RDMA ports": _rdma,
    "RDMA firmware": _firmware,
    "MTU": _mtus,
    "interfaces with a link": _links,
    "clock": _clock,
}
"""What is compared, by the name that is shown. A fact that a machine has none of is "none"."""


# --- settings -----------------------------------------------------------------------------------------------------


def _settings(snapshots: Mapping[str, Snapshot]) -> Iterable[Difference | None]:
    """One for each variable of NCCL, gloo and torch.distributed; NCCL's files count as NCCL reads them."""
    by_node: dict[str, dict[str, str]] = {}
    reasons: dict[str, str] = {}
    for node, snapshot in snapshots.items():
        try:
            by_node[node] = {
                name: value
                for name, value in snapshot.environment.value.items()
                if name.startswith(SETTINGS) and not OF_EACH_RANK.fullmatch(name)
            }
            by_node[node] |= {
                name: setting.value for name, setting in effective(snapshot).items() if not OF_EACH_RANK.fullmatch(name)
            }
        except NotRead as error:
            reasons[node] = str(error)
    for name in sorted({name for settings in by_node.values() for name in settings}):
        values = {node: _short(settings.get(name)) for node, settings in by_node.items()}
        # Nodes whose settings are not known are said once, below, not with every variable.
        yield _judged(name, values, {})
    if reasons:
        yield _judged("settings", dict.fromkeys(by_node, "read"), reasons)


def _short(value: str | None) -> str:
    if value is None:
        return NOT_SET
    return repr(value if len(value) <= LONGEST else f"{value[:LONGEST]}...")
