"""The main process asks a server for what the policy says, which takes a while; then all train (trl issue 3676)."""

import http.server
import json
import threading
import time
import urllib.request
from typing import Any

import torch
import torch.distributed as dist


class Generator(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        prompts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(9.0 if len(prompts) > 2 else 0.1)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([prompt[::-1] for prompt in prompts]).encode())

    def log_message(self, *words: object) -> None:
        pass


def generate(port: int, prompts: list[str]) -> list[str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/generate/", data=json.dumps(prompts).encode())
    with urllib.request.urlopen(request, timeout=300) as answer:
        return list(json.loads(answer.read()))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    port = 0
    if rank == 0:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Generator)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
    for step in range(500):
        completions: list[Any] = [None]
        if rank == 0:
            completions = [generate(port, ["how", "why"] if step < 2 else ["how", "why", "when", "who"])]
        dist.broadcast_object_list(completions, src=0)
        dist.all_reduce(torch.tensor([float(len(completions[0]))]))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
