"""A launch's variables: threads a rank, what `gpudoctor env` finds for its nodes, and the GPUs that were counted."""

import math
from collections.abc import Mapping

from gpudoctor.command import command
from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.wording import counted
from gpudoctor.launch.plan import EnvVariable, Unverified
from gpudoctor.snapshot import NotRead, Snapshot

THREADS = "OMP_NUM_THREADS"
NAMES_DEVICES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA")
"""Values that name interfaces or HCAs, which another node may call otherwise."""

Own = dict[str, tuple[EnvVariable, ...]]


def variables(
    names: tuple[str, ...], snapshots: Mapping[str, Snapshot], processes: tuple[int, ...], accelerator: str
) -> tuple[tuple[EnvVariable, ...], Own, tuple[Unverified, ...]]:
    """What every node gets, what single nodes get by themselves, and what was not looked at on the others."""
    by_node: dict[str, dict[str, EnvVariable]] = {}
    for rank, name in enumerate(names):
        machine = snapshots.get(name)
        if machine is not None:
            by_node[name] = _of_node(machine, len(names), processes[rank])
    shared, own = _agreed(by_node)
    unseen = [name for name in names if name not in by_node]
    guesses = tuple(
        Unverified(
            f"{variable.name}={variable.value} fits the nodes that were not looked at, too",
            command("gpudoctor env")
            if unseen[0].startswith("NODE")
            else command("ssh {:host} gpudoctor env --nodes {:number}", unseen[0], len(names)),
        )
        for variable in shared
        if unseen and variable.name in NAMES_DEVICES
    )
    if accelerator == "cuda":
        for rank, name in enumerate(names):
            if name in snapshots and (chosen := _visible(snapshots[name], processes[rank])):
                own[name] = (*own.get(name, ()), chosen)
    return shared, own, guesses


def naming_devices(shared: tuple[EnvVariable, ...]) -> tuple[str, ...]:
    """Those of the variables whose values a node that was not looked at may call otherwise."""
    return tuple(variable.name for variable in shared if variable.name in NAMES_DEVICES)


def cpus_per_process(names: tuple[str, ...], snapshots: Mapping[str, Snapshot], processes: tuple[int, ...]) -> int:
    """The fewest CPUs that a rank of a known node gets; 0 when that is not known."""
    shares = [
        _cpus(snapshots[name]) // processes[rank]
        for rank, name in enumerate(names)
        if name in snapshots and _cpus(snapshots[name])
    ]
    return max(1, min(shares)) if shares else 0


def _of_node(machine: Snapshot, nodes: int, processes: int) -> dict[str, EnvVariable]:
    by_name: dict[str, EnvVariable] = {}
    if cpus := _cpus(machine):
        share = max(1, cpus // processes)
        by_name[THREADS] = EnvVariable(
            THREADS,
            str(share),
            f"{counted(cpus, 'CPU')} for {counted(processes, 'rank')} of a node. Without it torchrun sets 1 where a "
            "node has several ranks, and other launchers let every rank start a thread for each CPU.",
        )
    advice = suggest(machine, nodes)
    for suggestion in advice.suggestions:
        if suggestion.kind != "debugging" and suggestion.name != THREADS:
            by_name[suggestion.name] = EnvVariable(suggestion.name, suggestion.value, suggestion.reason)
    for present in advice.present:
        if present.name != THREADS and present.origin == "environment":
            by_name[present.name] = EnvVariable(
                present.name, present.value, "Set in this shell, and needed; another shell does not have it."
            )
    return by_name


def _agreed(each: Mapping[str, Mapping[str, EnvVariable]]) -> tuple[tuple[EnvVariable, ...], Own]:
    """Variables with one value on all known nodes, and the others by node."""
    shared: dict[str, EnvVariable] = {}
    own: dict[str, list[EnvVariable]] = {}
    for found in each.values():
        for name, variable in found.items():
            values = {nodes[name].value if name in nodes else None for nodes in each.values()}
            if len(values) == 1:
                shared.setdefault(name, variable)
    if each and THREADS not in shared:
        fewest = [found[THREADS] for found in each.values() if THREADS in found]
        if fewest:  # every rank does the same work: the slowest sets the pace, and torchrun's 1 would come otherwise
            shared[THREADS] = min(fewest, key=lambda variable: int(variable.value))
    for node, found in each.items():
        mine = [variable for name, variable in found.items() if name not in shared]
        if mine:
            own[node] = mine
    return tuple(shared.values()), {node: tuple(mine) for node, mine in own.items()}


def _cpus(machine: Snapshot) -> int:
    """CPUs that this user's processes may use there, as the affinity mask and the cgroup grant; 0 when not read."""
    try:
        mask = len(machine.host.cpus_allowed.value)
    except NotRead:
        return 0
    cgroup = machine.host.cgroup.value_or(None)  # where it is not read, the mask is the best that is known
    quota = cgroup.cpu_limit if cgroup else None
    return min(mask, max(1, math.floor(quota))) if quota is not None else mask


def _visible(machine: Snapshot, processes: int) -> EnvVariable | None:
    """CUDA_VISIBLE_DEVICES where this shell has it: the GPUs were counted under it."""
    value = machine.environment.value_or({}).get(VARIABLE)
    if not value:
        return None
    taken = ",".join([part.strip() for part in value.split(",")][:processes])
    return EnvVariable(
        VARIABLE, taken, f"As in the shell that was looked at ({value}); the GPUs were counted under it."
    )
