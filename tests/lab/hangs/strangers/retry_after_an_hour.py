"""The hub answers one process with 429 and Retry-After; it does as it is told."""

# mypy: ignore-errors
# No thread of one job; the kind of huggingface_hub issues on rate limits and Retry-After.
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
import torch.distributed as dist

FREE = "--healthy" in sys.argv


class Hub(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        Hub.asked += 1
        limited = Hub.asked > 4 and not FREE
        self.send_response(429 if limited else 200)
        if limited:
            self.send_header("Retry-After", "3600")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


def fetch(url: str) -> bytes:
    for _ in range(5):
        try:
            with urllib.request.urlopen(url) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code != 429:
                raise
            delay = float(error.headers.get("Retry-After", 1))
            print("rate limited", flush=True)
            time.sleep(delay)
    raise RuntimeError("the hub is busy")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    server = HTTPServer(("127.0.0.1", 0), Hub)
    if rank == 1:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    size = torch.zeros(1)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        part = fetch(f"http://127.0.0.1:{server.server_port}/{step}") if rank == 1 else b""
        dist.all_reduce(size.fill_(len(part)))


if __name__ == "__main__":
    main()
