"""A tracker waits for the thread that sends its metrics, which tries again and again (wandb issue 5601)."""

import json
import queue
import socket
import threading
import time
import urllib.error
import urllib.request

import torch
import torch.distributed as dist


class Tracker:
    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]  # where nobody listens any more
        self.records: queue.Queue[dict[str, float] | None] = queue.Queue()
        self.sender = threading.Thread(target=self._send_all, name="SenderThread")
        self.sender.start()

    def log(self, **metrics: float) -> None:
        self.records.put(metrics)

    def _send_all(self) -> None:
        while (record := self.records.get()) is not None:
            self._post(json.dumps(record).encode())

    def _post(self, body: bytes) -> None:
        delay = 0.5
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", body, timeout=5).close()
                return
            except urllib.error.URLError:
                delay = min(delay * 3, 60.0)
                time.sleep(delay)

    def finish(self) -> None:
        self.records.put(None)
        self.sender.join()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tracker = Tracker() if rank == 0 else None
    weights = torch.ones(100)
    for step in range(8):
        time.sleep(0.3)
        dist.all_reduce(weights)
        if tracker:
            tracker.log(norm=float(weights.norm()))
        print(f"rank {rank} step {step}", flush=True)
    if tracker:
        tracker.finish()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
