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
from gpudoctor.explain.stacks import StackFrame
from gpudoctor.explain.waits import Wait, different, named
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import POSSIBLE

FINGERPRINTS = ("fingerprint", "fingerprint-operation", "fingerprint-shape")
"""Symptoms of it: symptoms/ddp.py."""
SAID = lazy_re(
    r"Rank (?P<rank>\d{1,7}) is running collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<sequence>\d{1,18}))?"
    r"(?:, ?)?OpType=(?P<operation>\w{1,40})(?:, ?TensorShape=\[(?P<size>[\d, ]{0,120})\])?"
)
OF_AUTOGRAD = "/torch/autograd/"
"""Where a hook's exception comes out of a backward pass."""


def of_fingerprints(own: Sequence[Wait], each_alone: list[Candidate]) -> list[Candidate]:
    """What the ranks' own descriptions, `own`, say together. `each_alone`: what each line says by itself, where only
    one rank speaks; then operations that differ are of another order, or of a rank that goes another way, and neither
    is shown.
    """
    together = different(list(own)) if len(own) > 1 else []
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
        chain = next((each.told.traceback.raised for each in tracebacks if event in each.events), ())
        # What a `finally` has raised stands behind it.
        raised = next((each for each in chain if each.line == event.at.line), chain[-1] if chain else None)
        for number, each in enumerate(said[:2]):
            at = raised if raised is not None and raised.file and not number else None
            wait = Wait(
                rank=int(each["rank"]),
                moment=event.moment,
                line=event.at,
                operation=named(each["operation"]),
                sequence=int(each["sequence"]) if each["sequence"] else None,
                elements=_elements(each["size"]),
                where=f"{at.file}:{at.at}" if at else "",
                function=at.collective if at else "",
                frames=_from_the_module(at.own, chain[-1].own) if at else (),
                in_backward=at is not None and OF_AUTOGRAD in at.innermost,
                is_called=True,
            )
            if not number:
                by_rank.setdefault(wait.rank, wait)
            elif each["sequence"] == said[0]["sequence"]:
                heard.setdefault(wait.rank, wait)
    return [wait for _, wait in sorted({**heard, **by_rank}.items())]


def _from_the_module(own: tuple[StackFrame, ...], last: tuple[StackFrame, ...]) -> tuple[StackFrame, ...]:
    """The stack of an exception, which begins where it was caught, with what the last of its chain has around that."""
    top = own[-1][:2] if own else None
    around = next((number for number, frame in enumerate(last) if frame[:2] == top), len(last))
    return (*own, *last[around + 1 :])


def _elements(size: str | None) -> int | None:
    if size is None:
        return None
    return prod(int(word) for word in re.findall(r"\d{1,12}", size)[:16])
