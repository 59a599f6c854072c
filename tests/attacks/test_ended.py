"""Signals at any moment: while it is importing, waiting, ending. One line, the status that says so, nobody left."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpudoctor import cli
from tests.attacks.faulty import CHECK, GPUDOCTOR, LINUX, PATIENCE, faulty, marked, wait_until
from tests.attacks.registry import attack, attacks
from tests.patients import torch_package

pytestmark = LINUX

STRIKES = """
import os, signal, sys
class Strike:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("STRIKE_AT"):
            del os.environ["STRIKE_AT"]
            for number in os.environ["STRIKE_WITH"].split():
                os.kill(os.getpid(), int(number))
sys.meta_path.insert(0, Strike())
"""
"""A sitecustomize: the process signals itself where it imports a module, and nowhere else."""


def struck(
    folder: Path, at: str, *numbers: int, command: tuple[str, ...] = (*CHECK,)
) -> subprocess.CompletedProcess[str]:
    folder.joinpath("sitecustomize.py").write_text(STRIKES)
    with marked() as (environment, _):
        return subprocess.run(
            [*GPUDOCTOR, *CHECK],
            env={
                **environment,
                "PYTHONPATH": str(folder),
                "STRIKE_AT": at,
                "STRIKE_WITH": " ".join(str(int(number)) for number in numbers),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )


@attacks("faults", "module",
    ("Ctrl-C while the command line is imported", "Python's traceback is shown", "typer"),
    ("Ctrl-C while gpudoctor itself is imported", "Python's traceback is shown", "gpudoctor.cli.check"),
    ("Ctrl-C while the readers are imported", "its children stay", "gpudoctor.read.machine"),
    ("Ctrl-C while the checks are imported", "the rest is called healthy", "gpudoctor_checks"),
    ("Ctrl-C while the renderer is imported", "half a report", "rich.console"),
)  # fmt: skip
def test_ctrl_c_while_importing(module: str, tmp_path: Path) -> None:
    done = struck(tmp_path, module, signal.SIGINT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "gpudoctor: interrupted\n"), done


@attack("faults", way="Ctrl-C twice at once while importing", weakness="Python's traceback is shown")
def test_ctrl_c_twice_while_importing(tmp_path: Path) -> None:
    done = struck(tmp_path, "gpudoctor.render.terminal", signal.SIGINT, signal.SIGINT)
    assert done.returncode == 130 and "Traceback" not in done.stderr and done.stdout == "", done


@attack("faults", way="SIGTERM and Ctrl-C together", weakness="one of them saves the children from the other")
def test_two_signals_together(tmp_path: Path) -> None:
    done = struck(tmp_path, "gpudoctor.render.progress", signal.SIGTERM, signal.SIGINT)
    assert done.returncode in (130, 143) and "Traceback" not in done.stderr and done.stdout == "", done


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A training interpreter that never answers, and hears no signal but SIGKILL."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\ntrap '' TERM HUP INT QUIT\nsleep 600 &\nwait\nsleep 600\n")
    script.chmod(0o755)
    return script


def waiting(hanging: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [*GPUDOCTOR, "check", "--python", str(hanging), "--timeout", "90"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


SEED = 12


def several(living: Callable[[], list[int]]) -> Callable[[], bool]:
    return lambda: len(living()) > 1


@attack("faults", way="signals at random moments of a check, one after the other", weakness="a process stays")
def test_signals_at_random_moments(hanging: Path) -> None:
    chance = random.Random(SEED)
    for _ in range(4):
        numbers = [chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)) for _ in range(chance.randint(1, 3))]
        with marked() as (environment, living):
            process = waiting(hanging, environment)
            wait_until(several(living), "it has children")
            time.sleep(chance.random() / 2)
            for number in numbers:
                process.send_signal(number)
                time.sleep(chance.choice((0.0, 0.003, 0.03)))
            output, errors = process.communicate(timeout=PATIENCE)
            assert "Traceback" not in errors and "Exception" not in errors and output == "", (numbers, errors)
            assert process.returncode in (130, 143, 129, *(-number for number in numbers[1:])), (numbers, errors)


IN_A_CALLBACK = """
import os, signal, time, weakref
from gpudoctor import cli

class Thing:
    pass

def work(arguments):
    thing = Thing()
    kept = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT) or sorted(range(9)))
    del thing
    time.sleep(60)
    return 0

cli._within_its_cost = work
cli.main()
"""


@attack("faults", way="Ctrl-C in a callback of Python's own", weakness="it is printed and the command goes on")
def test_a_signal_in_a_callback_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CALLBACK], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode in (130, -signal.SIGINT), done
    assert (done.stdout, done.stderr) == ("", "gpudoctor: interrupted\n")


@attack("faults", way="a second signal in the middle of a lock's release", weakness="it passes for a bug of ours")
def test_what_breaks_while_it_ends_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(arguments: Sequence[str]) -> object:
        raise RuntimeError("release unlocked lock")

    monkeypatch.setattr(cli, "_within_its_cost", broken)
    assert cli.run(["checks"]) == 3 and "internal error" in capsys.readouterr().err
    monkeypatch.setattr(cli, "_asked_by", [int(signal.SIGTERM), int(signal.SIGINT)])
    assert cli.run(["checks"]) == 143 and capsys.readouterr().err == "gpudoctor: ended by SIGTERM\n"


@attacks(
    "faults",
    "number",
    ("kill -9 while its children wait", "they stay", signal.SIGKILL),
    ("SIGQUIT (Ctrl-\\) while its children wait", "they stay", signal.SIGQUIT),
    ("SIGXCPU, the limit of processor time", "its children stay", signal.SIGXCPU),
    way="check:",
)
def test_a_sudden_end_leaves_nobody(number: int, tmp_path: Path) -> None:
    folder = torch_package(tmp_path, "import time\ntime.sleep(600)\n")
    command = ["sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *GPUDOCTOR, "check", "--timeout", "90", "--python"]
    with marked() as (environment, living):
        process = subprocess.Popen(
            [*command, sys.executable],
            env={**environment, "PYTHONPATH": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: len(living()) > 2, "its children wait")
        process.send_signal(number)
        assert process.wait(PATIENCE) == -number


@attack("faults", way="nohup gpudoctor check: SIGHUP", weakness="it ends although it was told to stay")
def test_nohup_is_obeyed(tmp_path: Path) -> None:
    tmp_path.joinpath("sitecustomize.py").write_text(STRIKES)
    strike = {
        "PYTHONPATH": str(tmp_path),
        "STRIKE_AT": "gpudoctor.read.machine",
        "STRIKE_WITH": str(int(signal.SIGHUP)),
    }
    done = faulty("trap '' HUP", *CHECK, more=strike)
    assert done.returncode == 0 and done.stderr == "", done


@attack("faults", way="check: Ctrl-Z for longer than its deadlines, then fg", weakness="what was read is lost")
def test_stopped_and_continued(tmp_path: Path) -> None:
    command = [*GPUDOCTOR, *CHECK, "--nagios"]
    with marked() as (environment, living):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: len(living()) > 3, "it has children")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert output.startswith("GPUDOCTOR ") and errors == "" and process.returncode in (0, 1), (output, errors)


@attack("faults", way="a signal after the answer was printed", weakness="a traceback of the interpreter's own ending")
def test_a_signal_in_the_interpreters_own_ending(tmp_path: Path) -> None:
    late = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    tmp_path.joinpath("sitecustomize.py").write_text(late)
    with marked() as (environment, _):
        done = subprocess.run(
            [*GPUDOCTOR, "checks"],
            env={**environment, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert done.stderr == "" and done.stdout and done.returncode == -signal.SIGINT, done
