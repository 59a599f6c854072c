"""The rank program of `gpudoctor nccl-test`: measures collectives with torch.distributed, and checks their data.

Started once a rank by torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). Argument: JSON
{"launch": a `fleet.messages.Launch`, "symmetric": true when the user's own launcher started the ranks}. Says the
messages of gpudoctor/nccl/rank_messages.py; every phase is said before it begins, for any of them may hang.

NCCL's log and this process's standard error go to files in memory, which whoever watches opens through /proc: so
nothing is left on a disk, and both survive the process.
"""

import faulthandler
import json
import os
import signal
import socket
import sys
import traceback
from datetime import timedelta
from threading import Timer
from typing import Any, Callable, Dict, List

from collective_kinds import KINDS
from collective_measure import Tester
from collective_member import describe

Say = Callable[[Dict[str, Any]], None]

LINE_BYTES = 3900  # of a message: with the mark it stays below PIPE_BUF, so that the ranks' lines do not mix
LEAVING_SECONDS = 5.0
# What the doctor reads in the log: how ranks are connected, over what, with which settings. Not TUNING and COLL: these
# write a line an operation, within the measured windows.
LOGGED = "INIT,BOOTSTRAP,ENV,NET,GRAPH,NVLS"
MFD_CLOEXEC, MFD_NOEXEC_SEAL = 1, 8
# Several ranks on one GPU (facts: NCCL's src/init.cc refuses a GPU twice on one host; NCCL_HOSTID replaces the host's
# identity). They then talk over sockets; the rest are transports that would map the same GPU twice.
SHARED_GPU = {
    "NCCL_NET": "Socket",
    "NCCL_IB_DISABLE": "1",
    "NCCL_MNNVL_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_CUMEM_HOST_ENABLE": "0",
}


class Rank:
    """Who this process is, and what it says."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.phase = ""

    def tell(self, kind: str, **fields: Any) -> None:
        self.say(dict(fields, type=kind))

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.tell("phase", rank=self.rank, phase=phase)

    def fail(self, error: BaseException) -> None:
        text = str(error).strip()
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        while len(json.dumps(text)) > LINE_BYTES - 400:
            text = text[: len(text) * 3 // 4]
        self.tell("failed", rank=self.rank, phase=self.phase, error=text)


def main(say: Say, arguments: List[str]) -> None:
    be_a_rank(say, arguments, run)


def be_a_rank(say: Say, arguments: List[str], run: Callable[[Dict[str, Any], bool, Rank], None]) -> None:
    """Begin as a rank program does, then `run`: what it raises is told, and ends the process."""
    wish = json.loads(arguments[0])
    launch, symmetric = wish["launch"], bool(wish.get("symmetric", False))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would wait for a collective to return
    rank = Rank(say)
    set_environment(launch, rank)
    log, errors = capture(launch)
    rank.tell(
        "begun",
        rank=rank.rank,
        local_rank=rank.local_rank,
        world_size=rank.world_size,
        pid=os.getpid(),
        log_fd=log,
        error_fd=errors,
    )
    try:
        run(launch, symmetric, rank)
    except BaseException as error:
        traceback.print_exc()
        rank.fail(error)
        sys.stderr.flush()
        os._exit(1)  # exit handlers may wait for the other ranks


def run(launch: Dict[str, Any], symmetric: bool, rank: Rank) -> None:
    rank.enter("import torch")
    import torch
    import torch.distributed

    device = open_device(torch, launch, symmetric, rank)
    rank.enter("rendezvous")
    torch.distributed.init_process_group(launch["backend"], timeout=timedelta(seconds=launch["timeout"]))
    rank.enter("first all_reduce")
    one = torch.ones(1, device=device)
    torch.distributed.all_reduce(one)
    arrived = one.item()
    world_size = torch.distributed.get_world_size()
    if launch["check"] and arrived != world_size:
        raise RuntimeError(f"the first all_reduce of {world_size} ones gave {arrived:g}")
    tester = Tester(torch, launch, device, rank)
    rank.enter("exchange of who is there")
    member = describe(torch, launch, device, rank.local_rank, tester.free_bytes, symmetric)
    for number, answer in enumerate(tester.exchange(member)):
        if rank.rank == 0:
            rank.tell("member", **dict(answer, rank=number, world_size=world_size))
    tester.agree_on_room()
    for measurement in launch["measurements"]:
        tester.measure(KINDS[measurement["collective"]], measurement["collective"], int(measurement["size_bytes"]))
    rank.enter("leaving")
    tester.wait_for_all()
    rank.tell("finished", rank=rank.rank)
    leave(torch)


def set_environment(launch: Dict[str, Any], rank: Rank) -> None:
    """Before torch is imported: what the launch sets, and what the test itself needs."""
    os.environ.update(launch.get("environment", {}))
    # torch's flight recorder writes its file on a timeout; the doctor leaves no files.
    os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
    if launch.get("ranks_share_gpu"):
        os.environ["NCCL_HOSTID"] = f"rank{rank.rank}"
        for name, value in SHARED_GPU.items():
            os.environ.setdefault(name, value)
        if rank.ranks_here == rank.world_size:
            os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")


def capture(launch: Dict[str, Any]) -> "tuple[int, int]":
    """Send NCCL's log and the standard error to files in memory; their numbers, -1 for what stays where it is."""
    log = errors = -1
    if launch.get("rank_logs", True) and "NCCL_DEBUG_FILE" not in os.environ:
        log = memory_file("gpudoctor-nccl-log")
        if log >= 0:
            os.environ["NCCL_DEBUG_FILE"] = f"/proc/self/fd/{log}"
            if os.environ.get("NCCL_DEBUG", "").upper() != "TRACE":
                os.environ["NCCL_DEBUG"] = "INFO"
            os.environ.setdefault("NCCL_DEBUG_SUBSYS", LOGGED)
    errors = memory_file("gpudoctor-errors")
    if errors >= 0:
        os.dup2(errors, 1)
        os.dup2(errors, 2)
    faulthandler.enable(file=2)
    announce_stacks()
    return log, errors


def announce_stacks() -> None:
    """From here on SIGUSR1 writes the stacks of all threads into a file in memory, as gpudoctor.arm() has it: whoever
    may not read this process's memory asks for them so (read/job/armed.py)."""
    stacks, announcement = memory_file("gpudoctor-stacks"), memory_file("gpudoctor-armed")
    if min(stacks, announcement) >= 0 and hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        announced = {"version": 1, "pid": os.getpid(), "signal": int(signal.SIGUSR1), "stacks": stacks}
        os.write(announcement, json.dumps(announced).encode())


def memory_file(name: str) -> int:
    """A file in memory; -1 where there is none (not Linux, or forbidden)."""
    create = getattr(os, "memfd_create", None)
    # Without the seal, kernels since 6.3 may warn or refuse (vm.memfd_noexec); older ones do not know it.
    for flags in (MFD_CLOEXEC | MFD_NOEXEC_SEAL, MFD_CLOEXEC):
        try:
            if create is not None:
                return int(create(name, flags))
        except OSError:
            continue
    return -1


def open_device(torch: Any, launch: Dict[str, Any], symmetric: bool, rank: Rank) -> Any:
    """This rank's device, initialised. Raises what torch raises, and RuntimeError when there is no GPU for it."""
    if launch["device"] != "cuda":
        return torch.device("cpu")
    rank.enter("CUDA start")
    count = torch.cuda.device_count()
    index = 0 if launch.get("ranks_share_gpu") else rank.local_rank
    if symmetric and count == 1:
        index = 0  # srun --gpus-per-task shows each rank its own GPU only
    if index >= count:
        raise RuntimeError(
            f"local rank {rank.local_rank} on {socket.gethostname()} has no GPU: torch sees {count} there "
            f"(CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', 'unset')})"
        )
    torch.cuda.set_device(index)
    device = torch.device("cuda", index)
    torch.zeros(1, device=device)
    return device


def leave(torch: Any) -> None:
    """Close the process group, but not for ever: all is measured, and the process ends anyway."""
    late = Timer(LEAVING_SECONDS, os._exit, (0,))
    late.daemon = True
    late.start()
    torch.distributed.destroy_process_group()
