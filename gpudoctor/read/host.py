"""The machine's names, kernel, CPUs, memory and resource limits. The door to psutil off Linux."""

import errno
import os
import platform
import re
import time
from collections.abc import Callable

from gpudoctor.knowledge.shapes import kept
from gpudoctor.lazy import lazy_re
from gpudoctor.read.names import Resolver, by_getaddrinfo, look_up
from gpudoctor.read.reader import Facts, reader
from gpudoctor.read.system import System, attempt, of_proc
from gpudoctor.snapshot import Limits, Reading, absent, missing, read

MAXIMUM_CPUS = 1 << 16
"""More than any Linux supports (CONFIG_NR_CPUS is at most 8192); a list that names more is garbage."""


# --- parsers ------------------------------------------------------------------------------------------------------


def cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format: "0-3,8" -> (0, 1, 2, 3, 8). Raises `ValueError`."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        if match is None:
            raise ValueError(f"not a CPU list: {text[:60]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < MAXIMUM_CPUS:
            raise ValueError(f"not a CPU list: {text[:60]!r}")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def memory_info(text: str) -> dict[str, int]:
    """/proc/meminfo as name -> bytes (lines without "kB" keep their number)."""
    rows = re.findall(r"^([^\s:]+):[ \t]+([0-9]{1,18})([ \t]kB)?[ \t]*$", text, re.MULTILINE)
    return {name: int(number) * (1024 if unit else 1) for name, number, unit in rows}


def cpu_model(cpuinfo: str) -> str:
    """The first CPU's name; ARM kernels give numbers only. Raises `ValueError` when there is none."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            fields.setdefault(name.strip(), value.strip())
    for name in ("model name", "cpu", "Processor", "uarch"):
        if name in fields:
            return fields[name]
    if "CPU implementer" in fields:
        return f"ARM implementer {fields['CPU implementer']} part {fields.get('CPU part', 'unknown')}"
    raise ValueError("no CPU is named")


def distribution(os_release: str) -> str:
    """PRETTY_NAME of os-release(5), else its NAME. Raises `ValueError` when it has neither."""
    values = dict(re.findall(r"^([A-Z_]+)=(.*)$", os_release, re.MULTILINE))
    for name in ("PRETTY_NAME", "NAME"):
        value = values.get(name, "").strip().strip("\"'")
        if value:
            return re.sub(r"\\(.)", r"\1", value)
    raise ValueError("no PRETTY_NAME")


def cpus_online(stat: str) -> int:
    """The number of lines for a CPU in /proc/stat. Raises `ValueError` for none."""
    count = len(re.findall(r"^cpu[0-9]+ ", stat, re.MULTILINE))
    if not count:
        raise ValueError("no CPU is named")
    return count


KERNEL_PARAMETERS = lazy_re(
    r"(?:intel_|amd_)?iommu|pci|pcie_aspm|pcie_acs_override|numa_balancing|transparent_hugepage|(?:default_)?hugepagesz?"
    r"|mitigations|isolcpus|nohz_full|ro|rw|quiet|splash"
)
"""Parameters of the kernel that GPUs and their traffic depend on, and its commonest switches."""


def command_line(text: str) -> str:
    """The kernel's own parameters, as far as they are known ones; what follows "--" is init's."""
    own = re.split(r"(?:^|\s)--(?:\s|$)", text.replace("\0", " "), maxsplit=1)[0].split()
    return " ".join(
        f"{name}{equals}{kept('plain', value)}"
        for name, equals, value in (word.partition("=") for word in own)
        if KERNEL_PARAMETERS.fullmatch(name)
    )


# --- readers ------------------------------------------------------------------------------------------------------


@reader(
    "identity",
    "host.hostname",
    "host.system",
    "host.kernel_release",
    "host.distribution",
    "host.architecture",
    "host.is_root",
    "host.uptime_seconds",
    "host.kernel_command_line",
    everywhere=True,
)
def read_identity(system: System) -> Facts:
    """Hostname, kernel and distribution."""
    if not system.is_linux:
        return {
            "host.hostname": read("platform.node", platform.node()),
            "host.system": read("platform.system", platform.system()),
            "host.kernel_release": read("platform.release", platform.release()),
            "host.distribution": read("platform.platform", platform.platform(terse=True)),
            "host.architecture": read("platform.machine", platform.machine()),
            "host.is_root": _is_root(),
            "host.uptime_seconds": attempt("psutil.boot_time", _uptime_by_psutil),
            "host.kernel_command_line": missing("/proc/cmdline", "only read on Linux"),
        }
    kernel = "/proc/sys/kernel"
    release = "/etc/os-release" if system.exists("/etc/os-release") else "/usr/lib/os-release"
    return {
        "host.hostname": of_proc(system, f"{kernel}/hostname", str),
        "host.system": of_proc(system, f"{kernel}/ostype", str),
        "host.kernel_release": of_proc(system, f"{kernel}/osrelease", str),
        "host.distribution": of_proc(system, release, distribution),
        "host.architecture": read("uname", platform.machine()),
        "host.is_root": _is_root(),
        "host.uptime_seconds": of_proc(system, "/proc/uptime", lambda text: float(text.split()[0])),
        "host.kernel_command_line": of_proc(system, "/proc/cmdline", command_line),
    }


def _is_root() -> Reading[bool]:
    if not hasattr(os, "geteuid"):
        return absent("geteuid", "this system has no user ids")
    return read("geteuid", os.geteuid() == 0)


def _uptime_by_psutil() -> float:
    import psutil

    return time.time() - psutil.boot_time()


@reader("addresses", "host.hostname_addresses", everywhere=True)
def read_addresses(system: System, resolver: Resolver = by_getaddrinfo) -> Reading[tuple[str, ...]]:
    """What its own hostname resolves to. That it does not is a fact; that no name server answered is not."""
    own = read_identity(system)["host.hostname"]
    return look_up(str(own.value), system.patience, resolver) if own.is_read else own


MEMORY_FIELDS = (
    "host.memory_total_bytes",
    "host.memory_available_bytes",
    "host.swap_total_bytes",
    "host.swap_used_bytes",
)


@reader("memory", *MEMORY_FIELDS, everywhere=True)
def read_memory(system: System) -> Facts:
    """Main memory and swap, in bytes."""
    if not system.is_linux:
        return _memory_by_psutil()
    source = "/proc/meminfo"
    reading = of_proc(system, source, memory_info)
    if not reading.is_read:
        return dict.fromkeys(MEMORY_FIELDS, reading)
    sizes = reading.value

    def size(name: str) -> Reading[int]:
        return read(source, sizes[name]) if name in sizes else missing(source, f"it has no line {name}")

    total, free = size("SwapTotal"), size("SwapFree")
    used = read(source, total.value - free.value) if total.is_read and free.is_read else free
    return dict(zip(MEMORY_FIELDS, (size("MemTotal"), size("MemAvailable"), total, used), strict=True))


def _memory_by_psutil() -> Facts:
    import psutil

    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    sizes = (memory.total, memory.available, swap.total, swap.used)
    return {field: read("psutil", size) for field, size in zip(MEMORY_FIELDS, sizes, strict=True)}


@reader("cpus", "host.cpu_model", "host.cpus", "host.cpus_allowed", everywhere=True)
def read_cpus(system: System) -> Facts:
    """CPU model and counts."""
    if not system.is_linux:
        return {
            "host.cpu_model": read("platform.processor", platform.processor() or "unknown"),
            "host.cpus": attempt("os.cpu_count", _cpu_count),
            "host.cpus_allowed": missing("sched_getaffinity", "only read on Linux"),
        }
    return {
        "host.cpu_model": of_proc(system, "/proc/cpuinfo", cpu_model),
        "host.cpus": _online_cpus(system),
        "host.cpus_allowed": attempt("sched_getaffinity", lambda: tuple(sorted(os.sched_getaffinity(0)))),
    }


def _cpu_count() -> int:
    count = os.cpu_count()
    if count is None:
        raise OSError("this system does not tell")
    return count


def _online_cpus(system: System) -> Reading[int]:
    online = "/sys/devices/system/cpu/online"
    if system.exists(online):
        return attempt(online, lambda: len(cpu_list(system.text(online))))
    # Some sandboxes have no /sys; /proc/stat has one line a CPU that is online.
    return of_proc(system, "/proc/stat", cpus_online)


@reader("governors", "host.cpu_governors")
def read_governors(system: System) -> Reading[dict[str, int]]:
    """CPU frequency governors, by number of CPUs."""
    folder = "/sys/devices/system/cpu/cpufreq"

    def governors() -> dict[str, int]:
        counts: dict[str, int] = {}
        for policy in system.names(folder):
            if not policy.startswith("policy"):
                continue
            try:
                governor = system.text(f"{folder}/{policy}/scaling_governor")
                cpus = len(system.text(f"{folder}/{policy}/affected_cpus").split())
            except OSError as error:
                if error.errno == errno.EBUSY:  # the policy of CPUs that are offline
                    continue
                raise
            counts[governor] = counts.get(governor, 0) + cpus
        return counts

    reading = attempt(folder, governors)
    if not system.exists("/sys/devices/system/cpu"):
        reading = missing(folder, "/sys is not mounted here")
    elif reading.is_read and not reading.value:
        reading = absent(folder, "the kernel scales no CPU frequency")
    return reading


@reader("numa", "host.numa_nodes")
def read_numa(system: System) -> Reading[dict[int, tuple[int, ...]]]:
    """NUMA nodes and their CPUs; nodes of memory alone have none."""
    folder = "/sys/devices/system/node"

    def nodes() -> dict[int, tuple[int, ...]]:
        return {
            int(name[4:]): cpu_list(system.text(f"{folder}/{name}/cpulist"))
            for name in system.names(folder)
            if re.fullmatch("node[0-9]{1,6}", name)
        }

    reading = attempt(folder, nodes)
    if not system.exists("/sys/devices/system"):
        reading = missing(folder, "/sys is not mounted here")
    return reading


GetLimit = Callable[[int], tuple[int, int]]


@reader("limits", "host.limits")
def read_limits(system: System, getrlimit: GetLimit | None = None) -> Reading[Limits]:
    """Resource limits of this process, which it has from the shell that started the doctor."""
    import resource

    get = getrlimit or resource.getrlimit

    def pair(which: int) -> tuple[int | None, ...]:
        return tuple(None if limit == resource.RLIM_INFINITY else limit for limit in get(which))

    def limits() -> Limits:
        memlock, files = pair(resource.RLIMIT_MEMLOCK), pair(resource.RLIMIT_NOFILE)
        processes = pair(resource.RLIMIT_NPROC)
        return Limits(memlock[0], memlock[1], files[0], files[1], processes[0])

    return attempt("getrlimit", limits)


def _host(*fields: str) -> tuple[str, ...]:
    return tuple(f"host.{field}" for field in fields)
