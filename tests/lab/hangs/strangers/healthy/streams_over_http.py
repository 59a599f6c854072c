"""Shards come over HTTP in pieces, with some seconds between them (webdataset issue 227)."""

import http.server
import threading
import time
import urllib.request

import torch
import torch.distributed as dist


class Storage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(4):
            time.sleep(0.9)
            self.wfile.write(b"0" * 4096)

    def log_message(self, *words: object) -> None:
        pass


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Storage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for step in range(1000):
        if step < 2:
            time.sleep(0.3)
        elif rank == step % 2:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/shard{step}") as shard:
                while shard.read(4096):
                    pass
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
