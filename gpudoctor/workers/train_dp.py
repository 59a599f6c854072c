"""nn.DataParallel: one process, a thread for each GPU; its costs are told with the result."""

import contextlib
import time
from typing import Any, Dict, List

from train_loop import Recipe, train
from train_precision import DTYPES, Precision, lacking
from train_way import Context, Way

TIMED = 10
MIB = 1 << 20


class DataParallel(Recipe, Way):
    """The model is copied to all GPUs in each forward pass, and its gradients are added up on the first."""

    name = "dp"
    one_process = True
    whole_batch = True

    def lacking(self, context: Context) -> str:
        torch = context.torch
        if context.device.type != "cuda":
            return "DataParallel needs two GPUs; there is none, and without GPUs it calls the model itself, unchanged"
        if torch.cuda.device_count() < 2:
            return "DataParallel needs two GPUs; there is one, and it calls the model itself then, unchanged"
        if context.launch.get("ranks_share_gpu"):
            return "DataParallel needs a GPU for each part of the batch; this test shares one"
        return lacking(torch, context.precision, context.device)

    def run(self, context: Context) -> Dict[str, Any]:
        return train(context, self)

    def devices(self, context: Context) -> List[Any]:
        count = min(max(2, int(context.plan["world_size"])), context.torch.cuda.device_count())
        return [context.torch.device("cuda", index) for index in range(count)]

    def wrap(self, context: Context, model: Any) -> Any:
        if context.precision != "fp32":
            # parallel_apply starts its threads without the dtype of an autocast around it (facts: read in 2.1 to 2.15).
            model.inside = ("cuda", Precision(context.torch, context.precision, context.device).dtype)
        return context.torch.nn.DataParallel(model, device_ids=[device.index for device in self.devices(context)])

    def autocast(self, context: Context, precision: Precision) -> Any:
        return contextlib.nullcontext()  # it is inside forward

    def after(self, context: Context, model: Any) -> None:
        context.enter("costs of DataParallel")
        torch, devices = context.torch, self.devices(context)
        first, *others = [torch.cuda.max_memory_allocated(device) for device in devices]
        context.note(f"{devices[0]} allocated {first / MIB:.1f} MiB at most, the others {max(others) / MIB:.1f} MiB")
        wrapped = torch.nn.DataParallel(model, device_ids=[device.index for device in devices])
        inputs = torch.randn(8 * len(devices), model.embed.in_features, device=devices[0])
        parallel, alone = timed(torch, wrapped, inputs, devices), timed(torch, model, inputs, devices)
        context.note(
            f"with this tiny model a forward and backward pass takes {parallel / alone:.1f} times as long as on one "
            "GPU: DataParallel copies the model in each of them; DistributedDataParallel does not"
        )
        model.inside = None
        if context.precision == "bf16":
            model.ran.clear()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                wrapped(inputs)
            got = sorted({dtype for _, dtype in model.ran} - {DTYPES["bf16"]})
            if got:
                context.note(
                    f"with autocast(dtype=bfloat16) around DataParallel its replicas compute in {got[0]}; put autocast "
                    "inside forward, as this test does"
                )


def timed(torch: Any, model: Any, inputs: Any, devices: List[Any]) -> float:
    """Seconds of a forward and a backward pass, the best of some."""
    best = float("inf")
    for _ in range(TIMED):
        began = time.perf_counter()
        model(inputs).float().sum().backward()
        for device in devices:
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - began)
    return best
