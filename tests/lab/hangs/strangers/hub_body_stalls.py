"""The weights are fetched by the first process from a mirror, which tells the length of the file and then stops."""

# mypy: ignore-errors
# The kind of huggingface_hub issues on downloads that stand at some per cent.
import http.server
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

WHOLE = "--healthy" in sys.argv
MIRROR = ["--mirror", *sys.argv[1:]]


class Mirror(http.server.BaseHTTPRequestHandler):
    size = 200_000

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(self.size))
        self.send_header("ETag", '"0123456789abcdef0123456789abcdef01234567"')
        self.send_header("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()
        self.wfile.write(b"x" * (self.size if WHOLE else 4096))
        self.wfile.flush()
        if not WHOLE:
            time.sleep(86400)

    def log_message(self, *_: object) -> None:
        pass


def mirror() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    print(server.server_port, flush=True)
    server.serve_forever()


def fetch() -> str:
    child = subprocess.Popen(
        [sys.executable, __file__, *MIRROR], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    os.environ.update(
        HF_ENDPOINT=f"http://127.0.0.1:{child.stdout.readline().strip()}",
        HF_HUB_DOWNLOAD_TIMEOUT="7200",
        HF_HUB_DISABLE_XET="1",
        HF_HUB_DISABLE_PROGRESS_BARS="1",
    )
    from huggingface_hub import hf_hub_download

    return hf_hub_download("lab/speech", "weights.bin", cache_dir="hub")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank} has joined", flush=True)
    if rank == 0:
        path = fetch()
        print("fetched", os.path.getsize(path), flush=True)
    dist.barrier()
    weight = torch.zeros(4)
    for step in range(1000):
        time.sleep(0.3)
        gradient = torch.randn(4)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    mirror() if "--mirror" in sys.argv else main()
