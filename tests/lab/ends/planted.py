"""Ends of training jobs, planted: how each is started, what ends it, and which cause is right.

Written before `gpudoctor run` had seen one; what it is judged by besides (exit status, standard output) is recorded
without it each time.

`causes` are those that somebody could name who was there; of several, each is right. () stands for an end of which
nothing is to be said. `says`: what our lines must hold too (a regular expression): the rank, or who did it.
"""

import hashlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

Launcher = str
"""See started.py."""
Act = str
"""What is done to it from outside: see __main__.py. "nothing": a limit that is set ends it."""


class Planted(NamedTuple):
    """One end of one job."""

    name: str
    end: str
    """A function of rank.py."""
    launcher: Launcher
    causes: tuple[str, ...]
    act: Act = ""
    says: str = ""

    @property
    def ranks(self) -> int:
        return 2 if self.launcher in OF_SEVERAL else 1

    @property
    def half(self) -> Literal["tune", "keep"]:
        return "tune" if hashlib.sha256(self.name.encode()).digest()[0] % 2 else "keep"


OF_SEVERAL = ("loop", "torchrun", "redirected", "spawn", "mpirun", "srun", "sbatch", "deepspeed")
DIED, CRASHED, MEMORY, FULL = ("rank-died",), ("native-crash",), ("host-out-of-memory",), ("disk-full",)
PROGRAM = ("program-error",)
ENDED = ("cancelled",)


def _of(end: str, causes: tuple[str, ...], *launchers: Launcher, act: Act = "", says: str = "") -> Iterator[Planted]:
    for launcher in launchers:
        several = launcher in OF_SEVERAL
        name = f"{act or end} under {launcher}".replace(" ", "-").replace("_", "-")
        yield Planted(name, end, launcher, causes, act, says if several or "rank 1" not in says else "")


def _planted() -> Iterator[Planted]:
    # what the output tells
    yield from _of("raises", PROGRAM, "python", "bash", "exec", "nohup", "pipe", "loop", says="batch is empty")
    yield from _of("raises", PROGRAM, "torchrun", "redirected", "spawn", "accelerate", "mpirun", "srun")
    yield from _of("lacks_gpu_memory", ("gpu-out-of-memory",), "python", "torchrun", "redirected", "spawn")
    yield from _of("takes_more_than_its_limit", MEMORY + PROGRAM, "python", "torchrun")
    yield from _of("fills_the_disk", FULL, "python", "bash", "torchrun", "redirected")
    yield from _of("lacks_a_file", PROGRAM, "bash", "torchrun")
    yield from _of("lacks_a_module", ("library-missing",), "exec", "spawn")
    yield from _of("lacks_a_setting", PROGRAM, "nohup", "redirected")
    yield from _of("asserts", PROGRAM, "torchrun", "mpirun")
    yield from _of("sees_nan", PROGRAM, "python", "torchrun")
    yield from _of("port_is_taken", ("master-port-in-use", *PROGRAM), "python")
    yield from _of("writes_too_long_a_file", PROGRAM + FULL, "python")
    yield from _of("opens_too_many_files", ("open-files-limit", *PROGRAM), "python")
    yield from _of("reads_bad_json", PROGRAM, "loop")
    yield from _of("exits_with_usage", PROGRAM, "python", "torchrun")
    yield from _of("tool_fails", PROGRAM, "python")
    yield from _of("loader_is_killed", ("rank-died", "host-out-of-memory", "native-crash"), "python", "torchrun")
    # what no output tells, or only a number of
    yield from _of("exits_at_once", DIED, "python", "bash", "torchrun", "redirected", "spawn", "loop", says="rank 1")
    yield from _of("exits_without_a_word", DIED, "exec", "torchrun", "mpirun", says="rank 1")
    yield from _of("swallows_and_exits", DIED, "nohup", "spawn")
    yield from _of("reads_nothing", CRASHED, "python", "faulthandler", "bash", "exec", "pipe", "loop", says="rank 1")
    yield from _of("reads_nothing", CRASHED, "torchrun", "redirected", "spawn", "mpirun", "srun", says="rank 1")
    yield from _of("overflows_stack", CRASHED, "python", "torchrun")
    yield from _of("aborts", CRASHED + DIED + PROGRAM, "python", "bash", "torchrun")
    yield from _of("terminates", CRASHED + DIED + PROGRAM, "spawn", "exec")
    yield from _of("maps_a_cut_file", (*CRASHED, "shm-too-small"), "python", "torchrun")
    yield from _of("divides", CRASHED, "nohup", "loop")
    yield from _of("waits", DIED, "python", "bash", "exec", "nohup", "pipe", "loop", act="kill rank", says="SIGKILL")
    yield from _of("waits", DIED, "torchrun", "redirected", "spawn", "mpirun", "srun", act="kill rank", says="rank 1")
    yield from _of("waits", DIED, "torchrun", "spawn", "loop", act="term rank", says="rank 1")
    yield from _of("waits", DIED + ENDED, "python", "bash", act="usr1 rank", says="SIGUSR1")
    yield from _of("waits", DIED + ENDED, "torchrun", "bash", act="kill command", says="SIGKILL")
    yield from _of("takes_all_memory", MEMORY, "cgroup", "own cgroup")
    yield from _of("uses_up_processor_time", ("time-limit", *DIED), "python", "torchrun", says="processor time|SIGXCPU")
    # who asked it to end
    yield from _of("waits", ENDED, "python", "torchrun", "spawn", act="term given", says="SIGTERM, sent by")
    yield from _of("waits", ENDED, "bash", "torchrun", act="term group", says="SIGTERM, sent by")
    yield from _of("waits", ("session-closed",), "python", "torchrun", act="hup group", says="SIGHUP")
    yield from _of("waits", ENDED, "python", "torchrun", act="int twice", says="SIGINT")
    yield from _of("waits", ENDED, "bash", act="int group", says="SIGINT")
    yield from _of("waits", ("time-limit", *ENDED), "timeout", says="timeout")
    yield from _of("waits", ENDED, "srun", "sbatch", act="scancel")
    yield from _of("waits", ("time-limit",), "sbatch", act="nothing")
    # under DeepSpeed's launcher: its runner waits for launch.py, which waits for the ranks; it ends with 0 where
    # a signal has ended launch.py, and passes no signal on
    deepspeed = "deepspeed"
    yield from _of("raises", PROGRAM, deepspeed, says="batch is empty")
    yield from _of("lacks_gpu_memory", ("gpu-out-of-memory",), deepspeed)
    yield from _of("lacks_a_module", ("library-missing",), deepspeed)
    yield from _of("fills_the_disk", FULL, deepspeed)
    yield from _of("exits_with_usage", PROGRAM, deepspeed)
    yield from _of("exits_at_once", DIED, deepspeed, says="rank 1")
    yield from _of("exits_without_a_word", DIED, deepspeed, says="rank 1")
    yield from _of("reads_nothing", CRASHED, deepspeed, says="rank 1")
    yield from _of("maps_a_cut_file", (*CRASHED, "shm-too-small"), deepspeed)
    yield from _of("waits", DIED, deepspeed, act="kill rank", says="rank 1")
    yield from _of("waits", DIED, deepspeed, act="term rank", says="rank 1")
    yield from _of("waits", ENDED, deepspeed, act="term given", says="SIGTERM, sent by")
    yield from _of("waits", ENDED, deepspeed, act="term group", says="SIGTERM, sent by")
    yield from _of("waits", ("session-closed",), deepspeed, act="hup group", says="SIGHUP")
    yield from _of("waits", DIED + ENDED, deepspeed, act="kill command", says="SIGKILL")
    yield from _of("waits", DIED + ENDED, deepspeed, act="kill launcher", says="SIGKILL")
    yield from _of("ends_well", (), deepspeed)
    # nothing to say
    yield from _of("ends_well", (), "python", "torchrun", "redirected", "spawn", "mpirun", "pipe")


PLANTED = {each.name: each for each in _planted()}
