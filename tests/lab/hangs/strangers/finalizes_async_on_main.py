"""A hook after saving runs on the first process, which waits there until the asynchronous save is finalized by all
(miles pull request 1763)."""

# mypy: ignore-errors
import sys
import threading
import time

import torch
import torch.distributed as dist

HOOK = None if "--healthy" in sys.argv else "tools/convert.sh"


class AsyncCalls:
    """Saves that are under way on this process."""

    def __init__(self) -> None:
        self.calls = []

    def schedule(self, state) -> None:
        thread = threading.Thread(target=time.sleep, args=(0.4,))
        thread.start()
        self.calls.append(thread)

    def maybe_finalize(self, blocking: bool = False) -> int:
        done = 0
        while self.calls:
            alive = torch.tensor([0 if blocking else int(self.calls[0].is_alive())])
            dist.all_reduce(alive)
            if alive.item():
                break
            self.calls.pop(0).join()
            done += 1
        return done


class Actor:
    def __init__(self, hook: str | None) -> None:
        self.calls, self.hook, self._rank = AsyncCalls(), hook, dist.get_rank()

    def save_model(self, step: int, weight) -> None:
        self.calls.maybe_finalize(blocking=True)
        self.calls.schedule({"weight": weight, "step": step})
        if self.hook is None or self._rank > 0:
            return
        # The hook must see what has been written.
        self.calls.maybe_finalize(blocking=True)
        print("would run", self.hook, flush=True)

    def train(self, step: int, weight) -> None:
        dist.broadcast(weight, 0)
        weight += 0.1


def main() -> None:
    dist.init_process_group("gloo")
    rank, actor, weight = dist.get_rank(), Actor(HOOK), torch.zeros(5)
    for step in range(1000):
        time.sleep(0.4)
        print(f"rank {rank} step {step}", flush=True)
        actor.train(step, weight)
        if step == 4 or step % 8 == 7:
            actor.save_model(step, weight)


if __name__ == "__main__":
    main()
