"""Standard streams that are closed, full or lose their reader, and terminals that go away."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from gpudoctor.snapshot import from_json
from tests.attacks.faulty import (
    GPUDOCTOR,
    LINUX,
    PATIENCE,
    checkpoint,
    faulty,
    marked,
    names,
    one_line,
    snapshot,
    wait_until,
)
from tests.attacks.registry import attack, attacks

pytestmark = LINUX


@attack("faults", way="hang: started without standard error", weakness="its progress is a bug of ours")
def test_hang_without_standard_error() -> None:
    done = faulty("exec 2>&-", "hang", "--pid", str(2**22 + 1))
    assert done.returncode == 2 and done.stdout == "", done  # what is wrong with --pid can be told nowhere


@attack("faults", way="checkpoint --fix: started without standard error", weakness="no copy is written")
def test_a_copy_without_standard_error(tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    done = faulty("exec 2>&-", "checkpoint", str(checkpoint(tmp_path)), "--fix", str(out), "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["fixed"] and out.exists(), done


@attack("faults", way="started without standard error", weakness="a complaint goes into the report on standard output")
def test_complaints_do_not_become_reports() -> None:
    done = faulty("exec 2>&-", "check", "--from", "/nonexistent", "--json")
    assert (done.returncode, done.stdout) == (2, ""), done


@attack("faults", way="capture -o: started without any standard stream", weakness="the file gets what is printed")
def test_no_file_takes_the_place_of_a_stream(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    done = faulty("exec <&- >&- 2>&-", "capture", "--no-torch", "--timeout", "60", "-o", str(place))
    assert done.returncode == 0, done
    assert from_json(place.read_bytes()).origin == "live" or json.loads(place.read_text())["schema"]


@attack("faults", way="check --from -: started without standard input", weakness="it waits, or a bug of ours is said")
def test_standard_input_that_is_closed() -> None:
    one_line(faulty("exec <&-", "check", "--from", "-"), "standard input is closed", status=2)


@attacks(
    "faults",
    "option",
    ("check --json > a full disk", "half a report passes for one", "--json"),
    ("check --nagios > a full disk", "OK is said by the status alone", "--nagios"),
    ("check --paste > a full disk", "half a report passes for one", "--paste"),
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_behind_standard_output(option: str, tmp_path: Path) -> None:
    done = faulty("exec > /dev/full", "check", "--from", str(snapshot(tmp_path)), option)
    one_line(done, "cannot write: No space left on device", status=3)


@attack("faults", way="every command | head -1", weakness="a traceback, or a status that calls the machine broken")
def test_a_reader_that_leaves(tmp_path: Path) -> None:
    file, model = str(snapshot(tmp_path)), str(checkpoint(tmp_path))
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH -N 2\nsrun torchrun --nproc-per-node=8 train.py\n")
    log = tmp_path / "job.log"
    log.write_text("[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n" * 99)
    commands = (("check", "--from", file), ("topology", "--from", file), ("checks",), ("lint", str(script)),
                ("explain", str(log)), ("checkpoint", model), ("check", "--from", file, "--json"))  # fmt: skip
    for command in commands:
        read, write = os.pipe()
        os.close(read)  # the reader has left before anything is printed
        process = subprocess.Popen([*GPUDOCTOR, *command], stdout=write, stderr=subprocess.PIPE, text=True)
        os.close(write)
        said = process.communicate(timeout=PATIENCE)[1]
        assert (process.returncode, said) == (141, ""), command


@attack("faults", way="check: its terminal goes away while it waits", weakness="it stays behind, or its children do")
def test_a_terminal_that_goes_away(tmp_path: Path) -> None:
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    with marked() as (environment, living):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            ["setsid", "-c", *GPUDOCTOR, "check", "--python", str(hanging), "--timeout", "90"],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        while b"waiting" not in seen:
            seen += os.read(ours, 4096)
        assert len(living()) > 2
        os.close(ours)
        assert process.wait(PATIENCE) in (128 + signal.SIGHUP, 2), process.returncode
        wait_until(lambda: not living(), "nothing is left")


@attacks("faults", "prepare",
    ("TERM is unset and COLUMNS is no number", "a renderer fails", "unset TERM; export COLUMNS=x"),
    ("a terminal of no width", "a renderer fails, or never ends", "export COLUMNS=0 LINES=0"),
    ("a terminal of a billion columns", "it is filled with blanks", "export COLUMNS=1000000000"),
    ("a locale that does not exist", "a name cannot be printed", "export LC_ALL=xx_YY.UTF-9"),
    ("PYTHONIOENCODING=ascii:strict", "a name cannot be printed", "export PYTHONIOENCODING=ascii"), way="check --from:",
)  # fmt: skip
def test_odd_terminals_get_the_same_report(prepare: str, tmp_path: Path) -> None:
    file = str(snapshot(tmp_path))
    done, plain = faulty(f"ulimit -v 2000000\n{prepare}", "check", "--from", file), faulty("", "check", "--from", file)
    assert (done.returncode, plain.returncode) == (1, 1), done
    assert len(done.stdout.split()) >= len(plain.stdout.split()) // 2, done
    assert len(done.stdout) < 200_000


@attack(
    "faults", way="check --json > FILE of a full file system", weakness="what was there before is taken for a report"
)
def test_what_is_printed_into_a_full_file_system(tmp_path: Path) -> None:
    file = snapshot(tmp_path)
    full = "mount -t tmpfs -o size=8k none /mnt && exec > /mnt/report.json"
    done = faulty(full, "check", "--from", str(file), "--json", unshare="-m")
    one_line(done, "cannot write: No space left on device", status=3)
    assert names(tmp_path) == [file.name]
