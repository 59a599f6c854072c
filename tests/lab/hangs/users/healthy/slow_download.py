"""Rank 0 fetches weights in pieces from a slow mirror; the others wait in a barrier."""

import http.server
import threading
import time
import urllib.request

import torch
import torch.distributed as dist


class Mirror(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(1000 * 40))
        self.end_headers()
        for _ in range(40):
            self.wfile.write(bytes(1000))
            time.sleep(0.5)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step >= 1:
            mirror = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
            threading.Thread(target=mirror.serve_forever, daemon=True).start()
            urllib.request.urlretrieve(f"http://127.0.0.1:{mirror.server_port}/weights", "weights.bin")
        dist.barrier()


if __name__ == "__main__":
    main()
