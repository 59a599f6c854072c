"""The short form that `gpudoctor check --deep` runs: five steps of DistributedDataParallel with two processes here.

Over NCCL where torch has it and sees two GPUs, else over gloo on the CPU. Everything that train-test verifies is
verified: initial weights, sampler, gradients of every step, parameters, the loss against a single process.
"""

import random
import socket
import time
from collections.abc import Callable
from typing import Literal

from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import Launch, TrainCell, TrainPlan
from gpudoctor.fleet.reach import reach
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.prepared import FIRST_PORT, LAST_PORT
from gpudoctor.nccl.result import RunResult
from gpudoctor.nccl.run import run_launches
from gpudoctor.nccl.stopped import why_stopped
from gpudoctor.read.children import ExamineWish
from gpudoctor.snapshot import Reading, Snapshot, TorchFacts, TrainResult, absent, missing, read
from gpudoctor.train.judge import judge

SOURCE = "training test"
CELL = TrainCell("ddp", "fp32")
RANKS = 2
STEPS = 5
SECONDS = 30.0
"""Without progress; the import of torch by three processes at once takes ten on a crowded machine."""
PORTS_TRIED = 20

Waiting = Callable[[list[str]], None]


def run(wish: ExamineWish, snapshot: Snapshot, waiting: Waiting | None = None) -> Reading[tuple[TrainResult, ...]]:
    """Train on this machine. Missing, with the reason, when torch cannot be used or the ranks cannot be started."""
    torch = snapshot.training.torch
    if not torch.is_read:
        kind = torch.missing_kind or "failed"
        return missing(SOURCE, f"needs torch: {torch.reason}", "failed" if kind == "absent" else kind)
    if "gloo" not in torch.value.distributed_backends:
        return absent(SOURCE, "this torch has no torch.distributed with gloo")
    backend, device = chosen(torch.value)
    began = time.monotonic()
    try:
        with LocalFleet(["here"]) as fleet:
            reach(fleet, timeout=fleet.patience)
            if fleet.lost:
                lost = next(iter(fleet.lost.values()))
                return missing(SOURCE, f"the agent that starts ranks: {lost.words}")
            launch = Launch(
                id="deep",
                nodes=(0,),
                ranks_per_node=(RANKS,),
                master_address="127.0.0.1",
                master_port=free_port(),
                backend=backend,
                device=device,
                measurements=(),
                timeout=max(wish.timeout, SECONDS),
                train=TrainPlan(cells=(CELL,), steps=STEPS, world_size=RANKS),
            )
            ran = trained(fleet, launch, wish.interpreter.path, waiting)
    except (OSError, RuntimeError, ValueError) as error:
        return missing(SOURCE, f"the ranks could not be started: {error}")
    return told(ran, backend, snapshot, round(time.monotonic() - began, 3))


def chosen(torch: TorchFacts) -> tuple[Literal["nccl", "gloo"], Literal["cuda", "cpu"]]:
    """NCCL needs a GPU for each of the two processes."""
    if torch.cuda_available and torch.device_count >= RANKS and "nccl" in torch.distributed_backends:
        return "nccl", "cuda"
    return "gloo", "cpu"


def free_port() -> int:
    """A port on which nobody listens now, above what the kernel hands out to clients. Raises `OSError`."""
    for _ in range(PORTS_TRIED):
        port = random.randrange(FIRST_PORT, LAST_PORT)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port of {PORTS_TRIED} between {FIRST_PORT} and {LAST_PORT}")


def trained(fleet: Fleet, launch: Launch, python: str, waiting: Waiting | None) -> RunResult:
    """One launch, to its end."""
    who = f"{RANKS} ranks that train (given up after {launch.timeout:g} s without a step)"
    tell = None if waiting is None else (lambda: waiting([who]))
    (ran,) = run_launches(fleet, [launch], pythons={0: python}, timeout=launch.timeout, waiting=tell)
    return ran


def told(ran: RunResult, backend: str, snapshot: Snapshot, seconds: float) -> Reading[tuple[TrainResult, ...]]:
    """What the launch came to."""
    said = next((each for each in ran.trained if (each.way, each.precision) == (CELL.way, CELL.precision)), None)
    if said is not None:
        if said.outcome == "not applicable":
            return absent(SOURCE, said.reason)
        finding = judge(said, backend=backend).finding
        return result(backend, "passed" if said.outcome == "passed" else "failed", finding, seconds)
    findings = why_stopped(ran, dict.fromkeys(ran.nodes, snapshot))
    if ran.outcome == "complete":
        return missing(SOURCE, "the ranks ended without a word about it")
    if ran.outcome == "interrupted":
        return missing(SOURCE, "interrupted")
    return result(
        backend, "hung" if ran.outcome == "stalled" else "crashed", findings[0] if findings else None, seconds
    )


def result(
    backend: str, outcome: Literal["passed", "failed", "hung", "crashed"], finding: Finding | None, seconds: float
) -> Reading[tuple[TrainResult, ...]]:
    return read(
        SOURCE,
        (
            TrainResult(
                way=CELL.way,
                precision=CELL.precision,
                backend=backend,
                ranks=RANKS,
                outcome=outcome,
                error=finding.problem.summary if finding is not None else "",
                finding=finding.id if finding is not None else "",
                seconds=seconds,
            ),
        ),
    )
