"""The readers of names, kernel, CPUs, memory and limits, on trees of our making."""

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read import host
from gpudoctor.read.clock import ClockState, adjtimex, read_clock
from gpudoctor.snapshot import Limits
from tests.fake_tree import fake

X86 = "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\nflags\t\t: fpu vme\n\nprocessor\t: 1\n"
ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
MEMINFO = "MemTotal:  1000 kB\nMemAvailable:   600 kB\nSwapTotal:    50 kB\nSwapFree:     20 kB\nHugePages_Total:  7\n"
IDENTITY = {
    "/proc/sys/kernel/hostname": "node-1\n",
    "/proc/sys/kernel/ostype": "Linux\n",
    "/proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
    "/proc/uptime": "3600.50 7000.00\n",
    "/proc/cmdline": "ro iommu=pt\n",
    "/etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.2 LTS"\n',
}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8\n", (0, 1, 2, 3, 8)), ("", ()), ("5", (5,)), ("0-1,1-2", (0, 1, 2))],
)
def test_cpu_list(text: str, cpus: tuple[int, ...]) -> None:
    assert host.cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["0-", "3-1", "0-999999", "a", "1 2", "-1", "٣"])
def test_cpu_list_refuses_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="CPU list"):
        host.cpu_list(text)


@given(st.sets(st.integers(0, 8191)))
def test_cpu_list_reads_back_what_was_written(cpus: set[int]) -> None:
    assert host.cpu_list(",".join(map(str, cpus))) == tuple(sorted(cpus))


@given(st.text())
def test_parsers_raise_nothing_but_value_error(text: str) -> None:
    for parse in (host.cpu_list, host.cpu_model, host.distribution):
        try:
            parse(text)
        except ValueError:
            pass
    assert all(value >= 0 for value in host.memory_info(text).values())
    host.command_line(text)


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        (X86, "AMD EPYC 9654 96-Core Processor"),
        (ARM, "ARM implementer 0x41 part 0xd4f"),
        ("processor : 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
    ],
)
def test_cpu_model(cpuinfo: str, model: str) -> None:
    assert host.cpu_model(cpuinfo) == model


def test_command_line_hides_secrets_and_what_is_for_init() -> None:
    text = "ro iommu=pt ci.token=abc123 intel_iommu=on pci=hunter2 -- --password hunter2"
    assert host.command_line(text) == "ro iommu=pt intel_iommu=on pci=***"


def test_identity(tmp_path: Path) -> None:
    found = host.read_identity(fake(tmp_path, IDENTITY))
    assert found["host.hostname"].value == "node-1"
    assert found["host.kernel_release"].value == "6.8.0-60-generic"
    assert found["host.distribution"].value == "Ubuntu 24.04.2 LTS"
    assert found["host.uptime_seconds"].value == 3600.5
    assert found["host.kernel_command_line"].value == "ro iommu=pt"


def test_a_machine_without_proc_is_unread_and_not_without_a_name(tmp_path: Path) -> None:
    system = fake(tmp_path, {})
    facts = {**host.read_identity(system), **host.read_memory(system), **host.read_addresses(system)}
    for field in ("hostname", "uptime_seconds", "memory_total_bytes", "swap_used_bytes", "hostname_addresses"):
        assert facts[f"host.{field}"].missing_kind == "failed", field


def test_memory(tmp_path: Path) -> None:
    found = host.read_memory(fake(tmp_path, {"/proc/meminfo": MEMINFO}))
    assert {field: reading.value for field, reading in found.items()} == {
        "host.memory_total_bytes": 1000 * 1024,
        "host.memory_available_bytes": 600 * 1024,
        "host.swap_total_bytes": 50 * 1024,
        "host.swap_used_bytes": 30 * 1024,
    }


def test_memory_without_a_line_misses_that_fact_only(tmp_path: Path) -> None:
    found = host.read_memory(fake(tmp_path, {"/proc/meminfo": "MemTotal:  1000 kB\n"}))
    assert found["host.memory_total_bytes"].is_read
    assert "MemAvailable" in found["host.memory_available_bytes"].reason


@pytest.mark.thorough  # off Linux Python asks uname
def test_off_linux_memory_and_cpus_come_from_psutil(tmp_path: Path) -> None:
    system = fake(tmp_path, {}, platform="darwin")
    assert host.read_memory(system)["host.memory_total_bytes"].value > 0
    assert host.read_cpus(system)["host.cpus"].value == os.cpu_count()
    assert host.read_cpus(system)["host.cpus_allowed"].reason == "only read on Linux"
    assert host.read_identity(system)["host.uptime_seconds"].value > 0


def test_cpus_are_counted_without_sysfs_too(tmp_path: Path) -> None:
    with_sysfs = fake(tmp_path / "a", {"/sys/devices/system/cpu/online": "0-2,5", "/proc/cpuinfo": X86})
    sandbox = fake(tmp_path / "b", {"/proc/stat": "cpu  1 2 3\ncpu0 1 2\ncpu1 1 2\nintr 9\n", "/proc/cpuinfo": X86})
    assert host.read_cpus(with_sysfs)["host.cpus"].value == 4
    assert host.read_cpus(sandbox)["host.cpus"].value == 2


def test_governors_are_counted_by_cpu(tmp_path: Path) -> None:
    folder = "/sys/devices/system/cpu/cpufreq"
    system = fake(
        tmp_path,
        {
            f"{folder}/policy0/scaling_governor": "performance\n",
            f"{folder}/policy0/affected_cpus": "0 1\n",
            f"{folder}/policy2/scaling_governor": "powersave\n",
            f"{folder}/policy2/affected_cpus": "2\n",
            f"{folder}/ondemand/up_threshold": "95\n",
        },
    )
    assert host.read_governors(system)["host.cpu_governors"].value == {"performance": 2, "powersave": 1}


@pytest.mark.parametrize("files", [{"/sys/devices/system/cpu/cpufreq/": ""}, {"/sys/devices/system/cpu/online": "0"}])
def test_no_frequency_scaling_is_absent(tmp_path: Path, files: dict[str, str]) -> None:
    assert host.read_governors(fake(tmp_path, files))["host.cpu_governors"].missing_kind == "absent"


def test_no_sysfs_is_unread(tmp_path: Path) -> None:
    assert host.read_governors(fake(tmp_path, {}))["host.cpu_governors"].missing_kind == "failed"
    assert host.read_numa(fake(tmp_path, {}))["host.numa_nodes"].missing_kind == "failed"


def test_numa_nodes_of_memory_alone_have_no_cpus(tmp_path: Path) -> None:
    folder = "/sys/devices/system/node"
    files = {f"{folder}/node0/cpulist": "0-1\n", f"{folder}/node1/cpulist": "\n", f"{folder}/has_cpu": "0\n"}
    assert host.read_numa(fake(tmp_path, files))["host.numa_nodes"].value == {0: (0, 1), 1: ()}


def test_limits_say_none_for_unlimited(tmp_path: Path) -> None:
    import resource

    unlimited = resource.RLIM_INFINITY
    answers = {
        resource.RLIMIT_MEMLOCK: (65536, unlimited),
        resource.RLIMIT_NOFILE: (1024, 4096),
        resource.RLIMIT_NPROC: (unlimited, unlimited),
    }
    found = host.read_limits(fake(tmp_path, {}), answers.__getitem__)["host.limits"]
    assert found.value == Limits(65536, None, 1024, 4096, None)


# --- the own hostname's addresses ---------------------------------------------------------------------------------


def test_a_name_that_does_not_resolve_is_a_fact(tmp_path: Path) -> None:
    def resolver(name: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert host.read_addresses(fake(tmp_path, IDENTITY), resolver)["host.hostname_addresses"].value == ()


def test_a_name_server_that_is_down_is_no_fact_about_the_name(tmp_path: Path) -> None:
    def resolver(name: str) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    found = host.read_addresses(fake(tmp_path, IDENTITY), resolver)["host.hostname_addresses"]
    assert found.missing_kind == "timeout"
    assert "no name server answered" in found.reason


def test_a_name_server_that_never_answers_costs_the_deadline_and_is_named(tmp_path: Path) -> None:
    release = threading.Event()

    def resolver(name: str) -> list[str]:
        release.wait()
        return []

    found = host.read_addresses(fake(tmp_path, IDENTITY, patience=0.01), resolver)["host.hostname_addresses"]
    release.set()
    assert found.missing_kind == "timeout"
    assert "getaddrinfo node-1" in found.reason


def test_addresses_keep_the_order_and_lose_duplicates(tmp_path: Path) -> None:
    found = host.read_addresses(fake(tmp_path, IDENTITY), lambda name: ["127.0.1.1", "::1", "127.0.1.1"])
    assert found["host.hostname_addresses"].value == ("127.0.1.1", "::1")


# --- clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        (ClockState(0, 0x2001, 250_000), True),
        (ClockState(5, 0x40, 16_000_000), False),
        (ClockState(0, 0x40, 16_000_000), False),
    ],
)
def test_clock(tmp_path: Path, answer: ClockState, held: bool) -> None:
    found = read_clock(fake(tmp_path, {}), lambda: answer)
    assert found["host.clock_synchronised"].value is held
    assert found["host.clock_error_seconds"].value == answer.maximum_error / 1e6


def test_a_clock_that_a_seccomp_filter_hides_is_denied(tmp_path: Path) -> None:
    def ask() -> ClockState:
        raise PermissionError(1, "Operation not permitted")

    assert read_clock(fake(tmp_path, {}), ask)["host.clock_synchronised"].missing_kind == "denied"


def test_adjtimex_fills_the_structure_where_we_expect() -> None:
    """A wrong layout would give absurd numbers: the tick is 10 ms, give or take the kernel's 10 %."""
    import ctypes

    from gpudoctor.read.clock import Timex

    if not hasattr(ctypes.CDLL(None), "adjtimex"):
        pytest.skip("this system has no adjtimex")
    buffer = Timex()
    ctypes.CDLL(None).adjtimex(ctypes.byref(buffer))
    assert 9000 <= buffer.tick <= 11000
    assert adjtimex().maximum_error >= 0
