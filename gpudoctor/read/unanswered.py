"""Why a child process that announces its driver calls did not come to an answer.

The readers of NVML and libcuda announce each call before they make it, so that the call which hung or crashed
the process can be named.
"""

from collections.abc import Sequence

from gpudoctor.active import ChildReply
from gpudoctor.snapshot import Missing


def unanswered(reply: ChildReply, running: Sequence[str]) -> Missing:
    """The reason for a fact that the child still owed when it ended during the calls in `running`."""
    calls = " and ".join(running[:3]) + (f" and {len(running) - 3} more" if len(running) > 3 else "")
    if reply.timed_out and calls:
        tail = f"; process {reply.pid} hangs in the kernel and cannot be killed" if reply.stuck else ""
        return Missing(f"{calls} did not return within {reply.seconds:.0f} s{tail}", "timeout")
    if reply.timed_out and not reply.stuck:  # crowded out: that says nothing of a driver
        return Missing(f"it had not come to its first call within {reply.seconds:.0f} s")
    if reply.failure:
        return Missing(f"{reply.failure} during {calls}" if calls else reply.failure, reply.missing_kind)
    return Missing("the reader did not answer")
