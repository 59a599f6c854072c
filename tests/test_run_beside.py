"""Signals reach the job though the doctor's look at it stands; ranks that nothing arms are told with why."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from gpudoctor.run import attendant, beside as looks, relay, unarmed
from gpudoctor.run.attendant import Attendant
from tests.test_run import PATIENCE, words

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")
DOCTOR = textwrap.dedent(
    """
    import os, time
    from gpudoctor.run import beside
    from gpudoctor.run.attendant import Attendant
    from gpudoctor.run.start import start
    from gpudoctor.run.wait import Waiting, block
    mask = block()
    attendant = Attendant((), None, -1)
    job = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"
    pid = start(("sh", "-c", job), (), os.environ, mask)
    beside.STUCK_SECONDS = 0.5
    looking = beside.Beside(lambda: time.sleep(1000))
    status = Waiting(pid, attendant, ()).until_the_end(looking)
    print(status, looking.end(), flush=True)
    attendant.part()
    os._exit(0)
    """
)


@pytest.mark.thorough
def test_a_signal_is_passed_on_and_the_end_noticed_while_a_look_stands_in_the_kernel() -> None:
    doctor = subprocess.Popen([sys.executable, "-c", DOCTOR], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert doctor.stdout is not None and doctor.stdout.readline() == "up\n"
        time.sleep(2)  # it looks
        os.kill(doctor.pid, signal.SIGTERM)
        output, _ = doctor.communicate(timeout=20)
        assert output == "9 False\n"
    finally:
        if doctor.poll() is None:
            os.killpg(doctor.pid, signal.SIGKILL)
        doctor.wait()


def test_a_look_that_fails_costs_the_looks_only() -> None:
    def fails() -> None:
        raise OSError("of a test")

    looking = looks.Beside(fails)
    deadline = time.monotonic() + PATIENCE
    while looking.failed is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert looking.end() and str(looking.failed) == "of a test"


@pytest.mark.parametrize(
    ("stat", "kernel", "waits"),
    [
        ("7 (a) b) D 1", "nfs_wait_bit_killable", True),
        ("7 (a) S 1", "request_wait_answer", True),
        ("7 (a) S 1", "do_sigtimedwait", False),
        ("7 (a) R 1", "0", False),
    ],
)
def test_who_waits_for_a_file_system(stat: str, kernel: str, waits: bool, tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(stat)
    (tmp_path / "wchan").write_text(kernel)
    assert looks.waits_for_files(tmp_path) is waits


@pytest.mark.thorough
def test_a_relay_that_is_started_anew_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendant, "START_SECONDS", PATIENCE)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        one = Attendant((), None, -1)
        assert one._process is not None
        one._process.kill()
        one._process.wait()
        one.listen()
        one.revive()
        assert one._process.poll() is None and not one.has_heard(signal.SIGUSR2)
        os.kill(one._process.pid, signal.SIGUSR2)
        assert one.has_heard(signal.SIGUSR2)
        one._process.kill()
        one._process.wait()
        one.listen()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.thorough
def test_what_a_job_says_goes_on_where_the_log_does_not_answer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / relay.HEAD)  # who writes into it waits, as at a mount whose server is gone
    log = os.open(tmp_path / relay.HEAD, os.O_RDWR)
    source, said = os.pipe()
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", str(Path(relay.__file__)), str(tmp_path), "4194304", str(theirs.fileno())]
    process = subprocess.Popen(
        [*command, f"{source}:1"], pass_fds=(source, theirs.fileno()), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        for descriptor in (source, theirs.detach()):
            os.close(descriptor)
        assert process.stdout is not None and ours.recv(1) == bytes([relay.READY])
        text = b"".join(b"line %d of what the job says\n" % number for number in range(10_000))

        def says() -> None:
            os.write(said, text)
            os.close(said)

        writer = threading.Thread(target=says, daemon=True)
        writer.start()
        read = b""
        while len(read) < len(text):
            read += os.read(process.stdout.fileno(), 1 << 16)
        assert read == text
        ours.sendall(relay.FINISH)
        ours.settimeout(PATIENCE)
        assert ours.recv(1) == bytes([relay.LOG_ENDED])
    finally:
        process.kill()
        process.communicate()
        os.close(log)
        ours.close()


SET = b"HOME=/root\0GPUDOCTOR_RUN_LOGS=/r\0"


@pytest.mark.parametrize(
    ("line", "environ", "why"),
    [
        (b"python\0train.py\0-I\0", SET, ""),
        (b"python\0-u\0-m\0train\0-E\0", SET, ""),
        (b"/usr/bin/python3.11\0-uI\0train.py\0", SET, "python -I ignores PYTHONPATH"),
        (b"python\0-X\0dev\0-E\0-c\0pass\0", SET, "python -E ignores PYTHONPATH"),
        (b"python\0-W\0ignore\0-S\0train.py\0", SET, "python -S ignores sitecustomize"),
        (b"python\0-cSomething\0", SET, ""),
        (b"python\0train.py\0", b"HOME=/root\0", "its environment is not the one that the command was given"),
        (b"./a.out\0-I\0", b"", ""),
        (b"", b"", ""),
    ],
)
def test_why_a_python_cannot_be_armed(line: bytes, environ: bytes, why: str) -> None:
    found = unarmed.why(line, environ)
    assert found.startswith(why) if why else not found


@pytest.mark.thorough
@pytest.mark.parametrize(("flag", "tells"), [("-I", b"1 process of it was not armed: python -I"), ("-u", b"")])
def test_a_rank_that_is_not_armed_is_told(flag: str, tells: bytes, tmp_path: Path) -> None:
    line = f"RANK=0 WORLD_SIZE=1 {sys.executable} {flag} -c 'import time; time.sleep(3)'; exit 0"
    command = words("sh", "-c", line, options=["--report", str(tmp_path)])
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    assert tells in done.stderr and (b"not armed" in done.stderr) is bool(tells), done.stderr
