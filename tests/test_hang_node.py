"""What an agent reads of a job on its node: hang/ask.py, read/job/{node,processes,sampling,files,kernel,gpus,tasks}.py

Real jobs are read through agents on this machine, as `gpudoctor hang` does. Other jobs may run beside them.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor import active
from gpudoctor.active import ChildReply, own_module
from gpudoctor.hang import ask
from gpudoctor.hang.doing import held_in
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.job import Members
from gpudoctor.marked import MARK
from gpudoctor.read import cgroup, mounts, process as proc
from gpudoctor.read.job import files, gpus, granted, in_kernel, kernel, layers, node, processes, sampling, thinned
from gpudoctor.read.job.layers import RankWithRas
from gpudoctor.read.job.tasks import Task, each
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.read.kernel_log import KernelLine
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import (
    Evidence,
    Frame,
    NodeEvidence,
    NodeProcesses,
    Process,
    ProcessEvidence,
    Sample,
    Thread,
    from_json,
    to_json,
)
from gpudoctor.snapshot.ras import Ras
from tests.fake_tree import Link, Refusing, fake
from tests.hang_evidence import evidence_of
from tests.lab import machines, warm
from tests.lab.requirements import require

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
    pytest.mark.timeout(360),  # four times `import torch` on cores that others use: 10 s, or two minutes
]

PATIENCE = 240.0
NOBODY = 1 << 30
"""No process: what the tests start is to be seen."""
EnvironmentOn = Callable[..., dict[str, str]]


def wait_until(true: Callable[[], bool], what: str, *, said: Callable[[], str] = str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"not so in time: {what}\n{said()}"
        time.sleep(0.05)


# ---------------------------------------------------------------- real jobs

TORCHRUN_SCRIPT = """
    import os
    import time

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset


    class Numbers(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index >= 4:
                time.sleep(1000)
            return index


    def main():
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        dist.all_reduce(torch.ones(1))
        if rank == 0:
            for batch in DataLoader(Numbers(), num_workers=1, batch_size=4):
                print("ready 0", flush=True)
        print("ready 1", flush=True)
        dist.all_reduce(torch.ones(1))


    main()
"""

SPAWN_SCRIPT = """
    import os
    import sys
    import time

    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp


    def run(rank, world, port):
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["MASTER_PORT"] = port
        dist.init_process_group("gloo", rank=rank, world_size=world)
        dist.all_reduce(torch.ones(1))
        os.write(1, b"ready %d\\n" % rank)  # at once: print writes in pieces, between which others write
        time.sleep(1000)


    if __name__ == "__main__":
        mp.spawn(run, args=(3, sys.argv[1]), nprocs=3)
"""


class Started:
    """A job that was started: its process, its script, where it writes."""

    def __init__(self, command: Sequence[str], script: Path, environment: Mapping[str, str] | None = None) -> None:
        self.script = script
        self.output = script.with_suffix(".out")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for(self, *words: str) -> None:
        def said() -> bool:
            assert self.process.poll() is None, self.output.read_text()
            return all(word in self.output.read_text() for word in words)

        wait_until(said, f"{words} in {self.output}", said=self.output.read_text)

    def end(self) -> None:
        family = proc.descendants(self.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        proc.end(family, patience=20.0)
        self.process.wait(20.0)


@contextlib.contextmanager
def started(
    folder: Path, source: str, *, launcher: Sequence[str] = (), words: Sequence[str] = (), **environment: str
) -> Iterator[Started]:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(source))
    warm.reap_strays()
    job = Started([sys.executable, *launcher, str(script), *words], script, environment)
    try:
        yield job
    finally:
        job.end()


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def only(evidence: Evidence) -> tuple[NodeEvidence, Members]:
    """The one node and the one job of the evidence, as the head groups it again."""
    (seen,) = evidence.nodes
    first_look = NodeProcesses(
        hostname=seen.hostname or seen.name,
        boot_id=seen.boot_id,
        network_namespace=seen.network_namespace,
        time=seen.time,
        processes=tuple(each.process for each in seen.processes),
    )
    (job,) = find_jobs([first_look])
    return seen, job


def by_pid(found: NodeEvidence) -> dict[int, ProcessEvidence]:
    return {each.process.pid: each for each in found.processes}


def functions(process: ProcessEvidence) -> list[str]:
    """Of the main thread in the last sample, innermost first."""
    main = next(thread for thread in process.samples[-1].threads if thread.id == process.process.pid)
    return [frame.function for frame in main.frames]


def test_a_job_under_torchrun_is_read(tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    with started(tmp_path, TORCHRUN_SCRIPT, launcher=launcher, NCCL_DEBUG="WARN", HF_TOKEN="hf_secret") as running:
        running.wait_for("ready 0", "ready 1")
        evidence = evidence_of(pid=running.pid, seconds=1.0)
        assert running.process.poll() is None
    found, job = only(evidence)
    saved = from_json(to_json(evidence))  # whose processes were the reader's own is no part of it
    assert found.own and saved == msgspec.structs.replace(evidence, nodes=(msgspec.structs.replace(found, own=()),))
    assert b"hf_secret" not in to_json(evidence)
    roles = {member.process.pid: member for member in job.members}
    assert roles[running.pid].role == "launcher"
    ranks = sorted((member for member in job.members if member.role == "rank"), key=lambda member: member.rank or 0)
    assert [(member.rank, member.local_rank, member.world_size) for member in ranks] == [(0, 0, 2), (1, 1, 2)]
    (loader,) = (member for member in job.members if member.role == "data loader")
    assert loader.of == ranks[0].process.pid

    processes = by_pid(found)
    first, second = (processes[member.process.pid] for member in ranks)
    assert first.process.environment["NCCL_DEBUG"] == "WARN" and first.process.environment_read
    assert [len(each.samples) for each in found.processes] == [2] * len(found.processes)
    assert all(each.samples[1].at >= 1.0 for each in found.processes)
    assert any("_try_get_data" in name for name in functions(first))
    assert any("all_reduce" in name for name in functions(second))
    assert any("__getitem__" in name for name in functions(processes[loader.process.pid]))
    assert second.samples[-1].stacks_by == "py-spy"
    assert second.versions["torch"].startswith("2.")
    assert second.libraries["libtorch_cpu.so"].endswith("/torch/lib/libtorch_cpu.so")
    assert str(running.output) in second.output_files
    assert second.limits["memlock"] and (second.resident_bytes or 0) > 10_000_000
    assert second.sources[0].file == str(running.script) and "all_reduce" in second.sources[0].text
    main = second.samples[-1].threads[0]
    assert main.id == second.process.pid and main.state == "S" and main.cpu_seconds and main.switches
    assert any(each.state == "ESTABLISHED" for each in second.sockets)
    port = job.master_port
    assert port
    assert [(each.local_port, each.pid) for each in found.listeners] == [(port, running.pid)]
    assert [(each.port, each.outcome) for each in found.reached] == [(port, "connected")]
    assert any(each.name == "lo" for each in found.interfaces)
    assert abs(found.clock_offset_seconds or 0.0) < 5.0


def test_a_script_that_spawns_its_ranks_and_what_became_of_them(tmp_path: Path) -> None:
    with started(tmp_path, SPAWN_SCRIPT, words=[str(free_port())]) as running:
        running.wait_for("ready 0", "ready 1", "ready 2")
        (before,) = (each for each in live_jobs() if running.pid in {member.process.pid for member in each.members})
        ranks = [member.process.pid for member in before.members if member.role == "rank"]
        os.kill(running.pid, signal.SIGSTOP)  # else it would end the others
        os.kill(ranks[1], signal.SIGKILL)
        os.kill(ranks[2], signal.SIGSTOP)
        wait_until(lambda: state_of(ranks[1]) == "Z" and state_of(ranks[2]) == "T", "killed and stopped")
        evidence = evidence_of(pid=running.pid, seconds=0.5)
    found, job = only(evidence)
    assert [(member.rank, member.process.pid) for member in job.members if member.role == "rank"] == [*enumerate(ranks)]
    processes = by_pid(found)
    assert [processes[pid].process.state for pid in ranks] == ["S", "Z", "T"]
    assert os.WTERMSIG(processes[ranks[1]].process.exit_code) == signal.SIGKILL
    assert processes[running.pid].process.state == "T"
    assert any("sleep" in thread.waits_in or thread.frames for thread in processes[ranks[0]].samples[-1].threads)


def test_a_process_that_ends_between_the_looks_is_told_as_it_was(tmp_path: Path) -> None:
    with started(
        tmp_path, "import time; time.sleep(1000)", RANK="0", WORLD_SIZE="2", MASTER_ADDR="localhost"
    ) as running:
        job = find_here(running.pid)
        running.process.kill()
        running.process.wait()
        order = ask.order_for([job], seconds=0.2, timeout=20.0)
        answer = node.begin(order, 0)()
    (gone,) = answer.processes
    assert gone.process.pid == running.pid and gone.process.state == "X" and gone.samples == ()


def test_an_order_for_nothing_is_answered() -> None:
    answer = node.begin(Wanted(seconds=0.0, timeout=5.0), 3)()
    assert answer.processes == () and answer.hostname == socket.gethostname() and answer.resolved


WAITS_IN_THE_KERNEL = """
    import ctypes
    import time

    print("ready", flush=True)
    ctypes.CDLL(None).vfork()  # the parent sleeps uninterruptibly until its child has ended
    time.sleep(1000)
"""


def test_a_rank_that_waits_in_the_kernel_does_not_hold_us(tmp_path: Path) -> None:
    own = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    other = tmp_path / "other"
    other.mkdir()
    with (
        started(tmp_path, WAITS_IN_THE_KERNEL, RANK="1", **own) as running,
        started(other, "import time; time.sleep(1000)", RANK="0", **own),
    ):
        running.wait_for("ready")
        wait_until(lambda: state_of(running.pid) == "D", "in the kernel")
        before = find_here(running.pid)
        order = ask.order_for([before], seconds=0.2, timeout=20.0)
        answer = node.begin(order, 0)()
    assert [member.rank for member in before.members if member.process.pid == running.pid] == [1]
    process = by_pid(answer)[running.pid]
    assert [sample.state for sample in process.samples] == ["D", "D"]
    assert process.process.environment_read and process.libraries == {}


def test_the_environment_of_a_process_in_the_kernel_is_asked_of_a_child_that_can_be_ended(tmp_path: Path) -> None:
    """Where the lock of its memory is held, as by a driver: here by nobody, and the child is stopped instead."""
    with started(tmp_path, WAITS_IN_THE_KERNEL, RANK="1", WORLD_SIZE="2") as running:
        running.wait_for("ready")
        wait_until(lambda: state_of(running.pid) == "D", "in the kernel")
        asked = in_kernel.InKernel(System())
        told = asked.read(running.pid)
        assert told is not None and b"RANK=1" in told.environment.split(b"\0") and b"train.py" in told.command
        child = asked._child._child  # type: ignore[union-attr]
        assert child is not None
        os.kill(child.pid, signal.SIGSTOP)
        assert asked.read(running.pid) is None
        assert child.poll() is not None
        asked.end()


def test_a_rank_that_gets_no_memory_is_told_and_not_taken_for_dead(tmp_path: Path) -> None:
    """Version 1 of cgroups with its OOM killer off, as docker's --oom-kill-disable does it; no parent in common."""
    top = Path("/sys/fs/cgroup/memory")
    if os.geteuid() or not (top / "memory.oom_control").is_file():
        pytest.skip("no root, or no memory cgroups of version 1")
    group = top / f"gpudoctor-test-{os.getpid()}"
    group.mkdir()
    own = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    other = tmp_path / "other"
    other.mkdir()
    fills = f"""
        import os, time
        with open("{group}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        print("ready", flush=True)
        kept = [bytearray(1 << 20) for _ in range(400)]
    """
    try:
        (group / "memory.limit_in_bytes").write_text(str(128 << 20))
        (group / "memory.oom_control").write_text("1")
        with (
            started(tmp_path, fills, RANK="1", **own) as running,
            started(other, "import time; time.sleep(1000)", RANK="0", **own),
        ):
            running.wait_for("ready")
            wait_until(lambda: state_of(running.pid) == "D", "in the kernel")
            answer = node.begin(ask.order_for([find_here(running.pid)], seconds=0.5, timeout=20.0), 0)()
        process = by_pid(answer)[running.pid]
        assert process.process.environment["RANK"] == "1"
        assert process.memory is not None and process.memory.limit_bytes == 128 << 20
        assert process.memory.folder == str(group) and process.memory.used_bytes > 127 << 20
        assert held_in(process) == "mem_cgroup_oom_synchronize"
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
        group.rmdir()


@pytest.mark.parametrize("version", [1, 2])
def test_a_frozen_rank_is_seen(version: int, tmp_path: Path) -> None:
    """As docker pause does it: /proc says S or D of it, and its stack stands at any line."""
    kind, file = ("cgroup", "freezer.state") if version == 1 else ("cgroup2", "cgroup.freeze")
    mounted = mounts.parse(Path("/proc/self/mountinfo").read_text())
    places = [
        mount.point
        for mount in mounted
        if mount.filesystem == kind and (version == 2 or "freezer" in mount.super_options)
    ]
    if os.geteuid() or not places:
        pytest.skip(f"no root, or no freezer of version {version}")
    group = Path(places[0]) / f"gpudoctor-test-{os.getpid()}"
    group.mkdir()
    try:
        with started(tmp_path, "import time\nprint('ready', flush=True)\ntime.sleep(1000)", RANK="0") as running:
            running.wait_for("ready")
            assert granted.frozen(System(), running.pid) == ""
            (group / "cgroup.procs").write_text(str(running.pid))
            (group / file).write_text("FROZEN" if version == 1 else "1")
            wait_until(lambda: bool(granted.frozen(System(), running.pid)), "frozen")
            assert granted.frozen(System(), running.pid) == str(group / file)
            (group / file).write_text("THAWED" if version == 1 else "0")
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
        group.rmdir()


def find_here(pid: int) -> Members:
    """The job of a process, once it is seen."""
    wait_until(lambda: any(job_pid(job, pid) for job in live_jobs()), f"pid {pid} is found")
    return next(job for job in live_jobs() if job_pid(job, pid))


AS_NOBODY = """
    import json, os, sys, sysconfig
    import msgspec
    from gpudoctor.read.job.wanted import Wanted
    from gpudoctor.read.job import gpus, kernel, layers, node, processes, reach, sampling, source
    from gpudoctor.read import interfaces
    import netifaces, gpudoctor.read.local, gpudoctor.knowledge.places, encodings.idna, pwd
    sysconfig.get_path("scripts")  # reads what lies in a folder that only root may enter
    pid, started = int(sys.argv[1]), int(sys.argv[2])
    processes.MOST_UNREAD = 10_000  # the tests beside this one have processes too
    os.setgroups([]); os.setgid(65534); os.setuid(65534); os.chdir("/")
    found = node.find()
    order = Wanted(pids={"0": ((pid, started),)}, ranks={"0": {str(pid): 0}}, seconds=0.2, timeout=15.0)
    looked = node.begin(order, 0)()
    print(json.dumps([msgspec.to_builtins(found), msgspec.to_builtins(looked)]), flush=True)
    os._exit(0)
"""


def test_another_users_job_is_seen_as_far_as_may_be_and_the_rest_is_said(tmp_path: Path) -> None:
    require(hasattr(os, "geteuid") and os.geteuid() == 0, "only root can become another user")
    with started(tmp_path, "import time; time.sleep(1000)", RANK="0", WORLD_SIZE="2") as running:
        found = proc.look(running.pid)
        assert found is not None
        command = [sys.executable, "-c", textwrap.dedent(AS_NOBODY), str(running.pid), str(found.start_ticks)]
        wait_until(lambda: b"train.py" in Path(f"/proc/{running.pid}/cmdline").read_bytes(), "started")
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    first, second = json.loads(ended.stdout)
    refused = [each for each in first["unread"] if each["pid"] == running.pid]
    assert refused and "permission denied" in refused[0]["reason"]
    (process,) = second["processes"]
    assert process["process"]["user"] == "root" and not process["process"].get("environment_read")
    assert process["process"]["command"][-1] == running.script.name, "of others no folder is kept"
    assert process["samples"][-1]["state"] == "S" and process["samples"][-1]["threads"][0]["id"] == running.pid
    said = {each["what"].rpartition(" of pid ")[0] for each in second["unread"] if each["pid"] == running.pid}
    assert {"stack", "environment", "sockets"} <= said


def live_jobs() -> tuple[Members, ...]:
    return find_jobs([processes.find(System(), doctor=NOBODY)])


def job_pid(job: Members, pid: int) -> bool:
    return any(member.process.pid == pid for member in job.members)


def state_of(pid: int) -> str:
    found = proc.look(pid)
    return found.state if found is not None else ""


# ---------------------------------------------------------------- the first look, on made trees


def a_process(
    pid: int,
    command: str,
    *,
    parent: int = 1,
    state: str = "S",
    name: str = "python3",
    **variables: Any,
) -> dict[str, str | bytes | Link]:
    raw = b"".join(f"{key}={value}".encode() + b"\0" for key, value in variables.items())
    tail = f"{pid} {pid} 0 -1 0 " + "0 " * 12 + f"{pid * 10} 9 9 " + "0 " * 27 + "9\n"
    return {
        f"/proc/{pid}/stat": f"{pid} ({name}) {state} {parent} {tail}",
        f"/proc/{pid}/environ": raw,
        f"/proc/{pid}/cmdline": command.replace(" ", "\0").encode() + b"\0",
        f"/proc/{pid}/ns/net": Link("net:[4026531840]"),
        f"/proc/{pid}/maps": "",
        f"/proc/{pid}/net/tcp": "",
        f"/proc/{pid}/fd/": "",
    }


BASE: dict[str, str | bytes | Link] = {
    "/proc/uptime": "1000.00 1.0\n",
    "/proc/sys/kernel/random/boot_id": "b\n",
    "/proc/self/ns/net": Link("net:[4026531840]"),
}
TORCH = "7f00-7f01 r-xp 00000000 00:00 1    /v/torch/lib/libtorch_cpu.so\n"
RANK: dict[str, Any] = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "29500"}


def find(system: System) -> dict[int, Process]:
    return {process.pid: process for process in processes.find(system, doctor=999, hostname="h").processes}


def test_a_process_is_described(tmp_path: Path) -> None:
    files = a_process(20, "python3 train.py --hub-token hf_abc", HF_TOKEN="hf_abc", HOME="/home/m", **RANK)
    found = find(fake(tmp_path, BASE | files))[20]
    ticks = os.sysconf("SC_CLK_TCK")
    assert found.environment == RANK and found.environment_read
    assert found.command == ("python3", "train.py", "***", "***"), "it is another user's"
    assert (found.parent, found.started, found.state) == (1, 200, "S")
    assert found.age_seconds == pytest.approx(1000.0 - 200 / ticks)
    assert found.network_namespace == "net:[4026531840]"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (a_process(20, "python3 t.py", **RANK), {20}),
        (a_process(20, "bash", name="bash", **RANK), set()),
        (a_process(20, "python3 t.py", MASTER_ADDR="h"), set()),
        (a_process(20, "python3 t.py", MASTER_ADDR="h") | {"/proc/20/maps": TORCH}, {20}),
        (a_process(20, "python3 t.py --rank 1 --world-size 2") | {"/proc/20/maps": TORCH}, {20}),
        (a_process(20, "python3 t.py", SLURM_PROCID="0") | {"/proc/20/maps": ""}, set()),
        (a_process(20, "python3 t.py", LOCAL_RANK="1", WORLD_SIZE="2"), {20}),
        (a_process(20, "/v/python3 /v/torchrun t.py", name="pt_elastic"), {20}),
        (a_process(20, "srun python3 t.py", name="srun"), {20}),
        (a_process(20, "srun --pty bash", name="srun"), set()),
        (a_process(20, "gpudoctor hang", name="gpudoctor", **RANK), set()),
        (a_process(20, "/v/python3 /v/gpudoctor hang", **RANK), set()),
        (a_process(999, "python3 t.py", **RANK) | a_process(20, "x", parent=999, **RANK), set()),
        (a_process(20, "python3 t.py", state="Z", **RANK), set()),
        (a_process(20, "./train", name="train", **RANK), {20}),
        # what descends from a rank belongs to it, whatever it is, and also when it has ended
        (
            a_process(20, "python3 t.py", **RANK)
            | a_process(21, "gcc", name="gcc", parent=20)
            | a_process(22, "x", state="Z", parent=20)
            | a_process(23, "py-spy dump", name="py-spy", parent=20),
            {20, 21, 22},
        ),
        # Lightning's first rank is known by the others
        (
            a_process(20, "python3 fit.py --x")
            | a_process(21, "/v/python3 /w/fit.py --x", parent=20, LOCAL_RANK="1", WORLD_SIZE="2"),
            {20, 21},
        ),
    ],
)
def test_who_may_belong_to_a_job(tmp_path: Path, files: dict[str, str | bytes | Link], expected: set[int]) -> None:
    assert set(find(fake(tmp_path, BASE | files))) == expected


class Watching(System):
    """Notes what is read."""

    def __init__(self, tree: System) -> None:
        super().__init__(tree.root, tree.environment, patience=tree.patience)
        self.read: list[str] = []

    def raw(self, path: str, limit: int = 1 << 24) -> bytes:
        self.read.append(path)
        return super().raw(path, limit)


def test_of_a_process_that_waits_in_the_kernel_only_the_harmless_is_read(tmp_path: Path) -> None:
    launcher = a_process(20, "/v/python3 /v/torchrun t.py", name="pt_elastic")
    tree = fake(tmp_path, BASE | launcher | a_process(21, "python3 t.py", parent=20, state="D", **RANK))
    system = Watching(tree)
    found = processes.find(system, doctor=999)
    assert {process.pid for process in found.processes} == {20, 21}
    touched = {path.rpartition("/")[2] for path in system.read if path.startswith("/proc/21/")}
    assert touched.isdisjoint({"environ", "cmdline", "maps"})
    (unread,) = found.unread
    assert unread.pid == 21 and "state D" in unread.reason


def test_environments_that_are_refused_are_said_for_those_that_could_be_ranks(tmp_path: Path) -> None:
    tree = fake(tmp_path, BASE | a_process(20, "python3 t.py") | a_process(21, "sleep 9", name="sleep"))
    found = processes.find(Refusing(tree, "/proc/20/environ", "/proc/21/environ"), doctor=999)
    assert [(each.pid, "permission denied" in each.reason) for each in found.unread] == [(20, True)]


def test_ranks_that_a_script_forked_are_known_by_their_sockets(tmp_path: Path) -> None:
    tcp = "  sl local rem st q t r uid to inode\n 0: 00000000:9C40 00000000:0000 0A 0:0 0:0 0 0 0 70 1\n"
    files = BASE | a_process(20, "python3 nb.py")
    for pid in (21, 22, 23):
        files |= a_process(pid, "python3 nb.py", parent=20)
        files |= {f"/proc/{pid}/maps": TORCH, f"/proc/{pid}/net/tcp": tcp}
    plain = fake(tmp_path / "plain", files)
    assert find(plain) == {}  # a training on one GPU, with its data loaders
    files |= {"/proc/21/fd/5": Link("socket:[70]")}
    found = find(fake(tmp_path / "job", files))
    assert {pid: process.communicates for pid, process in found.items()} == {20: False, 21: True, 22: False, 23: False}
    files |= {"/proc/20/fd/5": Link("socket:[70]")}  # its parent's own, which it has inherited
    assert find(fake(tmp_path / "inherited", files)) == {}


# ---------------------------------------------------------------- samples


def test_samples_tell_who_has_run() -> None:
    stop = threading.Event()
    spinning = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)], name="spinner")
    spinning.start()
    try:
        found = proc.look(os.getpid())
        assert found is not None and spinning.native_id is not None
        first = sampling.sample(System(), os.getpid(), found.start_ticks, 0.0)
        own = spinning.native_id

        def used(sample: Sample | None) -> float:
            assert sample is not None
            return next(thread.cpu_seconds or 0.0 for thread in sample.threads if thread.id == own)

        ticks = found.start_ticks
        wait_until(lambda: used(sampling.sample(System(), os.getpid(), ticks, 1.0)) > used(first), "it has run")
    finally:
        stop.set()
        spinning.join()
    assert first is not None and first.threads[0].id == os.getpid() and first.read_bytes
    assert sampling.sample(System(), os.getpid(), found.start_ticks + 1, 0.0) is None  # another process of that number


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("0 0x3 0x7f 0x1 0x0 0x0 0x0 0x7f 0x7f", "read(3, ...)"),
        ("202 0x7f00 0x80 0x0 0x0 0x0 0x0 0x7f 0x7f", "futex(...)"),
        ("270 0x0 0x0 0x0 0x0 0x7f 0x0 0x7f 0x7f", "pselect6(0, ...)"),
        ("270 0x4 0x7f 0x0 0x0 0x7f 0x0 0x7f 0x7f", "pselect6(...)"),
        ("9999 0x0", "syscall 9999(...)"),
        ("running", ""),
        ("-1 0x7f 0x7f", ""),
        ("", ""),
    ],
)
def test_a_system_call_is_named(words: str, expected: str) -> None:
    assert sampling.syscall(words.split(), "x86_64") == expected


def test_stacks_are_joined_with_what_the_kernel_says() -> None:
    frame = Frame(function="f", file="t.py", line=1)
    kernel_side = Sample(
        at=0.5,
        state="S",
        threads=(Thread(id=5, name="python", state="S", switches=3), Thread(id=6, name="pt_autograd_0")),
    )
    stacks = (
        Thread(id=5, name="MainThread", frames=(frame,), owns_gil=False),
        Thread(id=7, name="late", frames=(frame,)),
    )
    joined = sampling.with_stacks(kernel_side, stacks, "py-spy")
    assert joined.threads == (
        Thread(id=5, name="MainThread", state="S", switches=3, frames=(frame,), owns_gil=False),
        Thread(id=6, name="pt_autograd_0"),
        Thread(id=7, name="late", frames=(frame,)),
    )
    assert joined.stacks_by == "py-spy" and joined.at == 0.5


# ---------------------------------------------------------------- files and libraries


def maps(*paths: str) -> str:
    return "".join(f"7f00-7f01 r-xp 00000000 00:00 1    {path}\n" for path in paths)


@pytest.mark.parametrize(
    ("library", "more", "version"),
    [
        ("/v/s/nvidia/nccl/lib/libnccl.so.2", {"/v/s/nvidia_nccl_cu12-2.27.3.dist-info/METADATA": ""}, "2.27.3"),
        ("/usr/lib/libnccl.so.2.21.5", {}, "2.21.5"),
        ("/opt/libnccl.so.2", {"/opt/libnccl.so.2": b"\0" * 100 + b"NCCL version 2.19.3+cuda\0"}, "2.19.3"),
        ("/opt/libnccl.so.2", {}, None),
    ],
)
def test_versions_are_read_from_the_files_that_are_loaded(
    tmp_path: Path, library: str, more: dict[str, str | bytes], version: str | None
) -> None:
    tree: dict[str, str | bytes | Link] = {
        "/proc/5/maps": maps(
            "/v/s/torch/lib/libtorch_cpu.so", library, "/lib/libc.so.6", "/v/libnccl-net.so (deleted)"
        ),
        "/proc/5/root/v/s/torch/version.py": "x = 1\n__version__ = '2.7.1+cu126'\ndebug = False\n",
        **{f"/proc/5/root{path}": content for path, content in more.items()},
    }
    system = fake(tmp_path, tree)
    loaded = files.libraries(system, 5)
    assert loaded["libnccl-net.so"] == "/v/libnccl-net.so" and "libc.so.6" not in loaded
    expected = {"torch": "2.7.1+cu126"} | ({"nccl": version} if version else {})
    assert files.Versions(system).of(5, loaded) == expected


def test_open_files_and_output(tmp_path: Path) -> None:
    tree: dict[str, str | bytes | Link] = {
        "/proc/5/fd/0": Link("/dev/null"),
        "/proc/5/fd/1": Link("/home/m/slurm-7.out"),
        "/proc/5/fd/2": Link("pipe:[7]"),
        "/proc/5/fd/10": Link("/data/fifo"),
        "/proc/5/fd/9": Link("socket:[3]"),
        "/proc/5/fd/11": Link("/home/m/slurm-7.out"),
        "/proc/5/fd/12": Link("/memfd:x (deleted)"),
    }
    assert files.open_files(fake(tmp_path, tree), 5)[:2] == (
        ("/home/m/slurm-7.out", "/data/fifo"),
        ("/home/m/slurm-7.out",),
    )


def test_a_fifo_in_the_place_of_a_source_file_is_not_opened(tmp_path: Path) -> None:
    fifo, plain = tmp_path / "fifo.py", tmp_path / "plain.py"
    os.mkfifo(fifo)
    plain.write_text("x = 1\n")
    read = files.InsideReader(os.getpid())
    assert read(str(plain)) == b"x = 1\n"
    with pytest.raises(OSError, match="regular"):
        read(str(fifo))
    with pytest.raises(OSError):
        read("/dev/zero")


def test_kills_of_the_own_cgroup_are_counted(tmp_path: Path) -> None:
    tree: dict[str, str | bytes | Link] = {
        "/proc/5/cgroup": "0::/job/step\n",
        "/proc/6/cgroup": "0::/../other\n",
        "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "/sys/fs/cgroup/memory.events": "oom 9\noom_kill 9\n",
        "/sys/fs/cgroup/job/step/memory.events": "low 0\noom 3\noom_kill 2\n",
    }
    system = fake(tmp_path, tree)
    assert cgroup.oom_kills(system, 5) == 2
    assert cgroup.oom_kills(system, 6) is None  # out of our sight: the top's number is not its own
    assert cgroup.oom_kills(system, 7) is None


# ---------------------------------------------------------------- kernel, GPUs


def test_events_of_the_kernel_log_name_their_process() -> None:
    lines = [
        KernelLine(10.0, "Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB"),
        KernelLine(20.0, "Out of memory: Killed process 12 (python3.11)"),
        KernelLine(30.0, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."),
        KernelLine(40.0, "python[77]: segfault at 0 ip 0000 sp 0000 error 4 in libc.so.6"),
        KernelLine(None, "NVRM: Xid (PCI:0000:3b:00): 31, pid='<unknown>', name=<unknown>, Ch 00000001"),
        KernelLine(50.0, "eth0: link up"),
    ]
    found = kernel.events(lines, 100.0)
    assert [(each.kind, each.pid, each.seconds_ago) for each in found] == [
        ("oom", 4711, 90.0),
        ("oom", 12, 80.0),
        ("xid", 1234, 70.0),
        ("segfault", 77, 60.0),
        ("xid", 0, None),
    ]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=60)))
def test_no_line_breaks_the_kernel_log(texts: list[str]) -> None:
    kernel.events([KernelLine(1.0, text) for text in texts], 2.0)


def gpu_reply(*messages: dict[str, Any], timed_out: bool = False) -> ChildReply:
    output = b"".join(MARK + json.dumps(message).encode() + b"\n" for message in messages)
    return ChildReply(
        name=gpus.NAME, output=output, errors="", return_code=0, timed_out=timed_out, stuck=False, seconds=4.0, pid=1
    )


def test_a_gpu_that_does_not_answer_is_lost() -> None:
    found, unread = gpus.assemble(gpu_reply({"count": 2}, {"gpu": 1, "uuid": "GPU-1", "pids": [7]}, timed_out=True))
    assert unread == []
    assert [(each.index, each.uuid, each.pids, bool(each.lost)) for each in found] == [
        (0, "", (), True),
        (1, "GPU-1", (7,), False),
    ]
    assert "4 s" in found[0].lost


@pytest.mark.parametrize(
    "messages", [[{"error": "no driver"}], [{"count": 10**9}], [{"gpu": "x"}], [{"gpu": -1}], [{"gpu": 2, "pids": "x"}]]
)
def test_no_answer_of_the_child_breaks_us(messages: list[dict[str, Any]]) -> None:
    found, _ = gpus.assemble(gpu_reply(*messages, timed_out=True))
    assert len(found) <= 1024


def test_the_use_of_gpus_is_read_from_nvml(environment_on: EnvironmentOn) -> None:
    machine = machines.hgx_h100().lost(3)
    child = active.start(
        gpus.NAME, own_module("gpudoctor.read.nvml_use"), timeout=30.0, environment=environment_on(machine)
    )
    found, unread = gpus.assemble(active.gather([child])[gpus.NAME])
    assert unread == [] and len(found) == 8
    assert [each.index for each in found if each.lost] == [3]
    assert found[0].uuid.startswith("GPU-") and found[0].utilization_percent is not None and found[0].power_watts


# ---------------------------------------------------------------- RAS, size


def rank_with_nccl(pid: int, version: str, **environment: str) -> RankWithRas:
    return RankWithRas(pid, environment, version, "net:[1]")


def sample_in(function: str, pid: int) -> Sample:
    frames = (Frame(function=function, file="/v/torch/distributed/distributed_c10d.py", line=1),)
    return Sample(at=0.0, threads=(Thread(id=pid, frames=(*frames, Frame(function="main", file="t.py", line=3))),))


@pytest.mark.parametrize(
    ("version", "function", "ranks", "asked", "why"),
    [
        ("2.28.9", "all_reduce", {"0": {"7": 0}}, 2, ""),
        ("2.28.9", "all_reduce", {"0": {"7": 1}, "1": {"7": 0}}, 0, ""),  # the node of rank 0 asks
        ("2.26.2", "all_reduce", {"0": {"7": 0}}, 2, ""),
        ("2.26.2", "init_process_group", {"0": {"7": 0}}, 0, "making a communicator"),
        ("2.26.2", "all_reduce", {"0": {"7": 0}, "1": {"7": 1}}, 0, "making a communicator"),
        ("2.21.5", "all_reduce", {"0": {"7": 0}}, 0, "has no RAS"),
        ("?", "all_reduce", {"0": {"7": 0}}, 0, "not known"),
        ("", "all_reduce", {"0": {"7": 0}}, 0, ""),  # no NCCL, no RAS, nothing to say
    ],
)
def test_ras_is_asked_only_where_it_is_safe(
    monkeypatch: pytest.MonkeyPatch, version: str, function: str, ranks: dict[str, dict[str, int]], asked: int, why: str
) -> None:
    calls: list[int] = []

    def answer(pid: int, address: str, port: int, *, timeout: float) -> Ras:
        calls.append(pid)
        return Ras(at=float(len(calls)), source="x")

    monkeypatch.setattr("gpudoctor.read.job.ras_elsewhere.ask", answer)
    monkeypatch.setattr("gpudoctor.read.job.reach.listener_of", lambda system, pid, port: "127.0.0.1")
    reader = layers.Layers(System(), Wanted(ranks=ranks, seconds=0.01), 0)
    found, unread = reader.ras([rank_with_nccl(7, version)], {7: sample_in(function, 7)}, time.monotonic() + PATIENCE)
    assert len(calls) == len(found) == asked
    assert [why in each.reason for each in unread] == [True] * bool(why)


def test_an_answer_that_is_too_long_for_a_line_is_thinned_out() -> None:
    frame = Frame(function="f", file="t.py", line=1)
    threads = (
        Thread(id=5, name="main"),
        Thread(id=6, frames=(frame,)),
        *(Thread(id=10 + n, name="x") for n in range(99)),
    )
    process = ProcessEvidence(process=Process(pid=5, parent=1, started=2), samples=(Sample(at=0.0, threads=threads),))
    evidence = NodeEvidence(processes=(process,))

    def kept(limit: int) -> list[int]:
        answer = msgspec.json.decode(thinned.encoded(evidence, limit), type=NodeEvidence)
        assert bool(answer.unread) == (limit < 9000)
        return [thread.id for thread in answer.processes[0].samples[0].threads]

    assert len(kept(9000)) == 101
    assert kept(600) == [5, 6]
    assert kept(10) == [5]


# ---------------------------------------------------------------- deadlines


@pytest.mark.thorough
def test_one_reader_that_hangs_costs_its_own_answer_only() -> None:
    hold = threading.Event()
    try:

        def work(key: int) -> int:
            if key % 5 == 0:
                hold.wait(PATIENCE)
            return key * 2

        done, failed = each(range(40), work, time.monotonic() + 3.0)
        assert set(failed) == set(range(0, 40, 5)) and all("no answer" in reason for reason in failed.values())
        assert done == {key: key * 2 for key in range(40) if key % 5}
        with pytest.raises(TimeoutError):
            Task(lambda: hold.wait(PATIENCE)).result(time.monotonic() + 0.05)
    finally:
        hold.set()


def test_what_a_reader_raises_is_its_reason() -> None:
    def work(key: str) -> str:
        raise PermissionError(13, "Permission denied")

    assert each(["a"], work, time.monotonic() + 20.0) == ({}, {"a": "Permission denied"})
