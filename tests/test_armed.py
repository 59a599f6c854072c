"""gpudoctor.arm(): real processes are armed, hang, and are read without ptrace."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpudoctor import armed as arms
from gpudoctor.read import process as processes
from gpudoctor.read.job import armed
from gpudoctor.read.job.armed import ArmedProcess, find
from tests.lab import warm

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
PATIENCE = 200.0


@contextlib.contextmanager
def program(text: str, folder: Path, *, keep: bool = False, truly: bool = True) -> Iterator["subprocess.Popen[Any]"]:
    """A Python program that has said "ready"; ended afterwards with all that it started."""
    file = folder / "job.py"
    file.write_text(textwrap.dedent(text))
    temporary = Path(tempfile.gettempdir(), f"armed{os.getpid()}-{folder.name[-8:]}")  # short: it holds a socket
    temporary.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    if truly:
        kept["PYTHONWARNINGS"] = "ignore"
    process: subprocess.Popen[Any] = warm.start(
        [sys.executable, str(file)],
        env={**kept, "TMPDIR": str(temporary)},
        truly=truly,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        while "ready" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
        if not keep:
            shutil.rmtree(temporary)


def until_in(pid: int, kernel_function: str) -> None:
    """Wait until the process sleeps there, so that its stack is what the test expects."""
    deadline = time.monotonic() + PATIENCE
    while kernel_function not in processes.waits_in(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def functions(pid: int, how: ArmedProcess) -> list[list[str]]:
    found = armed.stacks(pid, how, PATIENCE)
    assert found.by == "faulthandler", found.reason
    assert found.threads[-1].id == pid
    return [[frame.function for frame in thread.frames] for thread in found.threads]


HANGS = """
    import threading, time, gpudoctor
    first = gpudoctor.arm()
    assert gpudoctor.arm() == first
    def beside(): time.sleep(600)
    threading.Thread(target=beside, daemon=True).start()
    def hang():
        print("ready", flush=True)
        time.sleep(600)
    hang()
"""


@linux
def test_an_armed_process_writes_its_stacks_again_and_again(tmp_path: Path) -> None:
    with program(HANGS, tmp_path) as process:
        until_in(process.pid, "nanosleep")
        how = find(process.pid)
        assert how is not None
        for _ in range(3):
            found = functions(process.pid, how)
            assert found[-1] == ["hang", "<module>"]
            assert found[0][0] == "beside"
            assert len(found) == 2
        assert process.poll() is None


@linux
def test_what_it_wrote_does_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(armed, "EMPTIED_ABOVE_BYTES", 100)
    with program(HANGS, tmp_path) as process:
        how = find(process.pid)
        assert how is not None
        for _ in range(3):
            assert functions(process.pid, how)[-1] == ["hang", "<module>"]
            assert os.stat(f"/proc/{process.pid}/fd/{how.stacks}").st_size == 0  # noqa: PTH116


@linux
def test_native_code_that_holds_the_gil_hides_nothing(tmp_path: Path) -> None:
    text = """
        import ctypes, gpudoctor
        gpudoctor.arm()
        def extension():
            print("ready", flush=True)
            while True:  # sleep(3) ends early when a signal comes
                ctypes.PyDLL(None).sleep(600)
        extension()
    """
    with program(text, tmp_path) as process:
        until_in(process.pid, "nanosleep")
        how = find(process.pid)
        assert how is not None
        assert functions(process.pid, how)[-1] == ["extension", "<module>"]


@linux
def test_a_forked_worker_answers_for_itself(tmp_path: Path) -> None:
    text = """
        import os, sys, time, gpudoctor
        gpudoctor.arm()
        def worker(): time.sleep(600)
        if os.fork() == 0:
            worker()
        print("ready", flush=True)
        def rank(): time.sleep(600)
        rank()
    """
    with program(text, tmp_path) as process:
        (worker,) = processes.descendants(process.pid)
        for pid, function in ((process.pid, "rank"), (worker.pid, "worker"), (process.pid, "rank")):
            until_in(pid, "nanosleep")
            how = find(pid)
            assert how is not None
            assert functions(pid, how)[-1][0] == function


@linux
def test_an_announcement_that_was_inherited_is_not_taken_for_the_child(tmp_path: Path) -> None:
    text = """
        import json, os, time
        number = os.memfd_create("gpudoctor-armed")
        os.write(number, json.dumps({"version": 1, "pid": os.getppid(), "signal": 10, "stacks": number}).encode())
        print("ready", flush=True)
        time.sleep(600)
    """
    with program(text, tmp_path) as process:
        assert find(process.pid) is None


@linux
@pytest.mark.parametrize("number", [9, 15, 10, 44, 0, -3, 10**12])
def test_no_announcement_has_an_unexpected_signal_sent(tmp_path: Path, number: int) -> None:
    text = f"""
        import json, os, time
        stacks = os.memfd_create("gpudoctor-stacks")
        number = os.memfd_create("gpudoctor-armed")
        told = {{"version": 1, "pid": os.getpid(), "signal": {number}, "stacks": stacks}}
        os.write(number, json.dumps(told).encode())
        print("ready", flush=True)
        time.sleep(600)
    """
    with program(text, tmp_path) as process:
        how = find(process.pid)  # it catches none of them
        assert how is None or how.signal == 0
        assert not armed.stacks(process.pid, how or ArmedProcess(process.pid), 1.0).by
        assert not armed.stacks(process.pid, ArmedProcess(process.pid, max(1, min(number, 64)), 5), 1.0).by
        assert process.poll() is None


@linux
def test_no_handler_is_stolen(tmp_path: Path) -> None:
    text = """
        import faulthandler, os, signal, sys, gpudoctor
        heard = []
        taken = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
        for number in (*taken, signal.SIGUSR1):
            signal.signal(number, lambda number, frame: heard.append(number))
        faulthandler.register(signal.SIGUSR2, file=open(os.devnull, "w"))
        print(gpudoctor.arm().signal)
        for number in taken:
            signal.raise_signal(number)
        print(len(heard) == len(taken), "ready", flush=True)
        sys.stdin.read()
    """
    with program(text, tmp_path) as process:
        how = find(process.pid)
        assert how is not None
        assert how.signal == 0
        assert "free signal" in armed.stacks(process.pid, how, 1.0).reason


@linux
def test_a_stopped_process_is_sent_nothing(tmp_path: Path) -> None:
    with program(HANGS, tmp_path) as process:
        how = find(process.pid)
        assert how is not None
        os.kill(process.pid, signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE
        while (seen := processes.look(process.pid)) and seen.state != "T" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "stopped" in armed.stacks(process.pid, how, 1.0).reason
        status = Path(f"/proc/{process.pid}/status").read_text()
        pending = [line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
        assert all(int(mask, 16) >> (how.signal - 1) & 1 == 0 for mask in pending)


@linux
def test_a_program_that_is_not_armed_and_one_that_is_gone() -> None:
    assert find(os.getpid()) is None
    assert find(1 << 22) is None
    assert not armed.stacks(1 << 22, ArmedProcess(1 << 22, 44, 3), 1.0).by
    assert armed.recorder_json(1 << 22, ArmedProcess(1 << 22, socket="/tmp/x"), 1.0) is None


@pytest.mark.parametrize(
    ("nccl", "other", "told"),
    [(1, None, 1), (0, 2, 2), (0, 0, 0), (None, 2, 2), (1, 2, 1), (None, None, None)],
)
def test_of_two_recorders_the_one_that_holds_something_is_told(
    nccl: int | None, other: int | None, told: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build for CUDA has one of NCCL's and one of the others': that of the backend that nobody uses is empty."""

    def asked(pid: int, path: str, handler: str, deadline: float) -> bytes | None:
        entries = nccl if handler == "dump_nccl_trace_json" else other
        return None if entries is None else json.dumps({"version": "2.10", "entries": [{}] * entries}).encode()

    monkeypatch.setattr(armed, "_ask", asked)
    raw = armed.recorder_json(1, ArmedProcess(1, socket="/tmp/x"), 1.0)
    assert (None if raw is None else len(json.loads(raw)["entries"])) == told


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        (b"\x80\x02}X\x07\x00\x00\x00entries]}X\x0e\x00\x00\x00profiling_name", ["dump_nccl_trace_pickle"]),
        (b"\x80\x02}X\x07\x00\x00\x00entries].", ["dump_nccl_trace_pickle", "fr_trace_json"]),
        (None, ["dump_nccl_trace_pickle", "fr_trace_json"]),
        (TimeoutError(), ["dump_nccl_trace_pickle", "dump_nccl_trace_json"]),
    ],
    ids=["of NCCL", "of gloo", "of a build for CPUs", "the GIL is held"],
)
def test_a_recorder_is_asked_once_where_its_first_answer_tells(
    lines: bytes | Exception | None, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def answered(pid: int, path: str, handler: str, deadline: float) -> bytes | None:
        told.append(handler)
        if handler != "dump_nccl_trace_pickle":
            return b'{"version": "2.10", "entries": [{}]}'
        if isinstance(lines, Exception):
            raise lines
        return lines

    monkeypatch.setattr(armed, "_ask", answered)
    raw = armed.recorder_dump(1, ArmedProcess(1, socket="/tmp/x"), 1.0)
    assert told == asked
    assert raw == (lines if len(asked) == 1 else b'{"version": "2.10", "entries": [{}]}')


WITH_TORCH = """
    import os, sys, ctypes, torch, torch.distributed as dist, gpudoctor
    found = gpudoctor.arm()
    assert os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == found.pipe
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    dist.all_reduce(torch.ones(3))
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print("ready", flush=True)
    {then}
"""


@linux
def test_a_script_that_ends_at_once_ends_and_says_nothing_of_the_server(tmp_path: Path) -> None:
    """The server's thread may not have come to its loop by then, and does not notice that it is stopped."""
    pytest.importorskip("torch")
    text = "import torch.distributed, gpudoctor; gpudoctor.arm()"
    started = [subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        ends = [(process.communicate(timeout=PATIENCE)[1], process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
    assert ends == [("", 0)] * 3


@linux
@pytest.mark.parametrize("then", ["sys.stdin.read()", "ctypes.PyDLL(None).sleep(600)"], ids=["idle", "GIL held"])
def test_the_worker_server_tells_the_recorder(tmp_path: Path, then: str) -> None:
    with program(WITH_TORCH.format(then=then), tmp_path, truly="stdin" in then) as process:
        how = find(process.pid)
        assert how is not None
        if not how.socket:
            pytest.skip("this torch has no worker server")
        raw = armed.recorder_json(process.pid, how, PATIENCE)
        assert raw is not None
        assert b"all_reduce" in raw
        folder = Path(how.socket).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        if "stdin" in then:
            process.communicate("", timeout=PATIENCE)
            assert process.returncode == 0
            assert not folder.exists()


@linux
def test_a_forked_child_that_ends_as_a_program_leaves_the_folder(tmp_path: Path) -> None:
    text = """
        import os, sys, torch, gpudoctor
        found = gpudoctor.arm()
        child = os.fork()
        if child == 0:
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        print("ready", flush=True)
        sys.stdin.read()
    """
    with program(text, tmp_path, truly=False) as process:
        how = find(process.pid)
        assert how is not None
        if how.socket:
            assert armed.recorder_json(process.pid, how, PATIENCE) is not None


@linux
def test_a_folder_that_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    text = 'import sys, torch, gpudoctor\ngpudoctor.arm()\nprint("ready", flush=True)\nsys.stdin.read()\n'
    with program(text, tmp_path, keep=True, truly=False) as process:
        how = find(process.pid)
        assert how is not None
        if not how.socket:
            pytest.skip("this torch has no worker server")
    left = Path(how.socket).parent  # killed: it could not tidy up
    assert left.exists()
    with program(text, tmp_path, truly=False) as process:
        other = find(process.pid)
        assert other is not None
        assert Path(other.socket).exists()
        assert not left.exists()


@linux
def test_a_link_to_another_socket_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/run")
    with pytest.raises(OSError):
        armed._connect(os.getpid(), f"{tmp_path}/link/x.sock", 1.0)
    for path in ("relative", "/", "/../x", str(tmp_path)):
        with pytest.raises(OSError):
            armed._connect(os.getpid(), path, 1.0)


def test_arming_where_nothing_can_be_prepared(tmp_path: Path) -> None:
    text = """
        import os, sys
        del os.memfd_create
        sys.modules["torch"] = None
        import gpudoctor
        assert gpudoctor.arm() == (0, "", "")
    """
    file = tmp_path / "job.py"
    file.write_text(textwrap.dedent(text))
    subprocess.run([sys.executable, str(file)], check=True, timeout=PATIENCE)


def test_torch_is_not_imported_for_it(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("import sys, gpudoctor\ngpudoctor.arm()\nassert not {'torch', 'msgspec'} & set(sys.modules)\n")
    subprocess.run([sys.executable, str(file)], check=True, timeout=PATIENCE)


DUMP = """\
Thread 0x00007f66ca7c86c0 [worker] (most recent call first):
  File "/a b/train.py", line 12 in get
  ...
Thread 0x00007f66ca7c86c1 (most recent call first):
  <no Python frame>

Current thread 0x00007f66ca7c86c2 (most recent call first):
  File "<string>", line ??? in <module>
"""


def test_the_text_of_faulthandler() -> None:
    threads = armed.read(DUMP + DUMP, 7)
    assert [(thread.id, thread.name) for thread in threads] == [(0x7F66CA7C86C0, "worker"), (7, "MainThread")]
    assert threads[0].frames[0].file == "/a b/train.py"
    assert threads[1].frames[0].line == 0


@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(DUMP.splitlines())), max_size=12), st.integers(1, 99))
def test_any_text_is_read(lines: list[str], pid: int) -> None:
    threads = armed.read("\n".join(lines), pid)
    assert not threads or threads[-1].id == pid
    assert all(thread.frames for thread in threads)


@linux
def test_a_folder_whose_process_lives_stays_though_it_has_no_socket() -> None:
    """A torch without a worker server: NCCL makes its FIFOs there, minutes after the folder."""
    long_ago = time.time() - 1000
    with tempfile.TemporaryDirectory() as parent:
        alive, left, young = (Path(parent, f"{arms.FOLDER}{name}") for name in ("alive", "left", "young"))
        for folder in (alive, left, young):
            folder.mkdir(mode=0o700)
        lock = arms._locked(str(alive), shared=True)
        for folder in (alive, left):
            os.utime(folder, (long_ago, long_ago))
        subprocess.run(
            [sys.executable, "-c", "from gpudoctor import armed; armed.remove_leftovers()"],
            env={**os.environ, "TMPDIR": parent, "XDG_RUNTIME_DIR": ""},
            check=True,
        )
        os.close(lock)
        assert sorted(folder.name for folder in Path(parent).iterdir()) == sorted((alive.name, young.name))


def test_where_nothing_can_be_written_nothing_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod's root may be read-only: what looks for leftovers behind the command must not cost it its exit status."""

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    arms.remove_leftovers()
