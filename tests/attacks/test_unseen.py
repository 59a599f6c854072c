"""`check --nagios` where what decides cannot be read: UNKNOWN, and never OK."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import chosen_checks
from gpudoctor.render.nagios import line
from gpudoctor.snapshot import Snapshot, missing
from gpudoctor.testing.machines import h100_node
from tests.attacks.registry import attack, attacks
from tests.machines.hand_built import MACHINES


def blind(what: str) -> Snapshot:
    """A healthy machine of which something decisive was not read."""
    machine = h100_node()
    if what == "/proc":
        lost = missing("/proc/meminfo", "not there (is /proc mounted?)")
        return replace(machine, host=replace(machine.host, memory_total_bytes=lost, system=lost))
    if what == "/sys":
        pci = missing("/sys/bus/pci/devices", "/sys is not mounted here")
        return replace(machine, accelerators=replace(machine.accelerators, pci=pci))
    nvml = missing("nvmlInit", "the process was killed by SIGSEGV")
    return replace(machine, nvidia=replace(machine.nvidia, gpus=nvml))


def said(machine: Snapshot, *names: str, strict: bool = False) -> tuple[str, int]:
    report = diagnose(machine, *chosen_checks(list(names)), names=names)
    return line(report, strict=strict), report.nagios_status(strict=strict)


@attacks(
    "faults",
    "what",
    *(
        (f"check --nagios: {what} cannot be read", "the machine is called OK", what)
        for what in ("/proc", "/sys", "NVML")
    ),
)
@pytest.mark.parametrize("strict", [False, True])
def test_what_decides_was_not_read(what: str, strict: bool) -> None:
    names = ("gpu", "host") if what == "NVML" else ()  # among all checks, one says that NVML is broken: CRITICAL
    text, status = said(blind(what), *names, strict=strict)
    assert status == 3 and text.startswith("GPUDOCTOR UNKNOWN - cannot tell: ")
    assert f"{what} could not be read" in text and "\n" not in text and text.count("|") == 1


@attack(
    "faults", way="check --nagios: NVML does not answer and something else is broken", weakness="the fault is hidden"
)
def test_a_fault_that_was_seen_stays_critical() -> None:
    broken = MACHINES["broken-8xh100"]()
    lost = missing("/sys/bus/pci/devices", "/sys is not mounted here")
    text, status = said(replace(broken, accelerators=replace(broken.accelerators, pci=lost)))
    assert status == 2 and text.startswith("GPUDOCTOR CRITICAL - ")


@attack(
    "faults", way="check --nagios GROUP: what is not asked for cannot be read", weakness="every prolog says UNKNOWN"
)
def test_what_no_check_asked_for_does_not_count() -> None:
    assert said(blind("/proc"), "gpu")[1] == 0
    assert said(h100_node())[1] == 0


@attack("faults", way="check --nagios: /proc and /sys are hidden from a live run", weakness="the machine is called OK")
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.getuid() != 0, reason="hides folders in a namespace of its own"
)
@pytest.mark.parametrize("hidden", [("/proc",), ("/sys",), ("/sys", "/proc")], ids=" ".join)
def test_a_live_run_without_them(tmp_path: Path, hidden: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    binds = " && ".join(f"mount --bind {tmp_path}/empty {place}" for place in hidden)
    check = f"{sys.executable} -m gpudoctor check --nagios --no-torch --timeout 60"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{binds} && exec {check}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 3 and done.stdout.startswith("GPUDOCTOR UNKNOWN - cannot tell: "), done
    assert all(f"{place} could not be read" in done.stdout for place in hidden), done
