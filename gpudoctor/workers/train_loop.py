"""The training loop that the ways of plain torch share, as users write it, with the verification between its lines."""

import statistics
import time
from typing import Any, Dict, Iterator, List, Optional

from amp_switches import exact_products
from train_memory import Memory
from train_precision import Precision, lacking, remark
from train_reference import optimizer
from train_samples import torch_order
from train_verify import Verifier
from train_way import Context

UNCOUNTED_STEPS = 3  # the first steps connect, allocate and compile


class Recipe:
    """What a way of plain torch does differently."""

    accumulate = 1
    """Batches a step; all but the last run under the wrapper's no_sync."""
    whole_batch = False
    """One process takes the global batch of all devices."""

    def lacking(self, context: Context) -> str:
        return lacking(context.torch, context.precision, context.device)

    def place(self, context: Context, model: Any) -> Any:
        """Bring the plain model where it trains."""
        return model.to(context.device)

    def device_of(self, context: Context, name: str) -> Any:
        """Where this parameter or buffer must be then."""
        return context.device

    def wrap(self, context: Context, model: Any) -> Any:
        return model

    def autocast(self, context: Context, precision: Precision) -> Any:
        """Around the forward pass."""
        return precision.autocast()

    def devices(self, context: Context) -> "List[Any]":
        """Those that this process uses."""
        return [context.device]

    def forward(self, context: Context, wrapped: Any, inputs: Any) -> Any:
        return wrapped(inputs)

    def after(self, context: Context, model: Any) -> None:
        """When all steps are done and verified: notes."""


def epochs_of(steps: int) -> "tuple[int, int]":
    """(steps an epoch, epochs): two epochs, where there are steps for them, so that set_epoch matters."""
    half = max(1, (steps + 1) // 2)
    return half, -(-steps // half)


def train(context: Context, recipe: Recipe) -> Dict[str, Any]:
    """One cell. On all ranks: the fields of `Trained`. Raises `FaultFound` on all ranks alike."""
    return _Run(context, recipe).run()


class _Run:
    def __init__(self, context: Context, recipe: Recipe) -> None:
        self.context = context
        self.recipe = recipe
        self.torch = context.torch
        self.team = context.team
        self.plan = context.plan
        self.steps = max(1, int(self.plan["steps"]))
        self.batch = max(recipe.accumulate, int(self.plan["batch"]))
        if recipe.whole_batch:
            self.batch *= max(1, int(self.plan["world_size"]))
        self.batch -= self.batch % recipe.accumulate
        self.each, self.epochs = epochs_of(self.steps)
        self.overflow_step = self.steps // 2 if context.precision == "fp16" and self.steps > 1 else -1
        self.seconds: List[float] = []

    def run(self) -> Dict[str, Any]:
        import train_net

        context, torch = self.context, self.torch
        # The comparison means nothing with TF32 in it, and sums must come in one order.
        exact_products(torch)
        if context.device.type == "cpu":
            torch.set_num_threads(1)  # the model is too small for more, and the ranks share the cores
        context.enter("model")
        self.precision = Precision(torch, context.precision, context.device)
        note = remark(torch, context.precision, context.device)
        if note:
            context.note(note)
        seed = int(self.plan["seed"])
        samples = train_net.Samples(self.each * self.batch * self.team.ranks)
        self.loss_of = train_net.loss_of
        self.verifier = Verifier(context, samples, self.batch, torch_order(torch, len(samples), seed))
        self.verifier.reference.gradients([0])  # what the first backward pass loads is not the cell's memory
        self.memory = Memory(torch, self.recipe.devices(context))
        devices: List[str] = []
        for answer in self.team.exchange({"devices": [str(one) for one in self.recipe.devices(context)]}):
            devices.extend(str(one) for one in answer.get("devices", ()))
        context.measured["devices"] = devices
        torch.manual_seed(seed)
        self.net = self.recipe.place(context, train_net.Net())
        context.enter("initial weights")
        self.verifier.model(self.net, lambda name: self.recipe.device_of(context, name))
        self.local = Local(self.net, self.team.ranks > 1)
        context.enter("wrapper")
        self.wrapped = self.recipe.wrap(context, self.net)
        self.verifier.wrapped(self.parameters())
        self.optimizer = optimizer(torch, self.wrapped.parameters())
        sampler = torch.utils.data.DistributedSampler(
            samples, num_replicas=self.team.ranks, rank=self.team.rank, shuffle=True, seed=seed
        )
        loader = torch.utils.data.DataLoader(samples, batch_size=self.batch, sampler=sampler)
        self.epoch_by_epoch(sampler, loader)
        context.enter("parameters at the end")
        self.verifier.finish(self.parameters())
        self.verifier.computed([dtype for _, dtype in self.net.ran])
        self.recipe.after(context, self.net)
        return self.fields()

    def epoch_by_epoch(self, sampler: Any, loader: Any) -> None:
        step = 0
        for epoch in range(self.epochs):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            batches = iter(loader)
            for _ in range(min(self.each, self.steps - step)):
                self.one_step(step, epoch, batches)
                step += 1
            if step % self.each == 0:
                self.verifier.end_epoch()

    def one_step(self, step: int, epoch: int, batches: "Iterator[Any]") -> None:
        context = self.context
        context.enter(f"step {step}: samples")
        batch = next(batches, None)
        self.verifier.took(step, epoch, None if batch is None else [int(number) for number in batch[2]])
        assert batch is not None  # the verifier lets no rank go on without samples
        overflow = step == self.overflow_step
        self.synchronize()
        began = time.perf_counter()
        loss, scale = self.backward(step, batch, overflow)
        self.synchronize()
        seconds = time.perf_counter() - began
        context.enter(f"step {step}: comparison of gradients")
        self.verifier.gradients(
            self.gradients(),
            loss,
            local=self.local.take(),
            parameters=self.whole() if not overflow else None,
            scale=scale,
            overflow=overflow,
        )
        before = self.copies() if overflow else {}
        context.enter(f"step {step}: optimizer")
        began = time.perf_counter()
        self.optimizer_step()
        self.synchronize()
        self.seconds.append(seconds + time.perf_counter() - began)
        if overflow:
            context.enter(f"step {step}: comparison after an overflow")
            self.verifier.stepped(self.parameters(), before, self.precision.scale(), scale)
        self.verifier.advance()
        self.memory.look()

    def backward(self, step: int, batch: Any, overflow: bool) -> "tuple[float, float]":
        """Forward and backward of all batches of the step -> the loss of this rank, the scale of its gradients."""
        context, scaler, parts = self.context, self.precision.scaler, self.recipe.accumulate
        device = self.recipe.devices(context)[0]
        inputs, labels = batch[0].to(device), batch[1].to(device)
        self.optimizer.zero_grad()
        scale = self.precision.scale()
        total = 0.0
        for part in range(parts):
            own = slice(part * self.batch // parts, (part + 1) * self.batch // parts)
            context.enter(f"step {step}: forward")
            with _no_sync(self.wrapped, part + 1 < parts):
                with self.recipe.autocast(context, self.precision):
                    outputs = self.recipe.forward(context, self.wrapped, inputs[own])
                    loss = self.loss_of(outputs, labels[own].to(outputs.device)) / parts
                total += float(loss.detach())
                if overflow and self.team.rank == self.team.ranks - 1:
                    loss = loss * float("inf")  # on one rank only: the others must learn of it
                context.enter(f"step {step}: backward")
                (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        return total, scale

    def optimizer_step(self) -> None:
        scaler = self.precision.scaler
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()

    # ---- the model's tensors, whole and by plain names (the wrappers keep the plain model's own)

    def parameters(self) -> Dict[str, Any]:
        return {name: full(parameter.detach()) for name, parameter in self.net.named_parameters()}

    def whole(self) -> Optional[Dict[str, Any]]:
        """The parameters where each rank has all of them; a sharded model's only now and then: that is an exchange."""
        parameters = dict(self.net.named_parameters())
        if not any(hasattr(parameter, "full_tensor") for parameter in parameters.values()):
            return parameters
        return self.parameters() if self.verifier.wants_parameters() else None

    def gradients(self) -> Dict[str, Optional[Any]]:
        return {
            name: None if parameter.grad is None else full(parameter.grad)
            for name, parameter in self.net.named_parameters()
        }

    def copies(self) -> Dict[str, Any]:
        return {name: tensor.clone() for name, tensor in self.parameters().items()}

    def synchronize(self) -> None:
        for device in self.recipe.devices(self.context):
            if device.type == "cuda":
                self.torch.cuda.synchronize(device)

    def fields(self) -> Dict[str, Any]:
        """Of `Trained`, over all ranks."""
        counted = self.seconds[UNCOUNTED_STEPS:] or self.seconds[-1:]
        slowest = max(row[0] for row in self.team.gather([statistics.median(counted)]))
        peak: Dict[str, int] = {}
        for answer in self.team.exchange({"peak": self.memory.peak()}):
            for name, number in dict(answer.get("peak", {})).items():
                peak[name] = max(peak.get(name, 0), int(number))
        return {"step_seconds": slowest, "peak_bytes": peak, "ranks": self.team.ranks}


class Local:
    """This rank's gradients before a wrapper reduces them. Hooks on the parameters run before DDP's, which is on
    autograd's accumulation; they keep copies and change nothing.
    """

    def __init__(self, model: Any, wanted: bool) -> None:
        self.sums: Dict[str, Any] = {}
        if wanted:
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    parameter.register_hook(self._keeper(name))

    def take(self) -> Optional[Dict[str, Any]]:
        """Since the last call; None when there are none."""
        taken, self.sums = self.sums, {}
        return taken or None

    def _keeper(self, name: str) -> Any:
        def keep(gradient: Any) -> None:
            held = gradient.detach().clone()
            self.sums[name] = self.sums[name] + held if name in self.sums else held

        return keep


def full(tensor: Any) -> Any:
    """The whole of a tensor that may be sharded: then all ranks must ask for it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _no_sync(wrapped: Any, wanted: bool) -> Any:
    import contextlib

    return wrapped.no_sync() if wanted else contextlib.nullcontext()
