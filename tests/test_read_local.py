"""All local readers together: each field has one, none brings the others down, and this machine is read truly."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor.active import messages, own_module
from gpudoctor.read.local import readers, run
from gpudoctor.read.reader import Reader
from gpudoctor.read.system import System, attempt, within
from gpudoctor.snapshot import Accelerators, Host, Network, Reading, read
from tests.fake_tree import fake

SECTIONS = {"host": Host, "accelerators": Accelerators, "network": Network}
ELSEWHERE = {"network.nccl_names"}  # in the library that the training interpreter has: read/python.py
FIELDS = sorted(
    {f"{section}.{name}" for section, kind in SECTIONS.items() for name in kind.__struct_fields__} - ELSEWHERE
)


def nested(fields: dict[str, Any]) -> tuple[Host, Network]:
    """As machine.py makes sections of them: fails for a fact of the wrong type."""
    parts: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for field, reading in fields.items():
        section, _, name = field.partition(".")
        parts[section][name] = reading
    msgspec.convert(parts["accelerators"], Accelerators, str_keys=True)
    return (
        msgspec.convert(parts["host"], Host, str_keys=True),
        msgspec.convert(parts["network"], Network, str_keys=True),
    )


def test_every_field_has_exactly_one_reader() -> None:
    assert sorted(field for reader in readers() for field in reader.fields) == sorted(FIELDS)


def test_readers_have_names_of_their_own() -> None:
    names = [reader.name for reader in readers()]
    assert len(set(names)) == len(names)


@pytest.mark.thorough  # where nobody has asked yet, Python asks `uname -p`
@pytest.mark.parametrize("what", ["empty", "darwin", "win32"])
def test_a_machine_that_shows_nothing_is_healthy_in_nothing(tmp_path: Path, what: str) -> None:
    """An empty tree, and other systems: every reader answers all its fields, with reasons and no invented facts."""
    system = fake(tmp_path, {}, platform="linux" if what == "empty" else what, patience=5)
    fields = {field: reading for reader in readers() for field, reading in run(reader, system).items()}
    assert sorted(fields) == sorted(FIELDS)
    nested(json.loads(msgspec.json.encode(fields)))
    portable = {"architecture", "cpus_allowed", "is_root", "limits", "clock_synchronised", "clock_error_seconds"}
    portable |= {"clock_offset_seconds"}
    if what != "empty":
        portable = {"hostname", "hostname_addresses", "system", "kernel_release", "distribution", "architecture"}
        portable |= {"is_root", "uptime_seconds", "cpu_model", "cpus", "memory_total_bytes", "memory_available_bytes"}
        portable |= {"swap_total_bytes", "swap_used_bytes"}
    found = {field.partition(".")[2] for field, reading in fields.items() if reading.is_read}
    # That there is nothing of these is a fact: no file of NCCL's, no plugin, no library, no device file.
    nothing = {"nccl_files", "nccl_paths", "net_plugins", "verbs_library", "rdma_nodes"}
    assert found <= portable | {"paths"} | nothing
    reasons = [reading.reason for reading in fields.values() if not reading.is_read]
    assert not any("the reader failed" in reason for reason in reasons), reasons


def test_a_reader_with_a_bug_costs_its_own_fields() -> None:
    def broken(system: System) -> dict[str, Reading[Any]]:
        raise ZeroDivisionError("a bug")

    def forgetful(system: System) -> dict[str, Reading[Any]]:
        return {"host.cpus": read("test", 4)}

    found = run(Reader("broken", ("host.cpus",), broken, everywhere=True), System())
    assert "ZeroDivisionError" in found["host.cpus"].reason
    found = run(Reader("forgetful", ("host.cpus", "host.limits"), forgetful, everywhere=True), System())
    assert found["host.cpus"].value == 4
    assert found["host.limits"].reason == "the reader did not say"


def test_this_machine() -> None:
    """The child as the doctor starts it: it ends by itself, and says what we can find out otherwise."""
    child = subprocess.run(own_module("gpudoctor.read.local", "30"), stdout=subprocess.PIPE, timeout=60, check=True)
    fields = {field: reading for message in messages(child.stdout) for field, reading in message["fields"].items()}
    assert sorted(fields) == sorted(FIELDS)
    host, network = nested(fields)
    assert host.hostname.value == platform.node()
    assert host.system.value == platform.system()
    assert host.kernel_release.value == platform.release()
    assert host.memory_total_bytes.value >= host.memory_available_bytes.value > 0
    assert {used.role for used in host.paths.value} >= {"TMPDIR", "working folder"}
    assert network.interfaces.value[0].name == "lo"
    assert "the reader failed" not in str(fields)


# --- the boundary -------------------------------------------------------------------------------------------------


def test_a_sysctl_can_be_read() -> None:
    """One large read(2) of a file in /proc/sys fails with ENOMEM."""
    system = System()
    if not system.exists("/proc/sys/kernel/osrelease"):
        pytest.skip("this system has no /proc/sys")
    assert system.text("/proc/sys/kernel/osrelease") == platform.release()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FileNotFoundError(2, "No such file or directory"), "absent", "not on this machine"),
        (PermissionError(1, "Operation not permitted"), "denied", "Operation not permitted"),
        (TimeoutError("NFS gave no answer within 6 s"), "timeout", "NFS"),
        (OSError(5, "Input/output error"), "failed", "Input/output error"),
        (ValueError("3 words"), "failed", "3 words"),
    ],
)
def test_attempt(error: Exception, kind: str, words: str) -> None:
    def fails() -> int:
        raise error

    reading = attempt("test", fails)
    assert reading.missing_kind == kind
    assert words in reading.reason


def test_attempt_at_what_every_linux_has() -> None:
    assert (
        attempt("test", lambda: System("/nonexistent").text("/proc/uptime"), must_exist=True).missing_kind == "failed"
    )


def test_within_passes_on_what_is_raised() -> None:
    def fails() -> int:
        raise KeyError("x")

    with pytest.raises(KeyError):
        within(5, "test", fails)
    assert within(5, "test", lambda: 7) == 7
