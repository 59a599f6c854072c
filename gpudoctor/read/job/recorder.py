"""Flight recorders: the ring buffer in which torch keeps a process's last collectives, read from wherever it is found.

Nothing outside the process can look into the buffer: it lies on the process's heap, py-spy sees Python frames only, and
/proc has no trace of it. So a recorder is read from a file that torch wrote (NCCL does so at a time-out), or is asked
for: through the pipe that TORCH_NCCL_DEBUG_INFO_PIPE_FILE has made, or from the worker server of a process in which
`gpudoctor.arm()` runs. A gloo job without `arm()` keeps its recorder to itself.
"""

import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gpudoctor.read.job import recorder_files, recorder_pipe
from gpudoctor.read.job.recorder_apart import of_folder as of_folder
from gpudoctor.read.job.recorder_files import Read, read as read
from gpudoctor.read.job.recorder_pickle import (
    MOST_BYTES as MOST_BYTES,
    RefusedDump as RefusedDump,
    UnreadableDump as UnreadableDump,
)
from gpudoctor.snapshot.evidence import Recorder, Unread

PIPE_ANSWERS_IN = 13.0
"""Seconds: the FIFO is looked into every 1 s (TORCH_NCCL_COORD_CHECK_MILSEC), then native frames are named, which took
8.5 s beside seven other jobs on an H200, and the dump is written."""


def of_process(
    pid: int,
    rank: int,
    environment: Mapping[str, str],
    *,
    ask: Callable[[], bytes | None] | None = None,
    pipe: str = "",
    timeout: float = PIPE_ANSWERS_IN,
    reading: Read = read,
) -> tuple[Recorder | None, tuple[Unread, ...]]:
    """The flight recorder of a rank: as it is now where the process can be asked, else the newest file of it.

    `environment` is the process's, all of it (HOME decides where dumps lie). `ask` brings the answer of its worker
    server, and `pipe` is the stem of its dump pipe, where the process is armed. `reading` reads the bytes of a dump,
    in a child process where they are a stranger's. That a process has neither file nor ear is not said in the second
    value: most have none. Takes up to `timeout` seconds.
    """
    unread: list[Unread] = []
    what = f"flight recorder of rank {rank}"
    deadline = time.monotonic() + timeout
    if ask is not None:
        try:
            raw = ask()
            if raw:
                answer = replace(reading(raw, f"worker server of pid {pid}", 0.0), rank=rank)
                if answer.entries or answer.groups:
                    return answer, ()
        except (OSError, UnreadableDump) as error:
            unread.append(Unread(what, f"the worker server's answer: {error}", pid))
    if fifo := recorder_pipe.name(rank, environment, pipe):
        before, last = recorder_files.dumps_of(pid, rank, environment)[0], ""
        try:
            recorder_pipe.ask(pid, fifo)
            while (dump := recorder_files.wait_for(pid, rank, environment, before, deadline)) is not None:
                try:
                    answer = recorder_files.read_dump(dump, pid, rank, reading)
                except UnreadableDump as error:  # it may still be written
                    before, last = [*before, dump], str(error)
                    continue
                return replace(
                    answer, source=f"{dump.path}, asked for through {fifo}", written_at=0.0, dumped_at=dump.written_at
                ), ()
            unread.append(Unread(what, f"asked for through {fifo}: {last or f'no dump in {timeout:.0f} s'}", pid))
        except recorder_pipe.NotAsked as error:
            unread.append(Unread(what, str(error), pid))
        except OSError as error:
            unread.append(Unread(what, f"asked for through {fifo}: {error}", pid))
    files, refused = recorder_files.dumps_of(pid, rank, environment)
    unread += refused
    for dump in files:
        try:
            return recorder_files.read_dump(dump, pid, rank, reading), tuple(unread)
        except (OSError, UnreadableDump) as error:
            unread.append(Unread(what, f"{dump.path}: {error}", pid))
    return None, tuple(unread)
