"""What ranks say of their own collectives under TORCH_DISTRIBUTED_DEBUG=DETAIL, compared with each other.

torch compares before each collective, and a rank that finds another one different prints both. What it prints of itself
is true. What it prints of the other was read into a buffer of its own length: where the two descriptions are not of one
length (another number of dimensions, a barrier), the other's operation and number are whatever lay there. The number
tells that, for all ranks count alike.
"""

import re
from collections.abc import Sequence
from math import prod

from msgspec import structs

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import Spoken
from gpudoctor.explain.order import Facts
from gpudoctor.explain.waits import Wait, different, named
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import POSSIBLE

FINGERPRINTS = ("fingerprint", "fingerprint-operation", "fingerprint-shape")
"""Symptoms of it: symptoms/ddp.py."""
SAID = lazy_re(
    r"Rank (?P<rank>\d{1,7}) is running collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<sequence>\d{1,18}))?"
    r"(?:, ?)?OpType=(?P<operation>\w{1,40})(?:, ?TensorShape=\[(?P<size>[\d, ]{0,120})\])?"
)


def of_fingerprints(facts: Facts, tracebacks: Sequence[Spoken], each_alone: list[Candidate]) -> list[Candidate]:
    """What the ranks' own descriptions say together. `each_alone`: what each line says by itself, where only one rank
    speaks; then operations that differ are of another order, or of a rank that goes another way, and neither is shown.
    """
    own = own_collectives(facts, tracebacks)
    together = different(own) if len(own) > 1 else []
    if together:
        return together
    return [
        structs.replace(candidate, confidence=min(candidate.confidence, POSSIBLE))
        if candidate.cause == "collective-order-mismatch"
        else candidate
        for candidate in each_alone
    ]


def own_collectives(facts: Facts, tracebacks: Sequence[Spoken]) -> list[Wait]:
    """One for each rank that speaks, by rank; of one that does not, what another says of it where that is credible."""
    by_rank: dict[int, Wait] = {}
    heard: dict[int, Wait] = {}
    for event in facts.events:
        if event.symptom.id not in FINGERPRINTS:
            continue
        said = [match.groupdict() for match in SAID.finditer(event.at.text)]
        raised = next(
            (traceback.told.traceback.raised[-1] for traceback in tracebacks if event in traceback.events), None
        )
        for number, each in enumerate(said[:2]):
            wait = Wait(
                rank=int(each["rank"]),
                moment=event.moment,
                line=event.at,
                operation=named(each["operation"]),
                sequence=int(each["sequence"]) if each["sequence"] else None,
                elements=_elements(each["size"]),
                where=f"{raised.file}:{raised.at}" if raised is not None and raised.file and not number else "",
                is_called=True,
            )
            if not number:
                by_rank.setdefault(wait.rank, wait)
            elif each["sequence"] == said[0]["sequence"]:
                heard.setdefault(wait.rank, wait)
    return [wait for _, wait in sorted({**heard, **by_rank}.items())]


def _elements(size: str | None) -> int | None:
    if size is None:
        return None
    return prod(int(word) for word in re.findall(r"\d{1,12}", size)[:16])
