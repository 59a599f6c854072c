"""RDMA devices of /sys/class/infiniband with their ports, /dev/infiniband, and libibverbs.

Ports are read in two looks a short time apart, to tell a counter that is still counting from one that remembers an
old event. Only error counters that were not zero are looked at again, so a healthy machine waits for nothing.
"""

import os
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pci import device_nodes, link_speed, link_width
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt, of_sysfs
from gpudoctor.snapshot import DeviceNode, Gid, RdmaDevice, RdmaPort, Reading, absent, missing, read

DEVICES = "/sys/class/infiniband"
VERBS = "/sys/class/infiniband_verbs"
NODES = "/dev/infiniband"
LIBRARY = "libibverbs.so.1"
LOADER_CACHE = "/etc/ld.so.cache"
LIBRARY_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
"""Searched by the loaders of glibc and musl without a cache; Debian's multiarch folders are beside them."""

LOOKS_APART_SECONDS = 0.05
MAXIMUM_DEVICES, MAXIMUM_PORTS = 256, 16
"""More than any machine has: an end for a broken sysfs."""
_ADDRESS = lazy_re(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_GID = lazy_re(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}")

ERROR_COUNTERS = (
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_xmit_discards",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "hw_counters/out_of_buffer",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/implied_nak_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/rx_icrc_encapsulated",
)
"""What counts damage or loss, of the port counters of the InfiniBand specification and of mlx5's hardware counters
(Documentation/ABI/stable/sysfs-class-infiniband; NVIDIA, "Understanding mlx5 ethtool and RDMA counters"). Congestion
marks (CNP, xmit_wait) and resets of QPs at the end of a job are not among them."""

Pause = Callable[[float], None]


@reader("rdma", "network.rdma_devices")
def read_devices(system: System, pause: Pause = time.sleep) -> Reading[tuple[RdmaDevice, ...]]:
    """`pause` waits between the two looks at the counters."""
    return of_sysfs(system, DEVICES, (), lambda: devices(system, pause))


def devices(system: System, pause: Pause) -> tuple[RdmaDevice, ...]:
    """Raises `OSError` when the devices cannot be listed."""
    started = time.monotonic()
    verbs = verbs_files(system)
    rdma_devices = [_device(system, name, verbs.get(name, "")) for name in system.names(DEVICES)[:MAXIMUM_DEVICES]]
    if any(port.counters.value_or({}) for device in rdma_devices for port in device.ports):
        left = LOOKS_APART_SECONDS - (time.monotonic() - started)
        if left > 0:
            pause(left)
    return tuple(
        msgspec.structs.replace(device, ports=tuple(_second_look(system, device.name, port) for port in device.ports))
        for device in rdma_devices
    )


def verbs_files(system: System) -> dict[str, str]:
    """The file of each device: containers see the devices of the whole machine here, and are given some files."""
    files = {}
    for name in system.names_or_none(VERBS)[: 2 * MAXIMUM_DEVICES]:
        if re.fullmatch("uverbs[0-9]{1,4}", name):
            files[system.text_or_empty(f"{VERBS}/{name}/ibdev").strip()] = name
    return files


def _device(system: System, name: str, uverbs: str) -> RdmaDevice:
    folder = f"{DEVICES}/{name}"
    parent = f"{folder}/device"
    names = system.names_or_none(f"{folder}/ports")
    ports = sorted(int(name) for name in names if re.fullmatch("[0-9]{1,3}", name))
    return RdmaDevice(
        name=name,
        driver=_target(system, f"{parent}/driver"),
        board_id=_text(system, f"{folder}/board_id"),
        firmware=_text(system, f"{folder}/fw_ver"),
        numa_node=attempt(f"{parent}/numa_node", lambda: whole_number(system.text(f"{parent}/numa_node"))),
        pci_bus_id=_pci_bus_id(system, parent),
        pcie_speed=link_speed(_text(system, f"{parent}/current_link_speed").value_or("")),
        pcie_width=link_width(_text(system, f"{parent}/current_link_width").value_or("")),
        is_virtual_function=system.exists(f"{parent}/physfn"),
        # None for InfiniBand without IPoIB, or a port in another network namespace.
        interfaces=tuple(system.names_or_none(f"{parent}/net")),
        uverbs=uverbs,
        ports=tuple(_port(system, f"{folder}/ports/{port}", port) for port in ports[:MAXIMUM_PORTS]),
    )


def _target(system: System, path: str) -> str:
    """The last part of what a link points to; empty when there is no such link."""
    return system.link_or_empty(path).rpartition("/")[2]


def _pci_bus_id(system: System, parent: str) -> Reading[str]:
    address = _target(system, parent)
    if _ADDRESS.fullmatch(address):
        return read(parent, address)
    return absent(parent, "no PCI device")


def _text(system: System, path: str) -> Reading[str]:
    return attempt(path, lambda: printable(system.text(path)))


def printable(text: str) -> str:
    """Raises `ValueError` for what no driver writes."""
    if not text or not text.isprintable() or len(text) > 200:
        raise ValueError(f"{text[:40]!r}")
    return text


def whole_number(text: str) -> int:
    """A decimal number, or hexadecimal with 0x. Raises `ValueError`."""
    if not re.fullmatch(r"-?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16}", text):
        raise ValueError(f"no number: {text[:40]!r}")
    return int(text, 16) if text[:2] in ("0x", "0X") else int(text)


# --- ports --------------------------------------------------------------------------------------------------------


def _port(system: System, folder: str, number: int) -> RdmaPort:
    def of(name: str, meaning: Callable[[str], Any]) -> Reading[Any]:
        return attempt(f"{folder}/{name}", lambda: meaning(printable(system.text(f"{folder}/{name}"))))

    return RdmaPort(
        number=number,
        state=of("state", after_number),
        physical_state=of("phys_state", after_number),
        rate_gbps=of("rate", rate_gbps),
        link_layer=of("link_layer", str),
        lid=of("lid", whole_number),
        subnet_manager_lid=of("sm_lid", whole_number),
        gids=attempt(f"{folder}/gids", lambda: gids(system, folder)),
        gid_entries=attempt(f"{folder}/gids", lambda: len(system.names(f"{folder}/gids"))),
        counters=_counters(system, folder, ERROR_COUNTERS),
    )


def after_number(text: str) -> str:
    """ "ACTIVE" of "4: ACTIVE". Raises `ValueError`."""
    match = re.fullmatch(r"[0-9]{1,3}: *(\S[^:]*)", text)
    if match is None:
        raise ValueError(f"no state: {text[:40]!r}")
    return match[1]


def rate_gbps(text: str) -> float:
    """ "400 Gb/sec (4X NDR)" in Gb/s. Raises `ValueError`."""
    match = re.match(r"([0-9]{1,7}(?:\.[0-9]{1,3})?) *Gb/sec", text)
    if match is None:
        raise ValueError(f"no rate: {text[:40]!r}")
    return float(match[1])


def gids(system: System, folder: str) -> tuple[Gid, ...]:
    """Entries that are not zero. Raises `OSError`.

    A table has up to 256 entries and few are used; what belongs to an entry is read for those only (an empty one
    answers with EINVAL). There may be holes, so the first empty entry ends nothing.
    """
    used: dict[int, str] = {}
    for name, content in system.contents(f"{folder}/gids").items():
        if isinstance(content, OSError) or not re.fullmatch("[0-9]{1,4}", name):
            continue
        gid = content.decode("ascii", "replace").strip().lower()
        if _GID.fullmatch(gid) and gid.strip("0:"):
            used[int(name)] = gid
    order = sorted(used)
    types = _attributes(system, f"{folder}/gid_attrs/types", order)
    interfaces = _attributes(system, f"{folder}/gid_attrs/ndevs", order)
    return tuple(Gid(index, used[index], types.get(index, ""), interfaces.get(index, "")) for index in order)


def _attributes(system: System, folder: str, indices: list[int]) -> dict[int, str]:
    """The attribute of each entry that has one; containers refuse them with EINVAL, which is no fault."""
    try:
        contents = system.contents(folder, [str(index) for index in indices])
    except OSError:
        return {}
    texts = {
        int(name): content.decode("utf-8", "replace").strip()
        for name, content in contents.items()
        if isinstance(content, bytes)
    }
    return {index: text for index, text in texts.items() if text.isprintable()}


# --- counters -----------------------------------------------------------------------------------------------------


def _counters(system: System, folder: str, wanted: Iterable[str]) -> Reading[dict[str, int]]:
    """Counters that are not zero, by file name; one that a device does not have, or refuses, is left out."""
    source = f"{folder}/counters, hw_counters"
    counters: dict[str, int] = {}
    errors: list[OSError] = []
    answered = False
    for place in ("counters", "hw_counters"):
        names = [name for path in wanted for base, _, name in [path.partition("/")] if base == place]
        if not names:
            continue
        try:
            contents = system.contents(f"{folder}/{place}", names)
        except OSError as error:
            errors.append(error)
            continue
        for name, content in contents.items():
            if isinstance(content, OSError):
                errors.append(content)
                continue
            answered = True
            text = content.decode("ascii", "replace").strip()
            if re.fullmatch("[0-9]{1,20}", text) and int(text):
                counters[name] = int(text)
    if answered or all(isinstance(error, FileNotFoundError) for error in errors):
        return read(source, counters) if answered else absent(source, "this device has no error counters")
    worst = next(error for error in errors if not isinstance(error, FileNotFoundError))
    reason = os.strerror(worst.errno) if worst.errno else str(worst)
    return missing(source, reason, "denied" if isinstance(worst, PermissionError) else "failed")


def _second_look(system: System, device: str, port: RdmaPort) -> RdmaPort:
    folder = f"{DEVICES}/{device}/ports/{port.number}"
    before = port.counters
    if not before.is_read:
        return msgspec.structs.replace(port, counting=Reading(before.source, missing=before.missing))
    grown: dict[str, int] = {}
    if before.value:
        again = [path for path in ERROR_COUNTERS if path.partition("/")[2] in before.value]
        after = _counters(system, folder, again).value_or({})
        grown = {
            name: after[name] - value for name, value in before.value.items() if name in after and after[name] > value
        }
    return msgspec.structs.replace(port, counting=read(before.source, grown))


# --- device files and the library ---------------------------------------------------------------------------------


def nodes(system: System) -> tuple[DeviceNode, ...]:
    """/dev/infiniband/*; () when there is no such folder. Raises `OSError`."""
    try:
        names = system.names(NODES)
    except FileNotFoundError:
        return ()
    return device_nodes(system, [f"{NODES}/{name}" for name in names])


@reader("rdma nodes", "network.rdma_nodes")
def read_nodes(system: System) -> Reading[tuple[DeviceNode, ...]]:
    return attempt(NODES, lambda: nodes(system))


def library(system: System) -> str:
    """Where the loader would find libibverbs: LD_LIBRARY_PATH, its cache, its folders; empty when nowhere."""
    entries = [entry for entry in system.environment.get("LD_LIBRARY_PATH", "").split(":") if entry.startswith("/")]
    if first := _first_with_library(system, entries[:100]):
        return first
    try:
        cache = system.raw(LOADER_CACHE)
    except OSError:
        cache = b""
    pattern = rb"(?<=\0)(/[\x21-\x7e]{1,300}/" + re.escape(LIBRARY.encode()) + rb")(?=\0)"
    for match in re.finditer(pattern, cache):
        path = match[1].decode("ascii")
        if system.exists(path):
            return path
    machine = os.uname().machine if hasattr(os, "uname") else ""
    return _first_with_library(system, (f"/lib/{machine}-linux-gnu", f"/usr/lib/{machine}-linux-gnu", *LIBRARY_FOLDERS))


def _first_with_library(system: System, folders: Iterable[str]) -> str:
    return next((path for path in (f"{folder}/{LIBRARY}" for folder in folders) if system.exists(path)), "")


@reader("verbs library", "network.verbs_library")
def read_library(system: System) -> Reading[str]:
    return attempt(f"the loader's folders, {LOADER_CACHE}", lambda: library(system))
