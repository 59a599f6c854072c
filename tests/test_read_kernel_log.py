"""The kernel log: what its lines say, and who lets us read it."""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.kernel_log import (
    KEPT_PER_ERROR,
    KernelLine,
    examine,
    kmsg_records,
    parse_kmsg,
    parse_printed,
    read_log,
)
from gpudoctor.read.system import System
from gpudoctor.snapshot import KernelLog, LinkLimit, XidEvent
from tests.fake_tree import Refusing, fake

FIELD = "host.kernel_log"


def log(*texts: str) -> KernelLog:
    return examine([KernelLine(100.0, text) for text in texts], 160.0)


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
            XidEvent(79, "0000:3b:00.0", "pid=1234, name=python, GPU has fallen off the bus.", False, 60.0),
        ),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            XidEvent(94, "0000:01:00.0", "pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No", False, 60.0),
        ),
        (
            "NVRM: Xid (PCI:0000:90:00 GPU-I:0d GPU-CI:00): 13, Graphics Exception: ESR 0x50de48=0x0",
            XidEvent(13, "0000:90:00.0", "Graphics Exception: ESR 0x50de48=0x0", False, 60.0),
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", XidEvent(14, "0000:03:00.0", "Channel 00000001", False, 60.0)),
        ("NVRM: Xid (PCI:0008:01:00): 62, 0000(0000)", XidEvent(62, "0008:01:00.0", "0000(0000)", False, 60.0)),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
            XidEvent(
                12028, "0000:c1:00.0", "Non-fatal, Link 32 egress non-posted PRIV error (First)", True, 60.0, False
            ),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            XidEvent(20034, "0000:05:00.0", "Fatal, Link 30 LTSSM Fault Up", True, 60.0, True),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 24007, Severity 1 Engine instance 32",
            XidEvent(24007, "0000:05:00.0", "Severity 1 Engine instance 32", True, 60.0, None),
        ),
    ],
)
def test_events(line: str, event: XidEvent) -> None:
    assert log(line).events == (event,)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU at PCI:0000:3b:00: GPU-7f2a0000-1111-2222-3333-444444444444",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
        "usb 1-1: new high-speed USB device (79)",
        "python[79]: Xid, said the user",
    ],
)
def test_other_lines_are_no_events(line: str) -> None:
    assert log(line) == KernelLog()


def test_limited_links_and_kills() -> None:
    limited = (
        "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:3a:00.0 "
        "(capable of 126.024 Gb/s with 16.0 GT/s PCIe x8 link)"
    )
    found = log(
        f"pci 0000:3b:00.0: {limited}",
        f"mlx5_core 0000:3b:00.0: {limited}",
        "Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB, UID:0 pgtables:1kB",
        "Memory cgroup out of memory: Killed process 4243 (pt_main_thread) total-vm:1kB",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python,pid=4242,uid=0",
    )
    assert found.link_limits == (LinkLimit("0000:3b:00.0", limited),)
    assert found.oom_kills == ("python", "pt_main_thread")


def test_a_flood_of_one_error_keeps_the_newest_and_the_other_errors() -> None:
    early = KernelLine(1.0, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    flood = [KernelLine(float(second), "NVRM: Xid (PCI:0000:3b:00): 13, Graphics") for second in range(2, 5000)]
    events = examine([early, *flood], 5000.0).events
    assert [event.code for event in events] == [79, *[13] * KEPT_PER_ERROR]
    assert events[-1].seconds_ago == 1.0


def test_kmsg_records() -> None:
    raw = b"6,339,5140900,-;NVRM: loading\n SUBSYSTEM=pci\n3,340,7000000,-,caller=T1;a;b\nno record\n"
    assert list(parse_kmsg(raw)) == [KernelLine(5.1409, "NVRM: loading"), KernelLine(7.0, "a;b")]


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"[    5.140900] NVRM: loading\n", [KernelLine(5.1409, "NVRM: loading")]),
        (b"[12345.000001] node-1 kernel: NVRM: loading\n", [KernelLine(12345.000001, "NVRM: loading")]),
        (b"NVRM: printk.time is off\n", [KernelLine(None, "NVRM: printk.time is off")]),
        (b"-- No entries --\n", []),
    ],
)
def test_printed_logs(raw: bytes, lines: list[KernelLine]) -> None:
    assert list(parse_printed(raw)) == lines


def test_a_line_without_a_time_is_an_event_of_unknown_age() -> None:
    (event,) = examine([KernelLine(None, "NVRM: Xid (PCI:0000:3b:00): 79, off")], 100.0).events
    assert event.seconds_ago is None


def test_records_that_were_overwritten_are_passed_over() -> None:
    answers: list[bytes | Exception] = [b"6,1,1,-;a\n", BrokenPipeError(), b"6,9,2,-;b\n", BlockingIOError()]

    def read_record(file: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert kmsg_records(0, read_record) == b"6,1,1,-;a\n6,9,2,-;b\n"


@given(st.binary())
def test_any_bytes_are_a_log(raw: bytes) -> None:
    examine([*parse_kmsg(raw), *parse_printed(raw)], 0.0)


@given(st.text(alphabet="NVRM: XidPCI(0a:.)79,SFtal-\n"))
def test_anything_like_an_event_can_be_parsed(text: str) -> None:
    log(text, f"NVRM: Xid ({text}): 79, {text}", f"SXid ({text}): {text}")


# --- who lets us read it ------------------------------------------------------------------------------------------


def command(root: Path, name: str, script: str) -> None:
    """A command of the machine that lies under `root`."""
    place = root / "usr/bin" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    place.chmod(0o755)


XID = "NVRM: Xid (PCI:0000:3b:00): 79, off"


def codes(system: System) -> list[int]:
    return [event.code for event in read_log(system, lambda: 100.0)[FIELD].value.events]


def test_kmsg_comes_first(tmp_path: Path) -> None:
    command(tmp_path, "dmesg", "echo not asked; exit 1")
    system = fake(tmp_path, {"/dev/kmsg": f"4,7,90000000,-;{XID}\n"})
    reading = read_log(system, lambda: 100.0)[FIELD]
    assert reading.source == "/dev/kmsg"
    assert reading.value.events[0].seconds_ago == 10.0


@pytest.mark.thorough
def test_the_journal_then_dmesg(tmp_path: Path) -> None:
    system = fake(tmp_path, {})
    command(tmp_path, "dmesg", f"echo '[ 90.000000] {XID.replace('79', '48')}'")
    assert codes(system) == [48]
    command(tmp_path, "journalctl", f"echo '[ 90.000000] node-1 kernel: {XID}'")
    assert codes(system) == [79]
    command(tmp_path, "journalctl", "echo 'No journal files were opened.' >&2; echo '-- No entries --'; exit 1")
    assert codes(system) == [48]


@pytest.mark.parametrize(
    ("kmsg", "dmesg", "words"),
    [
        (None, None, ("/dev/kmsg: not there", "dmesg: not there")),
        ("", "echo 'dmesg: read kernel buffer failed' >&2; exit 1", ("/dev/kmsg: shows nothing", "as root")),
        (None, "echo '[    0.000000] Starting gVisor...'", ("gVisor's own log", "not in a container")),
    ],
)
@pytest.mark.thorough
def test_a_log_that_is_not_shown_is_not_a_log_without_errors(
    tmp_path: Path, kmsg: str | None, dmesg: str | None, words: tuple[str, ...]
) -> None:
    system = fake(tmp_path, {} if kmsg is None else {"/dev/kmsg": kmsg})
    if dmesg:
        command(tmp_path, "dmesg", dmesg)
    reading = read_log(system)[FIELD]
    assert not reading.is_read
    assert all(word in reading.reason for word in words), reading.reason


@pytest.mark.thorough
def test_a_command_that_hangs_costs_our_patience_and_is_named(tmp_path: Path) -> None:
    command(tmp_path, "journalctl", "exec sleep 1000")
    reading = read_log(fake(tmp_path, {}, patience=0.2))[FIELD]
    assert "journalctl gave no answer" in reading.reason


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_permission_is_denied(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/dev/kmsg": "4,7,9,-;x\n"})
    (tmp_path / "dev/kmsg").chmod(0)
    assert read_log(system)[FIELD].missing_kind == "denied"


def test_refusing_trees_refuse(tmp_path: Path) -> None:
    """The helper of these tests: a tree that refuses nothing would let them pass."""
    system = Refusing(fake(tmp_path, {"/a": "x", "/b": "y"}), "/a")
    assert system.text("/b") == "y"
    with pytest.raises(PermissionError):
        system.text("/a")


FALLEN = (
    "NVRM: The NVIDIA GPU 0000:b4:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


@pytest.mark.parametrize("lines", [FALLEN, (" ".join(FALLEN),)], ids=["three lines", "one record"])
def test_a_gpu_that_is_gone_as_the_driver_is_loaded_is_an_event_like_xid_79(lines: tuple[str, ...]) -> None:
    log = examine([KernelLine(5.0, "NVRM: loading"), *(KernelLine(10.0, line) for line in lines)], now=70.0)
    (event,) = log.events
    assert (event.code, event.pci_bus_id, event.seconds_ago) == (79, "0000:b4:00.0", 60.0)


def test_of_which_gpu_it_is_said_must_stand_in_it() -> None:
    assert not examine(
        [KernelLine(1.0, FALLEN[0]), *[KernelLine(2.0, "x")] * 3, KernelLine(3.0, FALLEN[2])], 9.0
    ).events
