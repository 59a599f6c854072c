"""What every way needs that starts processes itself: they end with their parent, and what they say at their end."""

import os
import sys
from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

from lifeline import end_with_the_parent
from train_way import Context, FaultFound, NotApplicable

LEAVING_SECONDS = 10.0
MAXIMUM_TEXT = 600
OWN_STORY_SECONDS = 2.0
"""After one has failed, the others may take this long to say why they did: the first heard may be a consequence."""
CONNECTION_WORDS = ("onnection", "onnect()", "peer", "ocket", "NCCL", "Broken pipe", "gloo")


class Failure(NamedTuple):
    """How one of the processes failed."""

    process: int
    silent: bool
    """It ended without a word, as one that is killed does."""
    text: str


def first_cause(failures: Sequence[Failure]) -> Failure:
    """Which failure the others follow from: those of a process that lost its connection come after another's."""
    silent = [failure for failure in failures if failure.silent]
    own = [failure for failure in failures if not any(word in failure.text for word in CONNECTION_WORDS)]
    return (silent or own or list(failures))[0]


def end_with(parent: int) -> None:
    """End when the parent dies, which it may have done already (Linux). torch has set SIGINT for the same."""
    end_with_the_parent()
    if sys.platform.startswith("linux") and os.getppid() != parent:
        os._exit(1)


def lacking_gpus(context: Context) -> str:
    """Why this machine has not a GPU for each process; "" when it has, or none is wanted."""
    if context.device.type == "cuda":
        wanted, there = int(context.plan["world_size"]), context.torch.cuda.device_count()
        if there < wanted:
            return f"needs {wanted} GPUs, one for each process; there {'is' if there == 1 else 'are'} {there}"
    return ""


def error_text(error: BaseException) -> str:
    """What a process says of what ended it, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAXIMUM_TEXT]


def ending(context: Context, train: Callable[[], Dict[str, Any]]) -> Tuple[str, Any]:
    """In a process: train, and say how that ended. What is no finding of the test is raised."""
    try:
        return passed(context, train())
    except (FaultFound, NotApplicable) as error:
        return stopped(context, error)


def passed(context: Context, fields: Dict[str, Any]) -> Tuple[str, Any]:
    return "passed", {**context.measured, **fields, "notes": context.notes}


def stopped(context: Context, error: Exception) -> Tuple[str, Any]:
    """A fault that was found, a reason why the way cannot be gone here, or an error."""
    if isinstance(error, FaultFound):
        notes, ranks = context.notes, context.team.ranks
        return "failed", {**context.measured, "fault": error.fault, "notes": notes, "ranks": ranks}
    return ("not applicable", str(error)) if isinstance(error, NotApplicable) else ("error", error_text(error))


def taken_over(context: Context, kind: str, said: Any) -> Dict[str, Any]:
    """In the rank that speaks for the processes: the result of "passed". Raises what another ending stands for."""
    if kind == "not applicable":
        raise NotApplicable(str(said))
    fields = dict(said)
    context.notes.extend(fields.pop("notes", []))
    fault = fields.pop("fault", None)
    context.measured.update(fields)
    if fault is not None:
        raise FaultFound(fault)
    return fields
