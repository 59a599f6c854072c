"""A server of shards promises more bytes than it sends, and keeps the connection."""

# mypy: ignore-errors
# No thread: after downloads without a time-out.
import socketserver
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler

import torch
import torch.distributed as dist


class Shards(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = bytes(4096)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path.endswith("/5"):
            self.wfile.write(body[:1000])
            threading.Event().wait()
        self.wfile.write(body)

    def log_message(self, *words) -> None:
        pass


def serve() -> int:
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Shards)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def fetch(port: int, number: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/shards/{number}") as answer:
        return answer.read()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    port = [serve() if rank == 0 else 0]
    dist.broadcast_object_list(port, src=0)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1:
            fetch(port[0], step)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
