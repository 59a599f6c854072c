"""The first process starts a server and asks until it is healthy; it loads its weights for a while."""

# mypy: ignore-errors
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import torch
import torch.distributed as dist

SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
end = time.monotonic() + 9
while time.monotonic() < end:
    sum(range(200000)); time.sleep(0.05)
class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def with_server() -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stderr=subprocess.DEVNULL)
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                break
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    process.terminate()
    process.wait()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step and rank == 0:
            with_server()


if __name__ == "__main__":
    main()
