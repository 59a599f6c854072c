"""Lightning with strategy="ddp_spawn": the Trainer starts the processes itself.

The launch's one rank makes the Trainer and speaks for its processes, each of which sends what it has to say through a
pipe of its own. They end with this process, by the kernel's hand where it is killed, and write no file.
"""

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from multiprocessing import connection
from threading import Event, Thread
from typing import Any, Dict, Iterator, List, Optional, Tuple

import train_lightning
from train_children import (
    LEAVING_SECONDS,
    MAXIMUM_TEXT,
    OWN_STORY_SECONDS,
    Failure,
    end_with,
    first_cause,
    lacking_gpus,
    passed,
    stopped,
    taken_over,
)
from train_packages import imported
from train_team import Team
from train_watch import Scale, Surroundings, Watch, WatchedRank
from train_way import Context, FaultFound, NotApplicable, Way

OUR_OWN_LAUNCH = (
    "TORCHELASTIC_",
    "PET_",
    "SLURM_",
    "PL_TRAINER_",
    "MASTER_",
    "RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "WORLD_SIZE",
    "GROUP_",
    "ROLE_",
    "NODE_RANK",
)
"""Variables that tell Lightning of ranks: with any of these it would join them instead of starting its own."""


class LightningSpawn(Way):
    """Trainer(strategy="ddp_spawn", devices=N) in a plain `python train.py`."""

    name = "lightning_spawn"
    one_process = True

    def lacking(self, context: Context) -> str:
        return lacking_gpus(context) or train_lightning.lacking(context)

    def run(self, context: Context) -> Dict[str, Any]:
        lightning, why = imported(context, train_lightning.MODULES)
        if lightning is None:
            return {"outcome": "failed", "reason": why}
        with Surroundings(OUR_OWN_LAUNCH), error_files_removed():
            return self.train(context, lightning)

    def train(self, context: Context, lightning: Any) -> Dict[str, Any]:
        import train_lightning_model as ours
        import train_net

        torch = context.torch
        ranks = max(1, int(context.plan["world_size"]))
        scale = Scale(context.plan, context.precision, ranks)
        spawning = multiprocessing.get_context("spawn")
        pipes = [spawning.Pipe(duplex=False) for _ in range(ranks)]
        context.enter("model")
        follow = ours.Follow(Spawned(context, [writer for _, writer in pipes]))
        torch.manual_seed(int(context.plan["seed"]))
        model = ours.Model(follow)
        loader = torch.utils.data.DataLoader(train_net.Samples(scale.samples), batch_size=scale.batch, shuffle=True)
        context.enter("Trainer")
        plugins = [train_lightning.plain_environment(lightning), no_files(lightning)]
        trainer = train_lightning.make_trainer(
            lightning, context, scale, follow, "ddp_spawn", ranks, 1, plugins
        )  # one process: what it raises is this cell's alone
        heard = Heard(context, [reader for reader, _ in pipes])
        try:
            context.enter("start of processes")
            trainer.fit(model, loader)
        except Exception as error:
            heard.stop()
            return heard.result(error)
        finally:
            heard.stop()
            for reader, writer in pipes:
                reader.close()
                writer.close()
        return heard.result(None)


class Spawned(WatchedRank):
    """The rank of a process that Lightning has started. It is sent there with the callback."""

    def __init__(self, context: Context, writers: List[Any]) -> None:
        self.launch = context.launch
        self.way = context.way
        self.precision = context.precision
        self.parent = os.getpid()
        self.writers = writers
        self.context: Optional[Context] = None

    def __setstate__(self, state: Dict[str, Any]) -> None:
        """The first that the process does of ours."""
        self.__dict__.update(state)
        end_with(self.parent)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        faulthandler.enable(file=2)
        # Lightning's rank 0 makes a folder for the weights that it hands back, and leaves it there. `NoFiles` puts
        # nothing into it, and the process has no other use for one.
        tempfile.mkdtemp = lambda *rest, **named: train_lightning.NOWHERE  # type: ignore[assignment]

    def open(self, trainer: Any) -> Watch:
        import torch

        index, ranks = int(trainer.global_rank), int(trainer.world_size)
        for number, writer in enumerate(self.writers):
            if number != index:
                writer.close()
        writer = self.writers[index]
        device = trainer.strategy.root_device
        team = Team(torch, index, ranks, device if torch.distributed.get_backend() == "nccl" else torch.device("cpu"))

        def enter(phase: str) -> None:
            writer.send(("phase", phase.partition(" ")[2].partition(" ")[2]))  # the parent says way and precision

        writer.send(("pid", os.getpid()))
        self.writer = writer
        self.context = Context(torch, self.launch, self.way, self.precision, device, team, enter)
        if any(one.is_shared() for one in trainer.lightning_module.parameters() if one.device.type == "cpu"):
            # Measured with Lightning 1.9.5; 2.0.9 and later copy the model in each process.
            self.context.note(
                "the processes have one model in shared memory, and each of them takes its step on the same numbers "
                "(Lightning before 2.0 with ddp_spawn on CPUs)"
            )
        return train_lightning.watch_of(self.context, Scale(self.context.plan, self.precision, ranks), trainer)

    def close(self, watch: Watch) -> None:
        self.writer.send(passed(watch.context, watch.finish()))

    def failed(self, error: Exception) -> None:
        """Say it and end: Lightning would leave it to torch, which writes a file."""
        with contextlib.suppress(OSError):  # the parent is gone
            if self.context is None or not isinstance(error, (FaultFound, NotApplicable)):
                traceback.print_exc()
            if self.context is not None:
                self.writer.send(stopped(self.context, error))
        sys.stderr.flush()
        os._exit(1)  # not 0: the parent would wait for a result


class Heard:
    """What the processes say, read beside the Trainer, which waits for them."""

    def __init__(self, context: Context, readers: List[Any]) -> None:
        self.context = context
        self.readers = readers
        self.phases = [""] * len(readers)
        self.pids: Dict[int, int] = {}
        self.lost: Optional[int] = None
        """The process that ended without a word."""
        self.outcome: Tuple[str, Any] = ("", None)
        self.failures: List[Failure] = []
        self.failed_at = 0.0
        self.error = ""
        self.over = Event()
        self.thread = Thread(target=self._listen, name="gpudoctor-processes", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Read what is left, and have no process left."""
        self.over.set()
        self.thread.join(LEAVING_SECONDS)
        self._kill()
        for process in multiprocessing.active_children():
            process.join(LEAVING_SECONDS)

    def result(self, error: Optional[Exception]) -> Dict[str, Any]:
        kind, said = self.outcome
        if kind in ("not applicable", "failed") or (kind == "passed" and error is None):
            return taken_over(self.context, kind, said)
        failed = getattr(error, "error_index", None)
        if error is not None and failed is not None:
            # torch has its exception, or how it was ended. What another said meanwhile may follow from that.
            where = self.phases[failed] if failed < len(self.phases) else ""
            told = Failure(
                failed, False, f"process {failed} of ddp_spawn, in {where or 'its start'!r}: {last_line(error)}"
            )
            followed = bool(self.failures) and first_cause((*self.failures, told)) is told
            if failed == self.lost or not self.error or followed:
                raise RuntimeError(told.text)
        if self.error:
            raise RuntimeError(self.error)
        if error is not None:
            raise RuntimeError(last_line(error)) from error
        raise RuntimeError("Lightning's process 0 ended without a result")

    def _listen(self) -> None:
        open_ = dict(enumerate(self.readers))
        last = time.monotonic()
        while open_:
            stopping = self.over.is_set()
            ready = connection.wait(list(open_.values()), timeout=0.0 if stopping else 0.2)
            for index in [index for index, reader in open_.items() if reader in ready]:
                try:
                    kind, said = open_[index].recv()
                except (EOFError, OSError):
                    del open_[index]
                    continue
                last = time.monotonic()
                self._take(index, kind, said)
            if stopping and not ready:
                break
            if self.failures and time.monotonic() - self.failed_at > OWN_STORY_SECONDS:
                self._kill()  # the others wait for it
            elif time.monotonic() - last > self.context.launch["timeout"]:
                where = ", ".join(f"{index}: {phase or 'start'}" for index, phase in enumerate(self.phases[:8]))
                self.error = self.error or f"the processes of ddp_spawn do not get on ({where})"
                self._kill()
        if self.failures:
            self.error = first_cause(self.failures).text

    def _take(self, index: int, kind: str, said: Any) -> None:
        if kind == "phase":
            self.phases[index] = str(said)
            if index == 0:
                self.context.enter(str(said))
        elif kind == "pid":
            self.pids[index] = int(said)
        elif kind == "error":
            own = f"process {index} of ddp_spawn, in {self.phases[index] or 'its start'!r}: {said}"
            gone = "" if self.failures else self._gone(index)
            self.failures.append(Failure(index, bool(gone), gone or own))
            self.failed_at = self.failed_at or time.monotonic()
        elif index == 0:
            self.outcome = (kind, said)

    def _gone(self, but: int) -> str:
        """What became of another process, of which the survivors say no more than that it closed its connection."""
        for index, pid in sorted(self.pids.items()):
            how = "has ended"
            try:
                # The Trainer waits for it: its status must stay there.
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) if index != but else None
            except ChildProcessError:  # it has been waited for
                ended = None
            else:
                if ended is None or ended.si_code not in (os.CLD_KILLED, os.CLD_DUMPED):
                    continue
                how = f"was ended by signal {ended.si_status}"
            self.lost = index
            return f"process {index} of ddp_spawn {how} in {self.phases[index] or 'its start'!r}"
        return ""

    def _kill(self) -> None:
        for process in multiprocessing.active_children():
            process.kill()


def no_files(lightning: Any) -> Any:
    """A CheckpointIO that keeps nothing: rank 0 would hand its weights back in a file."""
    import train_lightning_files

    return train_lightning_files.NoFiles()


def last_line(error: BaseException) -> str:
    """torch's errors of a process end with the line that counts."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:MAXIMUM_TEXT]


@contextlib.contextmanager
def error_files_removed() -> Iterator[None]:
    """torch reserves a name for each process, into which it writes an exception, and leaves the file there."""
    made: List[str] = []
    original = tempfile.NamedTemporaryFile

    def recording(*rest: Any, **named: Any) -> Any:
        file = original(*rest, **named)
        made.append(str(file.name))
        return file

    tempfile.NamedTemporaryFile = recording
    try:
        yield
    finally:
        tempfile.NamedTemporaryFile = original
        for name in made:
            with contextlib.suppress(OSError):
                os.unlink(name)
