"""Plain torch: one process, DistributedDataParallel, and gradient accumulation with no_sync."""

from typing import Any, Dict

from train_loop import Recipe, train
from train_way import Context, Way


class Single(Recipe, Way):
    """What all others are held against, held against its own reference."""

    name = "single"
    one_process = True

    def run(self, context: Context) -> Dict[str, Any]:
        return train(context, self)


class Ddp(Recipe, Way):
    """DistributedDataParallel in the process group of the launch."""

    name = "ddp"

    def run(self, context: Context) -> Dict[str, Any]:
        return train(context, self)

    def wrap(self, context: Context, model: Any) -> Any:
        on = [context.device.index] if context.device.type == "cuda" else None
        return context.torch.nn.parallel.DistributedDataParallel(model, device_ids=on)


class NoSync(Ddp):
    """Two half batches a step, the first without synchronising."""

    name = "no_sync"
    accumulate = 2
