"""The first of the node downloads, slowly; the others look for its marker every half second (composer 2071)."""

import http.server
import os
import threading
import time
import urllib.request
from pathlib import Path

import torch
import torch.distributed as dist


class SlowFile(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(200):
            self.wfile.write(bytes(4096))
            time.sleep(0.4)

    def log_message(self, *words: object) -> None:
        pass


def download(url: str, into: Path) -> None:
    with urllib.request.urlopen(url, timeout=30) as answer, into.open("wb") as file:
        while block := answer.read(4096):
            file.write(block)


def main() -> None:
    dist.init_process_group("gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    for step in range(2):
        dist.all_reduce(torch.ones(1))
        print(f"rank {local_rank} step {step}", flush=True)
    marker = Path("downloaded")
    if local_rank == 0:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowFile)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        download(f"http://127.0.0.1:{server.server_port}/ep1.pt", Path("ep1.pt"))
        marker.touch()
    while not marker.exists():
        time.sleep(0.5)
    dist.barrier()


if __name__ == "__main__":
    main()
