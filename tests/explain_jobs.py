"""Small real jobs whose output `gpudoctor explain` reads in tests: healthy ones and ones with a fault."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab import warm

LONGEST = 300
"""Seconds; the machine may be crowded."""

TRAIN = """
import datetime, os, resource, sys, time
import torch
import torch.distributed as dist

def main():
    fault, rank = sys.argv[1], int(os.environ["RANK"])
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=6))
    dist.barrier()
    if rank == 1:
        if fault == "raises":
            batch = {"labels": 1}
            batch["input_ids"]
        if fault == "killed":
            os.kill(os.getpid(), 9)
        if fault == "crashed":
            os.kill(os.getpid(), 11)
        if fault == "bus error":
            os.kill(os.getpid(), 7)
        if fault == "absent":
            time.sleep(600)
        if fault == "exits":
            sys.exit(3)
    if fault == "sizes":
        dist.all_reduce(torch.ones(4 if rank else 400000))
    if fault == "order" and rank == 0:
        dist.all_reduce(torch.ones(1000))
    elif fault == "order":
        dist.broadcast(torch.ones(10), 0)
    if fault == "monitored":
        if rank:
            time.sleep(600)
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=4))
    if fault == "unused":
        model = torch.nn.parallel.DistributedDataParallel(Two())
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
    for step in range(5):
        loss = torch.ones(4)
        dist.all_reduce(loss)
        print("step", step, "loss", loss.sum().item(), flush=True)
    dist.destroy_process_group()

class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.used(x)

if __name__ == "__main__":
    main()
"""

SPAWN = """
import sys
import torch, torch.distributed as dist, torch.multiprocessing as mp

def train(rank, size, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    for step in range(5):
        loss = torch.ones(4)
        dist.all_reduce(loss)
        print("step", step, "loss", loss.sum().item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(train, (2, sys.argv[1]), 2)
"""

LIGHTNING = """
import torch, lightning

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.layer(batch).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(torch.ones(32, 4), batch_size=4)
    lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False
    ).fit(Model(), loader)
"""

ACCELERATE = """
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = torch.utils.data.DataLoader(torch.ones(32, 4), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    loss = model(batch).mean()
    accelerator.backward(loss)
    optimizer.step()
    accelerator.print("step", step, "loss", loss.item())
accelerator.end_training()
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def torchrun(script: Path, *arguments: str, port: int = 0, options: Sequence[str] = (), ranks: int = 2) -> list[str]:
    """The words of a torchrun of this interpreter."""
    where = [f"--master-port={port or free_port()}", "--master-addr=127.0.0.1"]
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    return [*launcher, *where, *options, str(script), *arguments]


def output_of(
    words: Sequence[str],
    log: Path,
    variables: Mapping[str, str] | None = None,
    *,
    seconds: float = LONGEST,
    truly: bool = False,
) -> int:
    """Run a job with its output in a file; its exit status. Nothing of it is left. `truly`: all its processes import
    torch themselves."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TORCH", "NCCL", "MASTER", "SLURM"))
        and name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK")
    }
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **(variables or {})}
    if not truly:
        environment |= warm.of_torchrun()
    with log.open("wb") as file:
        job = warm.start(
            words,
            env=environment,
            truly=truly,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )
        try:
            return job.wait(seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
