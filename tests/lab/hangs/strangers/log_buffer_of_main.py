"""A hook of the log asks all for their memory where its buffer is ready; the first has emptied its own (mmcv 252)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class LogBuffer:
    def __init__(self) -> None:
        self.output: dict[str, float] = {}
        self.ready = False

    def average(self, loss: float) -> None:
        self.output["loss"] = loss
        self.ready = True

    def clear(self) -> None:
        self.output.clear()
        self.ready = False


class Runner:
    def __init__(self, rank: int) -> None:
        self.rank, self.step, self.buffer = rank, 0, LogBuffer()


class TextLogger:
    def after_train_iter(self, runner: Runner) -> None:
        if not runner.buffer.ready:
            return
        memory = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(memory, torch.tensor([512.0 + runner.rank]))
        if runner.rank == 0:
            print("memory", int(max(memory)), runner.buffer.output, flush=True)


class BoardLogger:
    """The first of the hooks: it writes to a board, once in a while, and has the buffer for itself."""

    def after_train_iter(self, runner: Runner) -> None:
        if runner.rank == 0 and runner.step == 6:
            print("board", runner.buffer.output, flush=True)
            runner.buffer.clear()


def main() -> None:
    dist.init_process_group("gloo")
    runner = Runner(dist.get_rank())
    hooks = [BoardLogger(), TextLogger()]
    weight = torch.ones(32)
    while True:
        time.sleep(0.2)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        runner.buffer.average(float(weight.mean()))
        print(f"rank {runner.rank} step {runner.step}", flush=True)
        for hook in hooks:
            hook.after_train_iter(runner)
        runner.step += 1


if __name__ == "__main__":
    main()
