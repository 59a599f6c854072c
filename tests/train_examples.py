"""Answers of `gpudoctor train-test` as docs and tests show them: hand-made figures, judged by the program itself."""

from collections.abc import Callable

from gpudoctor.knowledge.wording import GIB, MIB
from gpudoctor.nccl.rank_messages import Fault, Trained
from gpudoctor.train.judge import judge
from gpudoctor.train.plan import plan
from gpudoctor.train.report import Cell, TrainReport
from gpudoctor.train.ways import Precision
from gpudoctor.train.wish import TrainWish

GPUS = tuple(f"cuda:{number}" for number in range(8))
STEPS = {"single": 1.9, "dp": 31.4, "ddp": 2.6, "no_sync": 4.3, "spawn": 2.7, "fsdp": 6.8, "split": 2.4}
"""Milliseconds of a step in fp32."""
SPEED = {"fp32": 1.0, "bf16": 1.12}
CONTEXT = GIB // 16


def passed(way: str, precision: Precision) -> Trained:
    devices = GPUS[:1] if way == "single" else GPUS[:2] if way == "split" else GPUS
    peaks = {f"n01 {device}": CONTEXT + 3 * MIB for device in devices}
    notes: tuple[str, ...] = ()
    if way == "dp":
        peaks["n01 cuda:0"] += 38 * MIB
        notes = (
            "with this tiny model a forward and backward pass takes 11.6 times as long as on one GPU: DataParallel "
            "copies the model in each of them; DistributedDataParallel does not",
        )
    return Trained(
        way=way,
        precision=precision,
        outcome="passed",
        ranks=1 if way in ("single", "dp", "split") else 8,
        devices=devices,
        step_seconds=STEPS[way] * SPEED[precision] / 1000,
        peak_bytes=peaks,
        loss=0.41237,
        reference_loss=0.41238,
        notes=notes,
    )


def corrupted(precision: Precision) -> Trained:
    """DDP, where what comes from GPU 5 arrives wrong once."""
    return Trained(
        way="ddp",
        precision=precision,
        outcome="failed",
        ranks=8,
        devices=GPUS,
        peak_bytes=passed("ddp", precision).peak_bytes,
        fault=Fault(
            kind="gradient",
            rank=5,
            parameter="blocks.1.weight",
            step=3,
            seen="the ranks have different gradients (1 of 10 parameters); relative difference 0.31 to the "
            "single-process run",
            wanted="the mean over all ranks, the same on each",
        ),
    )


def one_gpu_differs() -> TrainReport:
    """Eight GPUs, of which one gives another gradient than the rest in bf16."""
    wish = TrainWish()
    told = [
        corrupted(cell.precision) if (cell.way, cell.precision) == ("ddp", "bf16") else passed(cell.way, cell.precision)
        for group in plan(wish, (8,), device="cuda").groups
        for cell in group.cells
    ]
    order = {way: number for number, way in enumerate(wish.ways)}
    cells: list[Cell] = sorted((judge(each, backend="nccl") for each in told), key=lambda cell: order[cell.way])
    return TrainReport(
        gpudoctor="0.1.0",
        torch="2.13.0+cu130",
        device="NVIDIA H100 80GB HBM3",
        nodes=("n01",),
        ranks_per_node=(8,),
        backend="nccl",
        why_backend="every node has GPUs and a torch with NCCL",
        reached_by="local",
        steps=wish.steps,
        cells=tuple(cells),
        seconds=48.3,
    )


EXAMPLES: dict[str, Callable[[], TrainReport]] = {"train-test-gradient": one_gpu_differs}
