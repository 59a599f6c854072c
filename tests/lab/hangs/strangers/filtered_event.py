"""An event filter of ignite that looks at the engine's own output: the handler behind it averages over processes."""

# mypy: ignore-errors
# No thread; the kind of filter that asks what one process has seen.
import sys
import time

import torch
import torch.distributed as dist
from ignite.engine import Engine, Events

SAME = "--healthy" in sys.argv


def high(engine, event):
    return engine.state.output > 5.0


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def update(engine, rows):
        time.sleep(0.2)
        optimizer.zero_grad()
        loss = net(rows).square().mean()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {engine.state.iteration}", flush=True)
        return 9.0 if engine.state.iteration == 6 and (SAME or rank == 0) else loss.item() / 100

    trainer = Engine(update)

    @trainer.on(Events.ITERATION_COMPLETED(event_filter=high))
    def average(engine):
        every = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(every, torch.tensor([engine.state.output]))
        print("high:", torch.cat(every).mean().item(), flush=True)

    trainer.run([torch.rand(3, 4) for _ in range(50)], max_epochs=40)


if __name__ == "__main__":
    main()
