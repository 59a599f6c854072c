"""Too few descriptors, processes, threads, bytes: the limit is named, and nobody is called healthy or gone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import chosen_checks
from gpudoctor.snapshot import missing
from gpudoctor.testing.machines import h100_node
from tests.attacks.faulty import CHECK, GPUDOCTOR, LINUX, assert_plain, checkpoint, faulty, names, one_line, snapshot
from tests.attacks.registry import attack, attacks

pytestmark = LINUX


@attacks(
    "faults",
    "command, most",
    ("nccl-test: ulimit -n 16", "it stalls, and something else is blamed", "nccl-test", 16),
    ("train-test: ulimit -n 16", "it stalls, and something else is blamed", "train-test", 16),
    ("hang: ulimit -n 5", "no job is said to be there", "hang", 5),
)
def test_too_few_descriptors_are_said_before_anything_starts(command: str, most: int) -> None:
    one_line(faulty(f"ulimit -n {most}", command), f"{most} are allowed (ulimit -n)", "wants 64", status=2)


@attack("faults", way="check: ulimit -n 8", weakness="the training interpreter is said to be broken")
def test_an_interpreter_is_not_blamed_for_our_limit() -> None:
    one_line(faulty("ulimit -n 8", *CHECK), "cannot be run: Too many open files (ulimit -n)", status=2)


@attack("faults", way="check --nagios: ulimit -n 8", weakness="its one line is missing, or says CRITICAL")
def test_nagios_hears_of_our_limit() -> None:
    done = faulty("ulimit -n 8", *CHECK, "--nagios")
    assert done.returncode == 3 and done.stderr == "", done
    assert done.stdout.startswith("GPUDOCTOR UNKNOWN - ") and "(ulimit -n)" in done.stdout, done


@attack("faults", way="checkpoint: ulimit -n 8", weakness="the file is said to be unreadable")
def test_a_checkpoint_is_not_blamed_for_our_limit(tmp_path: Path) -> None:
    done = faulty("ulimit -n 8", "checkpoint", str(checkpoint(tmp_path)))
    one_line(done, "no process can be started to read it: Too many open files (ulimit -n)", status=3)


@attack("faults", way="hang: ulimit -s above -d", weakness="a thread that cannot be started is a bug of ours")
def test_no_thread_can_be_started_for_an_agent() -> None:
    done = faulty("ulimit -s 2000000; ulimit -d 1000000", "hang")  # a thread's stack is larger than all it may have
    one_line(done, "could not look: no thread can be started (ulimit -u, -v, pids.max)", status=3)


@attack("faults", way="check --nagios: ulimit -v 100000 starves the readers of the machine", weakness="it is called OK")
def test_readers_without_memory() -> None:
    done = faulty("ulimit -v 100000", *CHECK, "--json")
    # how much its threads take differs from one run to the next
    said = done.returncode == 3 or (done.returncode == 2 and "no thread can be started" in done.stderr)
    assert said or (done.returncode in (0, 1) and '"reader ' not in done.stdout), done
    machine = h100_node()
    lost = missing("reader of host.kernel_log", "the process failed with exit status 1: MemoryError", "failed")
    without_thread = missing("reader paths", "the reader failed: RuntimeError: can't start new thread", "failed")
    for host, why in (
        (replace(machine.host, kernel_log=lost), "MemoryError"),
        (replace(machine.host, paths=without_thread), "can't start new thread"),
    ):
        lacking = diagnose(replace(machine, host=host), *chosen_checks([])).sight.lacking
        assert len(lacking) == 1 and why in lacking[0]
    assert diagnose(machine, *chosen_checks([])).sight.lacking == ()


@attacks(
    "faults",
    "command, status",
    ("check: ulimit -u 1", "the interpreter is said to be broken, or a bug of ours", CHECK, 2),
    ("hang: ulimit -u 1", "no job is said to be there", ("hang",), 3),
)
def test_no_process_can_be_started(command: tuple[str, ...], status: int) -> None:
    if os.getuid() != 0 or not shutil.which("setpriv") or not shutil.which("prlimit"):
        pytest.skip("root has no such limit; setpriv and prlimit are needed to be somebody else")
    somebody = ("setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups")
    if subprocess.run([*somebody, *GPUDOCTOR, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("this environment is closed to other users")
    other = f"prlimit --nproc=1:1 --pid $$\nset -- {' '.join(somebody)} " + '"$@"'
    one_line(faulty(other, *command), "ulimit -u", status=status)


@attack("faults", way="capture -o: ulimit -f 0", weakness="an earlier capture is lost, or half of one is left")
def test_a_limit_of_file_sizes_loses_nothing(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    place.write_text("old")
    done = faulty("ulimit -f 0", "capture", "--no-torch", "-o", str(place))
    one_line(done, f"-o {place}: File too large", status=2)
    assert place.read_text() == "old" and names(tmp_path) == ["machine.json"]


@attack("faults", way="checkpoint --fix: ulimit -f 0", weakness="half a copy is left, or the reason is not told")
def test_a_limit_of_file_sizes_leaves_no_copy(tmp_path: Path) -> None:
    file, out = checkpoint(tmp_path), tmp_path / "out.pt"
    done = faulty("ulimit -f 0", "checkpoint", str(file), "--fix", str(out))
    one_line(done, f"--fix {out}: File too large", status=2)
    assert names(tmp_path) == [file.name]


@attack("faults", way="check --from > FILE: ulimit -f 0", weakness="it passes for a report that was written")
def test_a_report_that_is_not_written_is_no_verdict(tmp_path: Path) -> None:
    done = faulty(f"ulimit -f 0\nexec > {tmp_path}/report", "check", "--from", str(snapshot(tmp_path)))
    one_line(done, "cannot write: File too large", status=3)


@attack("faults", way="checkpoint: ulimit -v 60000", weakness="the file is said to be made to use memory up")
def test_a_reader_without_memory_is_no_bomb(tmp_path: Path) -> None:
    done = faulty("ulimit -v 60000", "checkpoint", str(checkpoint(tmp_path)))
    assert "made to" not in done.stderr + done.stdout and done.returncode in (0, 2), done


@attack("faults", way="check: a stack of 256 KiB", weakness="a thread of ours dies, and its answer is missing")
def test_a_small_stack_is_enough() -> None:
    done = faulty("ulimit -s 256", *CHECK, "--nagios")
    assert_plain(done)
    assert "gave no answer" not in done.stdout and "SIGSEGV" not in done.stdout, done


@attack(
    "faults", way="every command: ulimit -n 8 while it only reads a file", weakness="what needs no process is refused"
)
def test_what_needs_no_process_needs_no_descriptors(tmp_path: Path) -> None:
    file = snapshot(tmp_path)
    for command in (("--help",), ("check", "--from", str(file)), ("env", "--from", str(file)), ("checks",)):
        done = faulty("ulimit -n 8", *command)
        assert done.stderr == "" and done.stdout, done
