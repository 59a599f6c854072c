"""Children that hang, flood, crash and leave descendants behind: real processes, ended for good."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpudoctor import threads
from gpudoctor.active import MAXIMUM_REPLY_BYTES, Child, end_all, gather, messages, own_module, start


def python(code: str, *, timeout: float = 30.0, name: str = "child") -> Child:
    return start(name, [sys.executable, "-c", code], timeout=timeout)


def is_gone(pid: int) -> bool:
    """Not running: reaped, or a zombie that waits for init."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(pid: int) -> None:
    for _ in range(500):
        if is_gone(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def test_collects_what_a_child_says_and_how_it_ended() -> None:
    child = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    reply = gather([child])["child"]
    assert reply.output == b"out\n"
    assert reply.return_code == 3
    assert reply.failure == "the process failed with exit status 3: err"
    assert reply.missing_kind == "failed"


def test_keeps_what_was_said_before_a_hang_and_kills_the_child() -> None:
    child = python("import time; print('before', flush=True); time.sleep(600)", timeout=1.0)
    reply = gather([child])["child"]
    assert reply.output == b"before\n"
    assert reply.timed_out and reply.return_code is None and reply.missing_kind == "timeout"
    assert reply.failure == "no answer within 1 s"
    assert is_gone(child.process.pid)


def test_a_child_that_ignores_sigterm_is_killed_too() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(600)"
    child = python(code, timeout=1.0)
    assert gather([child])["child"].timed_out
    assert is_gone(child.process.pid)


def test_names_the_signal_that_killed_a_child() -> None:
    child = python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert gather([child])["child"].failure == "the process was killed by SIGSEGV"


def test_descendants_are_ended_with_a_child_that_left_them_behind() -> None:
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(p.pid, flush=True)\n"
    )
    reply = gather([python(code, timeout=20.0)])["child"]
    assert reply.return_code == 0, "the child itself ended well, though its descendant kept the pipes open"
    wait_until_gone(int(reply.output))


def test_a_pipe_that_somebody_else_holds_is_closed_when_that_one_ends() -> None:
    child = python(
        "import subprocess; print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid, flush=True)"
    )
    holder = int(gather([child])["child"].output)
    streams = (child.process.stdout, child.process.stderr)
    assert not any(stream is None or stream.closed for stream in streams)
    psutil.Process(holder).kill()
    for _ in range(500):
        if all(stream is not None and stream.closed for stream in streams):
            return
        time.sleep(0.01)
    raise AssertionError("they are left to be collected")


def test_a_child_that_closes_its_pipes_and_stays_is_ended_at_its_deadline() -> None:
    child = python("import os, time; os.close(1); os.close(2); time.sleep(600)", timeout=0.5)
    assert gather([child])["child"].timed_out
    assert is_gone(child.process.pid)


def test_a_flood_is_stopped_and_said() -> None:
    child = python("import sys\nwhile True: sys.stdout.write('x' * 1000000)", timeout=60.0)
    reply = gather([child])["child"]
    assert reply.failure == "it wrote more than 64 MiB"
    assert len(reply.output) < MAXIMUM_REPLY_BYTES + (1 << 20)
    assert is_gone(child.process.pid)


def test_one_that_hangs_does_not_cost_the_others_their_answers() -> None:
    children = [python("import time; time.sleep(600)", timeout=1.5, name="hangs"), python("print('here')", name="well")]
    replies = gather(children)
    assert replies["well"].output == b"here\n"
    assert replies["hangs"].timed_out


def test_an_interrupt_while_waiting_ends_every_child() -> None:
    children = [python("import time; time.sleep(600)", name=name) for name in ("one", "two")]

    def interrupt(names: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather(children, interrupt)
    assert all(is_gone(child.process.pid) for child in children)


def test_a_signal_that_arrives_while_a_child_starts_does_not_lose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen

    def interrupted(*arguments: object, **options: object) -> object:
        process = real(*arguments, **options)  # type: ignore[call-overload]
        signal.raise_signal(signal.SIGINT)  # between fork and the moment somebody holds the child
        return process

    others = {child.pid for child in psutil.Process().children()}  # a server of another test's
    monkeypatch.setattr("subprocess.Popen", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may have it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            python("import time; time.sleep(600)")
    finally:
        signal.signal(signal.SIGINT, before)
    pids = {child.pid for child in psutil.Process().children()} - others
    assert pids
    end_all()
    assert all(is_gone(pid) for pid in pids)


def test_only_marked_whole_lines_are_messages() -> None:
    output = b'noise\n@gpudoctor {"a": 1}\n@gpudoctor [1]\n@gpudoctor {"b": \n@gpudoctor {"c": 2}\n@gpudoctor {"d"'
    assert messages(output) == [{"a": 1}, {"c": 2}]


def test_own_module_does_not_import_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('imported from the working directory')")
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the working directory')")
    command = own_module("gpudoctor.read.local")
    code = command[2].replace("main(sys.argv[1:])", "print('clean')")
    done = subprocess.run([command[0], "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "clean\n", done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_children_die_with_a_doctor_that_is_killed() -> None:
    doctor = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from gpudoctor.active import start, own_module\n"
            "command = own_module('gpudoctor.read.lifeline')\n"
            "code = command[2].replace('import main; main(sys.argv[1:])', 'import end_with_the_doctor')\n"
            "code += '; end_with_the_doctor(); print(1, flush=True); import time; time.sleep(600)'\n"
            "child = start('child', [command[0], '-c', code], timeout=600)\n"
            "child.changed.wait(0.1)\n"
            "while not child.output: time.sleep(0.01)\n"
            "print(child.process.pid, flush=True)\n"
            "time.sleep(600)\n",
        ],
        stdout=subprocess.PIPE,
    )
    assert doctor.stdout is not None
    pid = int(doctor.stdout.readline())
    doctor.kill()
    doctor.wait()
    doctor.stdout.close()
    wait_until_gone(pid)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="says how Linux tells that a pipe has no reader")
def test_a_worker_behind_a_wrapper_script_dies_with_a_doctor_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)\n"
    )
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} {sys.executable} "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    command = [sys.executable, "-m", "gpudoctor", "check", "--timeout", "600", "--python", str(wrapper)]
    doctor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    said = tmp_path / "pid"
    for _ in range(3000):
        if said.exists() and said.read_text().endswith("\n"):
            break
        time.sleep(0.01)
    pid = int(said.read_text())
    doctor.kill()
    doctor.wait()
    try:
        wait_until_gone(pid)
    finally:
        if not is_gone(pid):
            psutil.Process(pid).kill()


def test_ending_a_child_twice_signals_nobody_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    child = python("print(1)")
    gather([child])
    killed: list[int] = []
    monkeypatch.setattr("os.killpg", lambda group, number: killed.append(group))
    assert child.end().output == b"1\n"
    assert killed == []


def test_a_child_that_no_thread_can_listen_to_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a limit of processes (pids.max), to which threads count."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OSError, match="no thread can be started"):
        python("import time; time.sleep(600)")
    assert [is_gone(process.pid) for process in started] == [True]


def test_lines_are_passed_on_whole_while_the_child_runs() -> None:
    lines: list[bytes] = []
    first = threading.Event()

    def hear(line: bytes) -> None:
        lines.append(line)
        first.set()

    code = "print('one', flush=True); print('two'); print('x' * 200000); print('cut', end='')"
    child = start("lines", [sys.executable, "-c", code], timeout=30.0, on_line=hear)
    assert first.wait(30)
    reply = gather([child])["lines"]
    assert lines[:2] == [b"one", b"two"]
    assert all(len(line) <= 200_000 for line in lines[2:])
    assert reply.output == b"cut" and reply.return_code == 0, "the last line is not whole"


def test_a_thread_that_dies_before_it_can_say_that_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `ulimit -v`: Thread.start of Python's own would wait for ever."""
    monkeypatch.setattr(threads, "SECONDS", 0.05)
    for name in ("_start_new_thread", "_start_joinable_thread"):
        monkeypatch.setattr(threading, name, lambda *_, **__: None, raising=False)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threads.start(threading.Thread(target=print))
