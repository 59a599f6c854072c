"""The ranks that run on this machine, and the settings of NCCL that each was started with.

/proc/PID/environ is the environment at the process's start: what a script sets in os.environ later is not in it. It is
read of this user's processes (as root, of everybody's), and only allow-listed settings of it are kept. Ranks of one job
are one user's: what others' processes say of themselves is theirs, and bounded for each of them.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpudoctor.knowledge.environment import recorded
from gpudoctor.knowledge.rank_variables import BY_LAUNCHER
from gpudoctor.lazy import lazy_re
from gpudoctor.read.process import ProcStat, processes
from gpudoctor.read.processes import RELEVANT
from gpudoctor.read.reader import reader
from gpudoctor.read.shares import Shares
from gpudoctor.read.system import System, attempt
from gpudoctor.read.users import user_of
from gpudoctor.snapshot import RankSettings, Reading, missing, read

SOURCE = "/proc/*/environ"
MAXIMUM_ENVIRONMENT = 4 * 1024 * 1024
SETTINGS = lazy_re(r"(?:NCCL|TORCH_NCCL|GLOO|TP)_\w+")
NO_RANK = frozenset(
    "sh bash dash zsh fish ksh tcsh srun mpirun mpiexec orted prted slurmstepd ssh sshd sudo su tmux screen".split()  # noqa: SIM905
)
"""Shells and launchers, which have a rank's variables only to hand them on."""
LONGEST_TEXT = 253
MOST_RANKS = 1024
"""Of one user."""


class RankProcess(NamedTuple):
    """A process with the variables of a rank."""

    process: ProcStat
    has_own_variable: bool
    """RANK is set. SLURM's and Open MPI's variables are also set for a launcher below them (torchrun)."""
    settings: RankSettings


@reader("ranks", "network.rank_settings")
def read_ranks(system: System, user: int | None = None, doctor: int | None = None) -> Reading[Any]:
    """One entry for each rank; () where none runs. `user` and `doctor` (its process) are for tests.

    What may not be read is counted in the source; where no rank is seen and one of this user's processes that could be
    one is closed to us, nothing is known.
    """
    user = os.geteuid() if user is None and hasattr(os, "geteuid") else user
    ours = os.getppid() if doctor is None else doctor
    found: list[RankProcess] = []
    closed: list[ProcStat] = []

    def look() -> None:
        every = list(processes(system))
        own = _tree({process.pid: process.parent for process in every}, ours)
        possible = {
            process.pid: process
            for process in every
            if not process.is_kernel_thread and process.state != "Z" and process.pid not in own and process.pid
        }
        shares = Shares({pid: user_of(system, pid) for pid in possible})
        counts: Counter[int] = Counter()
        for process in map(possible.__getitem__, shares.in_turn()):
            owner = shares.user(process.pid)
            if (user and owner != user) or counts[owner] >= MOST_RANKS:
                continue
            if process.state == "D":  # the lock of its memory may be held for ever
                closed.append(process)
                continue
            with shares.of(process.pid) as share:
                try:
                    raw = system.raw(f"/proc/{process.pid}/environ", share.most(MAXIMUM_ENVIRONMENT))
                except PermissionError:
                    closed.append(process)
                    continue
                except OSError:  # it ended
                    continue
                if b"RANK=" in raw or b"SLURM_PROCID=" in raw:
                    ranks = list(_as_rank(system, process, parse_environment(raw), owner))
                    counts[owner] += len(ranks)
                    share.keep(len(raw))
                    found.extend(ranks)

    looked = attempt(SOURCE, look, must_exist=True)
    if not looked.is_read:
        return looked
    possible = [process for process in closed if RELEVANT.search(process.name.lower())]
    if possible and not found:
        reason = f"the environments of {len(possible)} processes that may be ranks could not be read"
        return missing(SOURCE, f"{reason} (pid {possible[0].pid} {possible[0].name})", "denied")
    source = f"{SOURCE} ({len(possible)} more could not be read)" if possible else SOURCE
    return read(source, one_a_rank(found))


def _tree(parents: Mapping[int, int], root: int) -> set[int]:
    """A process and everything below it: the doctor may run in the environment of a rank, and is none."""
    family = {root, os.getpid()} if root else set()
    for pid in sorted(parents):
        path = []
        while pid in parents and pid not in family and pid not in path:
            path.append(pid)
            pid = parents[pid]
        if pid in family:
            family.update(path)
    return family


def parse_environment(raw: bytes) -> dict[str, str]:
    """/proc/PID/environ. Of a name that stands twice the first counts, as for getenv(3)."""
    variables: dict[str, str] = {}
    for entry in raw.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            variables.setdefault(os.fsdecode(name), os.fsdecode(value))
    return variables


def _as_rank(system: System, process: ProcStat, environment: Mapping[str, str], user: int) -> Iterator[RankProcess]:
    if process.name in NO_RANK:
        return
    for rank_name, size_name, local_name, _ in BY_LAUNCHER:
        rank = _number(environment, rank_name)
        size = _number(environment, "WORLD_SIZE")
        size = _number(environment, size_name) if size is None else size
        if rank is None or size is None:
            continue
        if rank_name != "RANK" and RELEVANT.search(process.name.lower()) is None:
            continue
        kept = recorded(environment)
        run_id = _text(kept, "TORCHELASTIC_RUN_ID")
        yield RankProcess(
            process,
            rank_name == "RANK",
            RankSettings(
                pid=process.pid,
                rank=rank,
                world_size=size,
                local_rank=_number(environment, local_name),
                master_address=_text(kept, "MASTER_ADDR"),
                master_port=_text(kept, "MASTER_PORT"),
                run_id="" if run_id == "none" else run_id,  # torchrun's default
                network_namespace=system.link_or_empty(f"/proc/{process.pid}/ns/net"),
                settings={name: value for name, value in kept.items() if SETTINGS.fullmatch(name)},
                user_id=user,
            ),
        )
        return


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else None


def _text(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip()[:LONGEST_TEXT]


def one_a_rank(processes_found: list[RankProcess]) -> tuple[RankSettings, ...]:
    """The process that is the rank, of all that have its variables: data loaders and helpers inherit them.

    It is a Python where there is one (else a program of another kind), and the oldest. A launcher that has only SLURM's
    or Open MPI's rank is none when processes below it have a rank of their own.
    """
    launchers = {each.process.parent for each in processes_found if each.has_own_variable}
    ranks: dict[tuple[Any, ...], RankProcess] = {}
    for each in sorted(processes_found, key=_preference):
        if each.has_own_variable or each.process.pid not in launchers:
            settings = each.settings
            job = (settings.master_address, settings.master_port, settings.run_id, settings.network_namespace)
            ranks.setdefault((*job, settings.user_id, settings.world_size, settings.rank), each)
    return tuple(ranks[key].settings for key in sorted(ranks))


def _preference(rank_process: RankProcess) -> tuple[bool, int, int]:
    process = rank_process.process
    return RELEVANT.search(process.name.lower()) is None, process.start_ticks, process.pid
