"""DistributedDataParallel in processes that torch.multiprocessing.spawn starts.

The launch has one rank, which starts `world_size` processes on its machine and speaks for them. Each of them sends
what it has to say through a pipe of its own. They end with this process, by the kernel's hand where it is killed.
"""

import faulthandler
import os
import sys
import time
import traceback
from datetime import timedelta
from multiprocessing import connection
from typing import Any, Dict, List, Optional, Tuple

from train_children import (
    LEAVING_SECONDS,
    OWN_STORY_SECONDS,
    Failure,
    end_with,
    ending,
    error_text,
    first_cause,
    lacking_gpus,
    taken_over,
)
from train_loop import Recipe, train
from train_plain import Ddp
from train_precision import lacking
from train_team import Team
from train_way import Context, Way


class Spawn(Recipe, Way):
    """mp.spawn(train, args=(world_size,), nprocs=world_size), as old tutorials start DDP."""

    name = "spawn"
    one_process = True

    def lacking(self, context: Context) -> str:
        why = "" if context.launch.get("ranks_share_gpu") else lacking_gpus(context)
        return why or lacking(context.torch, context.precision, context.device)

    def run(self, context: Context) -> Dict[str, Any]:
        context.enter("start of processes")
        children = Children(context)
        try:
            return children.follow()
        finally:
            children.end()


class Children:
    """The processes of one cell."""

    def __init__(self, context: Context) -> None:
        self.context = context
        torch = context.torch
        self.ranks = max(1, int(context.plan["world_size"]))
        import multiprocessing

        spawning = multiprocessing.get_context("spawn")
        pipes = [spawning.Pipe(duplex=False) for _ in range(self.ranks)]
        self.heard = [reader for reader, _ in pipes]
        self.phases = [""] * self.ranks
        self.failures: List[Failure] = []
        # Port 0: the kernel chooses. The store lives here, so that the children connect to what is there already.
        self.store: Any = torch.distributed.TCPStore(
            "127.0.0.1", 0, None, True, timedelta(seconds=context.launch["timeout"]), wait_for_workers=False
        )
        wish = {"launch": context.launch, "precision": context.precision, "port": int(self.store.port)}
        writers = [writer for _, writer in pipes]
        self.spawned = torch.multiprocessing.spawn(
            child, args=(os.getpid(), wish, writers), nprocs=self.ranks, join=False, daemon=True
        )
        for writer in writers:
            writer.close()

    def follow(self) -> Dict[str, Any]:
        """Until they are done -> what their rank 0 has found. Raises what they ended by."""
        open_ = dict(enumerate(self.heard))
        outcome: Tuple[str, Any] = ("", None)
        last = time.monotonic()
        failed_at: Optional[float] = None
        while open_ and (failed_at is None or time.monotonic() - failed_at < OWN_STORY_SECONDS):
            for reader in connection.wait(list(open_.values()), timeout=0.5):
                index = self.heard.index(reader)  # type: ignore[arg-type]
                try:
                    kind, said = open_[index].recv()
                except (EOFError, OSError):
                    del open_[index]
                    self._gone(index)
                    continue
                last = time.monotonic()
                if kind == "phase":
                    self._phase(index, str(said))
                elif kind == "error":
                    self.failures.append(Failure(index, False, self._told(index, str(said))))
                elif index == 0:
                    outcome = (kind, said)
            if self.failures and failed_at is None:
                failed_at = time.monotonic()
            if failed_at is None and time.monotonic() - last > self.context.launch["timeout"]:
                where = ", ".join(f"{index}: {phase or 'start'}" for index, phase in enumerate(self.phases[:8]))
                raise RuntimeError(f"the processes of mp.spawn do not get on ({where})")
        if self.failures:
            raise RuntimeError(first_cause(self.failures).text)
        return self._result(*outcome)

    def _phase(self, index: int, phase: str) -> None:
        self.phases[index] = phase
        if index == 0:
            self.context.enter(phase)

    def _told(self, index: int, how: str) -> str:
        return f"process {index} of mp.spawn, in {self.phases[index] or 'its start'!r}: {how}"

    def _gone(self, index: int) -> None:
        """Its pipe is closed: it has ended, or is about to."""
        process = self.spawned.processes[index]
        process.join(LEAVING_SECONDS)
        code = process.exitcode
        if code != 0 and all(failure.process != index for failure in self.failures):
            how = "does not end" if code is None else f"ended by signal {-code}" if code < 0 else f"exit status {code}"
            self.failures.append(Failure(index, True, self._told(index, how)))

    def _result(self, kind: str, said: Any) -> Dict[str, Any]:
        if not kind:
            raise RuntimeError("process 0 of mp.spawn ended without a result")
        return taken_over(self.context, kind, said)

    def end(self) -> None:
        """No process of the cell is left."""
        for process in self.spawned.processes:
            if process.is_alive():
                process.kill()
        for process in self.spawned.processes:
            process.join(LEAVING_SECONDS)
        for reader in self.heard:
            reader.close()


def child(index: int, parent: int, wish: Dict[str, Any], writers: List[Any]) -> None:
    """One process of the cell. Says ("phase", text), and at its end one of passed, failed, not applicable, error."""
    end_with(parent)
    faulthandler.enable(file=2)
    writer = writers[index]
    for other in writers:
        if other is not writer:
            other.close()
    try:
        writer.send(trained(index, wish, writer))
    except BaseException as error:
        traceback.print_exc()
        try:
            writer.send(("error", error_text(error)))
        except OSError:
            pass  # the parent is gone
        sys.stderr.flush()
        os._exit(1)
    sys.stderr.flush()
    os._exit(0)  # exit handlers may wait for the other ranks


def trained(index: int, wish: Dict[str, Any], writer: Any) -> Tuple[str, Any]:
    launch, precision = wish["launch"], wish["precision"]
    ranks = max(1, int(launch["train"]["world_size"]))
    log = os.environ.get("NCCL_DEBUG_FILE", "")
    if log.startswith("/proc/self/fd/"):
        os.environ["NCCL_DEBUG_FILE"] = log.replace("self", str(os.getppid()), 1)  # it is the parent's file in memory
    os.environ.update(RANK=str(index), LOCAL_RANK=str(index), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))
    writer.send(("phase", "import torch"))
    import torch
    import torch.distributed as distributed

    device = torch.device("cpu")
    if launch["device"] == "cuda":
        writer.send(("phase", "CUDA start"))
        device = torch.device("cuda", 0 if launch.get("ranks_share_gpu") else index)
        torch.cuda.set_device(device)
        if launch.get("ranks_share_gpu"):
            os.environ["NCCL_HOSTID"] = f"rank{index}"
    writer.send(("phase", "rendezvous"))
    timeout = timedelta(seconds=launch["timeout"])
    tcp_store: Any = torch.distributed.TCPStore  # type: ignore[attr-defined,unused-ignore]
    store = tcp_store("127.0.0.1", wish["port"], None, False, timeout)
    distributed.init_process_group(launch["backend"], store=store, rank=index, world_size=ranks, timeout=timeout)
    team = Team(torch, index, ranks, device if launch["backend"] == "nccl" else torch.device("cpu"))

    def enter(phase: str) -> None:
        writer.send(("phase", phase.partition(" ")[2].partition(" ")[2]))  # the parent says way and precision

    context = Context(torch, launch, Spawn.name, precision, device, team, enter)
    return ending(context, lambda: train(context, Ddp()))
