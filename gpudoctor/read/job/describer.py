"""What is told of one process of a job: what it is and was started as, its environment, where it runs."""

import os
from collections.abc import Sequence

from gpudoctor.knowledge.environment import recorded
from gpudoctor.launcher import kept
from gpudoctor.launcher.command_lines import MOST_WORDS
from gpudoctor.read import process as proc
from gpudoctor.read.isolation import container_of
from gpudoctor.read.job import files, in_kernel
from gpudoctor.read.job.environment_now import as_set
from gpudoctor.read.job.own import own_pids
from gpudoctor.read.job.refusals import DENIED
from gpudoctor.read.ranks import parse_environment
from gpudoctor.read.system import System
from gpudoctor.read.users import user_name, user_of
from gpudoctor.snapshot.evidence import Process
from gpudoctor.snapshot.holds import IN_KERNEL

MAXIMUM_ENVIRONMENT = 1024 * 1024
MAXIMUM_COMMAND = 128 * 1024


class Describer:
    """Describes processes; what is the same for many is read once."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.uptime = proc.uptime(system)
        self.users: dict[int, str] = {}
        self.in_kernel = in_kernel.InKernel(system)

    def describe(
        self,
        found: proc.ProcStat,
        *,
        environment: bytes | None,
        command: Sequence[str],
        communicates: bool | None = None,
        alone: bool = False,
    ) -> Process:
        user_id = user_of(self.system, found.pid)
        variables = parse_environment(environment or b"")
        return Process(
            pid=found.pid,
            parent=found.parent,
            started=found.start_ticks,
            age_seconds=round(proc.age_seconds(found, self.uptime) or 0.0, 2),
            state=found.state,
            exit_code=found.exit_code if found.state == "Z" else 0,
            name=found.printable,
            command=kept.recorded(command, own=bool(own_pids((found.pid,), self.system))),
            user_id=user_id,
            user=self.user(user_id),
            environment=recorded(variables),
            environment_read=environment is not None,
            network_namespace=namespace(self.system, str(found.pid)),
            cgroup=files.cgroup(self.system, found.pid),
            container=container_of(self.system, found.pid, variables),
            communicates=communicates,
            alone=alone,
        )

    def again(self, pid: int, started: int) -> tuple[Process | None, bytes, str]:
        """The process as it is now, its whole environment, and why that was not read; None where it is gone."""
        found = proc.look(pid, self.system)
        if found is None or found.start_ticks != started:
            return None, b"", "it ended meanwhile"
        environment: bytes | None = None
        command: tuple[str, ...] = ()
        reason = ""
        if found.state == "D":
            told = self.in_kernel.read(pid)
            if told is None:
                reason = IN_KERNEL
            else:
                environment, command = told.environment, words_of(told.command)
        elif found.state not in "ZX":
            command = read_command(self.system, pid)
            try:
                environment = self.system.raw(f"/proc/{pid}/environ", MAXIMUM_ENVIRONMENT)
                environment = as_set(self.system, pid, found.name, environment)
            except PermissionError:
                reason = DENIED
            except OSError as error:
                reason = error.strerror or str(error)
        return self.describe(found, environment=environment, command=command), environment or b"", reason

    def user(self, number: int) -> str:
        if number not in self.users:
            self.users[number] = user_name(number)
        return self.users[number]


def read_command(system: System, pid: int, most: int = MAXIMUM_COMMAND) -> tuple[str, ...]:
    """Its arguments as they are; () where they may not be read. Not to be asked of a process in state D."""
    try:
        return words_of(system.raw(f"/proc/{pid}/cmdline", most))
    except OSError:
        return ()


def words_of(raw: bytes) -> tuple[str, ...]:
    """Of /proc/PID/cmdline."""
    words = raw.removesuffix(b"\0").split(b"\0")
    if words == [b""]:
        return ()
    if len(words) == 1 and b" " in raw:  # a title that the process has given itself (setproctitle)
        words = words[0].split()
    return tuple(map(os.fsdecode, words[: 4 * MOST_WORDS]))


def boot_id(system: System) -> str:
    return system.text_or_empty("/proc/sys/kernel/random/boot_id")[:64]


def namespace(system: System, pid: str) -> str:
    return system.link_or_empty(f"/proc/{pid}/ns/net")
