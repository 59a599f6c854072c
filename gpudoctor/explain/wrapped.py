"""Exceptions that stand for another one, by the words with which they announce it; and the rank that these tell."""

from gpudoctor.lazy import lazy_re

OF_A_SPAWNED = lazy_re(r"-- Process \d{1,6} terminated with the following error:$")
"""torch/multiprocessing/spawn.py, before the traceback of the process that it started: 1.0 to 1.7 raise it as a bare
`Exception`, later ones as ProcessRaisedException."""
WRAPPED = lazy_re(r"^backend='\w{1,40}' raised:$")
"""torch/_dynamo/exc.py, BackendCompilerFailed: what the backend raised stands in the next line."""

HOLDS_OTHERS = frozenset(
    {"WorkerGroupError", "FailedJobError", "UncompletedJobError", "CheckpointException", "UserExceptionWithTraceback"}
)
"""Ray Train's (train/v2/api/exceptions.py), submitit's (core/core.py), torch's (distributed/checkpoint/api.py)."""
SNIPPET = lazy_re(r"\[Rank (?P<ranks>\d{1,6}(?:,\d{1,6}){0,9999}) Error Snippet\]:\s*$")
"""Before what these ranks died of (Ray's train/v2/_internal/execution/worker_group/poll.py)."""
OF_RANK = lazy_re(r"Traceback \(most recent call last\): \(RANK (?P<ranks>\d{1,6})\)")
"""As torch's CheckpointException writes it."""
RULER = lazy_re(r"-{8,}\s*$")


def announced_rank(*lines: bytes | str) -> int | None:
    """The rank of which a traceback's header, or the line before it, says that it is; None of several."""
    for line in lines:
        text = line[:400].decode("utf-8", "replace") if isinstance(line, bytes) else line[:400]
        match = SNIPPET.search(text) or OF_RANK.search(text)
        if match is not None and match["ranks"].isdigit():
            return int(match["ranks"])
    return None


__all__ = ["HOLDS_OTHERS", "OF_A_SPAWNED", "RULER", "SNIPPET", "WRAPPED", "announced_rank"]
