"""py-spy on real processes: what is read, and what is said where it may not be."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor import active
from gpudoctor.knowledge import faulthandler_text
from gpudoctor.read import process as processes
from gpudoctor.read.job import refusals, stacks
from gpudoctor.read.job.stacks import dump, read, why_not
from gpudoctor.snapshot.evidence import Thread
from tests.lab.requirements import require

linux = pytest.mark.skipif(sys.platform != "linux", reason="as py-spy reads processes there")
PATIENCE = 200.0
READY = 'print("ready", flush=True)\n'


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has said "ready"; it is ended with all that it started."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def python(text: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    return running(sys.executable, "-c", textwrap.dedent(text))


def until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _needs_py_spy() -> None:
    require(stacks.find_program(), "no py-spy")


def main_of(pid: int, found: stacks.Stacks) -> Thread:
    assert found.by == "py-spy", found.reason
    return next(thread for thread in found.threads if thread.id == pid)


SLEEPS = """
    import threading, time
    def beside(): time.sleep(600)
    threading.Thread(target=beside, name="helper", daemon=True).start()
    def work():
        print("ready", flush=True)
        time.sleep(600)
    work()
"""


@linux
def test_all_threads_by_the_kernels_number() -> None:
    with python(SLEEPS) as process:
        found = dump([process.pid], timeout=PATIENCE)[process.pid]
        main = main_of(process.pid, found)
        assert main.name == "MainThread"
        assert [frame.function for frame in main.frames] == ["work", "<module>"]
        assert main.frames[0].file == "<string>"
        assert main.owns_gil is False
        (other,) = [thread for thread in found.threads if thread is not main]
        assert other.name == "helper"
        if other.id:  # told for Python 3.11 and later
            assert Path(f"/proc/{process.pid}/task/{other.id}").exists()


@linux
def test_threads_of_another_pid_namespace_have_our_numbers() -> None:
    """Python holds the numbers of its container, and py-spy repeats them: 1 for a main thread."""
    may = shutil.which("unshare") and subprocess.run(["unshare", "-pf", "true"], capture_output=True).returncode == 0
    require(may, "no permission to make a PID namespace: be root")
    require(sys.version_info >= (3, 11), "before Python 3.11 none are held")
    with running("unshare", "-pf", "--mount-proc", sys.executable, "-c", textwrap.dedent(SLEEPS)) as outer:
        (inner,) = processes.children_of(outer.pid)
        found = dump([inner], timeout=PATIENCE)[inner]
        assert main_of(inner, found).frames[0].function == "work"
        assert {thread.id for thread in found.threads} == {
            int(task.name) for task in Path(f"/proc/{inner}/task").iterdir()
        }


@linux
def test_who_holds_the_gil_in_native_code() -> None:
    with python('import ctypes\nprint("ready", flush=True)\nctypes.PyDLL(None).sleep(600)') as process:
        until(lambda: "nanosleep" in processes.waits_in(process.pid))
        assert main_of(process.pid, dump([process.pid], timeout=PATIENCE)[process.pid]).owns_gil is True


@linux
def test_a_stopped_process_is_read_and_stays_stopped() -> None:
    with python(SLEEPS) as process:
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: (seen := processes.look(process.pid)) is None or seen.state == "T")
        for native in (False, True):
            found = dump([process.pid], timeout=PATIENCE, native=native)[process.pid]
            assert main_of(process.pid, found).frames[0].function == "work"
            seen = processes.look(process.pid)
            assert seen is not None
            assert seen.state == "T"


@linux
def test_reading_does_not_stop_the_process() -> None:
    with python(SLEEPS) as process:
        until(lambda: "nanosleep" in processes.waits_in(process.pid))

        def switches() -> list[str]:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            return [line for line in lines if "ctxt_switches" in line]

        before = switches()
        for _ in range(3):
            assert dump([process.pid], timeout=PATIENCE)[process.pid].by
        assert switches() == before


@linux
def test_native_frames_and_the_process_goes_on() -> None:
    text = 'import time\nprint("ready", flush=True)\nwhile True: time.sleep(0.01)'
    with python(text) as process:
        found = dump([process.pid], timeout=PATIENCE, native=True)[process.pid]
        main = main_of(process.pid, found)
        assert any(frame.native for frame in main.frames)
        assert any(frame.function == "<module>" and not frame.native for frame in main.frames)
        before = Path(f"/proc/{process.pid}/status").read_text()
        until(lambda: Path(f"/proc/{process.pid}/status").read_text() != before)
        seen = processes.look(process.pid)
        assert seen is not None
        assert seen.state in "RS"


@linux
def test_a_stack_that_changes_all_the_time_is_read_whole() -> None:
    text = """
        def inner(n): return sum(i * i for i in range(n))
        def outer():
            print("ready", flush=True)
            while True: inner(500)
        outer()
    """
    with python(text) as process:
        whole = 0
        for _ in range(10):
            found = dump([process.pid], timeout=PATIENCE)[process.pid]
            whole += main_of(process.pid, found).frames[-1].function == "<module>"
        assert whole >= 9


@linux
def test_each_process_has_its_answer_whatever_becomes_of_the_others() -> None:
    zombie = "import os, time\nif os.fork() == 0: os._exit(3)\n" + READY + "time.sleep(600)"
    with python(SLEEPS) as good, running("sh", "-c", "echo ready; exec sleep 600") as shell, python(zombie) as parent:
        until(lambda: any(child.state == "Z" for child in processes.descendants(parent.pid)))
        (dead,) = processes.descendants(parent.pid)
        until(lambda: Path(f"/proc/{shell.pid}/comm").read_text() == "sleep\n")
        gone = 1 << 22
        found = dump([good.pid, shell.pid, dead.pid, gone, good.pid, -1, 0], timeout=PATIENCE)
        assert sorted(found) == sorted({good.pid, shell.pid, dead.pid, gone})
        assert found[good.pid].by == "py-spy"
        assert found[shell.pid].reason == "py-spy finds no Python interpreter in it"
        assert "has ended" in found[dead.pid].reason
        assert found[gone].reason == "it ended meanwhile"


@linux
def test_more_processes_than_run_at_once() -> None:
    text = """
        import os, time
        for _ in range(24):
            if os.fork() == 0:
                break
        else:
            print("ready", flush=True)
        time.sleep(600)
    """
    with python(text) as process:
        pids = [process.pid, *(child.pid for child in processes.descendants(process.pid))]
        assert len(pids) == 25
        found = dump(pids, timeout=PATIENCE)
        assert [pid for pid in pids if found[pid].by != "py-spy"] == []


@linux
def test_no_time_left() -> None:
    with python(SLEEPS) as process:
        assert "no time left" in dump([process.pid], timeout=0.0)[process.pid].reason


@linux
def test_another_users_process_names_the_user(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "only root can be another user")
    require(shutil.which("setpriv"), "no setpriv")
    program = stacks.find_program()
    assert program is not None
    folder = Path("/var/tmp") / f"gpudoctor-spy-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        copy = folder / "py-spy"
        shutil.copyfile(program, copy)  # its own folder is not open to everybody
        folder.chmod(0o755)
        copy.chmod(0o755)
        with python(SLEEPS) as process:
            command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(copy), "dump", "--json"]
            refused = subprocess.run(
                [*command, "--pid", str(process.pid), "--nonblocking"], capture_output=True, text=True
            )
            assert refused.returncode == 1
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "geteuid", lambda: 65534)
                reason, again = why_not(process.pid, reply(refused.stderr))
            assert reason == "permission denied: it belongs to root; run gpudoctor with sudo"
            assert not again
    finally:
        shutil.rmtree(folder)


@linux
def test_root_without_the_capability_is_told_of_the_container() -> None:
    require(os.geteuid() == 0, "only root can drop a capability")
    require(shutil.which("setpriv"), "no setpriv")
    code = (
        "import sys; from gpudoctor.read.job.stacks import dump; print(dump([int(sys.argv[1])], timeout=60)); "
        "from gpudoctor.read.job.refusals import *; print(has_capability(CAP_SYS_PTRACE))"
    )
    without = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", sys.executable, "-c", code]
    with python(SLEEPS) as process:
        done = subprocess.run([*without, str(process.pid)], capture_output=True, text=True, timeout=PATIENCE)
        assert "--cap-add=SYS_PTRACE" in done.stdout, done
        assert "False" in done.stdout


def reply(errors: str, code: int | None = 1, timed_out: bool = False) -> active.ChildReply:
    return active.ChildReply("py-spy", b"", errors, code, timed_out, False, 3.0, 1)


DENIED = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'"


@linux
@pytest.mark.parametrize(
    ("scope", "user", "capable", "expected"),
    [
        (0, 1000, False, "though the user is the right one"),
        (1, 1000, False, "kernel.yama.ptrace_scope is 1 (only a process's parent may, or root)"),
        (2, 1000, False, "kernel.yama.ptrace_scope is 2 (only root may)"),
        (3, 0, True, "until the next boot"),
        (1, 0, False, "--cap-add=SYS_PTRACE"),
    ],
)
def test_a_refusal_says_what_allows_it(
    monkeypatch: pytest.MonkeyPatch, scope: int, user: int, capable: bool, expected: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(refusals, "user_of", lambda pid: user)
    monkeypatch.setattr(refusals, "has_capability", lambda number: capable)
    monkeypatch.setattr(refusals, "ptrace_scope", lambda: scope)
    monkeypatch.setattr(refusals, "_in_container", lambda: False)
    reason, again = why_not(os.getpid(), reply(DENIED))
    assert expected in reason
    assert not again


@linux
def test_a_refusal_names_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(refusals, "user_of", lambda pid: 12_345_678)
    reason, _ = why_not(os.getpid(), reply("Permission denied (os error 13)"))
    assert "run gpudoctor as that user (sudo -u #12345678) or as root" in reason


@linux
@pytest.mark.parametrize(
    ("errors", "code", "expected", "again"),
    [
        ("Error: Unsupported version of Python: 3.99.1\n", 1, "does not know its Python 3.99.1", False),
        (
            "Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to copy PyCodeObject\n",
            1,
            "PyCodeObject",
            True,
        ),
        ("", -11, "killed by SIGSEGV", True),
        ("", 1, "no message", True),
    ],
)
def test_other_failures(errors: str, code: int, expected: str, again: bool) -> None:
    reason, may_pass = why_not(os.getpid(), reply(errors, code))
    assert expected in reason
    assert may_pass is again


@linux
def test_a_read_that_takes_too_long() -> None:
    assert "no answer of the process within 3 s" in why_not(os.getpid(), reply("", None, True))[0].replace(
        ", which waits in the kernel", ""
    )


def test_without_py_spy_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "find_program", lambda: None)
    assert "-m pip install py-spy" in dump([os.getpid()], timeout=1.0)[os.getpid()].reason


def test_an_older_python_tells_no_kernel_numbers() -> None:
    threads = [
        {
            "thread_id": 2,
            "thread_name": "loader",
            "os_thread_id": None,
            "frames": [{"name": "run", "filename": "a.py"}],
        },
        {"thread_id": 1, "thread_name": "MainThread", "os_thread_id": None, "frames": []},
        {"thread_id": 3, "thread_name": None, "os_thread_id": None, "frames": []},
    ]
    assert [thread.id for thread in read(json.dumps(threads).encode(), 4711)] == [0, 4711, 0]


def test_a_long_recursion_is_cut() -> None:
    frame = {"name": "f" * 2000, "filename": "/" + "p" * 9000, "line": 1 << 40}
    (thread,) = read(json.dumps([{"os_thread_id": 7, "frames": [frame] * 5000}]).encode(), 7)
    assert len(thread.frames) == faulthandler_text.MOST_FRAMES
    assert len(thread.frames[0].function) == faulthandler_text.LONGEST_NAME
    assert thread.frames[0].line == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["frames", "os_thread_id", "name", "line", "module", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.one_of(st.binary(max_size=40), JSON.map(lambda value: json.dumps(value).encode())))
def test_any_output_is_read(output: bytes) -> None:
    assert isinstance(read(output, 1), tuple)


@given(st.text(max_size=60), st.binary(max_size=20))
def test_any_error_has_a_reason(errors: str, output: bytes) -> None:
    assert why_not(os.getpid(), reply(errors)._replace(output=output))[0]
