"""The fabric manager, and processes that hang in the kernel or were never reaped."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.process import parse_stat
from gpudoctor.read.processes import read_fabric_manager, read_stuck
from gpudoctor.read.shares import Shares
from gpudoctor.snapshot import StuckProcess
from tests.fake_tree import INITIAL, Link, Refusing, fake

Files = dict[str, str | bytes | Link]
HOST: Files = {"/proc/self/ns/pid": Link(INITIAL), "/proc/1/stat": "", "/proc/uptime": "1000.0 1.0\n"}


def process(pid: int, name: str, state: str = "S", *, switches: int = 5, flags: int = 0, opens: str = "") -> Files:
    folder = f"/proc/{pid}"
    files: Files = {
        f"{folder}/stat": f"{pid} ({name}) {state} 77 1 1 0 -1 {flags} " + "0 " * 12 + "50000 9 9\n",
        f"{folder}/status": f"Name:\t{name}\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t1\n",
        f"{folder}/wchan": "rpc_wait_bit_killable",
    }
    if opens:
        files[f"{folder}/fd/3"] = Link(opens)
    return files


def no_pause(seconds: float) -> None:
    """Nothing happens between the two looks."""


def rewriting(root: Path, files: Files) -> Callable[[float], None]:
    """What happens between the two looks."""

    def pause(seconds: float) -> None:
        fake(root, files)

    return pause


FIELD = "host.stuck_processes"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (process(10, "python3.11", "D"), True),
        (process(10, "pt_main_thread", "Z"), True),
        (process(10, "nvidia-smi", "D"), True),
        (process(10, "a.out", "D", opens="/dev/nvidia0"), True),
        (process(10, "a.out", "D", opens="/dev/sda"), False),
        (process(10, "python", "S"), False),
        (process(10, "jbd2/nvme0n1-8", "D"), False),
        (process(10, "nvidia-modeset/", "D", flags=0x00200000), False),  # a kernel thread
    ],
)
def test_what_counts_as_stuck(tmp_path: Path, files: Files, found: bool) -> None:
    assert len(read_stuck(fake(tmp_path, HOST | files), no_pause)[FIELD].value) == found


def test_a_stuck_process_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    found = read_stuck(fake(tmp_path, HOST | process(10, "python (x) 1", "D")), no_pause)[FIELD].value
    assert found == (StuckProcess(10, "python (x) 1", "D", "rpc_wait_bit_killable", 77, 500.0),)


@pytest.mark.parametrize(
    "later",
    [
        process(10, "python", "S"),
        process(10, "python", "D", switches=6),  # it woke, and waits for the next block
        process(10, "python", "Z"),
    ],
)
def test_a_process_that_waits_for_a_disk_is_not_stuck(tmp_path: Path, later: Files) -> None:
    system = fake(tmp_path, HOST | process(10, "python", "D"))
    assert read_stuck(system, rewriting(tmp_path, later))[FIELD].value == ()


def test_the_memory_of_a_sleeping_process_is_not_touched(tmp_path: Path) -> None:
    """cmdline and maps take its mmap lock, and can hang for ever."""
    system = Refusing(fake(tmp_path, HOST | process(10, "python", "D")), "/proc/10/cmdline", "/proc/10/maps")
    assert read_stuck(system, no_pause)[FIELD].value


def test_no_stuck_process_in_sight_is_no_answer_where_processes_are_hidden(tmp_path: Path) -> None:
    system = Refusing(fake(tmp_path, HOST | process(10, "python")), "/proc/1/")
    assert read_stuck(system, no_pause)[FIELD].missing_kind == "denied"


def test_a_container_answers_for_its_own_processes(tmp_path: Path) -> None:
    system = fake(tmp_path, HOST | {"/proc/self/ns/pid": Link("pid:[4026532500]")})
    assert read_stuck(system, no_pause)[FIELD].value == ()


def test_processes_that_end_while_we_look_are_passed_over(tmp_path: Path) -> None:
    system = fake(tmp_path, HOST | {"/proc/11/": "", "/proc/12/stat": "garbage"} | process(13, "python", "Z"))
    assert [found.pid for found in read_stuck(system, no_pause)[FIELD].value] == [13]


@given(st.text())
def test_any_stat_can_be_parsed(text: str) -> None:
    try:
        parse_stat(text)
    except ValueError:
        pass


# --- fabric manager -----------------------------------------------------------------------------------------------

FABRIC_MANAGER = process(900, "nv-fabricmanage")
LOG = "/var/log/fabricmanager.log"
STARTED = "[INFO] [tid 9] Fabric Manager version {} is running with the following configuration options\n"
PACKAGE = (
    "Package: bash\nStatus: install ok installed\nVersion: 5.2\n\n"
    "Package: nvidia-fabricmanager-570\nStatus: install ok installed\nPriority: optional\nVersion: 570.86.15-1\n\n"
    "Package: nvidia-fabricmanager-550\nStatus: deinstall ok config-files\nVersion: 550.1.2-1\n"
)


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        (FABRIC_MANAGER, "running"),
        (FABRIC_MANAGER | {LOG: STARTED.format("550.1.2") + STARTED.format("580.95.05")}, "580.95.05"),
        (FABRIC_MANAGER | {"/var/lib/dpkg/status": PACKAGE}, "570.86.15"),
        ({LOG: STARTED.format("550.1.2"), "/var/lib/dpkg/status": PACKAGE}, ""),
        (process(900, "nv-fabricmanage", "Z"), ""),
    ],
)
def test_fabric_manager(tmp_path: Path, files: Files, answer: str) -> None:
    assert read_fabric_manager(fake(tmp_path, HOST | files))["host.fabric_manager"].value == answer


def test_a_fabric_manager_out_of_sight_is_not_stopped(tmp_path: Path) -> None:
    container = fake(tmp_path / "a", HOST | {"/proc/self/ns/pid": Link("pid:[4026532500]")})
    assert "PID namespace" in read_fabric_manager(container)["host.fabric_manager"].reason
    hidden = Refusing(fake(tmp_path / "b", HOST), "/proc/1/")
    assert "hidepid" in read_fabric_manager(hidden)["host.fabric_manager"].reason
    assert read_fabric_manager(fake(tmp_path / "c", {}))["host.fabric_manager"].missing_kind == "failed"


def test_what_was_asked_for_is_read_first() -> None:
    shares = Shares({1: 0, 2: 0, 3: 5, 4: 0})
    assert list(shares.in_turn()) == [3, 1, 2, 4]
    assert list(shares.in_turn((4, 2, 4, 99))) == [4, 2, 3, 1]
