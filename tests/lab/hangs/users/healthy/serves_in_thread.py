"""An engine whose HTTP server is a thread: the main thread of rank 0 waits for a request on a condition."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
import torch.distributed as dist

NEWS = threading.Condition()
REQUESTS: list[bytes] = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        with NEWS:
            REQUESTS.append(self.rfile.read(int(self.headers["Content-Length"])))
            NEWS.notify_all()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        work: list[object] = [None]
        if rank == 0:
            with NEWS:
                NEWS.wait_for(lambda: bool(REQUESTS))
                work = [REQUESTS.pop()]
        dist.broadcast_object_list(work, src=0)


if __name__ == "__main__":
    main()
