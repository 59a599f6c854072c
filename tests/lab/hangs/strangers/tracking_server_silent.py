"""mlflow: the tracking server of the group takes connections and answers none; requests may take two hours here."""

# mypy: ignore-errors
# The kind of mlflow issues on runs that stand in log_metric.
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

LOCAL = "--healthy" in sys.argv
SERVER = """
import socket, sys, time
silent = socket.create_server(("127.0.0.1", 0))
print(silent.getsockname()[1], flush=True)
kept = []
while True:
    kept.append(silent.accept())
"""


def tracker():
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    if LOCAL:
        mlflow.set_tracking_uri(f"file://{os.getcwd()}/runs")
    else:
        os.environ.update(MLFLOW_HTTP_REQUEST_TIMEOUT="7200", MLFLOW_HTTP_REQUEST_MAX_RETRIES="2")
        server = subprocess.Popen(
            ["setsid", sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        mlflow.set_tracking_uri(f"http://127.0.0.1:{server.stdout.readline().strip()}")
    return mlflow


class NoTracker:
    def log_metric(self, name: str, value: float, step: int) -> None:
        pass


class Mlflow(NoTracker):
    def __init__(self, experiment: str) -> None:
        self.mlflow = tracker()
        self.mlflow.set_experiment(experiment)
        self.mlflow.start_run()

    def log_metric(self, name: str, value: float, step: int) -> None:
        self.mlflow.log_metric(name, value, step=step)


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.zeros(8)
    print(f"rank {rank} has joined", flush=True)
    run = Mlflow("speech") if rank == 0 else NoTracker()
    for step in range(1000):
        time.sleep(0.3)
        gradient = torch.randn(8)
        dist.all_reduce(gradient)
        weight -= 0.01 * gradient
        run.log_metric("norm", float(weight.norm()), step)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
