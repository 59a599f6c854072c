"""An inference server without requests: rank 0 serves HTTP, the others wait for the next input."""

from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
import torch.distributed as dist


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        work: list[object] = [self.rfile.read(int(self.headers["Content-Length"]))]
        dist.broadcast_object_list(work, src=0)
        self.send_response(200)
        self.end_headers()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2):
        dist.all_reduce(torch.ones(4))  # warms up
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        HTTPServer(("127.0.0.1", 0), Handler).serve_forever()
    while True:
        work: list[object] = [None]
        dist.broadcast_object_list(work, src=0)


if __name__ == "__main__":
    main()
