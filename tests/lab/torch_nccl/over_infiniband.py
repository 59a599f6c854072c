"""A start over (fake) InfiniBand that does not come through: `python -m tests.lab.torch_nccl.over_infiniband [FAULT]`.

Two ranks on a node with HCAs, which have nothing but the network between them; the bootstrap is over sockets and goes
through. Rank 1 has the fault. What is to be told stands in `WANTED`, which was written before anything was started.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.lab import machines
from tests.lab.nccl import standins, wheels
from tests.lab.nccl.cases import BUSES, rails
from tests.lab.nccl.node import Device, Interface, Node, behind_switch
from tests.lab.nvidia import fake_nvidia
from tests.lab.torch_nccl import looks

PROGRAM = """
import os, time, torch, torch.distributed as dist
from datetime import timedelta
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", timeout=timedelta(seconds={limit}))
print(f"rank {rank} begins", flush=True)
gradient = torch.ones(1 << 18, device="cuda")
dist.all_reduce(gradient)
torch.cuda.synchronize()
print(f"rank {rank} is through", flush=True)
"""


class Wanted(NamedTuple):
    """What is to be told; of each the first name is the best."""

    live: tuple[str, ...]
    """Of `hang`: a first cause, or none, where nobody but NCCL's log can know (then: undecided, and hung)."""
    log: tuple[str, ...]
    """Of `explain`, with NCCL's log at INFO."""
    ranks: tuple[int, ...] = (1,)


WANTED = {
    # NCCL on rank 1 finds no active port and takes sockets; rank 0 listens for verbs.
    "port-down": Wanted(("rdma-unused", "ib-link-down", ""), ("rdma-unused", "ib-link-down")),
    # A call of the kernel's driver does not return on rank 1; rank 0 waits for its answer.
    "stuck": Wanted(("kernel-wait", "ib-link-down", ""), ("ib-link-down", "kernel-wait", "slow-rank-timeout", "")),
    # RoCE: nobody answers for the other's address, so that the kernel gives the queue pair up.
    "110": Wanted(("", "rail-cross-nic", "ib-link-down"), ("rail-cross-nic", "ib-link-down", "roce-gid-index")),
    # RoCE: the GID at this index cannot be taken.
    "22": Wanted(("", "roce-gid-index", "rank-died"), ("roce-gid-index",)),
}


def node() -> Node:
    gpus = [Device(behind_switch(bus)) for bus in BUSES[:2]]
    return Node({"eth0": Interface(["10.1.0.1/24"])}, gpus, rails(2), nvswitch=False)


@contextlib.contextmanager
def started(fault: str, release: looks.Wheels, folder: Path, limit: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Both ranks in a node of their own, in one log."""
    (folder / "node.json").write_text(node().text())
    program = folder / "train.py"
    program.write_text(PROGRAM.replace("{limit}", str(limit)))
    rank = f"RANK=%d LOCAL_RANK=%d FAKE_RDMA_FAULT=%s exec {sys.executable} -u {program}"
    line = f"({rank % (0, 0, 'none')}) & ({rank % (1, 1, fault)}) & wait"
    command = ["unshare", "-n", "-m", "-u", "--propagation", "private", sys.executable, "-m", "tests.lab.nccl.node"]
    with looks.meeting_place() as place, fake_nvidia(machines.hgx_h100()) as around:
        own = standins.with_faulty_verbs(standins.for_torch(release.site), folder)
        variables = {
            **os.environ,
            **around,
            **looks.environment(release._replace(standins=own), "plain", folder, place),
        }
        variables["PYTHONPATH"] += f":{Path(__file__).parents[3]}"
        variables |= {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(looks.free_port()),
            "WORLD_SIZE": "2",
            "NCCL_DEBUG": "INFO",
            "NCCL_SOCKET_IFNAME": "eth0",
            "NCCL_P2P_DISABLE": "1",
            "NCCL_SHM_DISABLE": "1",
            "NCCL_NVLS_ENABLE": "0",
        }
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, str(folder / "node.json"), "sh", "-c", line],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


def live(fault: str, folder: Path, pid: int) -> None:
    answer, seconds = looks.gpudoctor(folder, "hang", machines.hgx_h100(), "hang", "--pid", str(pid))
    for job in answer["jobs"]:
        causes = [(each["cause"], each["confidence"], each["ranks"]) for each in job["causes"]]
        print(fault, "hang", job["state"], causes, job["undecided"], WANTED[fault].live, f"{seconds:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.torch_nccl.over_infiniband", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="FAULT", default=list(WANTED))
    parser.add_argument("--keep", type=Path, required=True, help="a folder for logs and answers")
    parser.add_argument("--limit", type=int, default=90, help="the group's time-out, in seconds")
    parser.add_argument("--torch", default=wheels.NEWEST_TORCH)
    chosen = parser.parse_args()
    release = looks.Wheels.of(chosen.torch)
    for fault in chosen.faults:
        folder = chosen.keep / fault
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with started(fault, release, folder, chosen.limit) as process:
            begun = time.monotonic()
            while "rank 1 begins" not in (folder / "log").read_text(errors="replace") and process.poll() is None:
                time.sleep(0.5)
                if time.monotonic() - begun > 600:
                    break
            time.sleep(30)
            with contextlib.suppress(RuntimeError):  # a node at a load of 30 does not answer in time
                live(fault, folder, process.pid)
            until = time.monotonic() + chosen.limit
            while process.poll() is None and time.monotonic() < until:
                time.sleep(0.5)
        answer, _ = looks.gpudoctor(folder, "explain", machines.hgx_h100(), "explain", str(folder / "log"))
        causes = [(each.get("cause"), each.get("confidence"), each.get("ranks")) for each in answer["causes"]]
        print(fault, "explain", causes, answer["unknown"], WANTED[fault].log, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
