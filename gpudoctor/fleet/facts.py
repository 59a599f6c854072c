"""Answers `Examine`: this node's snapshot, by the readers that `gpudoctor check` has.

A brief examination leaves out what no preflight asks for and what costs most on a node with many cores, processes or
GPUs: the import of torch, libcuda, the kernel's log, /proc of all processes, commands of packet filters.
"""

import os
from collections.abc import Callable

import msgspec

from gpudoctor import programs
from gpudoctor.active import Child, ChildReply, own_module, start, worker
from gpudoctor.fleet.files import answers
from gpudoctor.fleet.messages import Examine, Examined
from gpudoctor.marked import MARK
from gpudoctor.read.children import ExamineWish, launch
from gpudoctor.read.driver_traces import may_have_nvml
from gpudoctor.read.interpreter import Interpreter, NoSuchInterpreter, choose
from gpudoctor.read.lookup import Lookup

LEFT_OUT_OF_BRIEF = (
    "governors",
    "clock offset",
    "paths",
    "nccl segments",
    "stuck processes",
    "fabric manager",
    "kernel log",
    "iommu groups",
    "acs",
    "firewalls",
    "ranks",
)
"""Readers by name (read/local.py)."""
LIBRARY_NOT_FOUND = 12
"""nvmlReturn_t NVML_ERROR_LIBRARY_NOT_FOUND."""
FILES = "files of the job"
"""The child that looks at `Examine.files`."""


def begin(order: Examine) -> Callable[[], Examined]:
    """Start the children of an examination; what is left to do is to wait for them. To be called in the main thread.

    Raises `OSError` when a whole examination cannot start the training interpreter.
    """
    wish = ExamineWish(interpreter_for(order.python), torch=order.torch, timeout=order.timeout)
    lookup = Lookup(order.resolve, order.timeout)
    children, replies = begin_brief(wish) if order.brief and not order.torch else (launch(wish), {})
    if order.files:
        children.append(start(FILES, own_module("gpudoctor.fleet.files", *order.files), timeout=order.timeout))

    def finish() -> Examined:
        # Imported while the children work.
        from gpudoctor import active
        from gpudoctor.read import machine
        from gpudoctor.read.system import System
        from gpudoctor.snapshot import Cuda, missing, to_json

        given = {**active.gather(children), **replies}
        looked_at = given.pop(FILES, None)
        snapshot = machine.assemble(wish, given, System())
        if "cuda visible" in replies:
            unasked = missing("libcuda", "not part of a brief examination", "not-asked")
            snapshot = msgspec.structs.replace(snapshot, cuda=Cuda(visible=unasked, all=unasked))
        return Examined(
            snapshot=msgspec.Raw(to_json(snapshot)),
            resolved=lookup.answers(),
            interpreter=wish.interpreter.path,
            files=answers(looked_at.output) if looked_at else {},
        )

    return finish


def interpreter_for(wanted: str) -> Interpreter:
    """The interpreter that the head names, where this node has it; else the node's own choice."""
    if wanted and programs.find(wanted):
        try:
            return choose(wanted, os.environ)
        except NoSuchInterpreter:
            pass
    return choose(None, os.environ)


def begin_brief(wish: ExamineWish) -> tuple[list[Child], dict[str, ChildReply]]:
    """The children of a brief examination, and the replies that need none."""
    children: list[Child] = []
    replies = {"cuda visible": _reply("cuda visible")}
    if may_have_nvml():
        children.append(start("nvidia", own_module("gpudoctor.read.nvidia"), timeout=wish.timeout))
    else:
        replies["nvidia"] = no_nvml()
    local = own_module("gpudoctor.read.local", str(wish.timeout), *LEFT_OUT_OF_BRIEF)
    children.append(start("local", local, timeout=wish.timeout))
    try:
        children.append(start("python", worker(wish.interpreter.path, "python_facts"), timeout=wish.timeout))
    except OSError as error:
        replies["python"] = _reply("python", errors=f"{wish.interpreter.path}: {error.strerror or error}", code=126)
    return children, replies


def no_nvml() -> ChildReply:
    """What the NVML child would say on a machine that has neither the driver nor its library."""
    from gpudoctor.snapshot import absent, read

    fields = {
        "init_code": read("nvmlInit", LIBRARY_NOT_FOUND),
        "kernel_module_version": absent("/proc/driver/nvidia/version", "no such file"),
    }
    line = MARK + msgspec.json.encode({"scope": "driver", "fields": fields, "over": True}) + b"\n"
    return _reply("nvidia", output=line)


def _reply(name: str, *, output: bytes = b"", errors: str = "", code: int = 0) -> ChildReply:
    return ChildReply(
        name=name, output=output, errors=errors, return_code=code, timed_out=False, stuck=False, seconds=0.0, pid=0
    )
