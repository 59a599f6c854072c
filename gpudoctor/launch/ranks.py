"""How many ranks each node gets: one a GPU that a program started there sees, or as many as was wished."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from gpudoctor.command import command
from gpudoctor.knowledge.visible.now import visible_count
from gpudoctor.knowledge.wording import counted
from gpudoctor.launch.plan import LaunchWish, Unverified
from gpudoctor.snapshot import NotApplicable, NotRead, Snapshot

MAXIMUM_RANKS = 1024
DEVICES = command("gpudoctor devices")


class NoRanks(ValueError):
    """Nobody can tell how many ranks, or there are too few GPUs; the message is one line for the user."""


class GpusUncounted(NoRanks):
    """A node's GPUs were not counted; that a look at it would do."""


class RankCounts(NamedTuple):
    """Ranks by node rank."""

    processes: tuple[int, ...]
    accelerator: Literal["cuda", "cpu"]
    why: str
    guesses: tuple[Unverified, ...] = ()


def of_nodes(
    wish: LaunchWish, names: tuple[str, ...], snapshots: Mapping[str, Snapshot], slots: Mapping[str, int]
) -> RankCounts:
    """Raises `NoRanks`."""
    seen: dict[str, int] = {}
    unread: dict[str, str] = {}
    for name in names:
        if name in snapshots:
            try:
                seen[name] = gpus(snapshots[name])
            except NotRead as error:
                unread[name] = error.reading.reason
    no_gpus = [name for name, count in seen.items() if count == 0]
    on_cpu = bool(no_gpus) and len(no_gpus) == len(seen) and not slots and not wish.gpus_per_node
    processes = []
    guesses = []
    for name in names:
        wanted = wish.gpus_per_node or slots.get(name, 0)
        count = seen.get(name)
        if wanted and count and wanted > count:
            option = f"--gpus-per-node {wanted}" if wish.gpus_per_node else f"slots={wanted}"
            raise NoRanks(f"{option}, but a program started on {name} gets {counted(count, 'GPU')}")
        if wanted > MAXIMUM_RANKS:
            raise NoRanks(f"{wanted} ranks on one node: at most {MAXIMUM_RANKS}")
        if wanted:
            processes.append(wanted)
            if wish.gpus_per_node and count == 0:
                claim = f"{name} has {counted(wanted, 'GPU')} at the start; a program started there now gets none"
                guesses.append(Unverified(claim, DEVICES))
        elif on_cpu:
            processes.append(1)
        elif count:
            processes.append(count)
        elif seen and count is None and name not in unread:
            alike = max(seen.values())
            processes.append(alike)
            claim = f"{name} has {counted(alike, 'GPU')} like {next(iter(seen))}"
            there = DEVICES if name.startswith("NODE") else command("ssh {:host} gpudoctor devices", name)
            guesses.append(Unverified(claim, there))
        elif count == 0:
            raise NoRanks(f"{name} has no GPU that a program gets, and other nodes have; leave it out of the job")
        else:
            reason = f": {unread[name]}" if name in unread else ""
            raise GpusUncounted(
                f"the GPUs of {name} could not be counted{reason}; say how many each node has with --gpus-per-node"
            )
    # --gpus-per-node speaks of GPUs that this machine need not have (a login node); slots are ranks of any kind.
    without = bool(no_gpus) and len(no_gpus) == len(seen) and not wish.gpus_per_node
    kind: Literal["cuda", "cpu"] = "cpu" if without else "cuda"
    return RankCounts(tuple(processes), kind, _why(wish, seen, no_gpus, on_cpu, slots), tuple(guesses))


def gpus(machine: Snapshot) -> int:
    """CUDA devices that a program started there gets. Raises `NotRead`."""
    try:
        return visible_count(machine)
    except NotApplicable:
        return 0


def _why(wish: LaunchWish, seen: Mapping[str, int], no_gpus: list[str], on_cpu: bool, slots: Mapping[str, int]) -> str:
    if on_cpu:
        none = f"{no_gpus[0]} has no NVIDIA GPU that a program gets"
        return f"{none}: one process a node, on CPU (more: slots=N in --hostfile)"
    asked = "--gpus-per-node" if wish.gpus_per_node else "the hostfile's slots" if slots else ""
    if asked and no_gpus:
        return f"as asked for ({asked}); {no_gpus[0]} itself has no NVIDIA GPU that a program gets"
    if asked:
        return f"as asked for ({asked})"
    name, count = next(iter(seen.items()))
    return f"one a GPU; a program started on {name} gets {counted(count, 'GPU')}"
