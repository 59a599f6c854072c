"""What a cell of the test came to: a finding with the rank, parameter and step, what it means, and what to write.

The test's own loop is right by itself. So a fault is one of the installation (torch, a framework, NCCL, a GPU), of
what is loaded into the interpreter, or of the network; the lines to write are for a script in which the same fault is
home-made, which is where most users meet it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gpudoctor.check import Fix
from gpudoctor.command import Command, command
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.rank_messages import Fault, Trained
from gpudoctor.snapshot import Reading, read
from gpudoctor.symptoms.in_text import symptoms
from gpudoctor.train.report import Cell

LONGEST_WORDS = 300


class Kind(NamedTuple):
    """One kind of fault. `{who}` and `{whose}` are the rank, or what stands for it; `{step}` is " at step 3" or "", and
    `{after}`, `{at}` and `{where}` what is known of parameter, rank and step."""

    id: str
    seen: str
    meaning: str
    fix: str
    lines: tuple[Command, ...] = ()
    """Python for a plain loop, or shell."""
    lightning: tuple[Command, ...] = ()
    accelerate: tuple[Command, ...] = ()
    on_path: bool = False
    """What ranks send each other may be at fault: other paths are worth a try."""


SAMPLER = (
    command("sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)"),
    command("loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)"),
    command("sampler.set_epoch(epoch)  # at the start of every epoch"),
)
LIGHTNING_SAMPLER = (command("trainer = Trainer(strategy='ddp', use_distributed_sampler=True)"),)
ACCELERATE_LOADER = (command("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"),)
SCALER = (
    command("scaler.scale(loss).backward()"),
    command("scaler.unscale_(optimizer)  # only where gradients are clipped or looked at"),
    command("scaler.step(optimizer)"),
    command("scaler.update()"),
)
APART = "From that step on the ranks train different models, and nothing says so: a checkpoint is rank 0's alone."

KINDS: dict[str, Kind] = {
    "initial weights": Kind(
        "train-initial-weights-differ",
        "{who} starts with another {parameter}",
        "The ranks train different models from the first step on; the mean of their gradients fits none of them.",
        "Let the wrapper hand out rank 0's weights (DDP does when it wraps the model), or seed every rank alike before "
        "the model is made, and change no parameter after wrapping.",
        (command("torch.manual_seed(20)"), command("model = DistributedDataParallel(Net().to(device))")),
        lightning=(command("lightning.seed_everything(20)"),),
        accelerate=(command("accelerate.utils.set_seed(20)"),),
        on_path=True,
    ),
    "sampler overlap": Kind(
        "train-sampler-overlaps",
        "{who} trains on samples that another rank has too",
        "An epoch is not one pass over the data: some samples count several times, and with no sampler at all every "
        "rank does the same work.",
        "Give the loader a DistributedSampler.",
        SAMPLER,
        lightning=LIGHTNING_SAMPLER,
        accelerate=ACCELERATE_LOADER,
    ),
    "sampler loss": Kind(
        "train-sampler-loses-samples",
        "no rank trains on some of the samples",
        "An epoch leaves data out, and no error says so.",
        "Give the loader a DistributedSampler with this world size and rank, and take no sampler of your own besides.",
        SAMPLER,
        lightning=LIGHTNING_SAMPLER,
        accelerate=ACCELERATE_LOADER,
    ),
    "sampler epoch": Kind(
        "train-sampler-repeats-order",
        "the sampler hands out the same order in every epoch",
        "Shuffling is drawn from the seed and the epoch: without set_epoch every epoch sees the same batches in the "
        "same order, and the model generalises worse.",
        "Tell the sampler the epoch.",
        (
            command("for epoch in range(epochs):"),
            command("    sampler.set_epoch(epoch)"),
            command("    for batch in loader: ..."),
        ),
        lightning=LIGHTNING_SAMPLER,
        accelerate=(*ACCELERATE_LOADER, command("loader.set_epoch(epoch)  # at the start of every epoch")),
    ),
    "gradient": Kind(
        "train-gradient-differs",
        "{whose} gradient of {parameter} differs{step}",
        f"Gradients must agree on all ranks after backward. {APART}",
        "In a script the same comes from parameters that the wrapper does not see (made or used outside the wrapped "
        "forward, or on its ignore list), from model.module(...) instead of model(...), and from gradients changed "
        "after backward on one rank only.",
        (command("loss = criterion(model(inputs), labels)  # not model.module(inputs)"), command("loss.backward()")),
        on_path=True,
    ),
    "parameter": Kind(
        "train-parameter-differs",
        "{whose} {parameter} differs{after}",
        f"Parameters must stay equal on all ranks. {APART}",
        "In a script the same comes from an optimizer that is not alike on all ranks, and from parameters that are "
        "changed outside the optimizer.",
        (command("optimizer = torch.optim.SGD(model.parameters(), lr=lr)  # after wrapping, alike on every rank"),),
        on_path=True,
    ),
    "loss": Kind(
        "train-loss-differs",
        "the loss differs from that of one process on the same samples{step}",
        "The ranks agree with each other, and train something else than one process would: results and learning rates "
        "do not carry over.",
        "DDP takes the mean of the ranks' gradients. In a script the same comes from a loss that is summed instead of "
        "averaged, from ranks with batches of different size, and from a communication hook that sums.",
        (command("loss = criterion(outputs, labels)  # reduction='mean', batches of equal size on every rank"),),
        on_path=True,
    ),
    "device": Kind(
        "train-wrong-device",
        "{who} does not have all of the model on its own device{at}",
        "What lies elsewhere is copied at every step, or not trained; ranks that share a device take each other's "
        "memory.",
        "Take the device of the local rank, move the whole model there, and keep tensors that are no parameters in "
        "buffers.",
        (
            command("torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"),
            command("model = model.to(torch.device('cuda', int(os.environ['LOCAL_RANK'])))"),
        ),
    ),
    "precision": Kind(
        "train-precision-not-in-force",
        "{who} does not compute in the precision that was asked for{at}",
        "Autocast is on in the thread that entered it, and a wrapper that computes elsewhere loses it: the run is "
        "slower and larger than planned, or rounds more than planned.",
        "Enter autocast inside forward, with its dtype, so that every replica and thread does.",
        (
            command("def forward(self, inputs):"),
            command("    with torch.autocast('cuda', dtype=torch.bfloat16):"),
            command("        return self.net(inputs)"),
        ),
        lightning=(command("trainer = Trainer(strategy='ddp', precision='bf16-mixed')"),),
        accelerate=(command("accelerator = Accelerator(mixed_precision='bf16')"),),
    ),
    "overflow not skipped": Kind(
        "train-overflow-not-skipped",
        "an overflow in the gradients was not skipped{where}",
        "inf and NaN get into the parameters, and every later loss is NaN; where only some ranks skip, their models "
        "drift apart.",
        "Step through the scaler on every rank, after the gradients have been reduced.",
        SCALER,
    ),
    "loss scale": Kind(
        "train-loss-scale-wrong",
        "the loss scale is not what it must be{where}",
        "Gradients come out too large or too small by that factor: the learning rate means something else, and fp16 "
        "loses small gradients.",
        "Scale once before backward, unscale once before the step, and update once a step; divide the loss by the "
        "number of accumulated batches, not by the number of ranks.",
        SCALER,
    ),
    "not finite": Kind(
        "train-not-finite",
        "{parameter} or its gradient is not finite{where}",
        "One step with NaN spoils the model for good: every later loss is NaN.",
        "fp16 overflows above 65504: take bf16 where the device has it, or a GradScaler. In fp32 and bf16 look at the "
        "device: gpudoctor amp computes the same operations and compares.",
        (command("gpudoctor amp"), command("gpudoctor check --deep")),
    ),
}
"""By `Fault.kind`."""


def judge(trained: Trained, *, backend: str) -> Cell:
    """The cell of what rank 0 said."""
    finding = None
    if trained.outcome == "failed":
        fault = trained.fault
        finding = _failed(trained) if fault is None else _faulty(trained, fault, backend)
    return Cell(
        way=trained.way,
        precision=trained.precision,
        outcome=trained.outcome,
        trained=trained,
        reason=trained.reason,
        finding=finding,
    )


def ended(cell: Cell, findings: Sequence[Finding]) -> Cell:
    """The cell in which a launch hung or died, with the first of what `why_stopped` found: the cell stands in front."""
    if not findings:
        return cell
    name = f"{cell.way} {cell.precision}"
    first = findings[0]
    problem = first.problem
    if name not in problem.summary:
        problem = msgspec.structs.replace(problem, summary=f"{name}: {problem.summary}")
    if first.id in ("test-stalled", "test-died"):
        line = command("gpudoctor train-test --strategy {:name} --precision {:name}", cell.way, cell.precision)
        text = "Run this way alone: where it stands still again, the stacks below say in which call."
        problem = msgspec.structs.replace(problem, fix=Fix(text, (line, command("gpudoctor nccl-test"))))
    return msgspec.structs.replace(cell, finding=msgspec.structs.replace(first, problem=problem))


def _faulty(trained: Trained, fault: Fault, backend: str) -> Finding:
    cell = f"{trained.way} {trained.precision}"
    who = "a rank" if fault.rank is None else f"rank {fault.rank}"
    step = "" if fault.step is None else f" at step {fault.step}"
    on = "" if fault.rank is None else f" on rank {fault.rank}"
    at = f" ({fault.parameter})" if fault.parameter else ""
    kind = KINDS.get(fault.kind)
    if kind is None:  # of a newer rank program
        of = f" of {fault.parameter}" if fault.parameter else ""
        kind = Kind("train-fault", f"{fault.kind}{of}{on}{step}", APART, "Examine this installation.")
        what = kind.seen
    else:
        what = kind.seen.format(
            who=who,
            whose="the" if fault.rank is None else f"{who}'s",
            parameter=fault.parameter or "the model",
            step=step,
            after=step.replace(" at ", " after "),
            where=f"{on}{step}",
            at=f"{at}{step}",
        )
    numbers = f": {fault.seen}" if fault.seen else ""
    wanted = f"; wanted: {fault.wanted}" if fault.wanted else ""
    lines = {"lightning": kind.lightning, "accelerate": kind.accelerate}.get(trained.way.split("_")[0]) or kind.lines
    meaning = f"{kind.meaning} The test's own loop is right by itself: what is installed here computes it otherwise."
    text = kind.fix
    if kind.on_path:
        paths, commands = _other_paths(trained, backend)
        text = f"The first lines tell where it is: {paths}. {text}"
        lines = (*commands, *lines)
    return finding(
        kind.id,
        "error",
        _one_line(f"{cell}: {what}{numbers}{wanted}"),
        meaning=meaning,
        fix=Fix(text, lines),
        evidence=_evidence(trained, fault),
        ranks=() if fault.rank is None else (fault.rank,),
    )


def _alone(trained: Trained) -> Command:
    """This way by itself."""
    return command("gpudoctor train-test --strategy {:name} --precision {:name}", trained.way, trained.precision)


def _other_paths(trained: Trained, backend: str) -> tuple[str, tuple[Command, ...]]:
    """What tells a GPU, its links and the network from the software, in words and as shell lines."""
    again = _alone(trained)
    if backend == "nccl":
        return (
            "the same ranks without direct copies between GPUs, the same over the CPU, and every collective with its "
            "data checked",
            (
                command("NCCL_P2P_DISABLE=1 {:line}", again),
                command("{:line} --backend gloo", again),
                command("gpudoctor nccl-test --collective all"),
            ),
        )
    return (
        "every collective with its data checked, and the installed torch",
        (command("gpudoctor nccl-test --collective all --backend gloo"), command("gpudoctor check pytorch")),
    )


def _evidence(trained: Trained, fault: Fault | None) -> tuple[Reading[object], ...]:
    cell = f"{trained.way} {trained.precision}"
    readings: list[Reading[object]] = []
    if fault is not None:
        readings.append(read(f"verification of {cell}", fault.seen or fault.kind))
        if fault.rank is not None and 0 <= fault.rank < len(trained.devices):
            readings.append(read(f"device of rank {fault.rank}", trained.devices[fault.rank]))
    if trained.loss is not None and trained.reference_loss is not None:
        readings.append(
            read(f"loss of {cell} and of one process", f"{trained.loss:.6g} and {trained.reference_loss:.6g}")
        )
    return tuple(readings)


def _failed(trained: Trained) -> Finding:
    """An exception that ended the cell and not the launch."""
    cell = f"{trained.way} {trained.precision}"
    words = (trained.reason.strip().splitlines() or ["no reason was given"])[0]
    meaning = "A training of this kind ends here with the same error."
    fix = Fix(
        "Examine the installed torch; where only this way fails, the error names what it lacks.",
        (
            command("gpudoctor check pytorch"),
            _alone(trained),
        ),
    )
    known = next((shown for shown in symptoms(trained.reason) if shown.symptom.role == "cause"), None)
    if known is not None:
        meaning, fix = known.meaning, known.fix
    return finding(
        "train-failed",
        "error",
        _one_line(f"{cell} failed: {words}"),
        meaning=meaning,
        fix=fix,
        evidence=(read(f"exception of {cell}", trained.reason or words), *_evidence(trained, None)),
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_WORDS else f"{line[:LONGEST_WORDS]} ..."
