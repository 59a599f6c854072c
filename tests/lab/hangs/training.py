"""Jobs that hang in training, one small script each, and what is to be said of them.

    with running(SCENARIOS["sleeps"], folder) as job:           # returns when it stands still, or makes steps (healthy)
        subprocess.run(["gpudoctor", "hang", "--pid", str(job.pid), "--json"])

Every script is a user's: it knows nothing of gpudoctor, prints its steps, and with `--healthy` is the same program
without the fault, with steps of 0.3 to 1 s that differ between ranks. Everything that a job has started carries a mark
in its environment and is killed with the block: ranks, data loader workers, stopped and traced ones.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tests.lab import warm
from tests.lab.requirements import require
from tests.lab.sshd import user_environment, wait_until

HANGS = Path(__file__).parent
PATIENCE = 180.0
"""Seconds for a job to get where it hangs, on a crowded machine: torch alone takes ten there."""
MARK = "LAB_HANG"
TICK = os.sysconf("SC_CLK_TCK")
STILL_FOR = 1.0
"""Seconds in which no rank works, before the job counts as having come to where it stays."""
IDLE = 0.05
"""CPU seconds that all ranks together may use meanwhile: some of them poll."""
MEMORY = Path("/sys/fs/cgroup/memory")


class Scenario(NamedTuple):
    """A script, how it is started, and what is to be found."""

    name: str
    script: str
    causes: tuple[str, ...]
    """The names that are right, the best first."""
    culprits: tuple[int, ...]
    lines: tuple[str, ...] = ()
    """Lines of the script one of which the first cause must name (their beginnings, stripped); (): any, or none."""
    ranks: int = 2
    launcher: Literal["torchrun", "by hand", "spawn"] = "torchrun"
    options: tuple[str, ...] = ()
    reached: str = "rank {rank} step 1"
    """What every rank has written before the hang is waited for."""
    silent: tuple[int, ...] = ()
    """Ranks that need not have written it."""
    healthy: bool = True
    """Whether it has a healthy run of its own."""
    recorder: bool = False
    """What decides stands in the flight recorder only, so that the job is armed."""
    memory_limit: int = 0
    """Bytes for each of `culprits`, in a memory cgroup of its own; 0: no such group."""
    states: tuple[str, ...] = ("hung",)
    age: float = 0.0
    """Seconds that it must be old before it can be told from a start that takes its time."""
    polls: float = 0.0
    """Seconds after which it is where it stays, of one that never rests: threads of its libraries poll."""
    truly: bool = False
    """Started as a user does, each process with an `import torch` of its own: one of each launcher is."""
    or_culprits: tuple[tuple[int, ...], ...] = ()
    """Ranks that are as right as `culprits`, where two sides of one fault can be blamed."""

    def cheaper(self) -> "Scenario":
        """The same program for a healthy run: without a launcher, which imports torch too, and with two ranks where it
        makes no groups. An import is most of what a run costs."""
        by_hand = self.launcher == "torchrun"
        groups = self.name in ("different_groups", "group_of_some")
        return self._replace(
            launcher="by hand" if by_hand else self.launcher, ranks=self.ranks if groups else min(self.ranks, 2)
        )

    def numbers(self) -> tuple[int, ...]:
        """The line numbers of `lines`."""
        found = enumerate((HANGS / self.script).read_text().splitlines(), start=1)
        return tuple(number for number, text in found if text.strip().startswith(self.lines))


class Running(NamedTuple):
    """A job that was started."""

    pid: int
    """Of the launcher, or of the first rank that was started by hand."""
    log: Path
    mark: str

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def processes(self) -> dict[int, str]:
        """The command line of everything that it has started and that is there, zombies too, by pid."""
        return marked(self.mark)


def marked(mark: str) -> dict[int, str]:
    """Processes that carry a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


def end(mark: str, started: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Kill all that carry the mark, until none is left."""

    def gone() -> bool:
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not marked(mark)

    wait_until(gone, PATIENCE)
    for process in started:
        process.wait(PATIENCE)


@contextlib.contextmanager
def running(
    scenario: Scenario,
    folder: Path,
    *,
    healthy: bool = False,
    arm: bool = False,
    environment: Mapping[str, str] = {},
    scripts: Path = HANGS,
) -> Iterator[Running]:
    """A job of this scenario that has come to where it stays; healthy: one that has made its first steps.

    `scripts`: where the programs are, if not those here (tests/lab/torch_nccl has them for GPUs)."""
    mark = uuid.uuid4().hex
    log = folder / f"{scenario.name}.log"
    variables = user_environment() | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", MARK: mark} | {**environment}
    options = [*scenario.options, *(["--healthy"] if healthy else []), *(["--arm"] if arm else [])]
    started: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        asked, never_written = os.pipe()  # a standard input at which nobody types
        stack.callback(os.close, never_written)
        stack.callback(os.close, asked)
        groups = stack.enter_context(contextlib.ExitStack())  # removed once nothing is in them
        stack.callback(end, mark, started)

        def start(words: Sequence[str], **more: str) -> None:
            truly = scenario.truly and not healthy  # once is enough
            started.append(
                warm.start(
                    words, env=variables | more, stdin=asked, stdout=output, stderr=output, cwd=folder, truly=truly
                )
            )

        program = [str(scripts / scenario.script), *options]
        if scenario.launcher == "torchrun":
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            start([*torchrun, f"--nproc-per-node={scenario.ranks}", *program])
        else:
            rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
            if scenario.launcher == "spawn":
                start([sys.executable, *program, f"--spawn={scenario.ranks}"], **rendezvous)
            for rank in range(scenario.ranks if scenario.launcher == "by hand" else 0):
                words = [sys.executable, *program]
                if scenario.memory_limit and rank in scenario.culprits and not healthy:
                    group = groups.enter_context(memory_group(mark, scenario.memory_limit))
                    words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *words]
                start(words, **rendezvous, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(scenario.ranks))
                # It is collected, as by a login shell: what was killed is gone, no zombie.
                threading.Thread(target=started[-1].wait, daemon=True).start()
        job = Running(first_of(started, scenario), log, mark)
        try:
            come_to(scenario, job, healthy, started)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{job.output()}\n{job.processes()}") from None
        warm.reap_strays()
        yield job


def first_of(started: Sequence["subprocess.Popen[bytes]"], scenario: Scenario) -> int:
    """A process by which a user would name the job: of those started by hand a rank that lives."""
    if scenario.launcher != "by hand":
        return started[0].pid
    return started[next((rank for rank in range(scenario.ranks) if rank not in scenario.culprits), 0)].pid


def come_to(scenario: Scenario, job: Running, healthy: bool, started: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Wait until every rank has said how far it is, and until nothing of a hanging job works any more."""

    def reached() -> bool:
        return all(text.format(rank=rank) in job.output() for rank in ranks)

    def over() -> bool:
        return all(process.poll() is not None for process in started)

    begin = time.monotonic()
    text = "rank {rank} step 1" if healthy and "epoch" not in scenario.reached else scenario.reached
    ranks = [rank for rank in range(scenario.ranks) if healthy or rank not in scenario.silent]
    wait_until(lambda: reached() or over(), PATIENCE)
    if not reached():
        raise TimeoutError("the job has ended before it came to where it hangs")
    if healthy or scenario.polls:
        time.sleep(scenario.polls)
        return
    since, before = time.monotonic(), work(job)
    limit = since + PATIENCE
    while time.monotonic() - since < STILL_FOR:
        time.sleep(0.1)
        now = work(job)
        if set(now) != set(before) or sum(now.values()) - sum(before.values()) > IDLE:
            since, before = time.monotonic(), now
        if time.monotonic() > limit:
            raise TimeoutError(f"the job does not come to rest within {PATIENCE:g} s")
    time.sleep(max(0.0, scenario.age - (time.monotonic() - begin)))


def work(job: Running) -> dict[int, float]:
    """CPU seconds by process, launchers left out: they look after their ranks all the time."""
    found = {}
    for pid, words in job.processes().items():
        if "torch.distributed.run" in words:
            continue
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            waits_for_cpu = 1.0 if fields[0] in "RD" else 0.0
            found[pid] = (int(fields[11]) + int(fields[12])) / TICK + waits_for_cpu
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextlib.contextmanager
def memory_group(name: str, limit: int) -> Iterator[Path]:
    """A memory cgroup (v1 or v2) that kills what needs more."""
    require(os.geteuid() == 0, "no permission to make a memory cgroup: be root")
    first = MEMORY.is_dir()
    folder = (MEMORY if first else Path("/sys/fs/cgroup")) / f"gpudoctor-lab-{name}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        require(False, f"no memory cgroup can be made: {error}")
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _all() -> Iterator[Scenario]:
    """The scenarios. Culprits and lines are those of the fault, not of the ranks that wait for it."""
    yield Scenario(
        "save_under_rank0",
        "save_under_rank0.py",
        ("rank0-only-collective",),
        (0,),
        ("if rank == 0", "dist.barrier()"),
        ranks=3,
    )
    yield Scenario(
        "evaluate_on_rank0",
        "evaluate_on_rank0.py",
        ("rank0-only-collective",),
        (0,),
        ("if step % 2 == 1", "dist.all_reduce(right)", "evaluate(model.module"),
    )
    yield Scenario(
        "early_continue",
        "early_continue.py",
        ("rank-divergent-decision",),
        (1,),
        ("continue", "dist.barrier()"),
    )
    yield Scenario(
        "swallowed_exception",
        "swallowed_exception.py",
        ("rank-divergent-decision",),
        (1,),
        ("except", "dist.broadcast(total", 'print(f"rank {rank}: {error}'),
        ranks=3,
    )
    yield Scenario(
        "uneven_batches",
        "uneven_batches.py",
        ("uneven-inputs",),
        (1,),
        ("dist.barrier()", "for step, (batch,)"),
        ranks=3,
        reached="rank {rank} epoch 0 step 1",
    )
    yield Scenario(
        "order_of_metrics",
        "order_of_metrics.py",
        ("collective-order-mismatch", "rank-divergent-decision"),
        (1,),
        ("dist.all_gather(everybody", "dist.all_reduce(loss)", "collect(lengths)"),
        ranks=3,
    )
    yield Scenario(
        "different_shapes", "different_shapes.py", ("shape-mismatch",), (1,), ("dist.all_reduce",), recorder=True
    )
    yield Scenario(
        "different_groups",
        "different_groups.py",
        ("collective-order-mismatch",),
        (1,),
        ("dist.all_reduce(gradient, group=tensor_parallel)",),
        ranks=3,
    )
    yield Scenario(
        "unused_parameters",
        "unused_parameters.py",
        ("unused-parameters", "rank-dependent-graph"),
        (1,),
        ("dist.barrier()", "mixed", "if image", "image = None", "loss = model"),
        ranks=3,
    )
    loads = Scenario(
        "killed_by_hand",
        "loads_before_init.py",
        ("rank-died",),
        (1,),
        ranks=3,
        launcher="by hand",
        reached="rank {rank} loads",
    )
    yield loads
    yield loads._replace(name="out_of_memory", ranks=2, memory_limit=600 << 20, options=("--memory",), healthy=False)
    yield loads._replace(name="killed_spawned", launcher="spawn", truly=True)
    leaves = loads._replace(causes=("rank-divergent-decision",), options=("--leaves",), healthy=False, age=6.0)
    yield leaves._replace(name="leaves_at_once", launcher="torchrun")
    yield leaves._replace(name="leaves_unseen", launcher="spawn")
    yield Scenario(
        "index_by_rank0",
        "index_by_rank0.py",
        ("rank-died",),
        (0,),
        launcher="by hand",
        truly=True,
        reached="rank {rank} has joined",
    )
    yield Scenario("stops", "stops.py", ("stopped-rank",), (1,), ranks=3)
    yield Scenario(
        "loader_deadlock",
        "loader_deadlock.py",
        ("dataloader-fork-deadlock",),
        (1,),
        ("with CACHE_LOCK", "for step, batch in enumerate(loader)"),
        reached="rank {rank} has joined",
    )
    yield Scenario("reads_fifo", "reads_fifo.py", ("storage-stall",), (1,), ("with path.open",))
    yield Scenario("sleeps", "sleeps.py", ("slow-rank-timeout",), (0,), ("time.sleep(wait)",), ranks=3, truly=True)
    yield Scenario(
        "slow_checkpoint",
        "slow_checkpoint.py",
        ("slow-rank-timeout", "storage-stall"),
        (0,),
        ("torch.save(weights",),
        states=("hung", "slow"),
    )
    yield Scenario("holds_gil", "holds_gil.py", ("gil-deadlock",), (1,), ("tokenizer.sleep",), ranks=3)
    yield Scenario(
        "barrier_in_finally",
        "barrier_in_finally.py",
        ("teardown-deadlock", "rank-divergent-decision"),
        (1,),
        ("dist.barrier()",),
    )
    yield Scenario(
        "thread_at_exit",
        "thread_at_exit.py",
        ("teardown-deadlock",),
        (1,),
        ("if uploads.get()",),
    )
    yield Scenario("breakpoint_left", "breakpoint_left.py", ("stopped-rank",), (1,), ("breakpoint()", "print(loss)"))
    yield Scenario(
        "asks_user", "asks_user.py", ("stopped-rank",), (0,), ("answer = input",), reached="rank {rank} has joined"
    )
    yield Scenario(
        "group_of_some",
        "group_of_some.py",
        ("collective-order-mismatch", "rank-divergent-decision"),
        (2,),
        ("evaluation = dist.new_group", "dist.new_group(members)"),
        ranks=3,
        reached="rank {rank} has joined",
    )
    yield Scenario(
        "objects_of_one",
        "objects_of_one.py",
        ("rank0-only-collective", "object-collective"),
        (0,),
        ("if step % 3 == 2", "dist.all_gather_object", "gather_predictions"),
    )
    yield Scenario(
        "both_receive",
        "both_receive.py",
        ("p2p-order",),
        (0, 1),
        ("dist.recv",),
        reached="rank {rank} step 0",
    )


SCENARIOS = {scenario.name: scenario for scenario in _all()}
