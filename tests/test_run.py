"""`gpudoctor run`: real processes, pipes, files and terminals, each beside the same command without it."""

import contextlib
import json
import os
import pty
import pwd
import re
import select
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import psutil
import pytest

from gpudoctor import armed, settings
from gpudoctor.cli import run_command
from gpudoctor.read.process import children_of
from gpudoctor.run import kept, last_resort, relay
from tests.lab.requirements import require

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")
PATIENCE = 60.0
OURS = re.compile(rb"(?m)^gpudoctor: .*\r?\n")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONWARNINGS": "ignore"}


def words(*command: str, options: Sequence[str] = ()) -> list[str]:
    return [sys.executable, "-m", "gpudoctor", "run", "--preflight", "none", *options, "--", *command]


def runs(environment: dict[str, str]) -> list[Path]:
    root = Path(environment["XDG_STATE_HOME"], "gpudoctor", "runs")
    return sorted(root.iterdir()) if root.is_dir() else []


def log_of(environment: dict[str, str]) -> bytes:
    return (runs(environment)[-1] / relay.HEAD).read_bytes()


def until(there: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def relays(words: bytes = b"") -> set[int]:
    """Relays that live, of whatever run. `words`: that have this in their command line."""
    alive = set()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"gpudoctor/run/relay.py" in (line := place.read_bytes()) and words in line:
                alive.add(int(place.parent.name))
    return alive


def relays_of(folder: Path) -> set[int]:
    """Relays that keep the log in a folder below this one."""
    return relays(os.fsencode(folder))


# ---------------------------------------------------------------- ends, and what was said

SAYS = r"printf 'a\n\000\377\033[1mpart\r 50%%\r100%%\r\nlast words'; echo trouble >&2; "
PYTHON_SAYS = "import os, sys; sys.stdout.write('x' * 70000); sys.stderr.write('e\\n'); sys.stdout.flush(); "
COMMANDS = {
    "0": ("sh", "-c", SAYS),
    "1": ("sh", "-c", f"{SAYS} exit 1"),
    "2": ("sh", "-c", f"{SAYS} exit 2"),
    "77": ("sh", "-c", f"{SAYS} exit 77"),
    "255": ("sh", "-c", f"{SAYS} exit 255"),
    "130": ("sh", "-c", f"{SAYS} exit 130"),
    "TERM": ("sh", "-c", f"{SAYS} kill -TERM $$"),
    "KILL": ("sh", "-c", f"{SAYS} kill -KILL $$"),
    "SEGV": (sys.executable, "-c", f"{PYTHON_SAYS} os.kill(os.getpid(), 11)"),
    "INT": ("sh", "-c", f"{SAYS} kill -INT $$"),
    "PIPE": ("sh", "-c", f"{SAYS} kill -PIPE $$"),
    "USR1": ("sh", "-c", f"{SAYS} kill -USR1 $$"),
    "ABRT": (sys.executable, "-c", f"{PYTHON_SAYS} os.abort()"),
    "no words": ("true",),
    "much": ("sh", "-c", "yes 0123456789 | head -c 3000001"),
    "input": ("cat",),
    "terminals": (sys.executable, "-c", "import os; print([os.isatty(n) for n in range(3)])"),
    "surroundings": (
        sys.executable,
        "-c",
        "import os, signal, resource as r; print(os.getcwd(), os.getpgrp() == os.getpgid(os.getppid()), os.getsid(0), "
        "signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(0, []), "
        "[r.getrlimit(n) for n in range(16)], sorted(map(int, os.listdir('/proc/self/fd')))[:3], os.umask(0), "
        "sorted(os.environ.items()))",
    ),
    "words": ("sh", "-c", 'printf "%s|" "$@"', "-", "--report", "", "a b", "*", "-q", "--", "é"),
    "a script without its first line": ("{script}", "1 2"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_status_and_output_are_what_they_are_without_us(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$1"; exit 5\n')
    script.chmod(0o755)
    command = [word.replace("{script}", str(script)) for word in COMMANDS[name]]
    start = {"input": b"line\n\x00\xffrest", "capture_output": True, "env": environment, "timeout": PATIENCE}
    shell = ["sh", "-c", 'exec "$@"', "-"]  # a shell takes a script without its first line, Popen does not
    plain = subprocess.run([*shell, *command], check=False, **start)  # type: ignore[call-overload]
    options = ["--no-arm"] if name == "surroundings" else []
    ours = subprocess.run(words(*command, options=options), check=False, **start)  # type: ignore[call-overload]
    assert ours.returncode == plain.returncode, ours
    if name == "surroundings":
        plain.stdout = plain.stdout.replace(b" False ", b" True ")  # its parent is the test, and not in its group
    assert ours.stdout == plain.stdout
    assert OURS.sub(b"", ours.stderr) == plain.stderr
    assert ours.stderr.count(b"gpudoctor: ") >= 1
    for each in runs(environment):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in each.iterdir()} == {0o600}
    if name in ("0", "77", "SEGV"):
        assert b"trouble\n" in log_of(environment) or b"e\n" in log_of(environment)


def test_what_cannot_be_started(environment: dict[str, str], tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    dead.write_text("#!/no/such/interpreter\n")
    dead.chmod(0o755)
    for command, status, says in (
        ("no-such-command-at-all", 127, "not found"),
        ("/nowhere/train.sh", 127, "not found"),
        ("/etc/passwd", 126, "Permission denied"),
        (str(tmp_path), 126, "Permission denied"),
        (str(dead), 126, "its interpreter"),
        ("", 127, "'': not found"),
    ):
        done = subprocess.run(words(command), env=environment, capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == status and done.stdout == b"", done
        assert re.fullmatch(rb"gpudoctor: .*\n", done.stderr) and says.encode() in done.stderr
    usage = [sys.executable, "-m", "gpudoctor", "run"]
    for wrong in ([], ["--nonsense"], ["--report"]):
        done = subprocess.run([*usage, *wrong], env=environment, capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 125 and re.fullmatch(rb"gpudoctor: .*\n", done.stderr), done
    assert not relays_of(tmp_path)


def test_quiet_says_nothing(environment: dict[str, str]) -> None:
    for command in (("sh", "-c", "exit 3"), ("no-such-command-at-all",)):
        done = subprocess.run(
            words(*command, options=["--quiet"]), env=environment, capture_output=True, timeout=PATIENCE, check=False
        )
        assert done.returncode in (3, 127) and done.stdout == done.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_was_closed_stays_closed(closed: str, environment: dict[str, str], tmp_path: Path) -> None:
    said = tmp_path / "said"
    text = (
        f"import os; open({str(said)!r}, 'w').write(str([os.path.exists(f'/proc/self/fd/{{n}}') for n in (0, 1, 2)]))"
    )
    found = []
    for command in ([sys.executable, "-c", text], words(sys.executable, "-c", text)):
        subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "-", *command], env=environment, timeout=PATIENCE, check=False, stderr=-3
        )
        found.append(said.read_text())
    assert found[0] == found[1]


def test_descriptors_that_were_given_arrive(environment: dict[str, str]) -> None:
    """srun's PMI_FD and make's job server are such."""
    reading, writing = os.pipe()
    subprocess.run(
        words("bash", "-c", f"echo hello >&{writing}"),
        env=environment,
        pass_fds=[writing],
        timeout=PATIENCE,
        check=True,
    )
    os.close(writing)
    assert os.read(reading, 99) == b"hello\n"
    os.close(reading)


def test_order_of_output_and_error_on_one_pipe(environment: dict[str, str]) -> None:
    text = "for n in $(seq 500); do echo $n; echo $n >&2; done"
    start = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": environment, "timeout": PATIENCE}
    plain = subprocess.run(["bash", "-c", text], check=False, **start)  # type: ignore[call-overload]
    ours = subprocess.run(words("bash", "-c", text, options=["-q"]), check=False, **start)  # type: ignore[call-overload]
    assert ours.stdout == plain.stdout


def test_into_a_file_the_command_writes_itself(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "slurm-1.out"
    file.write_bytes(b"before\n")
    text = "stat -L -c %i /proc/self/fd/1; echo a; echo b >&2; echo c"
    with file.open("ab") as stream:
        subprocess.run(
            words("sh", "-c", text), stdout=stream, stderr=stream, env=environment, timeout=PATIENCE, check=True
        )
    said = OURS.sub(b"", file.read_bytes())
    assert said == b"before\n%d\na\nb\nc\n" % file.stat().st_ino
    assert log_of(environment) == said.removeprefix(b"before\n")


def test_a_full_disk_is_told_to_the_command(environment: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            words("sh", "-c", "echo x 2>/dev/null || exit 9"), stdout=full, stderr=-3, env=environment, timeout=PATIENCE
        )
    assert done.returncode == 9


@pytest.mark.parametrize("root", ["/proc/none", "/dev/null"])
def test_nothing_can_be_kept(root: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        words("sh", "-c", "echo out; exit 4"),
        env={**environment, "XDG_STATE_HOME": root},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, b"out\n")
    assert done.stderr.count(b"nothing is kept of this run") == 2, "while it can still be started anew, and at its end"


def test_what_is_not_kept_is_not_pointed_to(environment: dict[str, str]) -> None:
    command = words("sh", "-c", "echo out; kill -9 $$", options=["--no-log"])
    done = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert b"output" not in done.stderr and b"gpudoctor report" in done.stderr, done.stderr


def test_a_reader_that_leaves(environment: dict[str, str], tmp_path: Path) -> None:
    """The command learns of it as it would: by the signal, or by its own exception."""
    for text in ('"$@" | head -1; echo ${PIPESTATUS[0]}', '"$@" | (exec 0<&-; sleep 0.2); echo ${PIPESTATUS[0]}'):
        shell = ["bash", "-c", text, "-"]
        plain = subprocess.run([*shell, "yes"], capture_output=True, env=environment, timeout=PATIENCE, check=True)
        ours = subprocess.run(
            [*shell, *words("yes", options=["-q"])], capture_output=True, env=environment, timeout=PATIENCE, check=True
        )
        assert ours.stdout == plain.stdout
        assert ours.stdout.split()[-1] == b"141"
    assert not relays_of(tmp_path)


def test_a_daemon_that_stays_keeps_nobody_waiting(environment: dict[str, str], tmp_path: Path) -> None:
    text = "(sleep 2; echo late) & echo early"
    process = subprocess.Popen(words("sh", "-c", text, options=["-q"]), stdout=subprocess.PIPE, env=environment)
    assert process.wait(PATIENCE) == 0
    assert len(relays_of(tmp_path)) == 1
    assert process.communicate(timeout=PATIENCE)[0] == b"early\nlate\n"
    until(lambda: not relays_of(tmp_path), "the relay has ended")


# ---------------------------------------------------------------- somebody is killed


class Started:
    """`gpudoctor run` of a shell's text that says "ready", in a process group of its own."""

    def __init__(self, text: str, environment: dict[str, str], *options: str) -> None:
        self.process = subprocess.Popen(
            words("bash", "-c", text, options=options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.said = b""
        while b"ready" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            self.said += line

    @property
    def command(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(pid) for pid in children if int(pid) not in relays())

    def ended(self) -> tuple[int, bytes, bytes]:
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, self.said + output, errors


@contextlib.contextmanager
def started(text: str, environment: dict[str, str], *options: str) -> Iterator[Started]:
    one = Started(text, environment, *options)
    try:
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        _end_ranks(environment)  # torchrun gives each a session of its own
        one.process.communicate(timeout=PATIENCE)


def _end_ranks(environment: dict[str, str]) -> None:
    """Whatever was started with this test's own state folder and has outlived it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("XDG_STATE_HOME") == environment["XDG_STATE_HOME"]:
                process.kill()


GOES_ON = "echo ready; while [ ! -e {go} ]; do sleep 0.05; done; echo more; echo wrong >&2; touch {done}; exit 6"


def test_the_doctor_is_killed_and_the_job_goes_on(environment: dict[str, str], tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    with started(GOES_ON.format(go=go, done=done), environment) as job:
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait(PATIENCE)
        go.touch()
        status, output, errors = job.ended()
        assert (status, output, errors) == (-9, b"ready\nmore\n", b"wrong\n")
        until(done.exists, "the command has come to its end")
        until(lambda: not relays_of(tmp_path), "the relay has ended")
    assert sorted(log_of(environment).split()) == [b"more", b"ready", b"wrong"]


def test_the_relay_is_killed_and_nothing_is_lost(environment: dict[str, str], tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    with started(GOES_ON.format(go=go, done=done), environment) as job:
        for _ in range(2):
            (first,) = relays_of(tmp_path)
            os.kill(first, signal.SIGKILL)
            until(lambda first=first: relays_of(tmp_path) - {first}, "another one is there")  # type: ignore[misc]
        go.touch()
        status, output, errors = job.ended()
    assert (status, output) == (6, b"ready\nmore\n") and errors.startswith(b"wrong\n")
    assert sorted(log_of(environment).split()) == [b"more", b"ready", b"wrong"]


def test_the_relay_is_killed_when_the_command_has_ended_and_nobody_waits_for_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Its reader is slow; the command has ended already."""
    text = "echo ready; head -c 60000 /dev/zero | tr '\\0' x; head -c 60000 /dev/zero | tr '\\0' y; echo end"
    with started(text, environment) as job:
        until(lambda: ended_of(job), "it ended")
        for pid in relays_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
        status, output, _ = job.ended()
    assert status == 0 and output.startswith(b"ready\n")


def ended_of(job: Started) -> bool:
    return not [pid for pid in children_of(job.process.pid) if pid not in relays()]


def test_the_launcher_is_killed(environment: dict[str, str], tmp_path: Path) -> None:
    with started("echo ready; sleep 600 & wait", environment) as job:
        os.kill(job.command, signal.SIGKILL)
        assert job.process.wait(PATIENCE) == -9


# ---------------------------------------------------------------- signals

COUNTS = (
    "for s in INT TERM HUP USR1 USR2 QUIT; do trap \"echo got $s\" $s; done; trap 'exit 8' ALRM; "
    "echo ready; while :; do sleep 0.05; done"
)


def heard(text: bytes) -> list[str]:
    return [line.split()[1] for line in text.decode().splitlines() if line.startswith("got")]


def test_each_signal_arrives_once_whoever_it_was_sent_to(environment: dict[str, str]) -> None:
    names = ("TERM", "INT", "HUP", "USR1", "USR2", "QUIT")
    for whole_group in (False, True):
        with started(COUNTS, environment) as job:
            for name in names:
                number = getattr(signal, f"SIG{name}")
                if whole_group:
                    os.killpg(job.process.pid, number)
                else:
                    os.kill(job.process.pid, number)
                time.sleep(0.3)
            os.kill(job.process.pid, signal.SIGALRM)
            status, output, _ = job.ended()
        assert status == 8
        assert heard(output) == list(names)


def test_a_command_that_signals_its_parent_hears_no_echo(environment: dict[str, str]) -> None:
    text = "trap 'echo got USR1' USR1; echo ready; kill -USR1 $PPID; sleep 0.5; exit 3"
    with started(text, environment) as job:
        status, output, _ = job.ended()
    assert status == 3 and not heard(output)


def test_the_same_signal_ends_us(environment: dict[str, str]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT):
        with started("echo ready; exec sleep 600", environment) as job:
            until(lambda job=job: b"sleep" in Path(f"/proc/{job.command}/cmdline").read_bytes(), "exec")  # type: ignore[misc]
            os.kill(job.process.pid, number)
            assert job.process.wait(PATIENCE) == -number


# ---------------------------------------------------------------- a terminal


class Terminal:
    """A session of its own on a real pseudo-terminal."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.pid, self.master = pty.fork()
        if not self.pid:
            os.execvpe(command[0], command, {**environment, "TERM": "xterm", "PS1": "$ "})
        self.said = b""

    def see(self, wanted: bytes, count: int = 1) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.said.count(wanted) < count:
            assert time.monotonic() < deadline, (wanted, self.said)
            if not self._more(0.5):
                assert self.said.count(wanted) >= count, (wanted, self.said)

    def _more(self, seconds: float) -> bool:
        if select.select([self.master], [], [], seconds)[0]:
            try:
                chunk = os.read(self.master, 1 << 16)
            except OSError:
                return False
            self.said += chunk
            return bool(chunk)
        return True

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def ended(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._more(0.2):
            pass
        status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.master)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@contextlib.contextmanager
def terminal(command: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    one = Terminal(command, environment)
    try:
        yield one
    finally:
        one.close()


ON_A_TERMINAL = (
    "import os, sys, time\n"
    "print([os.isatty(n) for n in range(3)], os.get_terminal_size(1), os.get_terminal_size(2))\n"
    "print(os.tcgetpgrp(0) == os.getpgrp(), open('/dev/tty').isatty())\n"
    "for n in range(3): print(f'\\r{n}0%|###', end='', file=sys.stderr, flush=True)\n"
    "print('typed', repr(input('name? ')))\n"
    "sys.exit(77)\n"
)


def test_on_a_terminal_all_is_as_without_us(environment: dict[str, str]) -> None:
    said = []
    for command in (
        [sys.executable, "-c", ON_A_TERMINAL],
        words(sys.executable, "-c", ON_A_TERMINAL, options=["--quiet"]),
    ):
        with terminal(command, environment) as screen:
            screen.see(b"name? ")
            screen.type(b"mara\r")
            assert screen.ended() == 77
            said.append(screen.said)
    assert said[0] == said[1]


def test_who_writes_much_to_a_terminal_is_not_held_up(environment: dict[str, str]) -> None:
    """A pseudo-terminal holds 4,095 bytes: where they waited for more lines, a megabyte took ten seconds."""
    took = []
    for command in (["seq", "150000"], words("seq", "150000", options=["--quiet"])):
        began = time.monotonic()
        with terminal(command, environment) as screen:
            assert screen.ended() == 0
            assert screen.said.count(b"\n") == 150000
        took.append(time.monotonic() - began)
    assert took[1] < 4.0 + 4 * took[0]


CATCHES = """\
import signal, time
caught = []
def catch(*_):
    caught.append(None)
    if len(caught) == 2: signal.signal(signal.SIGINT, signal.default_int_handler)
    print('caught', len(caught) - 1, flush=True)
signal.signal(signal.SIGINT, catch)
print('ready', flush=True)
time.sleep(600)
"""
"""Catches it twice. The handler is there before it says that it is ready."""


def test_ctrl_c_once_twice_and_a_third_time(environment: dict[str, str]) -> None:
    with terminal(words(sys.executable, "-c", CATCHES), environment) as screen:
        screen.see(b"ready")
        for number in range(2):
            screen.type(b"\x03")
            screen.see(b"caught %d" % number)
            time.sleep(0.2)
            assert screen.said.count(b"caught") == number + 1
        screen.type(b"\x03")
        assert screen.ended() == -signal.SIGINT
        assert b"KeyboardInterrupt" in screen.said and b"gpudoctor: ended by SIGINT" in screen.said


def test_ctrl_z_and_back_in_a_shell(environment: dict[str, str]) -> None:
    with terminal(["bash", "--norc", "-i"], environment) as shell:
        shell.type(b"set +o history; alias go='" + " ".join(words("bash", "-c")).encode() + b"'\r")
        shell.type(b"go 'echo re\"\"ady; sleep 600'\r")
        shell.see(b"ready")
        shell.type(b"\x1a")
        shell.see(b"Stopped")
        shell.type(b"jobs; fg\r")
        shell.see(b"Stopped", 2)
        time.sleep(0.5)
        shell.type(b"\x03")
        shell.see(b"gpudoctor: ended by SIGINT")
        shell.type(b"echo status=$?; exit\r")
        shell.see(b"status=130")
        shell.ended()


def test_the_window_changes_its_size(environment: dict[str, str]) -> None:
    import fcntl
    import struct
    import termios

    text = (
        "import os, signal, time\n"
        # The signal comes once more when we have told the size, maybe into the handler: print is not reentrant
        "say = lambda *_: os.write(1, ('size %d %d\\n' % os.get_terminal_size(1)).encode())\n"
        "signal.signal(signal.SIGWINCH, say)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1)\n"
    )
    with terminal(words(sys.executable, "-c", text), environment) as screen:
        screen.see(b"ready")
        fcntl.ioctl(screen.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        screen.see(b"size 111 33")


def test_the_terminal_is_closed_and_the_job_goes_on_if_it_wants_to(environment: dict[str, str], tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    with terminal(words("bash", "-c", f"trap '' HUP; {GOES_ON.format(go=go, done=done)}"), environment) as screen:
        screen.see(b"ready")
        os.close(screen.master)
        time.sleep(0.3)
        go.touch()
        until(done.exists, "the command has come to its end")
        assert os.waitstatus_to_exitcode(os.waitpid(screen.pid, 0)[1]) == 6
    assert b"more\n" in log_of(environment)


def test_the_terminal_is_closed_and_the_job_ends_with_it(environment: dict[str, str], tmp_path: Path) -> None:
    """We are the leader of its session here, as under `script -c` or in a window of tmux: the kernel tells us alone."""
    with terminal(words("sh", "-c", "echo ready; exec sleep 600"), environment) as screen:
        screen.see(b"ready")
        os.close(screen.master)
        until(lambda: os.waitpid(screen.pid, os.WNOHANG)[0], "the command has ended")
    record = json.loads((runs(environment)[0] / "run.json").read_text())
    assert record["status"] == -signal.SIGHUP, record


# ---------------------------------------------------------------- what is kept


def test_first_and_last_of_a_long_log(tmp_path: Path) -> None:
    log = relay.BoundedLog(str(tmp_path), 1000)
    for number in range(2000):
        log.write(b"line %5d\n" % number)
    log.end()
    log.end()
    said = (tmp_path / relay.HEAD).read_text().splitlines()
    assert said[0] == "line     0" and said[-1] == "line  1999"
    assert any(line.endswith("bytes are left out here]") for line in said) and len(said) < 300
    assert os.listdir(tmp_path) == [relay.HEAD]  # noqa: PTH208


def test_old_runs_are_removed_and_none_that_goes_on(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    first = kept.make(None, environment)
    more = [kept.make(None, environment) for _ in range(kept.MOST_RUNS + 3)]
    assert first.folder.exists()  # its lock is held
    for each in more:
        os.close(each.lock)
    last = kept.make(None, environment)
    left = sorted(path.name for path in last.folder.parent.iterdir())
    assert len(left) <= kept.MOST_RUNS + 1 and last.folder.name in left and first.folder.name in left
    for one in (first, last):
        os.close(one.lock)


def test_who_ignores_the_ends_of_children_does_not_hide_ours(environment: dict[str, str]) -> None:
    """A service that was started so: the kernel keeps no exit status then, and the command ran on without us."""
    line = shlex.join(words("sh", "-c", "sleep 0.3; exit 9"))
    started = ["bash", "-c", f"trap '' CHLD; exec {line}"]
    done = subprocess.run(started, env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 9 and b"ended with exit status 9" in done.stderr


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / "gpudoctor" / "runs"
    root.mkdir(parents=True)
    root.chmod(0o777)
    with pytest.raises(kept.NoFolder, match="others may write"):
        kept.make(None, {"XDG_STATE_HOME": str(tmp_path)})
    with pytest.raises(kept.NoFolder, match="HOME is no whole path"):
        kept.make(None, {"HOME": "mara"})


def test_a_dead_mount_holds_up_neither_the_start_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME, the folder it is started in, TMPDIR: a hard mount of NFS whose server is gone answers nothing, for ever."""
    monkeypatch.setattr(kept, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(kept, "_make", lambda *given: time.sleep(60))
    with pytest.raises(kept.NoFolder, match=r"the file system of /home/mara/.* gave no answer"):
        kept.make(None, {"HOME": "/home/mara"})
    monkeypatch.setattr(armed, "LEFTOVERS_SECONDS", 0.3)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: time.sleep(60))
    begun = time.monotonic()
    armed.remove_leftovers()
    assert time.monotonic() - begun < 10
    monkeypatch.setattr(tempfile, "gettempdir", lambda: os.listdir("/nowhere"))  # noqa: PTH208
    assert [*armed._parents()][-1] == "/tmp", "a machine on which nothing may be written"
    monkeypatch.setattr(run_command, "SETTINGS_SECONDS", 0.3)
    monkeypatch.setattr(settings, "nearest", lambda *given: time.sleep(60))
    command: Any = run_command.AroundAnother("run", params=[])
    assert command._said_before(click.Context(command)) == {}


@pytest.mark.parametrize(("state", "ends"), [("D", True), ("S", False)])
def test_a_doctor_that_stands_in_the_kernel_ends_as_its_command(
    state: str, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stat").write_text(f"7 (a) b) {state}" + " 1" * 49)
    monkeypatch.setattr(last_resort, "STUCK_SECONDS", 0.2)
    monkeypatch.setattr(last_resort, "LOOK_SECONDS", 0.02)
    ended: list[int] = []
    said: list[str] = []
    monkeypatch.setattr(last_resort, "end_as", ended.append)
    child = subprocess.Popen(["sh", "-c", "exit 7"])
    given = (child.pid, lambda: None, said.append, tmp_path)
    watching = threading.Thread(target=last_resort._watch, args=given, daemon=True)
    watching.start()
    watching.join(10 if ends else 1)
    assert (ended, len(said)) == (([7], 1) if ends else ([], 0))
    (tmp_path / "stat").write_text(
        "7 (a) D" + " 1" * 49
    )  # it ends here: left behind, it would end the process of the tests
    watching.join(60)
    assert ended == [7] and not watching.is_alive()
    assert child.wait() == 7, "its status is left for who waits for it"


def test_without_a_home_in_the_environment_it_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.state_folder({}) == Path(pwd.getpwuid(os.geteuid()).pw_dir, ".local/state/gpudoctor/runs")
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 9)
    with pytest.raises(kept.NoFolder, match="HOME is not set"):
        kept.state_folder({})


def test_the_report_says_how_it_ended(environment: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "mine"
    done = subprocess.run(
        words("sh", "-c", "exit 3", options=["--report", str(place)]), env=environment, timeout=PATIENCE, check=False
    )
    (folder,) = place.iterdir()
    record = json.loads((folder / "run.json").read_bytes())
    assert done.returncode == record["status"] == 3 and record["command"] == ["sh", "-c", "exit 3"]
    assert not runs(environment)


def test_a_full_disk_below_the_report_is_said_and_the_end_is_told_all_the_same(
    environment: dict[str, str], tmp_path: Path
) -> None:
    require(os.geteuid() == 0, "a small file system is mounted by root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
    try:
        code = "for i in range(20000): print(i)\nraise ValueError('batch 7 is empty')"
        done = subprocess.run(
            words(sys.executable, "-c", code, options=["--report", str(small)]),
            env=environment,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert done.returncode == 1 and done.stdout.endswith(b"\n19999\n")
    assert b"a part of the output is not kept: the disk may be full" in done.stderr, done.stderr
    assert b"the logs were not read" not in done.stderr, done.stderr


def test_a_reader_that_has_gone_is_said_and_nobody_is_blamed(environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(words('yes'))} | head -1; exit ${{PIPESTATUS[0]}}"],
        env=environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (141, b"y\n")
    assert b"whoever read its output has gone" in done.stderr and b"cause:" not in done.stderr, done.stderr


def test_a_program_whose_reader_has_gone_is_blamed_for_nothing(environment: dict[str, str]) -> None:
    program = "import time\nfor number in range(900):\n    print(number, flush=True)\n    time.sleep(0.01)"
    line = shlex.join(words(sys.executable, "-c", program))
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -1; exit ${{PIPESTATUS[0]}}"],
        env=environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"0\n")
    assert b"whoever read its output has gone" in done.stderr and b"cause:" not in done.stderr, done.stderr


def test_the_report_of_a_folder_of_runs_is_that_of_its_newest(environment: dict[str, str], tmp_path: Path) -> None:
    folder = "reports of märz"
    for status in (3, 4):
        command = words("sh", "-c", f"echo out; exit {status}", options=["--report", folder])
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False
        )
        assert f"its output is in {tmp_path}/{folder}/".encode() in done.stderr, done.stderr
        time.sleep(1.1)  # names are of a second
    told = [sys.executable, "-m", "gpudoctor", "report", folder]
    done = subprocess.run(told, env=environment, cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False)
    assert b"The run ended with exit status 4" in done.stdout, done.stdout
