"""A model split over two devices of one process, and fed two micro-batches one after the other, as pipelines do."""

from typing import Any, Dict, List

from train_blame import fault
from train_loop import Recipe, train
from train_way import Context, FaultFound, Way

SECOND_STAGE = ("blocks.1.", "norm.", "head.")  # train_net.Net.tail
MICRO_BATCHES = 2
COPY_ELEMENTS = 1 << 20  # 4 MiB: more than one packet of any link, and quick


class Split(Recipe, Way):
    """The first stage on one device, the second on another."""

    name = "split"
    one_process = True
    whole_batch = True

    def run(self, context: Context) -> Dict[str, Any]:
        first, second = self.devices(context)
        if first == second:
            what = "one GPU" if first.type == "cuda" else "no GPU"
            context.note(f"there is {what}: both stages ran on {first}, a stand-in; no copy between devices was tested")
        else:
            context.enter(f"copies between {first} and {second}")
            copies_arrive(context, first, second)
            copies_arrive(context, second, first)
        return train(context, self)

    def devices(self, context: Context) -> List[Any]:
        torch = context.torch
        if context.device.type == "cuda" and torch.cuda.device_count() > 1:
            return [torch.device("cuda", 0), torch.device("cuda", 1)]
        return [context.device, context.device]

    def place(self, context: Context, model: Any) -> Any:
        first, second = self.devices(context)
        model.to(first)
        for part in (model.blocks[1], model.norm, model.head):
            part.to(second)
        return model

    def device_of(self, context: Context, name: str) -> Any:
        return self.devices(context)[int(name.startswith(SECOND_STAGE))]

    def forward(self, context: Context, wrapped: Any, inputs: Any) -> Any:
        _, second = self.devices(context)
        done: List[Any] = []
        waiting: List[Any] = []
        # The first stage works on micro-batch n + 1 while the second has n; they come out in the order they went in.
        for micro in inputs.chunk(MICRO_BATCHES):
            waiting.append(wrapped.front(micro).to(second))
            if len(waiting) > 1:
                done.append(wrapped.tail(waiting.pop(0)))
        done.extend(wrapped.tail(one) for one in waiting)
        outputs = context.torch.cat(done)
        if outputs.device != second:
            raise FaultFound(
                fault("device", parameter="head.weight", seen=f"outputs on {outputs.device}", wanted=str(second))
            )
        return outputs


def copies_arrive(context: Context, source: Any, target: Any) -> None:
    """Raises `FaultFound` when what is copied between the devices is not what arrives."""
    torch = context.torch
    generator = torch.Generator().manual_seed(1)
    sent = torch.randint(-(1 << 31), 1 << 31, (COPY_ELEMENTS,), dtype=torch.int64, generator=generator)
    arrived = sent.to(source).to(target).cpu()
    wrong = int((arrived != sent).sum())
    if wrong:
        raise FaultFound(
            fault(
                "device",
                seen=f"{wrong} of {COPY_ELEMENTS} numbers were changed by a copy from {source} to {target}",
                wanted="what was sent",
            )
        )
