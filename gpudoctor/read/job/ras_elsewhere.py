"""RAS in another network namespace (a container's): asked by a child process, the only one that goes there.

Entering a namespace changes the process that does it, and needs CAP_SYS_ADMIN; so it is done in a child that lives for
one question.
"""

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpudoctor import active
from gpudoctor.lacking import lacking
from gpudoctor.marked import MARK, messages
from gpudoctor.read.job import ras
from gpudoctor.snapshot.ras import Ras

NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of <sched.h>."""
NAMESPACE_OF = "/proc/{pid}/ns/net"
START_SECONDS = 3.0


def ask(pid: int, address: str, port: int, *, timeout: float) -> Ras:
    """Ask the RAS that listens in the network namespace of a process. Raises `ras.NoRas`."""
    own, theirs = _namespace("self"), _namespace(str(pid))
    if theirs and own == theirs:
        return ras.ask(address, port, timeout=timeout)
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise ras.NoRas(
            "it listens in another network namespace, which only root may enter; run gpudoctor inside that container, "
            "or as root"
        )
    command = active.own_module("gpudoctor.read.job.ras_elsewhere", str(pid), address, str(port), str(timeout))
    try:
        child = active.start("ras", command, timeout=timeout + START_SECONDS)
    except OSError as error:
        raise ras.NoRas(
            f"no process can be started to enter its network namespace: {lacking(error, sys.executable)}"
        ) from None
    reply = active.gather([child])["ras"]
    for message in messages(reply.output):
        if "failed" in message:
            raise ras.NoRas(str(message["failed"])[:300])
        try:
            return msgspec.convert(message.get("report"), Ras)
        except msgspec.ValidationError:
            break
    raise ras.NoRas(reply.failure or "no answer from its network namespace")


def _namespace(pid: str) -> str:
    try:
        return str(Path(NAMESPACE_OF.format(pid=pid)).readlink())
    except OSError:
        return ""


def main(arguments: Sequence[str]) -> None:
    """In the child: enter the namespace of a process, ask, and say the answer in a marked line."""
    pid, address, port, timeout = arguments
    answer: dict[str, object]
    try:
        _enter(int(pid))
        answer = {"report": msgspec.to_builtins(ras.ask(address, int(port), timeout=float(timeout)))}
    except ras.NoRas as error:
        answer = {"failed": str(error)}
    except OSError as error:
        answer = {"failed": f"its network namespace cannot be entered: {error.strerror}"}
    sys.stdout.buffer.write(MARK + json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def _enter(pid: int) -> None:
    descriptor = os.open(NAMESPACE_OF.format(pid=pid), os.O_RDONLY | os.O_CLOEXEC)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(descriptor, NEW_NETWORK) != 0:  # os.setns is there from Python 3.12 on
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
