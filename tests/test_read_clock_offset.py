"""How far the clock is off: chrony's and ntpd's words, the kernel's number, and nobody to tell."""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.clock import ClockState
from gpudoctor.read.clock_offset import from_chrony, from_kernel, from_ntp, read_clock_offset
from gpudoctor.read.system import System
from gpudoctor.snapshot import Reading
from tests.fake_tree import fake

TRACKING = """\
Reference ID    : C0000201 (192.0.2.1)
Stratum         : 3
Ref time (UTC)  : Fri Nov 20 12:00:00 2026
System time     : {} seconds {} of NTP time
Last offset     : -0.000001234 seconds
RMS offset      : 0.000012 seconds
Leap status     : {}
"""
PLL = ClockState(0, 0x2001, 250_000, 123_000_000)


def machine(root: Path, *running: str, **commands: str) -> System:
    """A machine with these daemons, and commands that are shell scripts."""
    files = {
        f"/proc/{100 + number}/stat": f"{100 + number} ({name}) S 1 1 1 0 -1 0 " + "0 " * 12 + "5 9 9\n"
        for number, name in enumerate(running)
    }
    system = fake(root, {**files, **{f"/usr/bin/{name}": f"#!/bin/sh\n{text}" for name, text in commands.items()}})
    for name in commands:
        os.chmod(root / "usr/bin" / name, 0o755)  # noqa: PTH101
    return system


def look(system: System, clock: ClockState = PLL) -> Reading[float]:
    return read_clock_offset(system, lambda: clock)["host.clock_offset_seconds"]


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [
        (ClockState(0, 0x2001, 1, 123_000_000), -0.123),  # nanoseconds; to be added: the clock is behind
        (ClockState(0, 0x0001, 1, -400_000), 0.4),  # microseconds
        (ClockState(0, 0x0001, 1, 0), 0.0),
    ],
)
def test_the_kernel(tmp_path: Path, clock: ClockState, seconds: float) -> None:
    found = look(machine(tmp_path, "systemd-timesyn"), clock)
    assert found.value == pytest.approx(seconds)
    assert found.source == "adjtimex"
    assert str(from_kernel(ClockState(0, 1, 1, 0))) == "0.0"


@pytest.mark.parametrize("clock", [ClockState(5, 0x41, 1), ClockState(0, 0x40, 1), ClockState(0, 0x2000, 1)])
def test_a_clock_that_nobody_speaks_of_has_no_offset(tmp_path: Path, clock: ClockState) -> None:
    assert look(machine(tmp_path), clock).missing_kind == "absent"


def test_a_kernel_that_may_not_be_asked(tmp_path: Path) -> None:
    def ask() -> ClockState:
        raise PermissionError(1, "Operation not permitted")

    assert read_clock_offset(fake(tmp_path, {}), ask)["host.clock_offset_seconds"].missing_kind == "denied"


@pytest.mark.thorough
def test_chrony_is_asked_where_it_runs(tmp_path: Path) -> None:
    says = f"cat <<'END'\n{TRACKING.format('17.250000000', 'slow', 'Normal')}END\n"
    found = look(machine(tmp_path / "a", "chronyd", chronyc=f'[ "$*" = "-n tracking" ] || exit 1\n{says}'))
    assert (found.value, found.source) == (-17.25, "chronyc -n tracking")
    # A command without its daemon is not run, nor is it taken from the kernel what chrony keeps from it.
    assert look(machine(tmp_path / "b", chronyc=says)).source == "adjtimex"
    assert "no command chronyc" in look(machine(tmp_path / "c", "chronyd")).reason


@pytest.mark.thorough
def test_ntpd_is_asked_where_it_runs(tmp_path: Path) -> None:
    found = look(machine(tmp_path, "ntpd", ntpq='[ "$4" = "rv 0 leap,offset" ] || true\necho leap=00, offset=-6500.5'))
    assert found.value == 6.5005
    assert found.source.startswith("ntpq")


@pytest.mark.thorough
def test_a_daemon_that_is_silent_costs_a_reason(tmp_path: Path) -> None:
    found = look(machine(tmp_path, "chronyd", chronyc="exec sleep 60"))
    assert (found.missing_kind, found.reason) == ("timeout", "chronyc gave no answer within 1 s")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TRACKING.format("0.000000000", "slow", "Not synchronised"), "not synchronised"),
        ("506 Cannot talk to daemon\n", "506 Cannot talk to daemon"),
        ("", "no answer"),
    ],
)
def test_chrony_without_an_offset(text: str, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        from_chrony(text)


@pytest.mark.parametrize(
    "text", ["leap=11, offset=0.000", "associd=0 leap_alarm, sync_unspec,\noffset=0.1", "timed out"]
)
def test_ntpd_without_an_offset(text: str) -> None:
    with pytest.raises(OSError, match="ntpd"):
        from_ntp(text)


@given(st.floats(0, 9e8), st.booleans())
def test_what_the_daemons_print_is_read_back(seconds: float, slow: bool) -> None:
    wanted = -round(seconds, 9) if slow else round(seconds, 9)
    text = TRACKING.format(f"{seconds:.9f}", "slow" if slow else "fast", "Normal")
    assert from_chrony(text) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert from_ntp(f"leap=00, offset={-1000 * wanted:+.6f}\n") == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@given(st.text())
def test_any_text_is_an_offset_or_a_reason(text: str) -> None:
    for parse in (from_chrony, from_ntp):
        try:
            assert abs(parse(text)) < 1e13
        except OSError:
            pass
