"""Who was ended for want of memory: the job, or a stranger in the same cgroup while the job died of something else."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpudoctor import programs
from gpudoctor.check import Fix
from gpudoctor.explain.report import Explanation, LogCause
from gpudoctor.read.kernel_log import KernelLine
from gpudoctor.run import after, kernel as kernel_of_job, memory, verdict
from gpudoctor.run.end import RunEnded, SignalSeen
from gpudoctor.run.endings import ProcessEnded
from gpudoctor.run.kernel import KernelSaid
from gpudoctor.run.memory import MemorySeen, Oom, OomCounters
from gpudoctor.sure import LIKELY, PROVED, SEEN
from tests.fake_tree import fake
from tests.lab.requirements import require
from tests.test_run import PATIENCE, words
from tests.test_run_end import KILLED, kernel

__all__ = ["kernel"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")
V1 = Path("/sys/fs/cgroup/memory")
MOUNTS = {
    1: "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    2: "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
}
COUNTED = {1: "/sys/fs/cgroup/memory/job/memory.oom_control", 2: "/sys/fs/cgroup/job/memory.events.local"}


def tree(root: Path, version: int, *others: str) -> OomCounters:
    """Processes 5 and 6 are the job's, 7 is a stranger."""
    folder = COUNTED[version].rpartition("/")[0]
    files = {
        "/proc/5/cgroup": "4:memory:/job\n" if version == 1 else "0::/job/leaf\n",
        "/proc/self/mountinfo": MOUNTS[version],
        COUNTED[version]: "oom_kill 3\n",
        f"{folder}/cgroup.procs": "5\n",
        f"{folder}/leaf/cgroup.procs": "\n".join(["6", *others]),
    }
    for pid in (5, 6, 7):
        files[f"/proc/{pid}/stat"] = f"{pid} (python) S 1 {' '.join(['0'] * 50)}\n"
    if version == 2:
        files["/sys/fs/cgroup/memory.events.local"] = "oom_kill 9\n"
    return OomCounters(fake(root, files))


@pytest.mark.parametrize(
    ("version", "others", "oom"),
    [(2, (), "own"), (2, ("7",), "shared"), (2, ("0",), "shared"), (2, ("8",), "own"), (1, ("7",), "own")],
)
def test_a_rise_tells_of_the_job_where_it_is_alone(
    version: int, others: tuple[str, ...], oom: Oom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0: of a PID namespace that is not seen; 8: has ended. Of v1 each cgroup counts its own."""
    counters = tree(tmp_path, version, *others)
    counters.join(5)
    counters.look({5, 6})
    assert (counters.kills, counters.own_rise, counters.at_death(5), counters.at_death(6)) == (0, None, "", "")
    tmp_path.joinpath(COUNTED[version].lstrip("/")).write_text("oom_kill 5\n")
    assert (counters.at_death(5), counters.kills) == (oom, 2)
    assert (counters.own_rise is not None) == (oom == "own")
    monkeypatch.setattr(memory, "AT_ONCE", {"shared": 0.0, "own": 0.0})
    assert not counters.at_death(5), "it was another's, if that was long ago"


def test_v1_counts_the_strangers_of_the_cgroup_itself(tmp_path: Path) -> None:
    counters = tree(tmp_path, 1)
    tmp_path.joinpath("sys/fs/cgroup/memory/job/cgroup.procs").write_text("5\n7\n")
    counters.join(5)
    counters.look({5, 6})
    tmp_path.joinpath(COUNTED[1].lstrip("/")).write_text("oom_kill 4\n")
    assert counters.at_death(5) == "shared"


@pytest.mark.parametrize(
    ("there", "left", "kills", "oom"),
    [("7", "7", 1, "shared"), ("7", "", 1, "either"), ("7", "", 2, "shared"), ("0\n0", "0", 1, "either")],
)
def test_a_stranger_who_went_at_that_time_may_be_who_it_was(
    there: str, left: str, kills: int, oom: Oom, tmp_path: Path
) -> None:
    """Of two that were ended one at least is the job's."""
    counters = tree(tmp_path, 2, there)
    counters.join(5)
    counters.look({5, 6})
    tmp_path.joinpath("sys/fs/cgroup/job/leaf/cgroup.procs").write_text(f"6\n{left}\n")
    tmp_path.joinpath(COUNTED[2].lstrip("/")).write_text(f"oom_kill {3 + kills}\n")
    assert counters.at_death(5) == oom


@pytest.mark.parametrize("state", ["R", "Z"])
def test_who_exits_is_still_where_it_died(state: str, tmp_path: Path) -> None:
    """Giving back 3 GiB takes 0.3 s, in which its state is R and its cgroup the root."""
    counters = tree(tmp_path, 1)
    counters.join(5)
    tmp_path.joinpath(COUNTED[1].lstrip("/")).write_text("oom_kill 4\n")
    tmp_path.joinpath("sys/fs/cgroup/memory/memory.oom_control").write_text("oom_kill 9\n")
    tmp_path.joinpath("proc/5/stat").write_text(f"5 (python) {state} 1 0 0 0 0 4 {' '.join(['0'] * 50)}\n")
    tmp_path.joinpath("proc/5/cgroup").write_text("4:memory:/\n")
    counters.join(5)
    assert counters.at_death(5) == "own"


def death(status: int | None, seconds: float = 99.0, **more: object) -> ProcessEnded:
    known: dict[str, object] = {"pid": 501, "name": "python", "rank": 1, **more}
    return ProcessEnded(status=status, seconds=seconds, **known)  # type: ignore[arg-type]


def ended(*deaths: ProcessEnded, status: int = 1, **more: object) -> RunEnded:
    known: dict[str, object] = {"pid": 500, "pids": (500, 501), "name": "torchrun", "memory": MemorySeen(kills=1)}
    known |= {"began": time.monotonic() - 100, **more}
    return RunEnded(status=status, seconds=100.0, ended=deaths, **known)  # type: ignore[arg-type]


def cause(end: RunEnded, said: KernelSaid | None = None) -> tuple[str, float]:
    found = verdict.found(end, Explanation(), verdict.for_memory(end, said or KernelSaid()))
    return (found.cause, found.confidence) if found is not None else ("", 0.0)


ALONE = MemorySeen(kills=1, own_seconds=98.0)
ASKED = SignalSeen(number=signal.SIGTERM, seconds=97.0, pid=1)


@pytest.mark.parametrize(
    ("end", "right"),
    [
        (ended(death(77)), ("rank-died", LIKELY)),
        (ended(death(-11)), ("native-crash", SEEN)),
        (ended(death(-9)), ("rank-died", SEEN)),
        (ended(death(-9, cpu_limit=60.0)), ("time-limit", SEEN)),
        (ended(status=-9, cpu_limit=60.0), ("time-limit", SEEN)),
        (ended(death(-9, oom="own")), ("host-out-of-memory", SEEN)),
        (ended(death(-9, oom="shared")), ("host-out-of-memory", LIKELY)),
        (ended(death(-9, oom="either")), ("rank-died", LIKELY)),
        (ended(death(-11, 98.0), death(-9, rank=0, pid=502, oom="own")), ("native-crash", SEEN)),
        (ended(death(-9, oom="own"), signals=(ASKED,)), ("cancelled", SEEN)),
        (ended(death(-9, 96.9, oom="own"), signals=(ASKED,)), ("host-out-of-memory", SEEN)),  # systemd's OOMPolicy=stop
        (ended(death(-9, 97.1, oom="own"), signals=(ASKED,)), ("host-out-of-memory", SEEN)),
        (ended(death(None, oom="own"), status=137, name="bash"), ("host-out-of-memory", SEEN)),
        (ended(death(None, oom="shared", rank=None), death(77, rank=0, pid=502)), ("rank-died", LIKELY)),
        (ended(death(77), memory=ALONE), ("host-out-of-memory", LIKELY)),  # a child of it that nobody had seen
        (ended(death(-11), memory=ALONE), ("native-crash", SEEN)),
        (ended(status=-9, memory=MemorySeen(kills=1, of_command="own")), ("host-out-of-memory", SEEN)),
        (ended(status=-9, memory=MemorySeen(kills=1)), ("rank-died", SEEN)),
    ],
)
def test_which_end_a_counter_tells_of(end: RunEnded, right: tuple[str, float]) -> None:
    assert cause(end) == right
    if right == ("host-out-of-memory", LIKELY) and end.memory != ALONE:  # the kernel names strangers, and not the job
        assert cause(end, KernelSaid(names_others=True))[0] == "rank-died"


def test_the_kernels_log_speaks_of_the_job_by_number(kernel: list[KernelLine], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.append(KernelLine(time.monotonic() - 2, KILLED.format(pid=501)))
    killed, raised = ended(death(-9)), ended(death(77))
    assert cause(killed, kernel_of_job.of_job(killed)) == ("host-out-of-memory", PROVED)
    assert cause(raised, kernel_of_job.of_job(raised))[0] == "rank-died", "a process that has ended so was not killed"
    first = ended(death(-11, 98.0, pid=502), death(-9))
    assert cause(first, kernel_of_job.of_job(first))[0] == "native-crash"
    earlier = ended(death(-9, -900.0), death(-9, pid=502, rank=0))
    assert cause(earlier, kernel_of_job.of_job(earlier))[0] == "rank-died"
    monkeypatch.setattr(kernel_of_job, "_numbers_are_ours", lambda: False)
    assert cause(killed, kernel_of_job.of_job(killed))[0] == "rank-died", "in a container 501 is somebody else"


XID = "NVRM: Xid (PCI:0000:{bus}:00): {number}, pid={pid}, name={name}, GPU has fallen off the bus."


def test_events_of_gpus_of_others(kernel: list[KernelLine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str] = {
        f"{kernel_of_job.GPUS}/0000:{bus}:00.0/information": f"Model: \t NVIDIA H100\nDevice Minor: \t {minor}\n"
        for bus, minor in (("41", 998), ("42", 999))
    }
    monkeypatch.setattr(kernel_of_job, "THIS", fake(tmp_path, files))
    monkeypatch.setattr(kernel_of_job, "_numbers_are_ours", lambda: True)
    monkeypatch.setattr(os, "access", lambda path, mode: str(path).endswith("998"))
    now = time.monotonic()
    unknown = {"number": 79, "pid": "'<unknown>'", "name": "<unknown>"}
    kernel += [KernelLine(now - 2, XID.format(bus=bus, **unknown)) for bus in ("41", "42", "43")]
    kernel += [KernelLine(now - 2, XID.format(bus="41", number=13, pid=pid, name="python")) for pid in (501, 777)]
    kept = [line.text for line in kernel_of_job.of_job(ended(death(-6))).lines]
    assert kept == [kernel[0].text, kernel[3].text]


def test_a_lost_gpu_ends_nobody_by_sigkill(kernel: list[KernelLine], tmp_path: Path) -> None:
    unknown = {"number": 79, "pid": "'<unknown>'", "name": "<unknown>"}
    kernel.append(KernelLine(time.monotonic() - 2, XID.format(bus="41", **unknown)))
    (tmp_path / "output.log").write_text("step 1 loss 0.5\n")
    for status, cause in ((-9, "rank-died"), (1, "xid-gpu-lost")):
        assert after.told(ended(death(status), folder=str(tmp_path), logs=("output.log",))).cause == cause


WORKER = "RuntimeError: DataLoader worker (pid 600) is killed by signal: Killed. "


@pytest.mark.parametrize(
    ("seen", "right"),
    [
        (MemorySeen(kills=0), ("rank-died", SEEN)),
        (MemorySeen(), ("host-out-of-memory", LIKELY)),
        (MemorySeen(kills=1, own_seconds=98.0), ("host-out-of-memory", SEEN)),
    ],
)
def test_a_log_takes_sigkill_for_want_of_memory_and_the_counters_know(
    seen: MemorySeen, right: tuple[str, float], kernel: list[KernelLine], tmp_path: Path
) -> None:
    line = f'Traceback (most recent call last):\n  File "/job/train.py", line 9, in <module>\n    main()\n{WORKER}\n'
    (tmp_path / "output.log").write_text(f"rank 1 step 1 loss 0.5\n{line}")
    worker = death(-9, 98.0, rank=None, of_rank=1, pid=600, oom="own" if seen.kills else "")
    told = after.told(ended(worker, death(1), memory=seen, folder=str(tmp_path), logs=("output.log",)))
    assert (told.cause, told.confidence) == right, told


@pytest.mark.parametrize(
    ("line", "oom", "right"),
    [
        ("RuntimeError: worker died: -9", "own", "host-out-of-memory"),
        ("OSError: helper 600 has gone", "own", "host-out-of-memory"),
        ("EOFError", "own", "host-out-of-memory"),
        ("ValueError: of its own", "own", "program-error"),
        ("RuntimeError: worker died: -9", "", "program-error"),
    ],
)
def test_an_error_that_tells_of_what_was_killed_for_memory(
    line: str, oom: Oom, right: str, kernel: list[KernelLine], tmp_path: Path
) -> None:
    text = f'Traceback (most recent call last):\n  File "/job/train.py", line 9, in <module>\n    main()\n{line}\n'
    (tmp_path / "output.log").write_text(f"rank 1 step 1 loss 0.5\n{text}")
    worker = death(-9, 98.0, rank=None, of_rank=1, pid=600, oom=oom)
    told = after.told(ended(worker, death(1), folder=str(tmp_path), logs=("output.log",)))
    assert told.cause == right, told


@pytest.mark.parametrize(
    ("helper", "right"),
    [
        (death(-15, 98.9, rank=None, of_rank=1, pid=600), ("rank-died", "status 3")),
        (death(-9, 40.0, rank=None, of_rank=1, pid=600), ("rank-died", "status 3")),
        (death(-9, 98.0, rank=None, of_rank=1, pid=600), ("rank-died", "rank 1 had started")),
        (death(-11, 98.0, rank=None, of_rank=1, pid=600), ("native-crash", "rank 1 had started")),
    ],
)
def test_what_a_rank_has_started_and_ended_itself_is_not_its_end(helper: ProcessEnded, right: tuple[str, str]) -> None:
    found = verdict.found(ended(helper, death(3)), Explanation())
    assert found is not None and found.cause == right[0] and right[1] in found.summary, found
    alone = ProcessEnded(pid=600, name="python", parent=500, status=-15, seconds=99.9)
    found = verdict.found(ended(alone, status=3, name="python"), Explanation())
    assert found is not None and "status 3" in found.summary, found


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ("RuntimeError: DataLoader worker (pid(s) 600) exited unexpectedly", "exit status 9, and rank 1"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "exit status 9, and rank 1"),
        ("FooError: of its own", ""),
    ],
)
def test_a_worker_that_left_by_itself(last: str, says: str, kernel: list[KernelLine], tmp_path: Path) -> None:
    line = f'Traceback (most recent call last):\n  File "/job/train.py", line 9, in <module>\n    main()\n{last}\n'
    (tmp_path / "output.log").write_text(f"rank 1 step 1 loss 0.5\n{line}")
    worker = death(9, 98.5, rank=None, of_rank=1, pid=600, name="pt_data_worker")
    told = after.told(ended(worker, death(1), folder=str(tmp_path), logs=("output.log",)))
    assert (says in " ".join(told.lines) and told.cause == "rank-died") if says else "status 9" not in str(told.lines)


SCONTROL = '#!/bin/sh\n[ "$SLURM_TIME_FORMAT" = %s ] && echo JobId=7 JobState={state} Reason=None EndTime={end}\n'


@pytest.mark.thorough
@pytest.mark.parametrize(("ago", "asked"), [(1.0, True), (9000.0, False), (-60.0, False)])
def test_slurms_word_is_of_this_run(
    ago: float, asked: bool, kernel: list[KernelLine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not of a job that has ended long ago, in which a shell has lived on."""
    place = tmp_path / "scontrol"
    place.write_text(SCONTROL.format(state="CANCELLED", end=round(time.time() - ago)))
    place.chmod(0o755)
    monkeypatch.setattr(programs, "find", lambda name: str(place))
    told = after.told(ended(death(-9), slurm_job="7", folder=str(tmp_path)))
    assert (told.cause == "cancelled") == asked, told


# ---------------------------------------------------------------- real processes in a real cgroup


RANK = (
    "import os, signal, sys, time\n"
    "open(sys.argv[1] + '/ready', 'w').close()\n"
    "while not os.path.exists(sys.argv[1] + '/gone'): time.sleep(0.02)\n"
    "{end}\n"
)
HOG = "import time; time.sleep(3.5); x = bytearray(1 << 30)"
ENDS = {
    "is killed": ("time.sleep({later}); os.kill(os.getpid(), 9)", "rank-died", "killed by SIGKILL"),
    "exits": ("os._exit(77)", "rank-died", "status 77"),
    "takes all memory": ("time.sleep(3); x = bytearray(1 << 30)", "host-out-of-memory", "want of memory"),
}


@pytest.fixture
def group() -> Iterator[Path]:
    require((V1 / "memory.limit_in_bytes").exists() and os.geteuid() == 0, "no memory cgroup (v1)")
    place = V1 / f"gpudoctor-test-{uuid.uuid4().hex[:8]}"
    place.mkdir()
    (place / "memory.limit_in_bytes").write_text(str(300 << 20))
    yield place
    deadline = time.monotonic() + 20
    while place.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            place.rmdir()
        time.sleep(0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize("end", list(ENDS))
def test_a_stranger_is_ended_for_memory_beside_a_job(end: str, contained: bool, group: Path, tmp_path: Path) -> None:
    """`contained`: in a PID namespace of its own the kernel's log tells nothing, and the counter alone speaks."""
    text, right, says = ENDS[end]
    rank = RANK.format(end=text.format(later=0))
    job = words(sys.executable, "-c", rank, str(tmp_path), options=["--report", str(tmp_path / "report")])
    script = (
        f'echo $$ > {group}/cgroup.procs; "$@" 2> {tmp_path}/said & doctor=$!\n'
        f"while [ ! -e {tmp_path}/ready ]; do sleep 0.05; done\n"
        + (f'{sys.executable} -c "{HOG}"\n' if end != "takes all memory" else "")
        + f": > {tmp_path}/gone\nwait $doctor\n"
    )
    apart = ["unshare", "--pid", "--fork", "--mount-proc"] if contained else []
    environment: Mapping[str, str] = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    subprocess.run(
        [*apart, "sh", "-c", script, "-", *job], env=environment, stdin=subprocess.DEVNULL, timeout=2 * PATIENCE
    )
    said = (tmp_path / "said").read_text()
    found = json.loads(next((tmp_path / "report").glob("*/found.json")).read_text())
    assert found["cause"] == right and says in said, said
    if end == "takes all memory":
        assert found["confidence"] == (SEEN if contained else PROVED), said


@pytest.mark.parametrize(("told", "cause"), [((), "native-crash"), (("slow-rank-timeout", "uneven-inputs"), None)])
def test_an_abort_by_torch_s_watchdog_is_no_crash(told: tuple[str, ...], cause: str | None) -> None:
    """Of an H200: what its log could not decide was answered with "update or rebuild that extension"."""
    answer = Explanation(causes=tuple(LogCause(cause=name, confidence=0.4, summary="", fix=Fix("")) for name in told))
    found = verdict.found(ended(death(-6), status=1), answer)
    assert (found.cause if found is not None else None) == cause
