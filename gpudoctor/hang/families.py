"""The families of one node: a launcher or lone rank and what descends from it, each with what it is there."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from gpudoctor.knowledge.rank_variables import BY_LAUNCHER
from gpudoctor.launcher import command_lines as commands
from gpudoctor.snapshot.evidence import Process

MARKS = ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MOST_GENERATIONS = 64
STARTED_TOGETHER = 1000
"""Clock ticks (USER_HZ is 100) between the starts of ranks by one parent: slurmstepd takes milliseconds, a shell with &
little more."""


class Claim(Struct, frozen=True, kw_only=True):
    """A process and what it is, or says that it is."""

    process: Process
    role: str
    """As `Member.role`."""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    of: int = 0


class Family(Struct, frozen=True):
    claims: tuple[Claim, ...]


def families(processes: Sequence[Process]) -> list[Family]:
    """Every family with a rank or launcher in it, of one node."""
    return _Tree(processes).families()


class _Tree:
    def __init__(self, processes: Sequence[Process]) -> None:
        self.every = {process.pid: process for process in sorted(processes, key=_by_start)}
        self.children: dict[int, list[Process]] = {}
        for process in self.every.values():
            self.children.setdefault(process.parent, []).append(process)
        self.claims: dict[int, Claim] = {}
        self.beside: dict[int, int] = {}
        """Silent process -> the rank of the same parent with which it belongs."""

    def families(self) -> list[Family]:
        for process in self._parents_first():
            self.claims[process.pid] = self._claim(process)
        self._demote_wrappers()
        self._adopt_silent_siblings()
        self._number_children()
        grouped: dict[int, list[Claim]] = {}
        for pid, claim in self.claims.items():
            grouped.setdefault(self._top(pid), []).append(claim)
        return [
            Family(tuple(claims))
            for claims in grouped.values()
            if any(claim.role in ("rank", "launcher") for claim in claims)
        ]

    def _parents_first(self) -> Iterable[Process]:
        """Each process once, its parent before it. A table that changed while it was read may hold a ring."""
        done: set[int] = set()
        waiting = [process for process in self.every.values() if process.parent not in self.every]
        while len(done) < len(self.every):
            if not waiting:
                waiting = [next(process for process in self.every.values() if process.pid not in done)]
            for process in waiting:
                done.add(process.pid)
                yield process
            waiting = [
                child for process in waiting for child in self.children.get(process.pid, ()) if child.pid not in done
            ]
            waiting = list({child.pid: child for child in waiting}.values())

    # --- what a process is

    def _claim(self, process: Process) -> Claim:
        if process.alone and not commands.launcher(process.command):
            return Claim(process=process, role="rank", rank=0, local_rank=0, world_size=1)
        above = self._nearest(process)
        if commands.launcher(process.command):
            return Claim(process=process, role="launcher")
        if (above is None or above.role == "launcher") and (own := self._as_its_children_say(process)) is not None:
            return own
        if above is not None and above.role in ("data loader", "rank"):
            owner = above.of if above.role == "data loader" else above.process.pid
            if not self._is_another_rank(process, above):
                return Claim(process=process, role=self._below_rank(process, self.every[owner]), of=owner)
        own = None if above is not None and self._is_numbered_as(process, above) else self._own_rank(process)
        if own is not None:
            if self._starts_ranks(process, own):
                return Claim(process=process, role="launcher")
            return own
        if self._starts_ranks(process, None):
            return Claim(process=process, role="launcher")
        of = 0 if above is None else above.process.pid if above.role == "launcher" else above.of
        if above is not None and above.role == "launcher" and self._may_be_rank(process, above.process):
            return Claim(process=process, role="rank")
        return Claim(process=process, role="helper", of=of)

    def _nearest(self, process: Process) -> Claim | None:
        """What the nearest process above it is that is a rank, launcher or data loader."""
        pid = process.parent
        for _ in range(MOST_GENERATIONS):
            claim = self.claims.get(pid)
            if claim is None:
                return None
            if claim.role != "helper" or claim.of == 0:
                return claim if claim.role != "helper" else self._nearest_of(claim)
            pid = claim.process.parent
        return None

    def _nearest_of(self, claim: Claim) -> Claim | None:
        pid = claim.process.parent
        for _ in range(MOST_GENERATIONS):
            above = self.claims.get(pid)
            if above is None or above.role != "helper":
                return above
            pid = above.process.parent
        return None

    @staticmethod
    def _below_rank(process: Process, rank: Process) -> str:
        if process.name == "pt_data_worker":
            return "data loader"
        if commands.is_tracker(process.command) or (
            commands.is_forkserver(process.command) and process.parent == rank.pid
        ):
            return "helper"
        if commands.is_spawned(process.command) or commands.is_forkserver(process.command):
            return "data loader"
        if process.command and rank.command:
            return "data loader" if process.command == rank.command else "helper"
        # Where one of the two is not read (ended, or waiting in the kernel): a fork has its parent's name.
        return "data loader" if process.name and process.name == rank.name else "helper"

    @staticmethod
    def _is_another_rank(process: Process, above: Claim) -> bool:
        """Of a process below a rank: it is a rank itself, as Lightning's first rank starts the others."""
        own = rank_of(process)
        if own is None or above.role != "rank":
            return False
        return own[0] is not None and own[0] != above.rank

    @staticmethod
    def _is_numbered_as(process: Process, above: Claim) -> bool:
        """Below torchrun, which numbers its ranks itself: a scheduler's number there is that of torchrun's own task."""
        if above.role != "launcher" or "RANK" in process.environment:
            return False
        return commands.launcher(above.process.command) == "torchrun" and rank_of(process) == rank_of(above.process)

    def _own_rank(self, process: Process) -> Claim | None:
        if process.name in commands.SHELLS and commands.PYTHON.search(process.name) is None:
            return None
        if number := rank_of(process):
            rank, world_size, local_rank = number
            return Claim(process=process, role="rank", rank=rank, world_size=world_size, local_rank=local_rank)
        return self._first_of_lightning(process)

    def _as_its_children_say(self, process: Process) -> Claim | None:
        """Of a process that waits in the kernel: its data loaders were forked from it, and have its environment."""
        if process.state != "D" or process.environment_read or process.name in commands.process_names():
            return None
        ranks = {found for child in self.children.get(process.pid, ()) if (found := rank_of(child)) is not None}
        if len(ranks) != 1 or (found := ranks.pop())[0] is None:
            return None
        return Claim(process=process, role="rank", rank=found[0], world_size=found[1], local_rank=found[2])

    def _first_of_lightning(self, process: Process) -> Claim | None:
        """It has started its own command line again with LOCAL_RANK 1 and more: it is local rank 0 itself."""
        if not process.command:
            return None
        for child in self.children.get(process.pid, ()):
            environment = child.environment
            if commands.same_program(child.command, process.command) and (_number(environment, "LOCAL_RANK") or 0) > 0:
                if "RANK" in environment or _number(environment, "WORLD_SIZE") is None:
                    continue
                node = _number(environment, "NODE_RANK") or 0
                return Claim(
                    process=process,
                    role="rank",
                    rank=0 if node == 0 else None,
                    local_rank=0,
                    world_size=_number(environment, "WORLD_SIZE"),
                )
        return None

    def _starts_ranks(self, process: Process, own: Claim | None) -> bool:
        """A script that has spawned or forked its ranks: their children communicate, or it was told of a master."""
        if (own is not None and own.rank is not None) or not process.command or process.communicates is None:
            return False
        children = self._spawned_children(process)
        if not children:
            return False
        if any(child.communicates for child in children):
            return True
        has_master = any("MASTER_ADDR" in each.environment for each in (process, *children))
        # A master alone may be in an image's environment: children of fork are data loaders until they communicate.
        return has_master and not process.communicates and any(commands.is_spawned(child.command) for child in children)

    def _spawned_children(self, process: Process) -> list[Process]:
        """In the order of their start; those of its forkserver too."""
        spawned: list[Process] = []
        for child in self.children.get(process.pid, ()):
            if child.name == "pt_data_worker" or commands.is_tracker(child.command):
                continue
            if commands.is_forkserver(child.command):
                spawned += [each for each in self.children.get(child.pid, ()) if each.name != "pt_data_worker"]
            elif commands.is_spawned(child.command) or (child.command and child.command == process.command):
                spawned.append(child)
        return sorted(spawned, key=_by_start)

    def _may_be_rank(self, process: Process, launcher: Process) -> bool:
        """Of a launcher's child that does not say: its environment was not read, or it was spawned by a script."""
        kind = commands.launcher(launcher.command)
        if not kind:
            return any(process is child for child in self._spawned_children(launcher)) or (
                process.state in "ZX" and process.name == launcher.name and bool(self._spawned_children(launcher))
            )
        if kind == "srun" or process.environment_read or commands.is_tracker(process.command):
            return False
        if process.name in commands.SHELLS:
            return False
        return not process.command or commands.PYTHON.search(process.name.lower()) is not None

    # --- corrections

    def _demote_wrappers(self) -> None:
        """A rank's variables are handed down: of numactl, nsys or a shell above a Python, the Python is the rank."""
        for pid, claim in list(self.claims.items()):
            if claim.role != "rank" or claim.rank is None or commands.PYTHON.search(claim.process.name.lower()):
                continue
            below = [
                child
                for child in self.children.get(pid, ())
                if child.pid in self.claims
                and self.claims[child.pid].of == pid
                and commands.PYTHON.search(child.name.lower())
                and rank_of(child) == rank_of(claim.process)
            ]
            if not below:
                continue
            rank = min(below, key=_by_start)
            for other, theirs in list(self.claims.items()):
                if theirs.of == pid:
                    role = self._below_rank(theirs.process, rank) if other != rank.pid else "rank"
                    self.claims[other] = structs.replace(theirs, of=rank.pid, role=role)
            self.claims[rank.pid] = structs.replace(claim, process=rank, of=0)
            self.claims[pid] = Claim(process=claim.process, role="helper", of=rank.pid)

    def _adopt_silent_siblings(self) -> None:
        """What waits in the kernel or has ended says nothing; beside ranks of a parent that is no launcher (slurmstepd,
        a shell) it is taken for one of them. Of the dead only those that were started when these were: a container's
        first process seldom collects what earlier runs have left it."""
        ranks: dict[tuple[int, int], list[Process]] = {}
        for _, claim in sorted(self.claims.items()):
            if claim.role == "rank" and claim.rank is not None and claim.process.parent not in self.every:
                ranks.setdefault((claim.process.parent, claim.process.user_id), []).append(claim.process)
        for pid, claim in list(self.claims.items()):
            process = claim.process
            if process.state not in ("D", "Z") or process.command or claim.role != "helper" or claim.of:
                continue
            beside = ranks.get((process.parent, process.user_id))
            if beside is None or commands.PYTHON.search(process.name.lower()) is None:
                continue
            apart = min(abs(process.started - each.started) for each in beside)
            if process.state == "D" or apart <= STARTED_TOGETHER:
                self.claims[pid] = Claim(process=process, role="rank")
                self.beside[pid] = beside[0].pid

    def _number_children(self) -> None:
        """Ranks that do not tell their number get it from their place among their launcher's children."""
        for pid, claim in list(self.claims.items()):
            if claim.role != "launcher":
                continue
            ranks = sorted(
                (
                    each
                    for each in self.claims.values()
                    if each.role == "rank" and (above := self._nearest(each.process)) and above.process.pid == pid
                ),
                key=lambda each: _by_start(each.process),
            )
            if not ranks or all(rank.rank is not None for rank in ranks):
                continue
            self._number(claim.process, ranks)

    def _number(self, launcher: Process, ranks: Sequence[Claim]) -> None:
        kind = commands.launcher(launcher.command)
        if kind in ("srun", "mpirun"):
            return
        claims = [rank for rank in ranks if rank.local_rank is not None]
        if any(ranks.index(claim) != claim.local_rank for claim in claims):
            # Not one started after the other from 0 on; if but one number is free, it is the one that is left.
            self._number_by_elimination(ranks)
            return
        offsets = {
            claim.rank - claim.local_rank for claim in claims if claim.rank is not None and claim.local_rank is not None
        }
        if not offsets and not self._several_nodes(launcher):
            offsets = {0}
        sizes = {claim.world_size for claim in claims if claim.world_size is not None}
        for local_rank, each in enumerate(ranks):
            if each.rank is not None:
                continue
            self.claims[each.process.pid] = structs.replace(
                each,
                local_rank=local_rank,
                rank=local_rank + min(offsets) if len(offsets) == 1 else None,
                world_size=min(sizes) if len(sizes) == 1 else len(ranks) if not kind else None,
            )

    def _number_by_elimination(self, ranks: Sequence[Claim]) -> None:
        numbered = [rank for rank in ranks if rank.local_rank is not None and rank.rank is not None]
        silent = [rank for rank in ranks if rank.rank is None]
        here = next((_number(claim.process.environment, "LOCAL_WORLD_SIZE") for claim in numbered), None)
        free = sorted(set(range(here or 0)) - {claim.local_rank for claim in numbered}) if here and here <= 4096 else []
        if len(silent) == len(free) == 1:
            first = numbered[0]
            assert first.rank is not None and first.local_rank is not None
            self.claims[silent[0].process.pid] = structs.replace(
                silent[0],
                local_rank=free[0],
                rank=first.rank - first.local_rank + free[0],
                world_size=first.world_size,
            )

    @staticmethod
    def _several_nodes(launcher: Process) -> bool:
        nodes = commands.setting(launcher.command, launcher.environment, "nnodes")
        if nodes is None:
            nodes = commands.option(commands.own_options(launcher.command), "num-machines")
        return nodes is not None and nodes not in ("1", "1:1")

    def _top(self, pid: int) -> int:
        """The uppermost of its family: up to a launcher whose own parent is none of the family's."""
        for _ in range(MOST_GENERATIONS):
            above = self.beside.get(pid, self.every[pid].parent)
            if above not in self.claims or above == pid:
                return pid
            pid = above
        return pid


def rank_of(process: Process) -> tuple[int | None, int | None, int | None] | None:
    """(rank, world size, local rank) that a process was told; None when it was told nothing of a job."""
    environment, command = process.environment, process.command
    if commands.is_tracker(command):
        return None  # it has its parent's environment
    for rank_name, size_name, local_name, _ in BY_LAUNCHER:
        rank = _number(environment, rank_name)
        if rank is None:
            continue
        size = _number(environment, "WORLD_SIZE")
        size = _number(environment, size_name) if size is None else size
        if rank_name == "SLURM_PROCID" and (size is None or (size == 1 and not _marked(process))):
            continue  # a program in an allocation, of which nobody has said that it is one of several
        if size is None and rank_name != "RANK":
            continue
        local = _number(environment, "LOCAL_RANK")
        return rank, size, _number(environment, local_name) if local is None else local
    if "-c" in command[1:2] and (commands.is_spawned(command) or commands.is_forkserver(command)):
        return None  # what its parent was told is not what it is
    options = _from_options(command)
    if not _marked(process) and options is None:
        return None
    rank, size, local = options or (None, None, None)
    size = _number(environment, "WORLD_SIZE") if size is None else size
    local = _number(environment, "LOCAL_RANK") if local is None else local
    node = _number(environment, "NODE_RANK")
    if rank is None and local is not None and not node:
        rank = local
    if rank is None and local is not None and node and (here := _number(environment, "LOCAL_WORLD_SIZE")):
        rank = node * here + local
    return rank, size, local


def _marked(process: Process) -> bool:
    return any(process.environment.get(name, "").strip() for name in MARKS)


def _from_options(command: Sequence[str]) -> tuple[int | None, int | None, int | None] | None:
    if not commands.names_ranks(command):
        return None
    rank, size, local = (
        _parsed(commands.option(command, *names) or "")
        for names in (("rank", "global-rank"), ("world-size",), ("local-rank",))
    )
    url = commands.option(command, "dist-url", "init-method")
    return (rank, size, local) if (rank, size, local) != (None, None, None) or url else None


def _number(environment: dict[str, str], name: str) -> int | None:
    return _parsed(environment.get(name, ""))


def _parsed(text: str) -> int | None:
    text = text.strip()
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else None


def _by_start(process: Process) -> tuple[int, int]:
    return process.started, process.pid
