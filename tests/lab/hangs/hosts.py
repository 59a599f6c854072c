"""Jobs over several lab hosts: their parts are started as a user would, and all of it is ended.

    with ssh_hosts("a", "b") as cluster, job(cluster) as running:
        running.start("a", "torchrun", ..., str(HANGS / "steps.py"))
        running.start("b", ...)
        running.wait_until_still()          # or: running.wait_for_steps("a", "b")

A part's output is in `running.output(host)`. Leaving the block kills what lives in the hosts' namespaces.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.lab import warm
from tests.lab.sshd import Cluster, SshHost, user_environment, wait_until

HANGS = Path(__file__).parent
PATIENCE = 180.0
"""Seconds for a job to get where it hangs, on a crowded machine: torch alone takes ten there."""
TICK = os.sysconf("SC_CLK_TCK")
STILL_FOR = 2.0
"""Seconds without work before a job counts as having come to where it stays."""
STOPPED_FOR = 3.0
"""Seconds without a step before a job that made one a second counts as hanging."""
IDLE = 0.1
"""CPU seconds that all of a waiting job's processes together may use meanwhile: agents poll, clients try again."""


class RunningJob:
    """The parts of a job, by host."""

    def __init__(self, cluster: Cluster, folder: Path, truly: bool) -> None:
        self.truly = truly
        self.cluster = cluster
        self.folder = folder
        self.parts: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        """A part on this host, with its output in a file; several parts of a host share it."""
        host = self.cluster[name]
        # Not the door: who is let in there stays beside its fork, with the same command line.
        variables = {key: value for key, value in host.variables.items() if key != warm.DOOR}
        with (self.folder / f"{name}.log").open("ab") as output:
            part = warm.start(
                words,
                env=user_environment() | {"OMP_NUM_THREADS": "1"} | variables | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                inside=host.server.pid if host.server else None,
                instead=host.command(*words),
                truly=self.truly or not host.server,
            )
        self.parts.append((name, part))
        return part

    def torchrun(self, name: str, *options: str, **environment: str) -> None:
        """steps.py under torchrun of this interpreter, on a host."""
        self.torchrun_script(name, "steps.py", *options, **environment)

    def torchrun_script(self, name: str, script: str, *options: str, **environment: str) -> None:
        """A script of this folder under torchrun, on a host."""
        words = (sys.executable, "-m", "torch.distributed.run", *options, str(HANGS / script))
        self.start(name, *words, **environment)

    def output(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def everything(self) -> str:
        return "\n".join(f"--- {host.name}\n{self.output(host.name)}" for host in self.cluster.hosts)

    def wait_for_steps(self, *names: str, at_least: int = 2) -> None:
        """Until every rank of these hosts has made so many steps."""
        self._wait(lambda: all(f"step {at_least} of rank" in self.output(name) for name in names))

    def wait_for(self, name: str, text: str) -> None:
        """Until a host's part has written this; the part of any host where `name` is empty."""
        self._wait(lambda: text in (self.output(name) if name else self.everything()))

    def wait_until_still(self, processes: int = 1) -> None:
        """Until nothing of the job works any more, and so many processes are there at least."""
        since = time.monotonic()
        before = _used(self.cluster)
        end = since + PATIENCE
        while True:
            time.sleep(0.25)
            now = _used(self.cluster)
            worked = set(now) != set(before) or sum(now.values()) - sum(before.values()) > IDLE
            worked = worked or any(map(_wants_to_run, now))
            if worked or len(now) < processes:
                since, before = time.monotonic(), now
            elif time.monotonic() - since > STILL_FOR:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"the job does not come to rest within {PATIENCE:g} s\n{self.everything()}")

    def wait_until_stopped(self, *names: str) -> None:
        """Until the ranks of these hosts, which were on their way, write no more for a while."""
        before, since = {name: self.output(name) for name in names}, time.monotonic()
        end = since + PATIENCE
        while time.monotonic() < since + STOPPED_FOR:
            time.sleep(0.25)
            now = {name: self.output(name) for name in names}
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() > end:
                raise TimeoutError(f"the job does not stop within {PATIENCE:g} s")

    def _wait(self, true: Callable[[], bool]) -> None:
        try:
            wait_until(true, PATIENCE)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.everything()}") from None

    def end(self) -> None:
        """Kill what is left of it, on every host, and wait for its parts."""
        for _, part in self.parts:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(part.pid, signal.SIGKILL)
        for host in self.cluster.hosts:
            for pid in job_processes(host):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for _, part in self.parts:
            part.wait(PATIENCE)


@contextlib.contextmanager
def job(cluster: Cluster, truly: bool = False) -> Iterator[RunningJob]:
    """A job whose processes end with the block. `truly`: each imports torch itself, as a user's does."""
    folder = cluster.folder / f"job-{time.monotonic_ns()}"
    folder.mkdir()
    running = RunningJob(cluster, folder, truly)
    try:
        yield running
    finally:
        running.end()


def job_processes(host: SshHost) -> dict[int, str]:
    """What runs on a host but its sshd and the sessions in it."""
    return {pid: words for pid, words in host.processes().items() if "sshd" not in words}


def _used(cluster: Cluster) -> dict[int, float]:
    """CPU seconds by process of all that lives on the hosts."""
    found = {}
    for host in cluster.hosts:
        for pid in job_processes(host):
            with contextlib.suppress(OSError, IndexError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                found[pid] = (int(fields[11]) + int(fields[12])) / TICK
    return found


def _wants_to_run(pid: int) -> bool:
    """It runs, waits for a processor or for a disk: on a crowded machine without getting any CPU time meanwhile."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "RD"
    except (OSError, IndexError):
        return True
