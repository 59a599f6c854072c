"""Hugging Face accelerate under torchrun: Accelerator(mixed_precision=...), prepare, backward, gather_for_metrics."""

import contextlib
import importlib
import os
from typing import Any, Dict, Iterator, List, Tuple

import train_precision
from train_blame import fault
from train_packages import imported, installed
from train_reference import optimizer
from train_watch import Scale, Surroundings, Watch
from train_way import Context, FaultFound, Way

DISTRIBUTIONS = ("accelerate",)
WORDS = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}
OF_A_LAUNCH = ("ACCELERATE_", "FSDP_", "PARALLELISM_CONFIG_")
"""What `accelerate launch` sets for a run; the test's own arguments must decide."""


class Accelerate(Way):
    """The loop that accelerate's documentation shows, in the process group of the launch."""

    name = "accelerate"

    def lacking(self, context: Context) -> str:
        name, _ = installed(DISTRIBUTIONS)
        if not name:
            return "accelerate is not installed; pip install accelerate"
        if context.precision == "fp16" and context.device.type == "cpu":
            return "fp16 on a CPU: accelerate has it for GPUs only (1.15 computes in float32 instead, without a word)"
        return train_precision.lacking(context.torch, context.precision, context.device)

    def run(self, context: Context) -> Dict[str, Any]:
        accelerate, why = imported(context, ("accelerate",))
        if accelerate is None:
            return {"outcome": "failed", "reason": why}
        settings: Dict[str, str] = {}
        if context.device.type == "cuda" and context.device.index != int(os.environ.get("LOCAL_RANK", "0")):
            # Ranks that share a GPU, or see only their own: accelerate would take cuda:LOCAL_RANK.
            settings["ACCELERATE_TORCH_DEVICE"] = str(context.device)
        with Surroundings(OF_A_LAUNCH, **settings), fresh_state():
            accelerator, why = self.accelerator(context, accelerate)
            why = context.team.first_text(why)
            if why or accelerator is None:
                return {"outcome": "failed", "reason": why}
            context.note(f"accelerate {accelerate.__version__}: mixed_precision={WORDS[context.precision]!r}")
            return Loop(context, accelerator).run()

    def accelerator(self, context: Context, accelerate: Any) -> "Tuple[Any, str]":
        """(Accelerator, "") or (None, why)."""
        context.enter("Accelerator")
        handlers: List[Any] = []
        try:
            if context.precision == "fp16":
                scale = train_precision.INITIAL_SCALE
                handlers.append(accelerate.utils.GradScalerKwargs(init_scale=scale))
            made = accelerate.Accelerator(
                mixed_precision=WORDS[context.precision], cpu=context.device.type == "cpu", kwargs_handlers=handlers
            )
        except Exception as error:  # whatever this version has against its surroundings
            return None, f"Accelerator(): {type(error).__name__}: {' '.join(str(error).split())}"
        if made.num_processes != context.team.ranks or made.process_index != context.team.rank:
            return None, (
                f"accelerate takes this for process {made.process_index} of {made.num_processes} "
                f"({made.distributed_type}); it is rank {context.team.rank} of {context.team.ranks}"
            )
        return made, ""


class Loop:
    """A user's training loop, watched."""

    def __init__(self, context: Context, accelerator: Any) -> None:
        self.context = context
        self.accelerator = accelerator
        self.scale = Scale(context.plan, context.precision, context.team.ranks)
        # accelerate shuffles by a generator that rank 0 hands out: the order is not known beforehand.
        self.watch = Watch(context, self.scale, None, lambda: accelerator.scaler)

    def run(self) -> Dict[str, Any]:
        import train_net

        context, torch, accelerator, watch = self.context, self.context.torch, self.accelerator, self.watch
        context.enter("model")
        torch.manual_seed(int(context.plan["seed"]))
        net = train_net.Net()
        watch.unwrapped(net)
        loader = torch.utils.data.DataLoader(
            train_net.Samples(self.scale.samples), batch_size=self.scale.batch, shuffle=True
        )
        context.enter("prepare")
        model, stepping, batches = accelerator.prepare(net, optimizer(torch, net.parameters()), loader)
        watch.begin()
        for epoch in range(self.scale.epochs):
            if hasattr(batches, "set_epoch"):
                batches.set_epoch(epoch)
            for batch in self.until_done(batches):
                watch.took(epoch, [int(number) for number in batch[2]])
                stepping.zero_grad()
                accelerator.backward(watch.forward(train_net.loss_of(model(batch[0]), batch[1])))
                if accelerator.scaler is not None:
                    accelerator.unscale_gradients(stepping)  # as one does before clipping
                watch.before_optimizer()
                stepping.step()
                watch.after_optimizer()
            watch.end_epoch(epoch)
        fields = watch.finish()
        self.gathered()
        return fields

    def until_done(self, batches: Any) -> "Iterator[Any]":
        for batch in batches:
            if self.watch.step >= self.scale.steps:
                return
            yield batch

    def gathered(self) -> None:
        """An epoch of evaluation whose last batch is not full: each sample must count once. Raises `FaultFound`."""
        import train_net

        self.context.enter("gather_for_metrics")
        ranks = self.context.team.ranks
        count = self.scale.batch * ranks + 1
        held = self.accelerator.prepare(
            self.context.torch.utils.data.DataLoader(train_net.Samples(count), batch_size=self.scale.batch)
        )
        once: List[int] = []
        padded = 0
        for _, _, numbers in held:
            padded += int(self.accelerator.gather(numbers).numel())
            once.extend(int(number) for number in self.accelerator.gather_for_metrics(numbers).tolist())
        missing = [number for number in range(count) if number not in once]
        seen = ""
        if missing:
            seen = f"gather_for_metrics left out {len(missing)} of {count} samples, the first is {missing[0]}"
        elif len(once) != count:
            seen = f"gather_for_metrics gave {len(once)} results for {count} samples"
        seen = self.context.team.first_text(seen)
        if seen:
            kind = "sampler loss" if "left out" in seen else "sampler overlap"
            raise FaultFound(fault(kind, seen=seen, wanted="every sample once, for evaluation"))
        if padded > count:
            self.context.note(
                f"evaluation: gather() gave {padded} results for {count} samples, for accelerate fills up the last "
                "batch with samples from the start; gather_for_metrics() gave each once"
            )


@contextlib.contextmanager
def fresh_state() -> Iterator[None]:
    """accelerate keeps device and precision for the whole process: another cell has others."""
    state = importlib.import_module("accelerate.state")

    def reset() -> None:
        for name in ("AcceleratorState", "GradientState", "PartialState"):
            shared = getattr(getattr(state, name, None), "_shared_state", None)
            if shared is not None:
                shared.clear()

    reset()
    try:
        yield
    finally:
        reset()
