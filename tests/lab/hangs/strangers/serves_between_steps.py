"""The first process answers the requests of the others between its steps, one for each; one of them asks once more."""

# mypy: ignore-errors
# No thread of one job; the kind of issues on data served over HTTP by the trainer's own process.
import http.server
import json
import os
import sys
import time
import urllib.request

import torch
import torch.distributed as dist

ASKS_ONCE = "--healthy" in sys.argv


class Shards(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps([0.5, 1.5, 2.5]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


def batch_from(url: str, rank: int, step: int) -> torch.Tensor:
    with urllib.request.urlopen(f"{url}/{step}") as answer:
        values = json.load(answer)
    if rank == 2 and step == 4 and not ASKS_ONCE:
        time.sleep(0.2)  # it has found too few that are usable
        with urllib.request.urlopen(f"{url}/{step}?more") as answer:
            values += json.load(answer)
    return torch.tensor(values)


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    server = http.server.HTTPServer(("127.0.0.1", 0), Shards) if rank == 0 else None
    where = [server.server_port if server else None]
    dist.broadcast_object_list(where)
    os.environ["no_proxy"] = "127.0.0.1"
    url, weight = f"http://127.0.0.1:{where[0]}", torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if server is not None:
            for _ in range(world - 1):
                server.handle_request()
            gradient = torch.zeros(1)
        else:
            gradient = batch_from(url, rank, step).mean()[None]
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient


if __name__ == "__main__":
    main()
