"""The processes on a GPU, as NVML counts them, with their users and commands from /proc."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from gpudoctor.launcher.kept import brief
from gpudoctor.read.nvml_calls import INSUFFICIENT_SIZE, NOT_SUPPORTED, CallFailed
from gpudoctor.read.process import PID_NAMESPACE, ancestors, in_first_pid_namespace
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import GpuProcess, Reading, missing

ATTEMPTS = 3
"""Processes come between the question for their number and that for themselves; NVML says InsufficientSize then."""
KEPT_CHARACTERS = 120

ProcessKind = Literal["compute", "graphics"]


def processes(ask_first_offered: Callable[..., Any], system: System, doctor_pid: int) -> tuple[GpuProcess, ...]:
    """All processes on the GPU, by pid; one that computes and draws is listed once. Raises `CallFailed`."""
    by_pid: dict[int, GpuProcess] = {}
    visible = _pids_are_ours(system)
    kinds: tuple[tuple[ProcessKind, str], ...] = (("compute", "Compute"), ("graphics", "Graphics"))
    for kind, word in kinds:
        try:
            listed = _listed(ask_first_offered, word)
        except CallFailed as error:
            if kind == "graphics" and error.code == NOT_SUPPORTED:
                continue  # a GPU that cannot draw: those that compute are all there are
            raise
        for process in listed:
            if process.pid not in by_pid:
                user, command = _described(system, process.pid, visible)
                own = visible.value_or(False) and doctor_pid in (process.pid, *ancestors(process.pid, system))
                memory = process.usedGpuMemory
                by_pid[process.pid] = GpuProcess(process.pid, kind, memory, user, command, own)
    return tuple(by_pid[pid] for pid in sorted(by_pid))


def _listed(ask_first_offered: Callable[..., Any], word: str) -> list[Any]:
    # By versioned names: nvidia-ml-py's unversioned one raises an exception of its own on older drivers.
    names = [(f"nvmlDeviceGet{word}RunningProcesses_v{version}",) for version in (3, 2)]
    for _ in range(ATTEMPTS - 1):
        try:
            return list(ask_first_offered(*names))
        except CallFailed as error:
            if error.code != INSUFFICIENT_SIZE:
                raise
    return list(ask_first_offered(*names))


def _pids_are_ours(system: System) -> Reading[bool]:
    """Whether pids of NVML, which are the host's, mean the same processes here."""
    return attempt(PID_NAMESPACE, lambda: in_first_pid_namespace(system))


def _described(system: System, pid: int, visible: Reading[bool]) -> tuple[Reading[str], Reading[str]]:
    source = f"/proc/{pid}"
    if not visible.is_read:
        unknown: Reading[str] = missing(source, f"whether {pid} is a pid of this PID namespace: {visible.reason}")
        return unknown, unknown
    if not visible.value:
        hidden: Reading[str] = missing(source, "host pid; not visible from this PID namespace", "denied")
        return hidden, hidden
    user = attempt(source, lambda: user_name(system, system.status(source).user_id))
    command = attempt(f"{source}/cmdline", lambda: command_of(system, pid))
    return _present(user), _present(command)


def _present(reading: Reading[str]) -> Reading[str]:
    """A process that NVML lists exists; that /proc has no folder of it means that it ended or is hidden."""
    if reading.missing_kind == "absent":
        return missing(reading.source, "no such process in /proc: it has ended, or /proc hides it")
    return reading


def user_name(system: System, uid: int) -> str:
    """The name of a user id, or "uid 1000" when nobody knows it.

    /etc/passwd comes first: only for users that it lacks is a directory service asked, which may be slow.
    """
    try:
        for line in system.text("/etc/passwd").splitlines():
            name, _, rest = line.partition(":")
            if rest.split(":")[1:2] == [str(uid)]:
                return name
    except OSError:
        pass  # a container without the file
    if system.root == Path("/"):
        import pwd  # not on Windows

        try:
            return pwd.getpwuid(uid).pw_name
        except (KeyError, OverflowError):
            pass
    return f"uid {uid}"


def command_of(system: System, pid: int) -> str:
    """The program and script of a process, with what a launcher was told; its name when it has no command line.

    Raises `OSError`. Whose process it is does not matter: this goes into reports that are handed on.
    """
    words = [word for word in system.text(f"/proc/{pid}/cmdline").split("\0") if word]
    if len(words) == 1:  # a title that the process has given itself
        words = words[0].split()
    return brief(words)[:KEPT_CHARACTERS] or f"[{system.text(f'/proc/{pid}/comm')}]"
