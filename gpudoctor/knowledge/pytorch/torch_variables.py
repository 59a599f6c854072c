"""Environment variables of torch.distributed: its NCCL backend, gloo and TensorPipe.

Sources: torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp and Utils.hpp (getCvarInt, getCvarBool), torch 2.2 to 2.11.
A variable of kind "number" is read by stoi, one of kind "switch" by a list of words; both raise for anything else.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from gpudoctor.lazy import lazy_re

YES = ("y", "yes", "1", "t", "true")
NO = ("n", "no", "0", "f", "false")
"""Words that getCvarBool takes, in any case (torch Utils.hpp)."""


class TorchVariable(NamedTuple):
    name: str
    kind: Literal["switch", "number", "text"]
    purpose: str
    old_name: str = ""
    """Its name before torch 2.2, which is still read, with a warning."""
    default_since: tuple[int, ...] = ()
    """The torch that does by default what it asked for; it has no use since then."""


VARIABLES = (
    TorchVariable(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "number",
        "what the watchdog does after an error or timeout: 0 nothing, 1 to 3 end the process",
        "NCCL_ASYNC_ERROR_HANDLING",
    ),
    # It starts no watchdog, and since 2.8 only what is asynchronous is waited for: nothing else has a time-out then.
    TorchVariable("TORCH_NCCL_BLOCKING_WAIT", "switch", "has wait() block until its timeout", "NCCL_BLOCKING_WAIT"),
    TorchVariable("TORCH_NCCL_DESYNC_DEBUG", "switch", "reports which ranks differ at a timeout", "NCCL_DESYNC_DEBUG"),
    TorchVariable("TORCH_NCCL_ENABLE_TIMING", "switch", "times every collective", "NCCL_ENABLE_TIMING"),
    TorchVariable(
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        "switch",
        "registers torch's memory with NCCL",
        "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    ),
    TorchVariable("TORCH_NCCL_ENABLE_MONITORING", "switch", "ends a process whose watchdog hangs"),
    TorchVariable("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "number", "seconds that a watchdog may hang"),
    TorchVariable("TORCH_NCCL_DUMP_ON_TIMEOUT", "switch", "writes the flight recorder at a timeout"),
    TorchVariable("TORCH_NCCL_TRACE_BUFFER_SIZE", "number", "collectives that the flight recorder keeps"),
    TorchVariable("TORCH_FR_BUFFER_SIZE", "number", "collectives that the flight recorder keeps"),
    TorchVariable("TORCH_NCCL_TRACE_CPP_STACK", "switch", "keeps C++ stacks in the flight recorder"),
    TorchVariable("TORCH_FR_CPP_STACK", "switch", "keeps C++ stacks in the flight recorder"),
    TorchVariable("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "text", "beginning of the flight recorder's file names"),
    TorchVariable("TORCH_FR_DUMP_TEMP_FILE", "text", "beginning of the flight recorder's file names, torch 2.9 on"),
    TorchVariable("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "text", "pipe by which a dump is asked for"),
    TorchVariable("TORCH_NCCL_EXTRA_DUMP_ON_EXEC", "switch", "dumps on an exception too"),
    TorchVariable("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "number", "how long a dump is waited for"),
    TorchVariable("TORCH_NCCL_COORD_CHECK_MILSEC", "number", "how often ranks look for others' timeouts"),
    TorchVariable("TORCH_NCCL_PROPAGATE_ERROR", "switch", "tells other ranks of an error"),
    TorchVariable("TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "switch", "logs C++ stacks at an unclean end"),
    TorchVariable("TORCH_NCCL_RETHROW_CUDA_ERRORS", "switch", "raises CUDA errors again in the watchdog"),
    TorchVariable("TORCH_NCCL_CUDA_EVENT_CACHE", "switch", "uses CUDA events again"),
    TorchVariable("TORCH_NCCL_NAN_CHECK", "switch", "looks for NaN in what is sent"),
    TorchVariable("TORCH_NCCL_HIGH_PRIORITY", "switch", "runs collectives on streams of high priority"),
    TorchVariable("TORCH_NCCL_RANKS_PER_ROOT", "number", "ranks for each root of a large job's start"),
    TorchVariable("TORCH_NCCL_BCAST_UNIQUEID", "switch", "has rank 0 send the unique id to all"),
    TorchVariable("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "switch", "warns of serialised send/recv"),
    TorchVariable(
        "TORCH_NCCL_AVOID_RECORD_STREAMS",
        "switch",
        "keeps tensors alive without record_stream",
        default_since=(2, 8),
    ),
    TorchVariable("TORCH_DISTRIBUTED_DEBUG", "text", "OFF, INFO or DETAIL"),
    TorchVariable("GLOO_SOCKET_IFNAME", "text", "interfaces of gloo: exact names"),
    TorchVariable("TP_SOCKET_IFNAME", "text", "interface of TensorPipe: its exact name"),
)

BY_NAME: Mapping[str, TorchVariable] = {variable.name: variable for variable in VARIABLES}
BUFFER_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
STOI = lazy_re(r"[ \t\n\v\f\r]*[+-]?[0-9]+")


def switch(text: str) -> bool | None:
    """What getCvarBool makes of it; None where it raises."""
    word = text.lower()
    return True if word in YES else False if word in NO else None


def number(text: str) -> int | None:
    """What stoi makes of it: what follows the number is ignored; None where it raises."""
    match = STOI.match(text)
    if match is None or len(match.group()) > 20:
        return None
    value = int(match.group())
    return value if -(2**31) <= value < 2**31 else None


def switched(environment: Mapping[str, str], name: str, default: bool) -> bool:
    """A switch's state under its new or old name; one that torch refuses counts as the default."""
    state = switch(_set(environment, name))
    return default if state is None else state


def numbered(environment: Mapping[str, str], name: str, default: int) -> int:
    """A number under its new or old name; one that torch refuses counts as the default."""
    value = number(_set(environment, name))
    return default if value is None else value


def _set(environment: Mapping[str, str], name: str) -> str:
    variable = BY_NAME.get(name)
    return environment.get(name) or environment.get(variable.old_name if variable else "", "")
