"""An engine serves until it is told to take new weights, every five seconds (trl pull request 6913)."""

# mypy: ignore-errors
import http.server
import os
import threading
import time
import urllib.request

import torch
import torch.distributed as dist

PORT_FILE = "engine.port"


def serve(rank: int) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        updates = 0

        def do_POST(self) -> None:
            dist.broadcast(torch.empty(32), src=0)
            self.send_response(200)
            self.end_headers()
            print(f"rank {rank} step {Handler.updates}", flush=True)
            Handler.updates += 1

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    with open(f"{PORT_FILE}.new", "w") as file:
        file.write(str(server.server_port))
    os.rename(f"{PORT_FILE}.new", PORT_FILE)
    server.serve_forever()


def train(rank: int) -> None:
    while not os.path.exists(PORT_FILE):
        time.sleep(0.1)
    with open(PORT_FILE) as file:
        url = f"http://127.0.0.1:{file.read()}/update"
    for step in range(10_000):
        time.sleep(0.3 if step < 2 else 5.0)  # a rollout and a step
        request = threading.Thread(target=lambda: urllib.request.urlopen(url, b"").close())
        request.start()
        dist.broadcast(torch.ones(32), src=0)
        request.join()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        serve(1)
    else:
        train(0)
