"""A pool of one connection to the hub; an answer that nobody has read to its end keeps it."""

# mypy: ignore-errors
# No thread of one job; the kind of urllib3 and boto3 issues on block=True and answers that are not released.
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
import torch.distributed as dist
import urllib3

RELEASED = "--healthy" in sys.argv


class Hub(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if self.path.endswith("/4") else 200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"data")

    def log_message(self, *args):
        pass


class Client:
    def __init__(self, port: int) -> None:
        self.pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=1, block=True)

    def part(self, step: int) -> bytes:
        answer = self.pool.request("GET", f"/{step}", preload_content=False)
        if answer.status != 200 and not RELEASED:
            return b""
        data = answer.read()
        answer.release_conn()
        return data


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = Client(server.server_port)
    size = torch.zeros(1)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        part = client.part(step) if rank == 1 else b""
        dist.all_reduce(size.fill_(len(part)))


if __name__ == "__main__":
    main()
