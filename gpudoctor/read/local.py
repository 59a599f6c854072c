"""The readers of this machine that need no vendor library, run side by side in one child process.

Each reader fills declared fields of the snapshot and has a thread of its own: one that hangs (a dead NFS mount, a
wedged driver's sysfs file) costs its fields and nothing else, and its thread dies with the process.
"""

import os
import sys
import threading
from typing import Any

import msgspec

from gpudoctor.active import MARK
from gpudoctor.read.reader import Facts, Reader
from gpudoctor.read.system import System
from gpudoctor.snapshot import Reading, missing


def readers() -> tuple[Reader[...], ...]:
    """All of them. Imported here, so that the head, which names this module, does not import them."""
    from gpudoctor.read import (
        cgroup,
        clock,
        clock_offset,
        firewall,
        gpu_direct,
        host,
        interfaces,
        iommu,
        isolation,
        kernel_log,
        nccl_files,
        pci,
        pci_paths,
        processes,
        ranks,
        rdma,
        rendezvous,
        routes,
        shared_memory,
        storage,
    )

    rooms = (
        host,
        isolation,
        cgroup,
        clock,
        clock_offset,
        storage,
        shared_memory,
        pci,
        iommu,
        processes,
        kernel_log,
        rdma,
        gpu_direct,
        pci_paths,
        nccl_files,
        interfaces,
        routes,
        firewall,
        rendezvous,
        ranks,
    )
    return tuple(reader for room in rooms for reader in vars(room).values() if isinstance(reader, Reader))


def run(reader: Reader[...], system: System) -> dict[str, Reading[Any]]:
    """A reader's fields; a reader that raises, or leaves a field out, gets a reason in its place."""
    if not (system.is_linux or reader.everywhere):
        return {field: missing(f"reader {reader.name}", "only read on Linux") for field in reader.fields}
    try:
        fields = dict(reader(system))
        reason = "the reader did not say"
    except Exception as error:  # a reader's bug must not take the others along
        fields, reason = {}, f"the reader failed: {type(error).__name__}: {error}"
    return {field: fields.get(field) or missing(f"reader {reader.name}", reason) for field in reader.fields}


def not_asked(reader: Reader[...]) -> dict[str, Reading[Any]]:
    """The fields of a reader that was left out."""
    return {
        field: missing(f"reader {reader.name}", "not part of a brief examination", "not-asked")
        for field in reader.fields
    }


def said(reader: Reader[...], fields: Facts) -> bytes:
    """The marked line of a reader. What is no text (bytes in a name that are no UTF-8) JSON cannot carry."""
    try:
        return MARK + msgspec.json.encode({"reader": reader.name, "fields": fields}) + b"\n"
    except UnicodeEncodeError as error:
        reason = f"what was read is no text: {ascii(error.object)[:60]}"
        return said(reader, {field: missing(f"reader {reader.name}", reason) for field in reader.fields})


INNER_SHARE = 0.6
"""Share of the child's own deadline that one wait inside a reader may take: the reader must still say what hung."""


def main(arguments: list[str]) -> None:
    """Entry point of the child: one marked JSON line a reader, in the order in which they finish.

    `arguments` is the child's deadline in seconds, then the names of readers that are not wanted.
    """
    from gpudoctor.read.lifeline import end_with_the_doctor

    end_with_the_doctor()
    system = System(patience=INNER_SHARE * float(arguments[0])) if arguments else System()
    lock = threading.Lock()
    unwanted = set(arguments[1:])

    def answer(reader: Reader[...]) -> None:
        fields = not_asked(reader) if reader.name in unwanted else run(reader, system)
        line = said(reader, fields)
        with lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    threads = [threading.Thread(target=answer, args=(reader,), daemon=True) for reader in readers()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0)
