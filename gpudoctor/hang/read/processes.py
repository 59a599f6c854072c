"""The processes of this node that belong to distributed jobs, or may: ranks, launchers, and what descends from them.

Every process's `stat` is read, and the environment of each that may be asked for it; command lines, maps and sockets
only of those that could matter. Of a process that waits in the kernel (state D) nothing is read that takes the lock of
its memory: it is looked at again a few times, for most such waits are short.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence

from gpudoctor.hang.evidence import NodeProcesses, Process, Unread
from gpudoctor.hang.read import commands
from gpudoctor.hang.read.refusals import DENIED
from gpudoctor.hang.read.sockets import Tables
from gpudoctor.knowledge.environment import recorded
from gpudoctor.read import processes as proc
from gpudoctor.read.ranks import parse_environment
from gpudoctor.read.system import System

MAXIMUM_ENVIRONMENT = 1024 * 1024
MAXIMUM_COMMAND = 128 * 1024
MAXIMUM_MAPS = 16 * 1024 * 1024
MOST_PROCESSES = 4096
"""Of one node: 16 ranks with 128 data loaders each, and some more."""
MOST_UNREAD = 32
MOST_LOOKED_AT_FOR_SOCKETS = 256
SECOND_LOOKS = (0.02, 0.06, 0.12)
"""Seconds until a process in state D is looked at again: reading a disk takes milliseconds."""
MOST_GENERATIONS = 64

STRONG = re.compile(rb"(?:^|\0)(?:RANK|OMPI_COMM_WORLD_RANK|PMI_RANK|TORCHELASTIC_RUN_ID)=")
WEAK = re.compile(rb"(?:^|\0)(?:LOCAL_RANK|NODE_RANK|GROUP_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_PROCID)=[^\0]")
"""Variables that an image, a shell or an allocation may have set for everything: they count for a Python with torch."""
TORCH = re.compile(rb"/libtorch[\w]*\.so|/libc10\.so")
LAUNCHER_NAMES = re.compile(r"^(srun|mpirun|mpiexec|orterun|prterun|horovodrun|hydra|ds$)")


def find(system: System, *, doctor: int | None = None, hostname: str = "", now: float = 0.0) -> NodeProcesses:
    """Everything of this node that may belong to a job. `doctor`: the process that is not to be seen, with its
    descendants; our own without. Raises `OSError` when /proc cannot be listed."""
    return _Look(system, os.getpid() if doctor is None else doctor).result(hostname, now)


class _Look:
    def __init__(self, system: System, doctor: int) -> None:
        self.system = system
        self.every: dict[int, proc.Process] = {found.pid: found for found in proc.processes(system)}
        self.children: dict[int, list[int]] = {}
        for found in self.every.values():
            self.children.setdefault(found.parent, []).append(found.pid)
        self.ours = set(self._below([doctor])) | {doctor}
        self.environments: dict[int, bytes] = {}
        self.commands: dict[int, tuple[str, ...]] = {}
        self.refused: dict[int, str] = {}
        """pid -> why its environment is not read."""
        self.tables = Tables(system)
        self.describer = Describer(system)

    def result(self, hostname: str, now: float) -> NodeProcesses:
        self._read_environments()
        chosen = self._ranks_and_launchers()
        communicates = self._spawning(chosen)
        self._silent_siblings(chosen)
        family = self._with_relatives(chosen)
        unread = list(_unread_environments(self.refused, self.every, family))
        if not family and (reason := self._hidden()):
            unread.append(Unread("processes", reason))
        if len(family) > MOST_PROCESSES:
            unread.append(Unread("processes", f"only {MOST_PROCESSES} of {len(family)} are told"))
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
                )
                for pid in sorted(family[:MOST_PROCESSES])
            ),
            unread=tuple(unread),
        )

    def _hidden(self) -> str:
        """Why a job may be out of sight."""
        try:
            return proc.hidden_processes(self.system)
        except OSError:
            return ""

    # --- what is read

    def _read_environments(self) -> None:
        later: list[int] = []
        for pid, process in self.every.items():
            if pid in self.ours or process.is_kernel_thread or process.state in "ZX" or not pid:
                continue
            if process.state == "D":
                later.append(pid)
            else:
                self._read_environment(pid)
        for pause in SECOND_LOOKS:
            if not later:
                break
            time.sleep(pause)
            for pid in list(later):
                again = look(self.system, pid)
                if again is None or again.start_ticks != self.every[pid].start_ticks:
                    later.remove(pid)
                elif again.state != "D":
                    later.remove(pid)
                    self.every[pid] = again
                    self._read_environment(pid)
        for pid in later:
            self.refused[pid] = "it waits in the kernel (state D), where reading it could block"
            self.commands[pid] = ()

    def _read_environment(self, pid: int) -> None:
        try:
            self.environments[pid] = self.system.raw(f"/proc/{pid}/environ", MAXIMUM_ENVIRONMENT)
        except PermissionError:
            self.refused[pid] = DENIED
        except OSError:
            pass  # it ended

    def _command(self, pid: int) -> tuple[str, ...]:
        if pid not in self.commands:
            self.commands[pid] = () if self.every[pid].state in "ZXD" else read_command(self.system, pid)
        return self.commands[pid]

    def _has_torch(self, pid: int) -> bool:
        if self.every[pid].state in "ZXD":
            return False
        try:
            return TORCH.search(self.system.raw(f"/proc/{pid}/maps", MAXIMUM_MAPS)) is not None
        except OSError:
            return False

    # --- who is chosen

    def _ranks_and_launchers(self) -> dict[int, None]:
        """In order of their numbers; a dict for its order."""
        chosen: dict[int, None] = {}
        for pid, process in sorted(self.every.items()):
            if pid in self.ours or process.is_kernel_thread or process.state in "ZX" or not pid:
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
        return chosen

    @staticmethod
    def _is_local_rank(raw: bytes) -> bool:
        """Lightning's children: they have no RANK, but all the rest."""
        return all(re.search(rb"(?:^|\0)" + name + rb"=[^\0]", raw) for name in (b"LOCAL_RANK", b"WORLD_SIZE"))

    def _silent_siblings(self, chosen: dict[int, None]) -> None:
        """Choose what says nothing (it waits in the kernel, or has ended) beside ranks of the same parent and user, or
        above data loaders that have its environment."""
        above = {self.every[pid].parent for pid in chosen}
        beside = {(self.every[pid].parent, owner(self.system, pid)) for pid in chosen}
        for pid, process in sorted(self.every.items()):
            silent = process.state == "Z" or (process.state == "D" and pid in self.refused)
            if not silent or process.is_kernel_thread or pid in self.ours:
                continue
            if not commands.PYTHON.search(process.name.lower()):
                continue
            if pid in above or (process.parent > 1 and (process.parent, owner(self.system, pid)) in beside):
                chosen[pid] = None

    def _spawning(self, chosen: dict[int, None]) -> dict[int, bool]:
        """Choose scripts that have started ranks themselves, by spawn, forkserver or fork. pid -> `communicates`."""
        found: dict[int, bool] = {}
        looked_at = 0
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
                and self.every[child].state not in "ZX"
                and self.every[child].name not in ("pt_data_worker",)
                and (
                    commands.is_spawned(self._command(child))
                    or (bool(own_command) and self._command(child) == own_command)
                )
            ]
            if not suspects or looked_at > MOST_LOOKED_AT_FOR_SOCKETS or not any(map(self._has_torch, suspects[:4])):
                continue
            looked_at += len(suspects) + 1
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
            if above in self.every and above not in self.ours and self._starts_itself_again(above, pid):
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


def _unread_environments(
    refused: Mapping[int, str], every: Mapping[int, proc.Process], family: Sequence[int]
) -> Iterable[Unread]:
    """Those that belong to a job, or could be ranks by their name."""
    members = frozenset(family)
    wanted = [pid for pid in refused if pid in members or commands.PYTHON.search(every[pid].name.lower())]
    for pid in wanted[:MOST_UNREAD]:
        yield Unread(f"environment of pid {pid} {every[pid].name}", refused[pid], pid)
    if len(wanted) > MOST_UNREAD:
        yield Unread(f"environments of {len(wanted) - MOST_UNREAD} more processes", refused[wanted[MOST_UNREAD]])


# ---------------------------------------------------------------- one process


class Describer:
    """Describes processes; what is the same for many is read once."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.uptime = uptime(system)
        self.users: dict[int, str] = {}

    def describe(
        self,
        found: proc.Process,
        *,
        environment: bytes | None,
        command: Sequence[str],
        communicates: bool | None = None,
    ) -> Process:
        ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
        user_id = owner(self.system, found.pid)
        return Process(
            pid=found.pid,
            parent=found.parent,
            started=found.start_ticks,
            age_seconds=0.0 if self.uptime is None else round(max(0.0, self.uptime - found.start_ticks / ticks), 2),
            state=found.state,
            exit_code=found.exit_code if found.state == "Z" else 0,
            name=_encodable(found.name),
            command=commands.masked(command),
            user_id=user_id,
            user=self._user(user_id),
            environment={} if environment is None else recorded(parse_environment(environment)),
            environment_read=environment is not None,
            network_namespace=namespace(self.system, str(found.pid)),
            cgroup=cgroup(self.system, found.pid),
            communicates=communicates,
        )

    def again(self, pid: int, started: int) -> tuple[Process | None, bytes, str]:
        """The process as it is now, its whole environment, and why that was not read; None where it is gone."""
        found = look(self.system, pid)
        if found is None or found.start_ticks != started:
            return None, b"", "it ended meanwhile"
        environment: bytes | None = None
        command: tuple[str, ...] = ()
        reason = ""
        if found.state == "D":
            reason = "it waits in the kernel (state D), where reading it could block"
        elif found.state not in "ZX":
            command = read_command(self.system, pid)
            try:
                environment = self.system.raw(f"/proc/{pid}/environ", MAXIMUM_ENVIRONMENT)
            except PermissionError:
                reason = DENIED
            except OSError as error:
                reason = error.strerror or str(error)
        return self.describe(found, environment=environment, command=command), environment or b"", reason

    def _user(self, number: int) -> str:
        if number not in self.users:
            self.users[number] = user_name(number)
        return self.users[number]


def look(system: System, pid: int) -> proc.Process | None:
    """The process that has this number now."""
    try:
        return proc.parse_stat(system.text(f"/proc/{pid}/stat"))
    except (OSError, ValueError):
        return None


def read_command(system: System, pid: int) -> tuple[str, ...]:
    """Its arguments as they are; () where they may not be read. Not to be asked of a process in state D."""
    try:
        raw = system.raw(f"/proc/{pid}/cmdline", MAXIMUM_COMMAND)
    except OSError:
        return ()
    words = raw.removesuffix(b"\0").split(b"\0")
    if words == [b""]:
        return ()
    if len(words) == 1 and b" " in raw:  # a title that the process has given itself (setproctitle)
        words = words[0].split()
    return tuple(os.fsdecode(word) for word in words[: 4 * commands.MOST_WORDS])


def boot_id(system: System) -> str:
    try:
        return system.text("/proc/sys/kernel/random/boot_id")[:64]
    except OSError:
        return ""


def namespace(system: System, pid: str) -> str:
    try:
        return system.link(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def uptime(system: System) -> float | None:
    try:
        return float(system.text("/proc/uptime").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def owner(system: System, pid: int) -> int:
    try:
        return system.at(f"/proc/{pid}").stat().st_uid
    except OSError:
        return -1


def user_name(number: int) -> str:
    if number < 0:
        return ""
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError, OverflowError):
        return str(number)


def cgroup(system: System, pid: int) -> str:
    """Its place in the v2 hierarchy, else in v1's of memory; empty where it is the top."""
    from gpudoctor.read.cgroup import memberships

    try:
        found = memberships(system.text(f"/proc/{pid}/cgroup"))
    except OSError:
        return ""
    path = found.get("memory") or found.get("") or ""
    return "" if path == "/" else _encodable(path)[:1024]


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
