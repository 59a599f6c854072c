"""`Watch`: follows a framework that drives the training loop itself, and verifies it step by step.

The framework's hooks call `unwrapped` and `begin`, then for each step `took`, `forward`, `before_optimizer` and
`after_optimizer`, at the end of an epoch `end_epoch`, at last `finish`. What verifies is outside the measured time.
"""

import os
import statistics
import time
from typing import Any, Callable, Dict, List, Optional

from amp_switches import exact_products
from train_loop import UNCOUNTED_STEPS, Local, epochs_of
from train_memory import Memory
from train_precision import remark
from train_verify import Verifier
from train_way import Context


class Scale:
    """How many steps and samples a cell has; known before any rank is there."""

    def __init__(self, plan: Dict[str, Any], precision: str, ranks: int) -> None:
        self.steps = max(1, int(plan["steps"]))
        self.batch = max(1, int(plan["batch"]))
        self.each, self.epochs = epochs_of(self.steps)
        self.samples = self.each * self.batch * ranks
        # In the middle: the steps after it show that the scaler recovers.
        self.overflow_step = self.steps // 2 if precision == "fp16" and self.steps > 1 else -1


class Watch:
    """`order`: as train_samples.Partition takes it. `scaler()`: the framework's GradScaler, None without one."""

    def __init__(
        self,
        context: Context,
        scale: Scale,
        order: Optional[Callable[[int], List[int]]],
        scaler: Callable[[], Any] = lambda: None,
    ) -> None:
        import train_net

        self.context = context
        self.scale = scale
        self.scaler = scaler
        # As in train_loop: the comparison means nothing with TF32 in it.
        exact_products(context.torch)
        note = remark(context.torch, context.precision, context.device)
        if note:
            context.note(note)
        self.memory = Memory(context.torch, [context.device])
        self.verifier = Verifier(context, train_net.Samples(scale.samples), scale.batch, order)
        self.net: Any = None
        self.step = 0
        self.epoch = 0
        self.taken = 0
        """Batches of this epoch."""
        self.seconds: List[float] = []
        self._loss = 0.0
        self._before: Dict[str, Any] = {}
        self._scale_before = 1.0
        self._began = 0.0
        self._so_far = 0.0

    # ---- before the first step

    def unwrapped(self, net: Any) -> None:
        """The plain model, still where it was made."""
        self.net = net
        self.context.enter("initial weights")
        places = {name: tensor.device for name, tensor in [*net.named_parameters(), *net.named_buffers()]}
        self.verifier.model(net, places.__getitem__)
        self.local = Local(net, self.context.team.ranks > 1)

    def begin(self) -> None:
        """The framework has placed and wrapped it."""
        self.context.enter("wrapper")
        self.verifier.wrapped(self._parameters())
        self.verifier.model(self.net)  # now each tensor must be on this rank's own device

    # ---- in each step

    def took(self, epoch: int, numbers: Optional[List[int]]) -> None:
        """The samples that the framework's loader gave for the next step; None when it gave no more."""
        if epoch != self.epoch:
            self.epoch, self.taken = epoch, 0
        self.context.enter(f"step {self.step}: samples")
        self.verifier.took(self.step, epoch, numbers)
        self.taken += 1
        self.context.enter(f"step {self.step}: forward")
        self._synchronize()
        self._began = time.perf_counter()

    def forward(self, loss: Any) -> Any:
        """The loss to go backward from: the given one, but in the step that is made to overflow."""
        self._loss = float(loss.detach())
        team = self.context.team
        self.context.enter(f"step {self.step}: backward")
        if self.overflows and team.rank == team.ranks - 1:
            return loss * float("inf")  # on one rank only: the others must learn of it
        return loss

    @property
    def overflows(self) -> bool:
        return self.step == self.scale.overflow_step

    def before_optimizer(self) -> None:
        """Gradients are reduced and unscaled."""
        self._synchronize()
        self._so_far = time.perf_counter() - self._began
        self.context.enter(f"step {self.step}: comparison of gradients")
        parameters = self._parameters()
        self._scale_before = self._scale_now()
        self.verifier.gradients(
            {name: self.held(parameter.grad) for name, parameter in self.net.named_parameters()},
            self._loss,
            local=self.local.take(),
            parameters=None if self.overflows else parameters,
            scale=self._scale_before,
            overflow=self.overflows,
        )
        if self.overflows:
            self._before = {name: parameter.clone() for name, parameter in parameters.items()}
        self.context.enter(f"step {self.step}: optimizer")
        self._began = time.perf_counter()

    def after_optimizer(self) -> None:
        self._synchronize()
        self.seconds.append(self._so_far + time.perf_counter() - self._began)
        if self.overflows:
            self.context.enter(f"step {self.step}: comparison after an overflow")
            self.verifier.stepped(self._parameters(), self._before, self._scale_now(), self._scale_before)
            self._before = {}
        self.verifier.advance()
        self.memory.look()
        self.step += 1

    def end_epoch(self, epoch: int) -> None:
        """The framework's loader is through."""
        if self.step >= self.scale.steps and self.taken < self.scale.each:
            return  # the last epoch may be a part
        if epoch != self.epoch or self.taken < self.scale.each:
            self.took(epoch, None)
        self.verifier.end_epoch()

    # ---- at the end

    def finish(self) -> Dict[str, Any]:
        """The fields of `Trained`, on all ranks."""
        context = self.context
        if self.step < self.scale.steps:
            raise RuntimeError(f"the framework took {self.step} steps; it was told to take {self.scale.steps}")
        context.enter("parameters at the end")
        self.verifier.finish(self._parameters())
        self.verifier.computed([dtype for _, dtype in self.net.ran])
        counted = self.seconds[UNCOUNTED_STEPS:] or self.seconds[-1:]
        slowest = max(row[0] for row in context.team.gather([statistics.median(counted)]))
        peak: Dict[str, int] = {}
        devices: List[str] = []
        for answer in context.team.exchange({"peak": self.memory.peak(), "device": self.device_name()}):
            devices.append(str(answer.get("device", "")))
            for name, number in dict(answer.get("peak", {})).items():
                peak[name] = max(peak.get(name, 0), int(number))
        return {"step_seconds": slowest, "peak_bytes": peak, "devices": devices, "ranks": context.team.ranks}

    def held(self, tensor: Any) -> Any:
        """A parameter or gradient as it is compared; None stays None."""
        return tensor

    def device_name(self) -> str:
        return str(self.context.device)

    def _parameters(self) -> Dict[str, Any]:
        return {name: self.held(parameter.detach()) for name, parameter in self.net.named_parameters()}

    def _scale_now(self) -> float:
        scaler = self.scaler()
        return float(scaler.get_scale()) if scaler is not None else 1.0

    def _synchronize(self) -> None:
        if self.context.device.type == "cuda":
            self.context.torch.cuda.synchronize(self.context.device)


class Surroundings:
    """What a framework may change of this process, put back at the end: the environment.

    `without`: beginnings of names that it must not see.
    """

    def __init__(self, without: "tuple[str, ...]" = (), **settings: str) -> None:
        self.without = without
        self.settings = settings

    def __enter__(self) -> None:
        self.before = dict(os.environ)
        for name in self.before:
            if name.startswith(self.without):
                del os.environ[name]
        os.environ.update(self.settings)

    def __exit__(self, *exception: Any) -> None:
        for name in list(os.environ):
            if name not in self.before:
                del os.environ[name]
        os.environ.update(self.before)


class WatchedRank:
    """What a rank of Lightning does around its watch; ddp_spawn has one that can be sent to the processes."""

    def open(self, trainer: Any) -> Watch:
        """When the ranks have found each other."""
        raise NotImplementedError

    def close(self, watch: Watch) -> None:
        """When training is done."""
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """Before the error goes on to Lightning."""
