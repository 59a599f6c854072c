"""The rank program of train-test with a fault planted in torch: FAULT,FAULT,... JSON (as workers/train.py's argument).

One fault a cell of the launch, "none" for a healthy one; each is taken out again after its cell. RANK 1 is the one
that is wrong where one is. Nothing of the rank program itself is changed: a fault patches torch, or what a user's own
model would do.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

WORKERS = Path(__file__).resolve().parent.parent.parent / "gpudoctor" / "workers"
MARK = b"@gpudoctor "
CULPRIT = 1
STEP = 7
PARAMETER = "blocks.1.weight"


def rank() -> int:
    return int(os.environ["RANK"])


@contextlib.contextmanager
def on_model(change: Callable[[Any], None]) -> Iterator[None]:
    """Do something with the model that a user's script builds: the one built after torch.manual_seed."""
    import torch
    import train_net

    seeded: list[bool] = []
    original_seed, original_init = torch.manual_seed, train_net.Net.__init__

    def seed(number: int) -> Any:
        seeded.append(True)
        return original_seed(number)

    def init(self: Any) -> None:
        original_init(self)
        if seeded:
            seeded.clear()
            change(self)

    with mock.patch.object(torch, "manual_seed", seed), mock.patch.object(train_net.Net, "__init__", init):
        yield


def parameter_of(model: Any) -> Any:
    return dict(model.named_parameters())[PARAMETER]


@contextlib.contextmanager
def other_seed() -> Iterator[None]:
    import torch

    original = torch.manual_seed
    with mock.patch.object(torch, "manual_seed", lambda seed: original(seed + (rank() == CULPRIT))):
        yield


@contextlib.contextmanager
def no_set_epoch() -> Iterator[None]:
    import torch

    with mock.patch.object(torch.utils.data.DistributedSampler, "set_epoch", lambda self, epoch: None):
        yield


@contextlib.contextmanager
def no_set_epoch_on_one() -> Iterator[None]:
    with no_set_epoch() if rank() == CULPRIT else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def no_sampler() -> Iterator[None]:
    import torch

    def sampler(samples: Any, **options: Any) -> Any:
        return torch.utils.data.SequentialSampler(samples)

    with mock.patch.object(torch.utils.data, "DistributedSampler", sampler):
        yield


@contextlib.contextmanager
def other_sampler_seed() -> Iterator[None]:
    import torch

    original = torch.utils.data.DistributedSampler

    def sampler(samples: Any, **options: Any) -> Any:
        return original(samples, **{**options, "seed": options["seed"] + (rank() == CULPRIT)})

    with mock.patch.object(torch.utils.data, "DistributedSampler", sampler):
        yield


@contextlib.contextmanager
def short_sampler() -> Iterator[None]:
    """One rank's sampler ends a batch early."""
    import torch

    original = torch.utils.data.DistributedSampler.__iter__

    def iterate(self: Any) -> Any:
        return iter(list(original(self))[: -8 if rank() == CULPRIT else None])

    with mock.patch.object(torch.utils.data.DistributedSampler, "__iter__", iterate):
        yield


@contextlib.contextmanager
def on_ddp(before: Callable[[Any], None] | None = None, after: Callable[[Any], None] | None = None) -> Iterator[None]:
    from torch.nn.parallel import DistributedDataParallel

    original = DistributedDataParallel.__init__

    def init(self: Any, module: Any, *arguments: Any, **options: Any) -> None:
        if before is not None:
            before(module)
        original(self, module, *arguments, **options)
        if after is not None:
            after(self)

    with mock.patch.object(DistributedDataParallel, "__init__", init):
        yield


@contextlib.contextmanager
def layer_not_synchronised() -> Iterator[None]:
    from torch.nn.parallel import DistributedDataParallel

    def ignore(module: Any) -> None:
        ignore_for: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore_for(module, [PARAMETER])

    with on_ddp(before=ignore):
        yield


@contextlib.contextmanager
def no_wrapper() -> Iterator[None]:
    """The script never wrapped its model."""
    import torch

    with mock.patch.object(torch.nn.parallel, "DistributedDataParallel", lambda model, **options: model):
        yield


@contextlib.contextmanager
def reduced_by(weigh: Callable[[Any], Any]) -> Iterator[None]:
    """DDP's buckets are summed up after `weigh`."""
    import torch.distributed

    def hook(state: Any, bucket: Any) -> Any:
        work: Any = torch.distributed.all_reduce(weigh(bucket.buffer()), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    hook.__annotations__ = {}  # DDP refuses others than its own
    with on_ddp(after=lambda wrapped: wrapped.register_comm_hook(None, hook)):
        yield


@contextlib.contextmanager
def sums() -> Iterator[None]:
    """The reduction adds and does not divide."""
    with reduced_by(lambda own: own):
        yield


@contextlib.contextmanager
def weighted_reduction() -> Iterator[None]:
    """The reduction counts one rank twice: no factor of anybody's gradient."""
    with reduced_by(lambda own: own * (2.0 if rank() == CULPRIT else 1.0) / int(os.environ["WORLD_SIZE"])):
        yield


@contextlib.contextmanager
def gradient_before(change: Callable[[Any], Any]) -> Iterator[None]:
    """One rank computes a wrong gradient at one step, before it is reduced."""
    calls = [0]

    def hook(gradient: Any) -> Any:
        calls[0] += 1
        return change(gradient) if calls[0] == STEP + 1 and rank() == CULPRIT else gradient

    with on_model(lambda model: parameter_of(model).register_hook(hook)):
        yield


@contextlib.contextmanager
def corrupted_before() -> Iterator[None]:
    with gradient_before(lambda gradient: gradient + 0.5):
        yield


@contextlib.contextmanager
def nan_before() -> Iterator[None]:
    with gradient_before(lambda gradient: gradient * float("nan")):
        yield


@contextlib.contextmanager
def after_backward(change: Callable[[Any], None], step: int = STEP) -> Iterator[None]:
    """Change the model on one rank after the backward pass of one step."""
    import torch

    models: list[Any] = []
    original: Any = torch.Tensor.backward
    calls = [0]

    def backward(self: Any, *arguments: Any, **options: Any) -> Any:
        result = original(self, *arguments, **options)
        calls[0] += 1
        if calls[0] == step + 1 and rank() == CULPRIT:
            with torch.no_grad():
                change(models[0])
        return result

    with on_model(models.append), mock.patch.object(torch.Tensor, "backward", backward):
        yield


@contextlib.contextmanager
def corrupted_after() -> Iterator[None]:
    with after_backward(lambda model: parameter_of(model).grad.add_(0.5)):
        yield


@contextlib.contextmanager
def corrupted_a_little() -> Iterator[None]:
    """One bit of one number: far below any tolerance."""

    def change(model: Any) -> None:
        gradient = parameter_of(model).grad
        gradient[3, 3] *= 1 + 2**-20

    with after_backward(change):
        yield


@contextlib.contextmanager
def corrupted_parameter() -> Iterator[None]:
    with after_backward(lambda model: parameter_of(model)[2, 2].add_(1.0)):
        yield


@contextlib.contextmanager
def overflow_taken_everywhere() -> Iterator[None]:
    import torch

    with mock.patch.object(torch.amp.GradScaler, "step", lambda self, optimizer: optimizer.step()):
        yield


@contextlib.contextmanager
def overflow_taken_on_one() -> Iterator[None]:
    with overflow_taken_everywhere() if rank() == CULPRIT else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def scale_kept() -> Iterator[None]:
    import torch

    original = torch.amp.GradScaler.update
    with mock.patch.object(torch.amp.GradScaler, "update", lambda self: original(self, self.get_scale())):
        yield


@contextlib.contextmanager
def scaled_twice() -> Iterator[None]:
    import torch

    original = torch.amp.GradScaler.scale
    with mock.patch.object(torch.amp.GradScaler, "scale", lambda self, loss: original(self, loss * 2)):
        yield


@contextlib.contextmanager
def never_unscaled() -> Iterator[None]:
    import torch

    original = torch.amp.GradScaler.unscale_

    def unscale(self: Any, optimizer: Any) -> None:
        kept = [one.grad.clone() for group in optimizer.param_groups for one in group["params"]]
        original(self, optimizer)
        for group in optimizer.param_groups:
            for one in group["params"]:
                one.grad.copy_(kept.pop(0))

    with mock.patch.object(torch.amp.GradScaler, "unscale_", unscale):
        yield


@contextlib.contextmanager
def loss_times(factor: float) -> Iterator[None]:
    import torch

    original: Any = torch.Tensor.backward

    def backward(self: Any, *arguments: Any, **options: Any) -> Any:
        return original(self * factor, *arguments, **options)

    with mock.patch.object(torch.Tensor, "backward", backward):
        yield


@contextlib.contextmanager
def loss_doubled() -> Iterator[None]:
    with loss_times(2.0):
        yield


@contextlib.contextmanager
def loss_doubled_on_one() -> Iterator[None]:
    with loss_times(2.0) if rank() == CULPRIT else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def other_dtype() -> Iterator[None]:
    import torch

    def change(model: Any) -> None:
        if rank() == CULPRIT:
            model.blocks[1].weight = torch.nn.Parameter(model.blocks[1].weight.detach().double())

    with on_model(change):
        yield


@contextlib.contextmanager
def other_device() -> Iterator[None]:
    """A parameter that stayed on the meta device, as one is that was never loaded."""
    import torch

    def change(model: Any) -> None:
        def to(device: Any) -> Any:
            if rank() == CULPRIT:
                model.blocks[1].weight = torch.nn.Parameter(model.blocks[1].weight.detach().to("meta"))
            return model

        model.to = to

    with on_model(change):
        yield


@contextlib.contextmanager
def no_autocast() -> Iterator[None]:
    """One rank computes in float32, though its torch can do other."""
    import torch
    from train_precision import Precision

    off = mock.patch.object(Precision, "autocast", lambda self: torch.autocast(self.device.type, enabled=False))
    with off if rank() == CULPRIT else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """A layer that gets no gradient on any rank."""
    with on_model(lambda model: model.blocks[1].weight.requires_grad_(False)):
        yield


@contextlib.contextmanager
def no_sync_everywhere() -> Iterator[None]:
    """The script forgot that its last batch must synchronise."""
    from torch.nn.parallel import DistributedDataParallel

    def never(self: Any, *inputs: Any, **options: Any) -> Any:
        with self.no_sync():
            return original(self, *inputs, **options)

    original: Any = DistributedDataParallel.forward
    with mock.patch.object(DistributedDataParallel, "forward", never):
        yield


FAULTS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "none": contextlib.nullcontext,
    "other seed": other_seed,
    "no set_epoch": no_set_epoch,
    "no set_epoch on one": no_set_epoch_on_one,
    "no sampler": no_sampler,
    "other sampler seed": other_sampler_seed,
    "short sampler": short_sampler,
    "layer not synchronised": layer_not_synchronised,
    "no wrapper": no_wrapper,
    "no_sync everywhere": no_sync_everywhere,
    "sums": sums,
    "weighted reduction": weighted_reduction,
    "corrupted before": corrupted_before,
    "corrupted after": corrupted_after,
    "corrupted a little": corrupted_a_little,
    "nan before": nan_before,
    "corrupted parameter": corrupted_parameter,
    "overflow taken": overflow_taken_everywhere,
    "overflow taken on one": overflow_taken_on_one,
    "scale kept": scale_kept,
    "scaled twice": scaled_twice,
    "never unscaled": never_unscaled,
    "loss doubled": loss_doubled,
    "loss doubled on one": loss_doubled_on_one,
    "other dtype": other_dtype,
    "other device": other_device,
    "no autocast": no_autocast,
    "frozen": frozen,
}


def main() -> None:
    reply = os.dup(1)
    os.dup2(2, 1)
    sys.path.insert(0, str(WORKERS))
    import train

    sys.path.pop(0)
    planted = iter(sys.argv[1].split(","))
    original = train.Cells.run

    def run(self: Any, name: str, precision: str) -> None:
        with FAULTS[next(planted)]():
            original(self, name, precision)

    def say(message: Any) -> None:
        os.write(reply, MARK + json.dumps(message).encode() + b"\n")

    with mock.patch.object(train.Cells, "run", run):
        train.main(say, sys.argv[2:])
    os._exit(0)


if __name__ == "__main__":
    main()
