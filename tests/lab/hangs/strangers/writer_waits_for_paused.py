"""The lock for writing weights waits for readers that stand still until the weights are there (sglang pull request
22290)."""

# mypy: ignore-errors
import threading
import time

import torch
import torch.distributed as dist


class RWLock:
    def __init__(self) -> None:
        self._cond = threading.Condition()
        self._readers = 0

    def acquire_read(self) -> None:
        with self._cond:
            self._readers += 1

    def release_read(self) -> None:
        with self._cond:
            self._readers -= 1
            self._cond.notify_all()

    def acquire_write(self) -> None:
        with self._cond:
            while self._readers > 0:
                self._cond.wait()


class Generator:
    def __init__(self) -> None:
        self.model_update_lock = RWLock()
        self.is_pause_cond = threading.Condition()
        self.is_pause = False
        threading.Thread(target=self._requests, daemon=True, name="requests").start()

    def _requests(self) -> None:
        while True:
            self.model_update_lock.acquire_read()
            with self.is_pause_cond:
                self.is_pause_cond.wait_for(lambda: not self.is_pause)
            time.sleep(0.05)
            self.model_update_lock.release_read()
            time.sleep(0.05)

    def pause_generation(self, drain: bool) -> None:
        with self.is_pause_cond:
            self.is_pause = True
        time.sleep(0.0 if drain else 0.3)

    def continue_generation(self) -> None:
        with self.is_pause_cond:
            self.is_pause = False
            self.is_pause_cond.notify_all()

    def update_weights(self, step: int, pause: bool) -> None:
        if pause:
            self.pause_generation(drain=False)
        self.model_update_lock.acquire_write()
        self.continue_generation()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    generator = Generator()
    for step in range(1000):
        time.sleep(0.2)
        weights = torch.ones(16)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        generator.update_weights(step, pause=rank == 1 and step > 4)


if __name__ == "__main__":
    main()
