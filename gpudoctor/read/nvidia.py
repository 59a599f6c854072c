"""NVML's facts: read in a child process (read/nvml.py), put together here.

The child announces every call before it makes it and sends every fact as soon as it has it, so that whatever ends
the child (its deadline, SIGSEGV in the driver's library) takes only what was not yet read, and can be named. Its
lines, each marked as `active.MARK` says:

    {"scope": "GPU 3", "call": "nvmlDeviceGetName GPU 3"}             about to be called
    {"scope": "GPU 3", "gpu": 3, "fields": {"name": {...}}}           what came of it: readings
    {"scope": "driver", "count": 8}                                   how many GPUs there are
    {"scope": "GPU 3", "over": true}                                  nothing more is asked of this one
"""

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from gpudoctor.active import MARK, ChildReply, messages
from gpudoctor.lazy import lazy_re
from gpudoctor.named import told
from gpudoctor.read.nvml_calls import SUCCESS, explain
from gpudoctor.read.system import System, attempt
from gpudoctor.read.unanswered import unanswered
from gpudoctor.snapshot import Gpu, Missing, Nvidia, Reading, read
from gpudoctor.snapshot.section import Section

KERNEL_MODULE = "/proc/driver/nvidia/version"
MAXIMUM_GPUS = 1024
"""More than any machine has: an end for a driver that answers with a garbage count."""
MODULE_VERSION = lazy_re(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)")

S = TypeVar("S", bound=Section)


def main(arguments: list[str]) -> None:
    """Entry point of the child. `arguments` may name a folder to take for the root of /proc and /sys, for tests."""
    from gpudoctor.read.lifeline import end_with_the_doctor

    end_with_the_doctor()
    doctor_pid = os.getppid()
    system = System(arguments[0] if arguments else "/")
    say = _speaker()
    say("driver", fields={"kernel_module_version": kernel_module_version(system)})

    import pynvml  # here: the parent needs neither of the two

    from gpudoctor.read import nvml

    nvml.examine(pynvml, system, say, doctor_pid=doctor_pid, maximum_gpus=MAXIMUM_GPUS)
    os._exit(0)  # without nvmlShutdown: it can block on a GPU that the calls before got away with


def _speaker() -> Callable[..., None]:
    """A function that sends one line. What else prints in this process goes to standard error from now on."""
    reply = os.dup(1)
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(scope: str, **message: Any) -> None:
        line = MARK + msgspec.json.encode({"scope": scope, **message}) + b"\n"
        with lock:
            while line:
                line = line[os.write(reply, line) :]

    return say


def kernel_module_version(system: System) -> Reading[str]:
    """Version of the loaded kernel module, as its proprietary and its open variant write it; absent when none is."""

    def version() -> str:
        match = MODULE_VERSION.search(system.text(KERNEL_MODULE))
        if match is None:
            raise ValueError("no version in it")
        return match.group(1)

    return attempt(KERNEL_MODULE, version)


def assemble(reply: ChildReply) -> Nvidia:
    """The child's lines -> `Nvidia`. What it did not come to has a reason that names the call that kept it."""
    fields: dict[str, Any] = {}
    gpus: dict[int, dict[str, Any]] = {}
    running: dict[str, str] = {}
    count: int | None = None
    for message in messages(reply.output):
        scope, facts, number = str(message.get("scope")), message.get("fields"), message.get("count")
        if isinstance(message.get("call"), str):
            running[scope] = message["call"]
        if isinstance(number, int) and 0 <= number <= MAXIMUM_GPUS:
            count = number
        if isinstance(facts, dict):
            index = message.get("gpu")
            (gpus.setdefault(index, {}) if isinstance(index, int) else fields).update(facts)
        if message.get("over"):
            running.pop(scope, None)

    def owed(scope: str) -> Missing:
        """Why a fact is not there: the call of its own scope that did not end, or else whatever was running."""
        return unanswered(reply, [running[scope]] if scope in running else list(running.values()))

    init = _filled(Nvidia, {}, fields, "nvmlInit", owed("driver")).init_code
    if init.value_or(None) != SUCCESS:
        return _filled(Nvidia, {"init_code": init}, fields, init.source, _not_started(init))
    given: dict[str, Reading[Any]] = {"init_code": init}
    if count is not None:
        every = tuple(
            _filled(Gpu, {"index": index}, gpus.get(index, {}), f"NVML GPU {index}", owed(f"GPU {index}"))
            for index in range(count)
        )
        given["gpus"] = read("nvmlDeviceGetCount", every)
    for pairs, call in (("peers", "nvmlDeviceGetP2PStatus"), ("topology", "nvmlDeviceGetTopologyCommonAncestor")):
        if pairs not in fields:
            given[pairs] = Reading(call, missing=owed(pairs))
    return _filled(Nvidia, given, fields, "NVML", owed("driver"))


def _not_started(init: Reading[int]) -> Missing:
    """Why there is nothing but nvmlInit's code."""
    if not isinstance(init.missing, Missing):
        why = explain(init.value)
        # "absent" would say that there is nothing to judge; a driver that does not start says no such thing.
        return Missing(why.reason, "failed" if why.kind == "absent" else why.kind)
    return init.missing


def _filled(
    section: type[S],
    given: Mapping[str, Any],
    fields: Mapping[str, Any],
    source: str,
    owed: Missing,
) -> S:
    """A section of the snapshot from readings as JSON; what is not among them is missing for the reason `owed`."""
    values = dict(given)
    for field in msgspec.structs.fields(section):
        if field.name in given:
            continue
        values[field.name] = Reading(source, missing=owed)
        if field.name in fields:
            try:
                values[field.name] = msgspec.convert(fields[field.name], field.type)
            except msgspec.ValidationError as error:  # one answer in a form nobody foresaw costs itself only
                why = told(error, fields[field.name])
                values[field.name] = Reading(source, missing=Missing(f"unexpected answer: {why}"))
    return section(**values)
