"""How the rank program ends, whatever ends it; what it sets in its environment."""

import json
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.fleet.messages import Launch, Measurement
from gpudoctor.nccl.rank_messages import (
    Begun,
    Failed,
    Member,
    Phase,
)
from gpudoctor.read.job import armed
from tests.collective_ranks import SECONDS, WORKERS, command, decoded, launch, started, wait_for, wait_until_gone

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memfd, PR_SET_PDEATHSIG")
pytestmark = [LINUX, pytest.mark.timeout(180)]


def test_an_exception_is_told_with_its_phase_and_in_the_standard_error(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.13: ' + 'cannot open ' * 2000)")
    done = subprocess.run(
        [sys.executable, str(WORKERS), "collective", command(launch(1, []))[-1]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    failed = [message for message in decoded(done.stdout) if isinstance(message, Failed)]
    assert [(message.rank, message.phase) for message in failed] == [(0, "import torch")]
    assert failed[0].error.startswith("ImportError: libcudart.so.13: cannot open")


def test_the_files_in_memory_outlive_the_rank_and_it_tells_its_stacks() -> None:
    wish = launch(2, [Measurement("all_reduce", 4 << 20)], iterations=1_000_000, timeout=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Phase: 12})
        begun = {message.rank: message for message in said if isinstance(message, Begun)}
        errors = Path(f"/proc/{begun[1].pid}/fd/{begun[1].error_fd}")
        with errors.open("rb") as file:
            prepared = armed.find(begun[1].pid)
            assert prepared is not None
            stacks = armed.stacks(begun[1].pid, prepared, SECONDS)
            assert any(frame.file.endswith("collective.py") for thread in stacks.threads for frame in thread.frames)
            os.kill(begun[1].pid, signal.SIGSEGV)
            wait_until_gone([message.pid for message in begun.values()])  # torchrun ends the other
            file.seek(0)
            assert b"most recent call first" in file.read()
            assert not errors.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_no_rank_outlives_torchrun(number: signal.Signals) -> None:
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Member: 2})
        process.send_signal(number)
        wait_until_gone([message.pid for message in said if isinstance(message, Begun)])
        process.wait(SECONDS)


def test_nothing_outlives_whoever_started_torchrun() -> None:
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=3000.0)
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "for line in child.stdout: print(line.decode(), end='', flush=True)\n"
    )
    doctor = subprocess.Popen(
        [sys.executable, "-c", code, *command(wish)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert doctor.stdout is not None
        torchrun = int(doctor.stdout.readline())
        said = wait_for(doctor, {Begun: 2, Member: 2})
        doctor.kill()
        wait_until_gone([torchrun, *(message.pid for message in said if isinstance(message, Begun))])
    finally:
        doctor.kill()
        doctor.communicate(timeout=SECONDS)


def test_it_ends_when_nobody_reads_any_more() -> None:
    """Its parent may live on, as ssh's shell does: then only the closed pipe tells it."""
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Member: 2})
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        wait_until_gone([message.pid for message in said if isinstance(message, Begun)])
        process.wait(SECONDS)


def test_a_stopped_rank_ends_the_others_by_torch_s_timeout() -> None:
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=8.0, seconds_per_size=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Member: 2})
        stopped = next(message.pid for message in said if isinstance(message, Begun) and message.rank == 1)
        os.kill(stopped, signal.SIGSTOP)
        try:
            failed = [message for message in wait_for(process, {Failed: 1}) if isinstance(message, Failed)]
            assert failed[0].rank == 0
            assert "timed out" in failed[0].error.lower() or "timeout" in failed[0].error.lower()
        finally:
            os.kill(stopped, signal.SIGKILL)


# ---------------------------------------------------------------- the environment of a rank


def rank_environment(wish: Launch, **environment: str) -> dict[str, str]:
    """What a rank has set by the time it imports torch; a stand-in for torch tells."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import collective;"
        "import json; wish = json.loads(sys.argv[2])['launch'];"
        "collective.set_environment(wish, collective.Rank(print)); out = os.dup(1); collective.capture(wish);"
        "os.write(out, json.dumps({k: v for k, v in os.environ.items() if 'NCCL' in k}).encode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(WORKERS), command(wish)[-1]],
        capture_output=True,
        check=True,
        timeout=SECONDS,
        env={**{name: value for name, value in os.environ.items() if "NCCL" not in name}, **environment},
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_nccl_logs_into_memory_unless_the_user_has_a_file_for_it() -> None:
    found = rank_environment(launch(1, []), NCCL_DEBUG="WARN")
    assert found["NCCL_DEBUG"] == "INFO"
    assert found["NCCL_DEBUG_FILE"].startswith("/proc/self/fd/")
    assert "NET" in found["NCCL_DEBUG_SUBSYS"].split(",")
    own = rank_environment(launch(1, []), NCCL_DEBUG="WARN", NCCL_DEBUG_FILE="/data/nccl.log")
    assert (own["NCCL_DEBUG"], own["NCCL_DEBUG_FILE"]) == ("WARN", "/data/nccl.log")
    assert "NCCL_DEBUG_FILE" not in rank_environment(launch(1, [], rank_logs=False))
    assert rank_environment(launch(1, [], environment={"NCCL_ALGO": "Ring"}))["NCCL_ALGO"] == "Ring"


def test_ranks_that_share_a_gpu_are_hosts_of_their_own_to_nccl() -> None:
    wish = launch(2, [], ranks_share_gpu=True)
    found = rank_environment(wish, RANK="3", WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", NCCL_IB_DISABLE="0")
    assert found["NCCL_HOSTID"] == "rank3"
    assert found["NCCL_SOCKET_IFNAME"] == "lo"
    assert found["NCCL_IB_DISABLE"] == "0"
    several = rank_environment(wish, RANK="3", WORLD_SIZE="8", LOCAL_WORLD_SIZE="4")
    assert "NCCL_SOCKET_IFNAME" not in several
    assert "NCCL_HOSTID" not in rank_environment(launch(2, []), RANK="3")


@pytest.mark.parametrize(
    ("version", "taken"),
    [("1.13.1+cu117", False), ("2.2.2", False), ("2.3.0", True), ("2.13.0+cpu", True), ("3.0a0", True)],
)
def test_torchrun_gets_only_what_this_torch_takes(version: str, taken: bool) -> None:
    """Before 2.3, torchrun makes a folder in --log_dir, and fails on /dev/null."""
    understood = runpy.run_path(str(WORKERS / "under_doctor.py"))["understood"]
    assert ("--log_dir=/dev/null" in understood(["torchrun", "--log_dir=/dev/null", "x"], version)) == taken
