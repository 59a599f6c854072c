"""The processes of this node that belong to distributed jobs, or may: ranks, launchers, and what descends from them.

Every process's `stat` is read, and the environment of each that may be asked for it; command lines, maps and sockets
only of those that could matter. Of a process that waits in the kernel (state D) nothing is read here that takes the
lock of its memory: it is looked at again a few times, for most such waits are short, and then `in_kernel` is asked.
"""

import errno
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from gpudoctor.launcher import command_lines as commands
from gpudoctor.lazy import lazy_re
from gpudoctor.read import process as proc
from gpudoctor.read.job.describer import (
    MAXIMUM_COMMAND,
    MAXIMUM_ENVIRONMENT,
    Describer,
    boot_id,
    namespace,
    read_command,
    words_of,
)
from gpudoctor.read.job.environment_now import MAXIMUM_MAPS, STRONG, TORCH, WEAK, as_set
from gpudoctor.read.job.refusals import DENIED
from gpudoctor.read.shares import Shares
from gpudoctor.read.sockets import Tables
from gpudoctor.read.system import System
from gpudoctor.read.users import user_of
from gpudoctor.snapshot.evidence import NodeProcesses, Unread
from gpudoctor.snapshot.holds import IN_KERNEL

MOST_PROCESSES = 4096  # of one user on one node: 16 ranks with 128 data loaders each, and some more
MOST_BYTES = 16 * 1024 * 1024  # told of all processes: a line may have 32 MiB, and JSON makes some of it longer
SIZE_OF_A_PROCESS = 1024  # what else is told of one
MOST_UNREAD = 32
MOST_LOOKED_AT_FOR_SOCKETS = 256  # processes of one user
SECOND_LOOKS = (0.02, 0.06, 0.12, *[0.005] * 100)  # seconds to the next look at one in D: some leave it for 5 ms only
MOST_GENERATIONS = 64

LAUNCHER_NAMES = lazy_re(r"^(srun|mpirun|mpiexec|orterun|prterun|horovodrun|hydra|ds$)")


def find(
    system: System, *, doctor: int | None = None, hostname: str = "", now: float = 0.0, alone: int = 0
) -> NodeProcesses:
    """Everything of this node that may belong to a job; `alone`: a Python that is told also where it belongs to none.
    `doctor`: who is not to be seen, with its descendants; we without. Raises `OSError` when /proc cannot be listed."""
    return _FirstLook(system, os.getpid() if doctor is None else doctor).result(hostname, now, alone)


class _FirstLook:
    def __init__(self, system: System, doctor: int) -> None:
        self.system = system
        self.every: dict[int, proc.ProcStat] = {found.pid: found for found in proc.processes(system)}
        if not self.every:
            raise OSError(errno.ENOENT, "/proc shows no process; is it mounted?")
        self.children: dict[int, list[int]] = {}
        for found in self.every.values():
            self.children.setdefault(found.parent, []).append(found.pid)
        self.ours = set(self._below([doctor])) | {doctor}
        self.shares = Shares(
            {
                found.pid: user_of(system, found.pid)
                for found in self.every.values()
                if found.pid and not found.is_kernel_thread and found.pid not in self.ours
            }
        )
        self.environments: dict[int, bytes] = {}
        self.commands: dict[int, tuple[str, ...]] = {}
        self.refused: dict[int, str] = {}  # pid -> why its environment is not read
        self.silent: set[int] = set()  # users of whom a process has not let its memory be read in time
        self.tables = Tables(system)
        self.describer = Describer(system)

    def result(self, hostname: str, now: float, alone: int = 0) -> NodeProcesses:
        try:
            self._read_environments(alone)
        finally:
            self.describer.in_kernel.end()
        chosen = self._ranks_and_launchers()
        communicates = self._spawning(chosen)
        self._silent_siblings(chosen)
        family = self._with_relatives(chosen)
        is_alone = self._may_be_alone(alone, family)
        if is_alone:
            chosen[alone] = None
            family = self._with_relatives(chosen)
        unread = list(self._unread(family))
        if not family and (reason := self._hidden()):
            unread.append(Unread("processes", reason))
        return NodeProcesses(
            hostname=hostname,
            boot_id=boot_id(self.system),
            network_namespace=namespace(self.system, "self"),
            time=now,
            processes=tuple(
                self.describer.describe(
                    self.every[pid],
                    environment=self.environments.get(pid),
                    command=self._command(pid),
                    communicates=communicates.get(pid),
                    alone=is_alone and pid == alone,
                )
                for pid in sorted(self._told(family, unread))
            ),
            unread=tuple(unread),
        )

    def _may_be_alone(self, pid: int, family: Sequence[int]) -> bool:
        """Of a job, or of what has started one below it (Ray's driver), that job is meant."""
        process = self.every.get(pid)
        if process is None or pid in self.ours or process.state in "ZX" or {pid, *self._below([pid])} & {*family}:
            return False
        return commands.PYTHON.search(process.name.lower()) is not None and not commands.is_doctor(self._command(pid))

    def _told(self, family: Sequence[int], unread: list[Unread]) -> Iterable[int]:
        """Those that are told: of each user the first, as many and as long as one answer can carry for all."""
        owned: dict[int, list[int]] = {}
        for pid in family:
            owned.setdefault(self.shares.user(pid), []).append(pid)
        sizes = {
            pid: len(self.environments.get(pid, b"")) + sum(map(len, self._command(pid))) + SIZE_OF_A_PROCESS
            for pid in family
        }
        left = MOST_BYTES
        for number, (user, pids) in enumerate(
            sorted(owned.items(), key=lambda each: sum(map(sizes.__getitem__, each[1])))
        ):
            share = left // (len(owned) - number)
            for count, pid in enumerate(pids):
                share -= sizes[pid]
                if share < 0 or count >= MOST_PROCESSES:
                    name = self.describer.user(user)
                    unread.append(Unread("processes", f"only {count} of the {len(pids)} of {name} are told", user=name))
                    break
                left -= sizes[pid]
                yield pid

    def _unread(self, family: Sequence[int]) -> Iterable[Unread]:
        """The environments that were not read, of each user a few, where the process belongs to a job or could be a
        rank by its name; and whose processes were too many."""
        members = frozenset(family)
        wanted: dict[int, list[int]] = {}
        for pid in self.refused:
            if pid in members or commands.PYTHON.search(self.every[pid].name.lower()):
                wanted.setdefault(self.shares.user(pid), []).append(pid)
        for user, pids in list(wanted.items())[:MOST_UNREAD]:
            name = self.describer.user(user)
            most = max(1, MOST_UNREAD // len(wanted))
            for pid in pids[:most]:
                yield Unread(f"environment of pid {pid} {self.every[pid].name}", self.refused[pid], pid, name)
            if len(pids) > most:
                reason = self.refused[pids[most]]
                yield Unread(f"environments of {len(pids) - most} more processes", reason, user=name)
        for user, reason in self.shares.spent().items():
            name = self.describer.user(user)
            yield Unread(f"processes of {name}", reason, user=name)

    def _hidden(self) -> str:
        """Why a job may be out of sight."""
        try:
            return proc.hidden_processes(self.system)
        except OSError:
            return ""

    # --- what is read

    def _read_environments(self, asked: int) -> None:
        """`asked`: whose job is meant is read first, with those around it: there may be no time for all."""
        around = [asked, *self._below([asked, self.every[asked].parent])] if asked in self.every else []
        for pid in around:
            self._command(pid)
        later: list[int] = []
        for pid in self.shares.in_turn(around):
            state = self.every[pid].state
            if state == "D":
                later.append(pid)
            elif state not in "ZX" and pid not in self.ours:
                self._read_environment(pid)
        for pause in SECOND_LOOKS:
            if not later:
                break
            time.sleep(pause)
            for pid in list(later):
                try:
                    again = proc.look(pid, self.system)
                except OSError:
                    continue
                if again is None or again.start_ticks != self.every[pid].start_ticks:
                    later.remove(pid)
                elif again.state != "D":
                    later.remove(pid)
                    self.every[pid] = again
                    self._read_environment(pid)
        for pid in later:
            self._read_waiting(pid)

    def _read_waiting(self, pid: int) -> None:
        name = self.every[pid].name
        may_matter = commands.PYTHON.search(name.lower()) or LAUNCHER_NAMES.match(name)
        told = self.describer.in_kernel.read(pid) if may_matter else None
        if told is None:
            self.refused[pid], self.commands[pid] = IN_KERNEL, ()
            return
        with self.shares.of(pid) as share:
            self.environments[pid], self.commands[pid] = told.environment, words_of(told.command)
            share.keep(len(told.environment) + len(told.command))

    def _read_environment(self, pid: int) -> None:
        with self.shares.of(pid) as share:
            most = share.most(MAXIMUM_ENVIRONMENT)
            if not most:
                self.refused[pid] = share.reason()
                return
            try:
                raw = self.system.raw(f"/proc/{pid}/environ", most)
            except PermissionError:
                self.refused[pid] = DENIED
                return
            except OSError:
                return  # it ended
            name = self.every[pid].name
            if self.shares.user(pid) not in self.silent:
                try:
                    raw = as_set(self.system, pid, name, raw, share.most(MAXIMUM_MAPS))
                except TimeoutError:
                    self.silent.add(self.shares.user(pid))
            pythonic = commands.PYTHON.search(name.lower())
            if pythonic or STRONG.search(raw) or WEAK.search(raw) or LAUNCHER_NAMES.match(name):
                self.environments[pid] = raw
                share.keep(len(raw))
            else:
                self.environments[pid] = b""  # what it says is of no use to us

    def _command(self, pid: int) -> tuple[str, ...]:
        if pid not in self.commands:
            with self.shares.of(pid) as share:
                ended = self.every[pid].state in "ZXD"
                found = () if ended else read_command(self.system, pid, share.most(MAXIMUM_COMMAND))
                self.commands[pid] = found
                share.keep(sum(map(len, found)))
        return self.commands[pid]

    def _has_torch(self, pid: int) -> bool:
        if self.every[pid].state in "ZXD":
            return False
        with self.shares.of(pid) as share:
            try:
                return TORCH.search(self.system.raw(f"/proc/{pid}/maps", share.most(MAXIMUM_MAPS))) is not None
            except OSError:
                return False

    # --- who is chosen

    def _ranks_and_launchers(self) -> dict[int, None]:
        """In order of their numbers; a dict for its order."""
        chosen: dict[int, None] = {}
        for pid in self.shares.in_turn():
            process = self.every[pid]
            if pid in self.ours or process.state in "ZX":
                continue
            pythonic = commands.PYTHON.search(process.name.lower()) is not None
            if not pythonic and process.name in commands.SHELLS:
                continue
            raw = self.environments.get(pid, b"")
            strong, weak = STRONG.search(raw) is not None, WEAK.search(raw) is not None
            if not (pythonic or strong or LAUNCHER_NAMES.match(process.name)):
                continue
            command = self._command(pid)
            if commands.is_doctor(command):
                self.ours.add(pid)
                continue
            if (
                commands.launcher(command)
                or strong
                or (pythonic and (weak or commands.names_ranks(command)) and self._has_torch(pid))
                or (pythonic and self._is_local_rank(raw))
            ):
                chosen[pid] = None
        return dict(sorted(chosen.items()))

    @staticmethod
    def _is_local_rank(raw: bytes) -> bool:
        """Lightning's children: they have no RANK, but all the rest."""
        return all(re.search(rb"(?:^|\0)" + name + rb"=[^\0]", raw) for name in (b"LOCAL_RANK", b"WORLD_SIZE"))

    def _silent_siblings(self, chosen: dict[int, None]) -> None:
        """Choose what says nothing (it waits in the kernel, or has ended) beside ranks of the same parent and user, or
        above data loaders that have its environment."""
        above = {self.every[pid].parent for pid in chosen}
        beside = {(self.every[pid].parent, self.shares.user(pid)) for pid in chosen}
        for pid, process in sorted(self.every.items()):
            silent = process.state == "Z" or (process.state == "D" and pid in self.refused)
            if not silent or process.is_kernel_thread or pid in self.ours:
                continue
            if not commands.PYTHON.search(process.name.lower()):
                continue
            if pid in above or (process.parent > 1 and (process.parent, self.shares.user(pid)) in beside):
                chosen[pid] = None

    def _spawning(self, chosen: dict[int, None]) -> dict[int, bool]:
        """Choose scripts that have started ranks themselves, by spawn, forkserver or fork. pid -> `communicates`."""
        found: dict[int, bool] = {}
        looked_at: Counter[int] = Counter()
        for parent, children in sorted(self.children.items()):
            process = self.every.get(parent)
            if process is None or parent in self.ours or process.is_kernel_thread or parent < 1:
                continue
            if commands.PYTHON.search(process.name.lower()) is None or commands.launcher(self._command(parent)):
                continue
            own_command = self._command(parent)
            server = commands.is_forkserver(own_command)
            suspects = [
                child
                for child in children
                if child not in self.ours
                and self.shares.user(child) == self.shares.user(parent)
                and self.every[child].state not in "ZX"
                and self.every[child].name not in ("pt_data_worker",)
                and (
                    commands.is_spawned(self._command(child))
                    or (bool(own_command) and self._command(child) == own_command)
                )
            ]
            user = self.shares.user(parent)
            if looked_at[user] > MOST_LOOKED_AT_FOR_SOCKETS or not any(map(self._has_torch, suspects[:4])):
                continue
            looked_at[user] += len(suspects) + 1
            with self.shares.of(parent) as share:
                if not share.most(1):
                    continue
                inherited = self.tables.inodes(parent)
                for child in suspects:
                    found[child] = self.tables.communicates(child, without=inherited)
                found[parent] = self.tables.communicates(parent)
            told = any(WEAK.search(self.environments.get(pid, b"")) for pid in (parent, *suspects))
            if told or any(found[pid] for pid in suspects):
                top = process.parent if server and process.parent in self.every else parent
                chosen[top] = None
                chosen.update(dict.fromkeys(suspects))
        return found

    def _with_relatives(self, chosen: Iterable[int]) -> list[int]:
        """The chosen, the Python or launcher right above them, and all that descends from them; the chosen first."""
        found = dict.fromkeys(chosen)
        for pid in list(found):
            above = self.every[pid].parent
            if above not in self.every or above in self.ours or self.shares.user(above) != self.shares.user(pid):
                continue
            if self._starts_itself_again(above, pid):
                found[above] = None
        for pid in self._below(list(found)):
            if pid not in self.ours and not commands.is_doctor(self._command(pid)):
                found[pid] = None
        return [pid for pid in found if pid not in self.ours]

    def _starts_itself_again(self, above: int, pid: int) -> bool:
        """Lightning's main process is rank 0 itself, and starts its own command line once more for the others."""
        return commands.same_program(self._command(pid), self._command(above))

    def _below(self, roots: Sequence[int]) -> list[int]:
        found: dict[int, None] = {}
        generation = list(roots)
        for _ in range(MOST_GENERATIONS):
            young = [child for parent in generation for child in self.children.get(parent, ()) if child not in found]
            found.update(dict.fromkeys(young))
            if not young:
                break
            generation = young
        return list(found)
