"""How a planted end is started: by each launcher, in a cgroup of its own, in the lab's SLURM."""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.lab import warm
from tests.lab.ends.planted import Planted
from tests.lab.slurm import WHERE, SlurmCluster, slurm_cluster

HERE = Path(__file__).parent
RANK, SPAWNS = str(HERE / "rank.py"), str(HERE / "spawns.py")
MEMORY = Path("/sys/fs/cgroup/memory")
LIMIT = 400 << 20
"""Bytes of a cgroup in which a job takes all memory, the doctor too."""
Started = tuple["subprocess.Popen[bytes]", Path, Path]
WITH_TORCH = ("torchrun", "redirected")


class Stage:
    """What all runs share: a folder, a small disk, and a cluster where one is wanted."""

    def __init__(self, folder: Path, cluster: SlurmCluster | None) -> None:
        self.folder, self._cluster = folder, cluster
        self.full = folder / "full"
        self._job = ""

    def lacks(self, planted: Planted) -> str:
        """Why this one cannot be run here; empty: it can."""
        if planted.launcher in ("srun", "sbatch") and self._cluster is None:
            return "no SLURM"
        if planted.launcher == "mpirun" and not shutil.which("mpirun"):
            return "no mpirun"
        if planted.launcher == "accelerate" and not (
            Path(sys.prefix, "bin", "accelerate").exists() or _importable("accelerate")
        ):
            return "no accelerate"
        if planted.launcher == "deepspeed" and not _importable("deepspeed"):
            return "no deepspeed"
        if planted.launcher in ("cgroup", "own cgroup") and not (MEMORY / "memory.limit_in_bytes").exists():
            return "no memory cgroup (v1)"
        return ""

    def scancel(self) -> None:
        assert self._cluster is not None
        self._cluster.run("scancel", "--quiet", "--user=root")

    @contextlib.contextmanager
    def started(self, planted: Planted, around: Sequence[str], variables: Mapping[str, str]) -> Iterator[Started]:
        """The job: its process, and the files that its two streams end in. They are pipes to it."""
        out, err = (self.folder / f"{name}-{uuid.uuid4().hex}" for name in ("out", "err"))
        words = [*around, *self.words(planted)]
        with contextlib.ExitStack() as stack:
            if planted.launcher == "cgroup":
                group = stack.enter_context(_cgroup())
                words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "-", *words]
            if planted.launcher == "own cgroup":
                group = stack.enter_context(_cgroup())
                inner = ["bash", "-c", f'(echo $BASHPID > {group}/cgroup.procs; exec "$@"); exit $?', "-"]
                words = [*around, *inner, sys.executable, RANK, planted.end]
            environment = dict(variables)
            if planted.launcher in ("srun", "sbatch"):
                assert self._cluster is not None
                environment = truly(self._cluster.environment(**variables))
                words = self._in_slurm(planted, around, out)
            readers = [stack.enter_context(_into(path)) for path in (out, err)]
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=readers[0].stdin,
                stderr=readers[1].stdin,
                env=environment,
                start_new_session=True,
                cwd=self.folder,
            )
            for reader in readers:
                assert reader.stdin is not None
                reader.stdin.close()
            try:
                yield process, out, err
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def words(self, planted: Planted) -> list[str]:
        """The command as a user types it."""
        python = sys.executable
        rank = [python, RANK, planted.end]
        plain = shlex.join(rank)
        launcher = planted.launcher
        if launcher == "faulthandler":
            return [python, "-X", "faulthandler", RANK, planted.end]
        if launcher == "bash":
            return self._script(f"echo starting\n{plain}\nstatus=$?\necho over\nexit $status\n")
        if launcher == "exec":
            return self._script(f"echo starting\nexec {plain}\n")
        if launcher == "nohup":
            return ["nohup", *rank]
        if launcher == "pipe":
            return ["bash", "-c", f"set -o pipefail; {plain} 2>&1 | tee {self.folder}/tee.log"]
        if launcher == "loop":
            lines = [f"RANK={n} WORLD_SIZE=2 {plain} &\np{n}=$!\n" for n in range(2)]
            return self._script(f"{''.join(lines)}wait $p1\nstatus=$?\nkill $p0\nwait $p0\nexit $status\n")
        if launcher in ("torchrun", "redirected"):
            more = ["--redirects", "3", "--log-dir", str(self.folder / "logs")] if launcher == "redirected" else []
            common = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *more]
            return [*common, RANK, planted.end, "--torch"]
        if launcher == "spawn":
            return [python, SPAWNS, planted.end, "2"]
        if launcher == "accelerate":
            common = [python, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"]
            return [*common, "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", *rank[1:]]
        if launcher == "deepspeed":
            options = ["--num_gpus", "2", "--no_local_rank", "--master_port", str(_free_port()), "--log_level", "error"]
            common = ["env", "LOCAL_SIZE=2", python, "-m", "deepspeed.launcher.runner", *options]  # of a CPU's ranks
            return [*common, RANK, planted.end, "--torch"]
        if launcher == "mpirun":
            return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", *rank]
        if launcher == "timeout":
            return ["timeout", "4", *rank]
        return rank

    def _script(self, text: str) -> list[str]:
        path = self.folder / f"train-{uuid.uuid4().hex[:8]}.sh"
        path.write_text(f"#!/bin/bash\n{text}")
        return ["bash", str(path)]

    def _in_slurm(self, planted: Planted, around: Sequence[str], out: Path) -> list[str]:
        assert self._cluster is not None
        node = self._cluster.nodes[0]
        job = ["srun", "--quiet", "--ntasks=2", "--overlap", sys.executable, RANK, planted.end]
        if planted.launcher == "srun":
            return node.command("salloc", "--quiet", "--ntasks=2", "--nodes=1", *around, *job)
        path = self.folder / f"batch-{uuid.uuid4().hex[:8]}.sh"
        path.write_text(f"#!/bin/bash\n{shlex.join([*around, *job])}\n")
        minutes = ["--time=1"] if planted.act == "nothing" else []
        options = ["--wait", "--quiet", "--ntasks=2", "--nodes=1", f"--output={self.folder}/slurm.out", *minutes]
        show = f"sbatch {shlex.join([*options, str(path)])}; status=$?; cat {self.folder}/slurm.out; exit $status"
        return node.command("sh", "-c", show)


def truly(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what has the lab fork its torchruns from a warm process: here every process is started as a user's is."""
    forked = warm.of_torchrun()
    return {name: value for name, value in environment.items() if forked.get(name) != value}


def _importable(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _into(path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A pipe that ends in a file: what a terminal multiplexer or a scheduler has."""
    with path.open("wb") as file:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process.poll() is None:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _cgroup() -> Iterator[Path]:
    group = MEMORY / f"gpudoctor-ends-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
        yield group
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            subprocess.run(["sleep", "0.1"], check=False)


@contextlib.contextmanager
def stage(folder: Path, chosen: Sequence[Planted]) -> Iterator[Stage]:
    """Set up for these ends."""
    with contextlib.ExitStack() as stack:
        cluster = None
        if any(each.launcher in ("srun", "sbatch") for each in chosen) and shutil.which("slurmctld", path=WHERE):
            cluster = stack.enter_context(slurm_cluster(1))
        at = Stage(folder, cluster)
        at.full.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(at.full)], check=True)
        stack.callback(subprocess.run, ["umount", str(at.full)], check=True)
        yield at
