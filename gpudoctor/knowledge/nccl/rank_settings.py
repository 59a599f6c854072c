"""Where the settings of a job's ranks on one machine differ, and which differences matter.

NCCL does not compare the ranks' settings: each rank chooses algorithm, protocol, channels and transport by its own,
and ranks that chose differently wait for one another for ever. (NCCL src/init.cc: only the library's version is
compared, and from 2.30 on the number of NICs.)
"""

from collections.abc import Iterable
from typing import NamedTuple

from gpudoctor.knowledge.job import is_loopback
from gpudoctor.knowledge.nccl.settings import number
from gpudoctor.knowledge.nccl.variables import table
from gpudoctor.knowledge.wording import ranges
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import RankSettings

OF_EACH_RANK = lazy_re(
    r"NCCL_DEBUG\w*|NCCL_HOSTID|NCCL_IB_HCA|NCCL_(?:IGNORE_CPU_AFFINITY|SET_THREAD_NAME|SET_STACK_SIZE)"
    r"|NCCL_(?:CHECK|PROFILE|PROFILER|INSPECTOR|RAS)_\w+"
    r"|\w+_(?:FILE|FILE_RANK|PATH|DIR|LIB|PORT|ADDR)|TORCH_NCCL_DEBUG_INFO_\w+"
)
"""What may differ: files, ports and addresses, logging, and the NIC of each rank's own GPU."""
INTERFACES = lazy_re(r"\w+_IFNAME")
"""A rank may have an interface of its own; without any, beside ranks that have one, it takes another network."""
AGREED = lazy_re(
    r"NCCL_(?:ALGO|PROTO|NET|NET_PLUGIN|IB_DISABLE|COMM_ID|BUFFSIZE|LL_BUFFSIZE|LL128_BUFFSIZE|P2P_\w*CHUNKSIZE|NTHREADS"
    r"|LL128_NTHREADS|(?:MIN|MAX)_(?:NCHANNELS|NRINGS|CTAS|P2P_NCHANNELS)|NCHANNELS_PER_\w+|P2P_DISABLE|P2P_LEVEL"
    r"|P2P_DIRECT_DISABLE|SHM_DISABLE|NET_DISABLE_INTRA|CROSS_NIC|COLLNET_ENABLE|NVLS_\w+|CUMEM_\w+|MNNVL_\w+|PXN_DISABLE"
    r"|P2P_PXN_LEVEL|NVB_DISABLE|NET_SHARED_\w+|TOPO_\w+|GRAPH_\w+)"
)
"""What all ranks must choose alike (differences are a known class of hangs)."""


class RankDifference(NamedTuple):
    """A variable that the ranks of a job do not have alike; a value of None: it is not set."""

    name: str
    ranks: dict[str | None, tuple[int, ...]]
    """Value -> ranks, the most common value first."""
    hangs: bool
    """It is one of those that all ranks must choose alike."""

    @property
    def usual(self) -> str | None:
        """The value that most ranks have; of several, that of the lowest rank."""
        return next(iter(self.ranks))

    def described(self) -> str:
        """ "NCCL_ALGO is 'Ring' on ranks 0-6 and not set on rank 7"."""
        parts = [
            ("is not set" if value is None else f"is {value[:60]!r}" + ("..." if len(value) > 60 else ""))
            + f" on {'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"
            for value, ranks in self.ranks.items()
        ]
        shown = parts if len(parts) <= 3 else [*parts[:3], f"has {len(parts) - 3} more values"]
        first, *rest = shown
        others = [part.removeprefix("is ") if not part.startswith("is not") else part[3:] for part in rest]
        return (
            f"{self.name} {first}"
            + "".join(f", {part}" for part in others[:-1])
            + "".join(f" and {part}" for part in others[-1:])
        )


def jobs(ranks: Iterable[RankSettings]) -> list[tuple[RankSettings, ...]]:
    """The ranks of each job, in the order of ranks. A job is one user's.

    A master at a loopback address is another one in each network namespace.
    """
    ranks_by_job: dict[tuple[str, ...], dict[int, RankSettings]] = {}
    for rank in sorted(ranks, key=lambda rank: (rank.rank, rank.pid)):
        local = not rank.master_address or is_loopback(rank.master_address)
        where = rank.network_namespace if local else ""
        owner = str(rank.user_id)
        job = (rank.run_id, rank.master_address, rank.master_port, str(rank.world_size), where, owner)
        ranks_by_job.setdefault(job, {}).setdefault(rank.rank, rank)
    return [tuple(job.values()) for _, job in sorted(ranks_by_job.items())]


def name_of(job: tuple[RankSettings, ...]) -> str:
    """What tells a job from the others, for a sentence."""
    first = job[0]
    master = f" at {first.master_address}" if first.master_address else ""
    port = f" port {first.master_port}" if master and first.master_port else ""
    return f"the job of world size {first.world_size}{master}{port}"


def differences(job: tuple[RankSettings, ...], version: tuple[int, int, int] | None = None) -> list[RankDifference]:
    """The variables that the ranks do not have alike and should; `version` is NCCL's, which knows defaults."""
    differing = []
    for name in sorted({name for rank in job for name in rank.settings}):
        if OF_EACH_RANK.fullmatch(name):
            continue
        by_meaning: dict[object, list[RankSettings]] = {}
        for rank in job:
            by_meaning.setdefault(_meaning(name, rank.settings.get(name), version), []).append(rank)
        if len(by_meaning) < 2:
            continue
        ordered = sorted(by_meaning.values(), key=lambda same: (-len(same), same[0].rank))
        by_value: dict[str | None, tuple[int, ...]] = {}
        for same in ordered:
            value = same[0].settings.get(name)
            by_value[value] = (*by_value.get(value, ()), *(rank.rank for rank in same))
        differing.append(RankDifference(name, by_value, AGREED.fullmatch(name) is not None))
    return differing


def _meaning(name: str, value: str | None, version: tuple[int, int, int] | None) -> object:
    """What NCCL makes of a value: two of the same meaning are no difference."""
    if INTERFACES.fullmatch(name):
        return bool(value)
    variable = table().get(name)
    if variable is None or variable.kind != "integer":
        return value or None
    parsed = number(value) if value else None
    if parsed is not None and not parsed.too_large:
        return parsed.value
    if name.endswith("_DISABLE"):
        return 0  # also where the table says that NCCL decides: 0 leaves it to NCCL
    return variable.default(version) if version else None
