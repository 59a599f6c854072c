"""The look at the end: a child reads the logs. Its time and memory are bounded, Ctrl-C ends it at once, and what nobody
can read costs the explanation only: what was seen of the ends themselves is told all the same.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpudoctor import active
from gpudoctor.crowded import slowdown
from gpudoctor.run.end import EndTold, RunEnded, asked_to_end, by_slurm, by_whom
from gpudoctor.sure import SEEN

SECONDS = 15.0
"""Most that it takes; SLURM and Kubernetes give a job that they end 30 s. Of a job that nobody has asked to end, and
for which no other node waits, it is stretched where others have the processors."""
BY_SLURM = {
    "time-limit": ("SLURM ended the job at its time limit", "as it is"),
    "preempted": ("SLURM ended the job for another one (preemption)", "as it is"),
    "requeued": ("SLURM put the job back into its queue: its nodes were taken, or somebody asked for it", "as it is"),
    "node-lost": ("SLURM ended the job because a node of it failed", "elsewhere"),
    "cancelled": ("SLURM cancelled the job, as scancel asks it to", "not decided"),
}
"""With the restart verdict: what else is known of a cause takes longer to load than SLURM may give."""


def look_into(ended: RunEnded, until: Callable[[float], bool], *, is_awaited: bool = False) -> EndTold:
    """What the logs and the kernel tell. `until(seconds)` waits, and is true when somebody wants us gone."""
    if cause := by_slurm(ended, time.time()):
        what, again = BY_SLURM[cause]
        cause = "preempted" if cause == "requeued" else cause
        lines = (f"cause: {what}, after {ended.seconds:.0f} s  [{cause}]", f"start it again: {again}")
        return EndTold(lines=lines, cause=cause, confidence=SEEN, restart=again)
    command = active.own_module("gpudoctor.run.after", msgspec.json.encode(ended).decode())
    asked = asked_to_end(ended)
    try:
        child = active.start("the logs", command, timeout=SECONDS)
    except OSError as error:
        return EndTold(lines=(f"the logs were not read: {error.strerror}",))
    left = False
    while not left:
        if child.is_over():
            if asked is not None or is_awaited or child.process.poll() is not None:
                break
            child.timeout = SECONDS * slowdown(Path(f"/proc/{child.process.pid}/task"))
            if child.is_over():
                break
        left = until(0.02)
    reply = child.end()
    try:
        return msgspec.json.decode(reply.output, type=EndTold)
    except msgspec.DecodeError:
        why = f"the logs were not read: {'interrupted' if left else reply.failure or 'no answer'}"
    return EndTold(lines=(why,)) if left and asked is None else _without_logs(ended, why)


def _without_logs(ended: RunEnded, why: str) -> EndTold:
    """By the ends alone."""
    from gpudoctor.explain.report import Explanation  # here, for they load much
    from gpudoctor.run import verdict
    from gpudoctor.run.kernel import KernelSaid
    from gpudoctor.run.kubernetes import kubernetes_word
    from gpudoctor.run.slurm import slurms_word

    asked = asked_to_end(ended)
    lines = (f"it got {by_whom(asked)} after {asked.seconds:.0f} s", why) if asked is not None else (why,)
    word = slurms_word(ended) or kubernetes_word(ended) if asked is None else None  # else nobody waits
    seen = verdict.found(ended, Explanation(), verdict.for_memory(ended, KernelSaid()), word)
    if seen is None or seen.variant == verdict.BY_ITSELF:  # its logs may tell why
        return EndTold(lines=lines)
    cause = f"cause: {seen.summary}  [{seen.cause}]"
    return EndTold(
        lines=lines if asked is not None else (*lines, cause),
        cause=seen.cause,
        confidence=seen.confidence,
        variant=seen.variant,
        restart=seen.restart,
    )
