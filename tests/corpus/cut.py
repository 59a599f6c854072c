"""What `explain` says of logs of which a cause is told, spoilt: without their decisive lines, only what stands before
or behind these, with what follows from any end, with a fault that the job got over or with another log before it.

Labels play no part. Without its cause, what follows from it must not become one; with something added that explains
nothing, the cause must stay. What is left may hold a second fault, so a few are right to name another.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation, LogCause
from gpudoctor.sure import LIKELY, PRIMARY
from tests.corpus.cases import Case
from tests.corpus.score import WIDER

FOLLOWS = b"""\
[rank5]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, \
remote process exited or there was a network error, NCCL version 2.21.5
W0611 10:12:41.118000 4021 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4033 closing signal \
SIGTERM
E0611 10:12:43.530000 4021 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 5 \
(pid: 4032) of binary: /opt/env/bin/python
srun: error: gpu07: task 0: Exited with exit code 1
slurmstepd: error: *** STEP 88123.0 ON gpu06 CANCELLED AT 2024-06-11T10:12:50 ***
"""
GOT_OVER = b"""\
n3:812:840 [0] NCCL INFO Call to connect returned Connection refused, retrying
WARNING:urllib3.connectionpool:Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError'
OSError: [Errno 116] Stale file handle: '/data/shards/00017.tar', trying again in 5 s
step 10 | loss 9.812 | 801 ms
step 20 | loss 9.144 | 803 ms
step 30 | loss 8.627 | 802 ms
step 40 | loss 8.255 | 802 ms
"""


class Cut(NamedTuple):
    case: Case
    way: str
    whole: LogCause
    rest: LogCause | None
    kinds: frozenset[str]
    """Of what may be told."""

    @property
    def outcome(self) -> str:
        if self.rest is None:
            return "no cause"
        if self.rest.cause == self.whole.cause or self.rest.kind in self.kinds:
            return "the same kind"
        return "another, likely or surer" if self.rest.confidence >= LIKELY else "another, possible"


Way = Callable[[list[bytes], set[int], bytes], list[bytes]]
"""Lines, numbers of the decisive ones, another case's log -> what is asked."""


def _without(lines: list[bytes], decisive: set[int], other: bytes) -> list[bytes]:
    return [text for number, text in enumerate(lines, 1) if number not in decisive]


WAYS: Mapping[str, Way] = {
    "without the decisive lines": _without,
    "only what stands before them": lambda lines, decisive, other: lines[: min(decisive) - 1],
    "only what stands behind them": lambda lines, decisive, other: lines[max(decisive) :],
    "what follows from any end behind it": lambda lines, decisive, other: [*lines, *FOLLOWS.split(b"\n")],
    "the same without the decisive lines": lambda lines, decisive, other: [
        *_without(lines, decisive, other),
        *FOLLOWS.split(b"\n"),
    ],
    "a fault before it that the job got over": lambda lines, decisive, other: [*GOT_OVER.split(b"\n"), *lines],
    "another log before it": lambda lines, decisive, other: [*other.split(b"\n"), *lines],
}


def _asked(log: bytes) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log))


def cut(cases: Iterable[Case], ways: Iterable[str] = tuple(WAYS)) -> Iterator[Cut]:
    """Of each case in which a cause is decided."""
    before: tuple[Case, LogCause] | None = None
    for case in cases:
        log = case.log.encode()
        whole = _asked(log).causes
        if case.verdict != "cause" or not whole or whole[0].confidence < PRIMARY:
            continue
        decisive = {line.line for line in whole[0].evidence}
        for way in ways:
            kinds = frozenset({*WIDER.get(whole[0].kind, {whole[0].kind}), case.class_})
            if way == "another log before it":
                if before is None:
                    continue
                kinds |= {before[1].kind, before[0].class_}
            rest = _asked(b"\n".join(WAYS[way](log.split(b"\n"), decisive, before[0].log.encode() if before else b"")))
            yield Cut(case, way, whole[0], rest.causes[0] if rest.causes else None, kinds)
        before = case, whole[0]


def table(cuts: list[Cut]) -> Iterator[str]:
    """A line for each half and way."""
    for half in ("tune", "keep"):
        for way in WAYS:
            counted = Counter(each.outcome for each in cuts if each.case.half == half and each.way == way)
            yield f"{half}, {way}: " + ", ".join(f"{outcome}: {counted[outcome]}" for outcome in sorted(counted))
