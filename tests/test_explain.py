"""`gpudoctor explain` on the logs of real faults, made here, and as a command."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from tests.explain_jobs import SPAWN, TRAIN, free_port, output_of, torchrun

pytestmark = pytest.mark.usefixtures("forks")

LONGEST = 120
"""Seconds for the command; the machine may be crowded."""


def explained(*paths: Path) -> Explanation:
    answer = explain([str(path) for path in paths], stdin=io.BytesIO())
    for cause in answer.causes:  # what a reader needs
        assert cause.cause in CAUSES
        assert cause.fix.text
        assert cause.evidence
        for line in cause.evidence:
            assert 0 < line.line <= len(Path(line.file).read_text().splitlines())
    return answer


def faulty(tmp_path: Path, fault: str, *, variables: dict[str, str] | None = None, truly: bool = False) -> Path:
    """The log of a job with a fault."""
    script, log = tmp_path / "train.py", tmp_path / "job.log"
    script.write_text(TRAIN)
    assert output_of(torchrun(script, fault), log, variables, truly=truly) != 0, "it was to fail"
    return log


def line_of(text: str) -> int:
    """The line of the program that holds a text."""
    return next(number for number, line in enumerate(TRAIN.splitlines(), 1) if text in line)


# Faults of one rank: the rank that died is named, and not those that complain


def test_a_rank_that_raises(tmp_path: Path) -> None:
    answer = explained(faulty(tmp_path, "raises", truly=True))
    first = answer.causes[0]
    assert (first.cause, first.ranks) == ("program-error", (1,))
    assert "KeyError: 'input_ids'" in first.summary
    assert f"train.py:{line_of('batch[')}" in first.summary
    assert first.confidence >= 0.8
    assert answer.consequences, "the other rank's complaint"


@pytest.mark.parametrize(
    ("fault", "signal_name", "cause"), [("killed", "SIGKILL", "rank-died"), ("crashed", "SIGSEGV", "native-crash")]
)
def test_a_rank_that_a_signal_ends(tmp_path: Path, fault: str, signal_name: str, cause: str) -> None:
    first = explained(faulty(tmp_path, fault)).causes[0]
    assert (first.cause, first.ranks) == (cause, (1,))
    assert signal_name in first.summary


def test_a_bus_error_is_that_of_shared_memory(tmp_path: Path) -> None:
    assert explained(faulty(tmp_path, "bus error")).causes[0].cause == "shm-too-small"


def test_a_rank_that_exits_without_a_word(tmp_path: Path) -> None:
    answer = explained(faulty(tmp_path, "exits"))
    assert answer.causes[0].cause == "rank-died"
    assert answer.causes[0].ranks == (1,)


def test_a_kernel_log_beside_it_makes_it_sure(tmp_path: Path) -> None:
    log = faulty(tmp_path, "killed")
    pid = re.findall(r"exitcode *: -9 \(pid: (\d+)\)", log.read_text())[0]
    kernel = tmp_path / "dmesg.txt"
    kernel.write_text(
        f"[ 9001.120001] Out of memory: Killed process {pid} (python) total-vm:9120044kB, anon-rss:8220012kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:17000kB oom_score_adj:0\n"
    )
    alone, both = explained(log).causes[0], explained(log, kernel).causes[0]
    assert both.cause == "host-out-of-memory"
    assert both.ranks == (1,)
    assert both.confidence > alone.confidence
    assert any(line.file == str(kernel) for line in both.evidence)


# Faults between ranks


def test_another_size(tmp_path: Path) -> None:
    assert explained(faulty(tmp_path, "sizes")).causes[0].cause == "shape-mismatch"


def test_another_order(tmp_path: Path) -> None:
    first = explained(faulty(tmp_path, "order")).causes[0]
    assert first.cause == "collective-order-mismatch"
    assert f"train.py:{line_of('dist.broadcast')}" in first.summary


def test_detail_tells_the_mismatch(tmp_path: Path) -> None:
    log = faulty(tmp_path, "order", variables={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert explained(log).causes[0].cause == "collective-order-mismatch"


@pytest.mark.parametrize("fault", ["absent", "monitored"])
def test_a_rank_that_does_not_come(tmp_path: Path, fault: str) -> None:
    """Why it does not come no log tells; that it is the absent one, it does."""
    answer = explained(faulty(tmp_path, fault))
    assert answer.causes[0].cause in ("rank0-only-collective", "slow-rank-timeout")
    assert answer.causes[0].confidence < 0.6
    assert "rank 1 did not come" in answer.causes[0].summary
    assert any(cause.ranks == (1,) for cause in answer.causes)


def test_unused_parameters(tmp_path: Path) -> None:
    assert explained(faulty(tmp_path, "unused")).causes[0].cause == "unused-parameters"


# Faults of the start


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    script, log = tmp_path / "train.py", tmp_path / "job.log"
    script.write_text(TRAIN)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert output_of(torchrun(script, "none", port=taken.getsockname()[1]), log) != 0
    first = explained(log).causes[0]
    assert first.cause == "master-port-in-use"
    assert first.confidence >= 0.6


CONNECT = """
import datetime, os, sys
import torch.distributed as dist
os.environ.update(MASTER_ADDR=sys.argv[1], MASTER_PORT=sys.argv[2], RANK=sys.argv[3], WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
"""


@pytest.mark.parametrize(
    ("address", "rank", "causes"),
    [
        ("127.0.0.1", "1", ("master-unreachable", "master-addr-loopback")),
        ("no-such-host.invalid", "1", ("master-unreachable",)),
        ("127.0.0.1", "0", ("launcher-world-mismatch",)),
    ],
    ids=["refused", "no name", "alone"],
)
def test_a_head_that_does_not_answer(tmp_path: Path, address: str, rank: str, causes: tuple[str, ...]) -> None:
    script, log = tmp_path / "connect.py", tmp_path / "job.log"
    script.write_text(CONNECT)
    assert output_of([sys.executable, str(script), address, str(free_port()), rank], log) != 0
    assert explained(log).causes[0].cause in causes, log.read_text()


def test_a_process_of_spawn_that_raises(tmp_path: Path) -> None:
    script, log = tmp_path / "train.py", tmp_path / "job.log"
    # Before it meets the others: one that loses it in a collective may be the first whose end spawn sees, and tells.
    script.write_text(SPAWN.replace("    dist.init", '    if rank: raise KeyError("input_ids")\n    dist.init'))
    assert output_of([sys.executable, str(script), str(free_port())], log) != 0
    first = explained(log).causes[0]
    assert first.cause == "program-error"
    assert "KeyError: 'input_ids'" in first.summary


# Examples of the documentation


EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


def test_the_rank_that_torchrun_blames_is_the_victim() -> None:
    first = explained(EXAMPLES / "train-watchdog.log").causes[0]
    assert (first.cause, first.ranks) == ("program-error", (2,))
    assert "KeyError: 'shard-0417' at /home/mara/run/data.py:34" in first.summary


def test_without_its_output_the_absent_rank_is_named_and_no_cause_is_sure() -> None:
    answer = explained(EXAMPLES / "train-absent.log")
    assert {cause.ranks for cause in answer.causes} == {(2,)}
    assert all(cause.confidence < 0.5 for cause in answer.causes)
    assert answer.unknown is not None
    assert "rank 2 did not come" in answer.unknown


# The command


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", "explain", *words], input=stdin, capture_output=True, timeout=LONGEST
    )


HEALTHY = b"".join(b"step %d loss 0.5\n" % number for number in range(1, 3413))
BROKEN = (
    b"torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    b"port: 29511, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
)


def test_a_healthy_log_says_so() -> None:
    done = run("-", stdin=HEALTHY)
    assert (done.returncode, done.stdout) == (
        0,
        b"Nothing wrong found in 3,412 lines: the job gets on, as far as this text goes\n",
    )


def test_a_log_that_shows_no_progress_is_not_called_healthy() -> None:
    trouble = b"reading the ledger\nqstore: the ledger could not be balanced, failed\n"
    done = run("-", stdin=trouble)
    assert done.returncode == 1 and done.stdout.startswith(b"undecided"), "it ends with trouble"
    done = run("-", stdin=trouble + b"reading another one\n" * 4)
    assert done.returncode == 3, "it goes on after it"
    assert b"line 2 | qstore: the ledger could not be balanced, failed" in done.stdout
    assert run("-", stdin=b"").returncode == 3


def test_a_last_line_that_its_writer_marks_as_an_error_is_a_failure_even_of_a_stranger() -> None:
    done = run("-", stdin=b"reading the ledger\nqstore: FATAL: ledger is out of balance\n")
    assert done.returncode == 1 and done.stdout.startswith(b"undecided")
    assert b"line 2 | qstore: FATAL: ledger is out of balance" in done.stdout


def test_a_cause_gives_status_1_and_fits_80_columns() -> None:
    done = run("-", stdin=HEALTHY + BROKEN)
    assert done.returncode == 1
    text = done.stdout.decode()
    assert "[master-port-in-use]" in text
    assert "line 3413 | " in text
    prose = [line for line in text.splitlines() if " | " not in line and not line.startswith("    ")]
    assert max(map(len, prose)) <= 80


def test_json_has_the_causes_best_first(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(BROKEN)
    done = run("--json", str(log))
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert answer["causes"][0]["cause"] == "master-port-in-use"
    assert answer["causes"][0]["evidence"][0] == {"file": str(log), "line": 1, "text": BROKEN.decode().strip()}
    assert set(answer["causes"][0]) >= {"cause", "confidence", "ranks", "evidence", "summary", "fix"}
    assert "unknown" in answer


@pytest.mark.parametrize("words", [(), ("/no/such/file",), ("/dev/zero",), ("/dev/null",), ("a\nb",)])
def test_wrong_usage_is_one_line_and_status_2(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"gpudoctor: ")
    assert done.stderr.count(b"\n") == 1


def test_what_could_not_be_read_is_said_beside_what_could(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(HEALTHY)
    done = run(str(log), "/no/such/file")
    assert done.returncode == 3
    assert b"/no/such/file: there is no such file" in done.stdout


def test_a_log_cannot_steer_the_terminal() -> None:
    hostile = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31m\xe2\x80\xae" + BROKEN.replace(
        b"port:", b"\x1b[8mport:\x1b[0m"
    ).replace(b"\n", b"\x07\r\n")
    done = run("-", stdin=hostile)
    assert done.returncode == 1
    text = done.stdout.decode()
    assert all(letter == "\n" or letter.isprintable() for letter in text)


def test_ctrl_c_while_a_pipe_is_read_tells_what_was_found() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", "explain", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdin is not None
    try:
        command.stdin.write(BROKEN + b"reading the ledger\n" * 300_000)  # more than a pipe holds: it has begun to read
        command.stdin.flush()
        for _ in range(300):
            if Path(f"/proc/{command.pid}/wchan").read_text().startswith(("pipe_read", "anon_pipe_read")):
                break
            time.sleep(0.1)
        os.kill(command.pid, signal.SIGINT)
        command.stdin.close()
        command.stdin = None
        out, errors = command.communicate(timeout=LONGEST)
    finally:
        command.kill()
    assert command.returncode == 130, errors
    assert b"Traceback" not in errors
    assert b"master-port-in-use" in out


def test_a_large_log_is_read_in_bounded_memory(tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    block = b"".join(b"n%d:%d:9 [0] NCCL INFO Channel %d : 0 -> 1 via SHM\n" % (i % 7, i, i) for i in range(20_000))
    with log.open("wb") as file:
        for _ in range(200):
            file.write(block)
        file.write(BROKEN)
    program = (
        "import re, sys; from gpudoctor.explain.explain import explain; "
        "answer = explain(sys.argv[1:], stdin=sys.stdin.buffer); "
        "print(answer.causes[0].cause, re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(log)], capture_output=True, text=True, timeout=300)
    cause, peak = done.stdout.split()
    assert log.stat().st_size > 150_000_000
    assert cause == "master-port-in-use"
    assert int(peak) < 150_000


def test_a_traceback_that_a_logger_wrote_as_json_is_read() -> None:
    words = (
        r'{"rank": 5, "msg": "Traceback (most recent call last):\n  File \"/app/net.py\", line 31, in build'
        r'\n    x\nAttributeError: no x\n"}'
    )
    done = run("-", stdin=words.encode() + b"\n")
    assert done.returncode == 1
    assert b"AttributeError: no x at /app/net.py:31" in done.stdout
