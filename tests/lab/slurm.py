"""A real SLURM cluster on hosts of the lab: munged and slurmctld on the first, a slurmd on each.

    with slurm_cluster(3) as cluster:                       # n1, n2, n3
        cluster.srun("--nodes=3", "hostname")
        cluster.salloc("--nodes=3", sys.executable, "-m", "gpudoctor", "nccl-test")
        cluster.sbatch("#!/bin/sh\\n#SBATCH --nodes=3\\nsrun hostname\\n")       # what it wrote

Its files are in a private folder (SLURM_CONF names it), its ports in its own namespaces: clusters do not meet. What
the machine has of SLURM is only its programs. Coming up takes about a second, and about 25 MB a node.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.lab import inhabitants
from tests.lab.hosts import NAMESPACES, Host, hosts, private_folder
from tests.lab.requirements import require
from tests.lab.sshd import user_environment, wait_until

PATIENCE = 180.0
"""Seconds for a daemon to come up, or a job of a test to end."""
WHERE = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdParameters=config_overrides
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
KillWait=2
InactiveLimit=0
MailProg=/bin/true
{nodes}
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

NO_CGROUPS = """
mount -t tmpfs tmpfs /sys/fs/cgroup
exec "$@"
"""
"""slurmd looks whether something is mounted there (`ip netns exec` hides it by a new /sys), and here needs no more."""


class SlurmCluster:
    """The nodes, and a user's commands at the first of them."""

    def __init__(self, nodes: tuple[Host, ...], folder: Path, processors: int) -> None:
        self.nodes = nodes
        self.folder = folder
        self.processors = processors
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.scripts = 0
        self.own: set[int] = set()
        """The daemons and slurmctld's helper, by process id."""

    def environment(self, **variables: str) -> dict[str, str]:
        """Of a user at a login node."""
        return user_environment() | {"SLURM_CONF": str(self.folder / "slurm.conf")} | variables

    def run(self, *words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """A command at the first node, outside any allocation."""
        return self.nodes[0].run(*words, environment=self.environment() if environment is None else environment)

    def srun(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("srun", "--quiet", *words, environment=self.environment(**variables))

    def salloc(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command at the first node, inside an allocation."""
        return self.run("salloc", "--quiet", *words, environment=self.environment(**variables))

    def sbatch(self, script: str, *options: str, **variables: str) -> str:
        """Run a batch script to its end; what it wrote, errors too."""
        self.scripts += 1
        path, output = (self.folder / f"batch{self.scripts}{ending}" for ending in (".sh", ".out"))
        path.write_text(script)
        words = ["sbatch", "--parsable", f"--output={output}", *options, str(path)]
        done = self.run(*words, environment=self.environment(**variables))
        assert done.returncode == 0, done.stderr
        asked = ("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={done.stdout.strip()}")
        # --wait would ask after 2 seconds, and then every 10
        wait_until(lambda: self.run(*asked).stdout.strip() in ("COMPLETED", "FAILED", "CANCELLED"), PATIENCE)
        return output.read_text()

    def start(self, host: Host, *words: str, name: str) -> None:
        output = (self.folder / f"{name}.out").open("wb")
        with output:
            self.daemons[name] = subprocess.Popen(
                host.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": WHERE, "SLURM_CONF": str(self.folder / "slurm.conf")},
            )

    def processes(self) -> dict[int, str]:
        """Command lines by process id of what runs on the nodes but SLURM's daemons."""
        found = inhabitants.processes(*(NAMESPACES / node.namespace for node in self.nodes))
        return {pid: words for pid, words in found.items() if pid not in self.own}

    def left_over(self, patience: float = PATIENCE) -> list[str]:
        """What still runs but the daemons, after waiting for it to end: [] when all is gone."""
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not self.processes(), patience)
        return list(self.processes().values())

    # coming up

    def bring_up(self) -> None:
        self._configure()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {
            "key-file": "munge.key",
            "socket": "munge.socket",
            "pid-file": "munged.pid",
            "seed-file": "munged.seed",
        }
        munged = [f"--{option}={self.folder / name}" for option, name in files.items()]
        head = self.nodes[0]
        # --force: the folder is ours alone, and munged would have it readable for the users of other ids
        self.start(head, "munged", "--foreground", "--force", "--num-threads=2", *munged, name="munged")
        self._wait("munged", lambda: (self.folder / "munge.socket").exists())
        self.start(head, "slurmctld", "-D", "-i", name="slurmctld")
        for node in self.nodes:
            self.start(node, "sh", "-c", NO_CGROUPS, "sh", "slurmd", "-D", "-N", node.name, name=f"slurmd.{node.name}")
        self._wait("slurmctld", self._all_idle)
        self.own = set(self.processes())

    def _configure(self) -> None:
        head = self.nodes[0]
        nodes = "\n".join(
            f"NodeName={node.name} NodeHostname={node.name} NodeAddr={node.address()} CPUs={self.processors}"
            for node in self.nodes
        )
        text = CONFIGURATION.format(controller=head.name, address=head.address(), folder=self.folder, nodes=nodes)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "state").mkdir()

    def _all_idle(self) -> bool:
        done = self.run("sinfo", "--noheader", "--Node", "--format=%T")
        return done.stdout.split() == ["idle"] * len(self.nodes)

    def _wait(self, name: str, true: Callable[[], bool]) -> None:
        def over() -> bool:
            return any(daemon.poll() is not None for daemon in self.daemons.values())

        try:
            wait_until(lambda: over() or true(), PATIENCE)
        except TimeoutError as error:
            raise RuntimeError(f"{name} does not come up ({error}):\n{self._logs()}") from None
        assert not over(), self._logs()

    def _logs(self) -> str:
        files = sorted(self.folder.glob("*.out"))
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in files)


@contextlib.contextmanager
def slurm_cluster(nodes: int = 3, processors: int = 4) -> Iterator[SlurmCluster]:
    """So many nodes n1, n2, ... that SLURM takes for `processors` CPUs each, whatever the machine has."""
    for program in ("slurmctld", "slurmd", "srun", "munged"):
        require(shutil.which(program, path=WHERE), f"no {program}: apt-get install slurm-wlm munge")
    names = [f"n{number}" for number in range(1, nodes + 1)]
    with private_folder() as folder, hosts(*names) as machines:
        cluster = SlurmCluster(machines, folder, processors)
        try:
            cluster.bring_up()
            yield cluster
        finally:
            inhabitants.kill(NAMESPACES / node.namespace for node in machines)
            for daemon in cluster.daemons.values():
                daemon.wait()
