"""What `gpudoctor run` says when the command has ended: from logs, signals, the cgroup and the kernel's log."""

import io
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from gpudoctor import active
from gpudoctor.causes import CAUSES
from gpudoctor.explain.explain import explain
from gpudoctor.read.kernel_log import KernelLine
from gpudoctor.run import after, kernel as kernel_of_job, look
from gpudoctor.run.end import AttemptSeen, NodeEnded, RunEnded, SchedulersWord, SignalSeen, by_slurm, by_whom
from gpudoctor.run.endings import ProcessEnded
from gpudoctor.run.hub_messages import PartEnded, line_of, message_of
from gpudoctor.run.memory import MemorySeen
from gpudoctor.run.summary import StepsSeen, lines
from gpudoctor.snapshot import Reading, read
from gpudoctor.sure import LIKELY, SEEN
from tests.test_run import OURS, PATIENCE, log_of, relays_of, runs, started, until, words

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux"),
    pytest.mark.timeout(600),  # waits for most of a minute
]
OOM_LINE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB"
)
STEPS = "".join(f"rank {rank} step {step} loss 0.5\n" for step in range(2) for rank in range(2))
MORE_STEPS = "".join(f"rank 0 step {step} loss 0.4\n" for step in range(2, 6))
KILLED = "Memory cgroup out of memory: Killed process {pid} (python) total-vm:8123456kB, anon-rss:7000000kB, UID:1000"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[KernelLine]:
    """What the kernel's log holds."""
    lines: list[KernelLine] = []

    def told(system: object) -> Reading[list[KernelLine]]:
        return read("/dev/kmsg", lines)

    monkeypatch.setattr(kernel_of_job, "read_lines", told)
    return lines


def ended(folder: Path, text: str = "", status: int = 1, **more: object) -> RunEnded:
    (folder / "output.log").write_text(text)
    known: dict[str, object] = {"status": status, "seconds": 100.0, "pid": 500, "pids": (500, 501)}
    known["memory"] = MemorySeen(kills=0)
    known |= {"began": time.monotonic() - 100, **more}
    kept = {name: known[name] for name in ("status", "ended") if name in known}
    (folder / "run.json").write_bytes(msgspec.json.encode({"command": ["srun", "t.py"], "started": 1.79e9, **kept}))
    return RunEnded(folder=str(folder), logs=("output.log",), **known)  # type: ignore[arg-type]


def test_a_cause_in_the_log_is_named_with_its_line_and_no_password(tmp_path: Path, kernel: list[KernelLine]) -> None:
    told = after.told(ended(tmp_path, f"step 1\nconnecting with --password=hunter2\n{OOM_LINE}\n"))
    said = "\n".join(told.lines)
    assert told.cause == "gpu-out-of-memory" and told.restart == "after a fix"
    assert "output.log:3 | torch.OutOfMemoryError" in said and "start it again: after a fix" in said
    assert "hunter2" not in said and "fix: " in said
    assert stat.S_IMODE((tmp_path / after.EXPLANATION).stat().st_mode) == 0o600


def test_killed_for_memory_only_where_something_tells_so(tmp_path: Path, kernel: list[KernelLine]) -> None:
    now = time.monotonic()
    others = KernelLine(now - 5, KILLED.format(pid=777))
    before = KernelLine(now - 5000, KILLED.format(pid=501))
    kernel += [others, before]
    told = after.told(ended(tmp_path, "step 1\nstep 2\n", -9))
    assert told.cause == "rank-died" and "no process of its cgroup was ended for want of memory" in told.lines[0]
    told = after.told(ended(tmp_path, "step 1\nstep 2\n", -9, memory=MemorySeen()))
    assert told.cause == "rank-died" and "is not told" in told.lines[0]
    kernel.clear()
    told = after.told(ended(tmp_path, "step 1\nstep 2\n", -9, memory=MemorySeen(kills=1, of_command="own")))
    assert told.cause == "host-out-of-memory" and told.confidence == SEEN
    told = after.told(ended(tmp_path, "step 1\nstep 2\n", -9, memory=MemorySeen(kills=1, of_command="shared")))
    assert told.cause == "host-out-of-memory" and told.confidence == LIKELY and "there are others" in told.lines[0]
    told = after.told(ended(tmp_path, "step 1\nstep 2\n", -9, memory=MemorySeen(kills=1)))
    assert told.cause == "rank-died" and "ended others of its cgroup" in told.lines[0]
    kernel.append(KernelLine(now - 3, KILLED.format(pid=501)))
    told = after.told(ended(tmp_path, "step 1\nstep 2\n", 1))
    assert told.cause == "host-out-of-memory" and "501" in told.lines[0]
    assert OOM_LINE not in "".join(told.lines)


def test_a_cause_of_the_log_stands_before_memory_that_ran_out_beside_it(
    tmp_path: Path, kernel: list[KernelLine]
) -> None:
    told = after.told(ended(tmp_path, f"{OOM_LINE}\n", memory=MemorySeen(kills=1, of_command="own", own_seconds=99.0)))
    assert told.cause == "gpu-out-of-memory"


def test_who_asked_it_to_end(tmp_path: Path, kernel: list[KernelLine]) -> None:
    asked = SignalSeen(number=signal.SIGTERM, seconds=99.0, pid=4711, sender="slurmstepd")
    told = after.told(ended(tmp_path, "step 1\n", 1, signals=(asked,)))
    assert told.cause == "cancelled" and "it got SIGTERM, sent by slurmstepd (process 4711) after 99 s" in told.lines
    long_ago = SignalSeen(number=signal.SIGUSR1, seconds=1.0, pid=4711, sender="slurmstepd")
    assert after.told(ended(tmp_path, "step 1\n", -9, seconds=9000.0, signals=(long_ago,))).cause == "rank-died"
    early = SignalSeen(number=signal.SIGINT, seconds=1.0, by_terminal=True)
    late = SignalSeen(number=signal.SIGINT, seconds=90.0, by_terminal=True)
    text = f'Traceback (most recent call last):\n  File "t.py", line 1\nKeyboardInterrupt\n{OOM_LINE}\n'
    assert after.told(ended(tmp_path, text, signals=(late,))).lines == (
        "it was interrupted at the terminal after 90 s",
    )
    assert after.told(ended(tmp_path, text, seconds=9000.0, signals=(early,))).cause == "gpu-out-of-memory"
    assert by_whom(late) == "SIGINT (Ctrl-C)"


def test_what_is_not_known_is_not_named(tmp_path: Path, kernel: list[KernelLine]) -> None:
    told = after.told(ended(tmp_path, "hello\nworld\n", 3))
    assert told.cause is None and told.restart == "not decided"
    told = after.told(ended(tmp_path, "", 1, ended=(ProcessEnded(pid=501, name="grep", status=1, seconds=99.0),)))
    assert told.cause is None


def test_a_program_that_ends_itself_is_no_rank_of_torchrun(tmp_path: Path, kernel: list[KernelLine]) -> None:
    told = after.told(ended(tmp_path, "", 3, name="python3"))
    assert told.cause == "rank-died" and "itself (python3, process 500) ended with exit status 3" in told.lines[0]
    assert not any("torchrun" in line for line in told.lines)
    unknown = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nOddError: 7\n'
    assert after.told(ended(tmp_path, unknown, 1, name="python3")).cause != "rank-died"
    assert after.told(ended(tmp_path, "", 1)).lines[-1] == "it said nothing"


def test_a_program_that_says_why_it_ended_is_not_said_to_say_nothing(tmp_path: Path, kernel: list[KernelLine]) -> None:
    head = 'Traceback (most recent call last):\n  File "/job/t.py", line 4, in <module>\n    prepare()\n'
    call = f"{head}subprocess.CalledProcessError: Command '['mkidx', 'data']' "
    told = after.told(ended(tmp_path, f"{call}returned non-zero exit status 9.\n", 1, name="python3"))
    assert told.cause == "program-error" and "a command that it had called failed: " in told.lines[0], told
    assert "'mkidx'" in told.lines[0] and "/job/t.py:4" in told.lines[0]
    told = after.told(ended(tmp_path, f"{call}died with <Signals.SIGKILL: 9>.\n", 1, name="python3"))
    assert told.cause == "rank-died" and "its process end by SIGKILL" in told.lines[0], told


@pytest.mark.thorough
def test_where_the_logs_are_not_read_in_time_the_ends_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "SECONDS", 0.0)
    told = look.look_into(ended(tmp_path, "", -11, name="python3"), lambda seconds: False)
    assert told.cause == "native-crash" and told.lines[0].startswith("the logs were not read"), told
    assert look.look_into(ended(tmp_path, "", 3, name="python3"), lambda seconds: False).cause is None
    asked = SignalSeen(number=signal.SIGTERM, seconds=99.0, pid=4711, sender="slurmstepd")
    told = look.look_into(ended(tmp_path, "", 1, signals=(asked,)), lambda seconds: False)
    assert told.cause == "cancelled" and told.lines[0] == "it got SIGTERM, sent by slurmstepd (process 4711) after 99 s"


def test_a_spawned_process_that_nobody_saw_is_no_error_of_the_one_that_tells_of_it(
    tmp_path: Path, kernel: list[KernelLine]
) -> None:
    text = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n'
    text += "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 1\n"
    assert after.told(ended(tmp_path, text, 1, name="python3")).cause == "rank-died"


def test_srun_names_the_task_that_crashed_though_another_goes_on(
    tmp_path: Path, kernel: list[KernelLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{STEPS}srun: error: n1: task 1: Segmentation fault\n{MORE_STEPS}rank 0 done\n"
    told = after.told(ended(tmp_path, text, 139, name="srun"))
    assert told.cause == "native-crash" and told.confidence == SEEN and "(rank 1, where" in told.lines[0], told
    assert any("n1: task 1: Segmentation fault" in line for line in told.lines), told
    again = explain([str(tmp_path / "output.log")], stdin=io.BytesIO())
    assert again.causes[0].cause == "native-crash" and not again.well and again.course == "not shown"
    monkeypatch.chdir(tmp_path)
    assert explain(["-"], stdin=io.BytesIO(text.encode())).well  # what comes from elsewhere is not that log
    (tmp_path / "run.json").write_text('{"status": 139}')  # another program's
    assert explain([str(tmp_path / "output.log")], stdin=io.BytesIO()).well


def test_a_fault_that_the_job_went_on_behind_may_have_ended_it_where_nothing_else_did(
    tmp_path: Path, kernel: list[KernelLine]
) -> None:
    text = f"{STEPS}srun: error: n1: task 1: Segmentation fault\n{MORE_STEPS}rank 0 done\n"
    told = after.told(ended(tmp_path, text, 1, name="srun"))
    assert told.cause is None and any("it may be" in line and "task 1 of srun" in line for line in told.lines), told


def test_an_exception_that_nobody_signed_is_that_of_the_only_rank_that_failed(
    tmp_path: Path, kernel: list[KernelLine]
) -> None:
    text = f'{STEPS}Traceback (most recent call last):\n  File "/job/train.py", line 9, in <module>\n    main()\n'
    text += "ValueError: the batch is empty\nrank 0 done\n"
    told = after.told(ended(tmp_path, text, 1, ended=(death(1, 1, 99.0), death(0, -15, 99.5))))
    assert told.cause == "program-error" and "rank 1 died of ValueError" in told.lines[0], told


def test_nobody_is_blamed_where_the_last_words_are_lost(tmp_path: Path, kernel: list[KernelLine]) -> None:
    told = after.told(ended(tmp_path, STEPS, 1, ended=(death(1, 1, 99.0),), log_ended=True))
    assert told.cause is None and told.lines == ("its last words are not kept",), told


def test_the_time_limit_of_slurm(tmp_path: Path) -> None:
    of_slurm = ended(tmp_path, "", 143, slurm_end=5000.0)
    assert by_slurm(of_slurm, 5000.5) == "time-limit" and not by_slurm(of_slurm, 4000.0)
    assert not by_slurm(ended(tmp_path, "", 1, slurm_end=5000.0), 5000.5)
    assert not by_slurm(ended(tmp_path, "", 143), 5000.5)


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        (
            "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-27T02:22:50 DUE TO TIME LIMIT ***",
            "time-limit",
        ),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-27T02:22:50 DUE TO PREEMPTION ***", "preempted"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-27T02:22:50 DUE TO JOB REQUEUE ***", "preempted"),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-27T02:22:50 DUE TO NODE FAILURE, SEE SLURMCTLD "
            "LOG FOR DETAILS ***",
            "node-lost",
        ),
        ("srun: error: *** STEP 7.0 CANCELLED AT 2026-11-27T02:22:50 DUE TO TIME LIMIT ***", "time-limit"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-27T02:22:50 ***", "cancelled"),
        ("slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-27T02:22:50 ***", None),
    ],
)
def test_slurms_own_word_is_told_at_once(
    word: str, cause: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_time(*given: object, **more: object) -> None:
        raise OSError(0, "no time for that")

    monkeypatch.setattr(active, "start", no_time)
    job = ended(tmp_path, f"{STEPS}{word}\nsrun: error: n1: task 1: Terminated\n", 143)
    told = look.look_into(job, lambda seconds: False)
    assert told.cause == cause and told.restart == (CAUSES[cause].restart if cause else "not decided"), told
    assert look.look_into(ended(tmp_path, f"{word}\n", 1), lambda seconds: False).cause is None


def death(rank: int, status: int, seconds: float) -> ProcessEnded:
    return ProcessEnded(pid=700 + rank, name="python", rank=rank, status=status, seconds=seconds)


def test_which_rank_died_first_and_of_what(tmp_path: Path, kernel: list[KernelLine]) -> None:
    closed = "[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:53112\n"
    told = after.told(ended(tmp_path, closed, 1, ended=(death(1, -9, 98.0), death(0, 1, 98.4))))
    assert told.cause == "rank-died" and "rank 1 (process 701) was killed by SIGKILL" in told.lines[0]
    assert "in this order: rank 1 by SIGKILL at 98.0 s, rank 0 with status 1 at 98.4 s" in told.lines
    told = after.told(ended(tmp_path, "", 1, ended=(death(1, -11, 98.0), death(0, -15, 98.4))))
    assert told.cause == "native-crash" and "rank 1" in told.lines[0]
    told = after.told(ended(tmp_path, f"{OOM_LINE}\n", 1, ended=(death(1, 1, 98.0), death(0, -9, 99.0))))
    assert told.cause == "gpu-out-of-memory"
    told = after.told(ended(tmp_path, "", 1, ended=(death(1, -9, 5.0), death(0, 3, 2000.0)), seconds=2000.1))
    assert told.cause == "rank-died" and "rank 0 (process 700) ended first, with exit status 3" in told.lines[0]


REFUSED = (
    "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed "
    "out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:14240$0"
)


def raised(words: str) -> str:
    return f'Traceback (most recent call last):\n  File "/home/mara/train.py", line 9, in <module>\n    go()\n{words}\n'


def test_each_attempt_of_torchrun_has_a_cause_of_its_own_and_the_last_one_is_final(
    tmp_path: Path, kernel: list[KernelLine]
) -> None:
    first, second = raised("ValueError: learning rate -1 is not allowed"), raised(REFUSED)
    for number, text in enumerate((first, second)):
        again = f"-start-{number + 1}" if number else ""
        (tmp_path / f"rank-1{again}.log").write_text(text)
    deaths = (
        *(structs.replace(death(1, 1, 20.0), attempt=0), structs.replace(death(1, 1, 40.0), attempt=1)),
        *(structs.replace(death(1, -9, 99.0), attempt=2), structs.replace(death(0, -15, 99.5), attempt=2)),
    )
    starts = (
        AttemptSeen(number=1, seconds=22.0, said=len(first)),
        AttemptSeen(number=2, seconds=42.0, said=len(first + second)),
    )
    run = ended(tmp_path, first + second + "step 0\n", ended=deaths, attempts=starts, nodes=1)
    told = after.told(structs.replace(run, logs=("output.log", "rank-1.log", "rank-1-start-2.log")))
    assert (told.cause, told.variant) == ("rank-died", "killed") and "rank 1 (process 701) was killed" in told.lines[2]
    assert "attempt 1: " in told.lines[0] and "learning rate -1 is not allowed" in told.lines[0]
    assert "attempt 2: rank 1 (process 701) found nobody at the address of another rank" in told.lines[0]
    assert told.lines[1] == "attempt 3, the last one:" and "ValueError" not in "".join(told.lines[1:])
    well = after.told(structs.replace(run, status=0))
    assert len(well.lines) == 1 and "again 2 times: attempt 1" in well.lines[0] and well.cause is None


def test_a_rank_that_is_refused_on_its_own_node_was_given_no_wrong_address(
    tmp_path: Path, kernel: list[KernelLine]
) -> None:
    one = after.told(ended(tmp_path, raised(REFUSED), ended=(death(0, 1, 99.0),), nodes=1))
    assert one.cause == "rank-died" and "of this node, which had ended" in one.lines[0]
    assert after.told(ended(tmp_path, raised(REFUSED), ended=(death(0, 1, 99.0),), nodes=2)).cause == (
        "master-addr-loopback"
    )


def test_why_another_node_ended_is_told_as_that_node_knows_it(tmp_path: Path, kernel: list[KernelLine]) -> None:
    first = structs.replace(death(1, -15, 50.0), host="pod-1")
    word = SchedulersWord(cause="preempted", confidence=0.95, summary="Kubernetes ended the pod (Preempting)")
    asked = SignalSeen(number=15, seconds=49.9)
    for node, cause, text in (
        (NodeEnded(name="pod-1", asked=asked, word=word), "preempted", "on pod-1, Kubernetes ended the pod"),
        (NodeEnded(name="pod-1", asked=asked), "cancelled", "its part on pod-1 was asked to end: it got SIGTERM, sent"),
        (NodeEnded(name="pod-2", asked=asked, word=word), "rank-died", "rank 1 (process 701 on pod-1)"),
    ):
        told = after.told(ended(tmp_path, ended=(first, death(0, 1, 51.0)), elsewhere=(node,), nodes=2))
        assert told.cause == cause and text in told.lines[0], told
    message = PartEnded(status=143, seconds=50.0, asked=asked, word=word)
    assert message_of(line_of(message)) == message


def test_a_signal_that_all_of_the_job_ignore_has_not_ended_it(environment: dict[str, str]) -> None:
    line = shlex.join(words("sh", "-c", "sleep 5; exit 4"))
    process = subprocess.Popen(
        ["nohup", "sh", "-c", f"exec {line}"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until(lambda: runs(environment) and (runs(environment)[-1] / "use.jsonl").exists(), "it runs")
        time.sleep(1)
        os.killpg(process.pid, signal.SIGHUP)
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 4 and b"it got SIGHUP" in said and b"cause:" not in said, said


def test_a_doctor_below_a_doctor_ends_its_helpers_and_nobody_else(environment: dict[str, str], tmp_path: Path) -> None:
    inner = words("sh", "-c", "sleep 3; exit 7", options=["--report", str(tmp_path / "inner")])
    outer = words(*inner, options=["--report", str(tmp_path / "outer")])
    done = subprocess.run(outer, env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 7 and b"SIGKILL" not in done.stderr, done.stderr


def test_what_a_training_that_has_ended_well_has_used() -> None:
    first = b'{"began": 1.0}\n{"t": 1.0, "memory": 1073741824, '
    use = first + b'"gpus": [[0, 90.0, 1073741824, 300.0], [1, 50.0, 2147483648, 1.0]]}\n{'
    steps = StepsSeen(counts=(110, 110), before=10, seconds=50.0, longest_pause=4.0)
    assert list(lines(steps, use)) == [
        "its ranks began 110 collectives each, 2 a second; the longest pause was 4 s",
        "its processes held 1 GiB at most; GPUs were busy 70% of the time (GPU 1: 50%); GPU 1 held 2 GiB at most",
    ]
    assert not list(lines(StepsSeen(), use))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


def test_a_good_end_is_one_line_and_a_bad_one_names_its_cause(environment: dict[str, str]) -> None:
    done = subprocess.run(words("true"), env=environment, capture_output=True, timeout=PATIENCE, check=True)
    assert done.stderr.count(b"\n") == 1 and b"ended well" in done.stderr
    text = f"echo '{OOM_LINE}'; exit 1"
    done = subprocess.run(words("sh", "-c", text), env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1 and done.stdout.decode() == OOM_LINE + "\n"
    assert b"[gpu-out-of-memory]" in done.stderr and not OURS.sub(b"", done.stderr)


RANK = """
import os, sys, time
rank = int(os.environ["RANK"])
os.write(1, b"rank %d ready\\n" % rank)
if {fails} and rank == 1:
    raise ValueError("the batch is empty")
time.sleep({seconds})
"""


def torchrun(script: Path, ranks: int = 2) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(script)]


def test_torchrun_whose_rank_raises(environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(RANK.format(fails=True, seconds=60))
    done = subprocess.run(
        words(*torchrun(script)), env=environment, capture_output=True, timeout=3 * PATIENCE, check=False
    )
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == [b"rank 0 ready", b"rank 1 ready"]
    ours = b"".join(OURS.findall(done.stderr))
    assert b"ValueError: the batch is empty" in ours and b"cause: " in ours
    assert b"ChildFailedError" in log_of(environment)


@pytest.mark.parametrize("whole_group", [False, True])
def test_torchrun_that_is_asked_to_end_leaves_no_rank(
    whole_group: bool, environment: dict[str, str], tmp_path: Path
) -> None:
    """A second SIGTERM would interrupt torchrun while it ends its ranks."""
    script = tmp_path / "train.py"
    script.write_text(RANK.format(fails=False, seconds=600))
    with started(f"exec {' '.join(torchrun(script))}", environment) as job:
        for _ in range(1):
            assert job.process.stdout is not None
            job.process.stdout.readline()
        (os.killpg if whole_group else os.kill)(job.process.pid, signal.SIGTERM)
        status, _, errors = job.ended()
    assert status in (1, -15), errors
    assert b"Received 15 death signal" in errors and b"it got SIGTERM" in errors
    until(lambda: not ranks_of(script), "no rank is left")
    assert not relays_of(tmp_path)


def ranks_of(script: Path) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(script) in place.read_bytes():
                found.append(place.parent.name)
        except OSError:
            pass
    return found


def test_a_launcher_that_hides_the_death_of_its_own_part(environment: dict[str, str], tmp_path: Path) -> None:
    """As DeepSpeed's runner: it ends with 0 where a signal has ended launch.py, and the ranks go on."""
    rank = "import time, sys\nopen(sys.argv[1], 'w').close()\ntime.sleep(30)\n"
    launch = (
        "import os, subprocess, sys, time\n"
        f"ranks = [subprocess.Popen([sys.executable, '-c', {rank!r}, f'{tmp_path}/ready-{{rank}}'],\n"
        "          env={**os.environ, 'RANK': str(rank)}) for rank in range(2)]\n"
        f"while len([name for name in os.listdir({str(tmp_path)!r}) if name.startswith('ready')]) < 2: time.sleep(.1)\n"
        "time.sleep(3)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    runner = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {launch!r}]).wait()"
    done = subprocess.run(
        words(sys.executable, "-c", runner), env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=180
    )
    ours = done.stderr.decode()
    assert done.returncode == 0, ours
    assert "ended with exit status 0, and ranks 0, 1 of it still run" in ours, ours
    assert "was killed by SIGKILL" in ours and "[rank-died]" in ours, ours
