"""Reports of nvidia-bug-report.sh, packed as it packs them or not, with exit status and what must be told.

Written before gpudoctor knew their form; that is NVIDIA's script's (sections below a rule of underscores, each packed
by itself and appended), the numbers are our own.
"""

import gzip
import io
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.diagnose import diagnose
from gpudoctor.explain.explain import explain
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from gpudoctor.snapshot import UnreadableSnapshot
from tests.smi_logs import log

RULE = "_" * 44 + "\n\n"
START = (
    RULE + "Start of NVIDIA bug report log file.  Please include this file, along\n\n"
    "nvidia-bug-report.sh Version: 38278083\n\nDate: Thu Nov 12 09:01:44 UTC 2026\n"
)
BUS = "65:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 80GB] [10de:20b5] (rev a1)\n"
LSPCI = f"{RULE}/usr/bin/lspci -nn\n\n00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2]\n{BUS}\n"
SERVED = f'{RULE}/usr/bin/lspci -d "10de:*" -v -xxx\n\n{BUS}\tFlags: bus master\n\tKernel driver in use: nvidia\n'
QUERY = f"{RULE}/usr/bin/nvidia-smi --query\n\n{{}}\n/usr/bin/nvidia-smi --query --unit\n\nHIC Info\n"
LOADED = (
    f"{RULE}*** /proc/driver/nvidia/./version\n*** ls: -r--r--r-- 1 root root 0 2026-11-12 09:01:50 "
    "/proc/driver/nvidia/./version\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 2024\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)
MISMATCH = (
    "[88123.101] NVRM: API mismatch: the client has the version 550.54.15, but\n"
    "NVRM: this kernel module has the version 550.90.07.  Please\n"
)
OFF_BUS = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
DMESG = RULE + "dmesg:\n\n[    0.000000] Linux version 5.15.0-113-generic\n{}"
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver "
    "is properly installed and present in your system.\n"
)
REFUSED = "Failed to initialize NVML: Driver/library version mismatch\n"
BEFORE = (
    f"{RULE}Scanning kernel log files for NVIDIA kernel messages:\n\n  /var/log/kern.log:\nNov  2 11:00:00 gx kernel: "
    f"{OFF_BUS}\n  journalctl -b -1:\nNov 11 23:00:00 gx kernel: {OFF_BUS}\n"
)
NOW = (
    f"{RULE}Scanning kernel log files for NVIDIA kernel messages:\n\n  journalctl -b -0:\n"
    f"Nov 12 08:50:00 gx kernel: {OFF_BUS}\n"
)
DKMS = (
    f"{RULE}*** /var/lib/dkms/nvidia/550.90.07/log/make.log\n"
    + "cc -Wp,-MMD,./nvidia/.nv.o.d -nostdinc -D__KERNEL__ -c -o nv.o nv.c\n" * 150_000
)
SKIPPED = f"{RULE}Skipping: nvidia-smi, vulkaninfo etc. Commands\n\nSkipping due to --safe-mode-argument\n"

CASES: dict[str, tuple[str, int, str]] = {
    "healthy": (START + LSPCI + SERVED + LOADED + QUERY.format(log()), 0, ""),
    "a mismatch that is over": (
        START + LSPCI + DMESG.format(MISMATCH) + LOADED + QUERY.format(log()),
        0,
        r"\A(?!.*(?:failure-told|mismatch))",
    ),
    "a GPU lost before this start of the machine": (
        START + LSPCI + BEFORE + LOADED + QUERY.format(log()),
        0,
        r"\A(?!.*(?:Xid|fallen))",
    ),
    "a GPU lost": (START + LSPCI + DMESG.format("[ 9210.4] " + OFF_BUS) + LOADED + SKIPPED, 1, "Xid 79"),
    "a GPU lost, in the journal": (START + LSPCI + NOW + LOADED + SKIPPED, 1, "Xid 79"),
    "the mismatch, once": (
        START + LSPCI + DMESG.format(MISMATCH) + LOADED + QUERY.format(REFUSED),
        1,
        r"\A(?!.*failure-told).*nvidia-driver-library-mismatch",
    ),
    "the libraries are missing and the module is loaded": (
        START + LSPCI + SERVED + LOADED + QUERY.format(NO_LIBRARY),
        1,
        r"kernel driver 550\.90\.07 is loaded, but its library",
    ),
    "nothing of the GPUs": (START + LSPCI + SKIPPED, 3, "lspci"),
    "behind ten megabytes of a build": (START + DKMS + LSPCI + LOADED + QUERY.format(REFUSED), 1, "library-mismatch"),
}


def packed(text: str) -> bytes:
    """As the script does it: each section is packed by itself."""
    return b"".join(gzip.compress(part.encode(), mtime=0) for part in re.split(r"(?<=\n)(?=_{44}\n)", text))


def told(raw: bytes) -> tuple[int, str]:
    report = diagnose(snapshot_of(raw), *chosen_checks([]))
    words = [*report.sight.lacking, *(f"{result.check} {problem.summary}" for result, problem in report.problems)]
    return report.exit_status, " ".join(words)


@pytest.mark.parametrize("name", CASES)
def test_the_exit_status_and_what_is_told(name: str) -> None:
    text, status, wanted = CASES[name]
    for raw in (text.encode(), packed(text)):
        exit_status, words = told(raw)
        assert (exit_status, bool(re.search(wanted, words))) == (status, True), words


def test_a_packed_report_that_is_cut_tells_what_is_left_of_it() -> None:
    raw = packed(START + LSPCI + DMESG.format("[ 9210.4] " + OFF_BUS) + QUERY.format(log()))
    status, words = told(raw[:-900])
    assert status == 1
    assert "Xid 79" in words


def test_a_packed_file_of_something_else_is_named() -> None:
    with pytest.raises(UnreadableSnapshot, match="the log of a job"):
        snapshot_of(gzip.compress(b"Traceback (most recent call last):\n"))
    with pytest.raises(UnreadableSnapshot, match="more than 64"):
        snapshot_of(gzip.compress(b"\n" * (65 * 1024**2)))


def test_explain_says_who_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "nvidia-bug-report.log.gz"
    file.write_bytes(packed(START + BEFORE))
    answer = explain([str(file)], stdin=io.BytesIO())
    assert answer.causes == ()
    assert "gpudoctor check --from" in answer.unreadable[str(file)]


@given(st.binary(max_size=200))
def test_any_bytes_after_the_mark_of_gzip_are_read_or_refused(rest: bytes) -> None:
    try:
        snapshot_of(b"\x1f\x8b\x08" + rest)
    except UnreadableSnapshot as error:
        assert str(error)
