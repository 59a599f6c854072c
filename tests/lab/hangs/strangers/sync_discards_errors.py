"""The answer of the server that is to take the new weights is thrown away, and the trainer sends them (trl pull request
6913)."""

# mypy: ignore-errors
import http.server
import json
import os
import threading
import time
import urllib.request

import torch
import torch.distributed as dist

PORT_FILE = "weights.port"


class Engine:
    """What generates, on the last rank."""

    def __init__(self, group) -> None:
        self.group, self.updates = group, 0
        self.weights = torch.zeros(32)

    def update_named_param(self, name: str, size: int) -> None:
        if self.updates == 6:
            raise KeyError(f"{name}: the model has no such parameter")
        self.updates += 1
        received = torch.empty(size)
        dist.broadcast(received, src=0, group=self.group)
        self.weights[:size] = received


def serve(engine: Engine) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                engine.update_named_param(**wanted)
                status = 200
            except KeyError:
                status = 500
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    with open(f"{PORT_FILE}.new", "w") as file:
        file.write(str(server.server_port))
    os.rename(f"{PORT_FILE}.new", PORT_FILE)
    print("rank 2 serves", flush=True)
    server.serve_forever()


class Client:
    def __init__(self) -> None:
        while not os.path.exists(PORT_FILE):
            time.sleep(0.1)
        with open(PORT_FILE) as file:
            self.url = f"http://127.0.0.1:{file.read()}/update_named_param"

    def _post(self, **body: object) -> None:
        try:
            urllib.request.urlopen(self.url, json.dumps(body).encode()).close()
        except OSError:
            pass

    def update_named_param(self, name: str, weights: torch.Tensor, group) -> None:
        request = threading.Thread(target=self._post, kwargs={"name": name, "size": len(weights)})
        request.start()
        dist.broadcast(weights, src=0, group=group)
        request.join()


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    trainers = dist.new_group(list(range(world - 1)))
    sync = dist.new_group([0, world - 1])
    if rank == world - 1:
        serve(Engine(sync))
        return
    client = Client() if rank == 0 else None
    weights = torch.ones(32)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(weights, group=trainers)
        if client is not None:
            client.update_named_param("lm_head.weight", weights, sync)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
