"""Two numbers that a message holds against each other: what either would have to be.

`heads (14) must be a multiple of tensor_parallel_size (4)`, "batch size 6 is not divisible by the number of processes
(4)", `max_len (4096) is larger than the derived limit (2048)`. The forms are those of checks in libraries; the numbers
must break what the sentence demands, else they are others.
"""

import math
import re
from typing import NamedTuple

from gpudoctor.lazy import lazy_re

MOST = 1_200
"""Characters of a message that are looked at."""
LARGEST = 10**9
NEAR = 2
"""A divisor of so many times the number that does not divide is none that somebody wants (our choice)."""
NEGATED = r"(?:is|are|was|were)(?: not|n't)(?: evenly| exactly)?"
WANTED = r"(?:must|should|needs?|ha(?:s|ve)|expected|required)(?: to)?(?: be)?(?: evenly| exactly)?"
NEVER = r"(?:cannot|can't|can not|must not|should not)"
MORE, LESS = r"(?:larger|greater|bigger|longer|higher|more)", r"(?:smaller|less|lower|fewer|shorter)"
DIVISIBLE = lazy_re(
    rf"(?i)\b(?:{NEGATED}|{WANTED}|to be|not|be)(?: an?)?(?: round| whole| integer)? "
    r"(?:divisible by|(?:a )?multiple of)\b"
)
AT_MOST = lazy_re(
    rf"(?i)\b(?:(?:is|are|was) {MORE} than|exceeds?|{WANTED} (?:at most|{LESS} than or equal to|no {MORE} than)|"
    rf"{NEVER} (?:be {MORE} than|exceed))\b|{WANTED} ?<=|{NEVER} be ?>(?!=)"
)
AT_LEAST = lazy_re(
    rf"(?i)\b(?:(?:is|are|was) {LESS} than|{WANTED} (?:at least|{MORE} than or equal to|no {LESS} than)|"
    rf"{NEVER} be {LESS} than)\b|{WANTED} ?>=|{NEVER} be ?<(?!=)"
)
VALUE = lazy_re(
    r"(?P<name>[`'\"]?(?:--)?[A-Za-z][\w.\[\]-]*(?:'s)?(?: [a-z][\w-]*){0,5}[`'\"]?) ?(?:\(|=|:| of | is )[ `]?"
    r"(?P<value>\d{1,9})(?:\.0)?(?P<times>(?: ?\* ?\d{1,9})+(?=\)))?(?![\w.]*\d)|"
    r"(?P<setting>[A-Za-z]\w*_\w+) (?P<number>\d{1,9})(?![\w.]*\d)|"
    r"(?P<plain>(?<![\w.-])[A-Za-z]\w{2,30}(?: (?!at\b|in\b|of\b|for\b)[a-z]\w{1,20}){1,3}"
    r"(?<!step)(?<!epoch)(?<!line)(?<!group)(?<!process)) (?P<count>\d{1,9})"
    r"(?=\s*$| (?:is|are|was|were|exceeds?|must|should|cannot)\b)"
)
GOT = lazy_re(r"(?i)\b(?:but )?(?:got|received|found|given|have|were)\b:?")
ARTICLE = lazy_re(r"(?i)^.*\b(?:that|the|your|if|when|a|an|with|using|and|got|but|requires|User-specified) (?=\S)")
PRODUCT = lazy_re(
    r"(?P<whole>[A-Za-z][\w-]*(?: [a-z][\w-]*){0,4}) ?\(?=?(?P<value>\d{1,9})\)? ?(?:!=|(?:is|was) not equal to|"
    r"(?:does|did) not (?:equal|match)|(?:must|should|has to) (?:be |equal )?(?:equal(?: to)?|match|==)) "
    r"(?P<factors>(?:(?:[A-Za-z][\w-]*(?: [a-z][\w-]*){0,3} ?)?\(?=?\d{1,9}\)? ?[*x\u00d7] ?){1,4}"
    r"(?:[A-Za-z][\w-]*(?: [a-z][\w-]*){0,3} ?)?\(?=?\d{1,9}\)?)"
)
ONE_FACTOR = lazy_re(r"(?P<name>[A-Za-z][\w-]*(?: [a-z][\w-]*){0,3})? ?\(?=?(?P<value>\d{1,9})\)?")
OF_TENSORS = lazy_re(
    r"(?i)\btensors?\b(?![ _-](?:model[ _-])?parallel)|\bshapes?\b|\bdim(?:ension)?s? \d|\bsize mismatch\b|"
    r"\bmat[12]\b|\bindex\b"
)
OF_MODEL = lazy_re(r"(?i)head|hidden|layer|vocab|embed|channel|\bdim|expert|position|derived|feature")
"""What a model's own configuration gives, and its weights hold."""
OF_START = lazy_re(r"(?i)(?:number of |num[ _]|n_)?(?:world.?size|process(?:es)?|ranks?|gpus?|devices?)")
"""What the start of the job gives."""


class Side(NamedTuple):
    name: str
    value: int


def required(clause: str) -> str:
    """What has to be changed to what; empty where the sentence holds no two numbers against each other."""
    kept = clause[:MOST]
    if OF_TENSORS.search(kept):
        return ""
    if (product := PRODUCT.search(kept)) and (told := _product(product)):
        return told
    for form, tell in ((DIVISIBLE, _divisible), (AT_MOST, _at_most), (AT_LEAST, _at_least)):
        at = form.search(kept)
        if at is not None and (sides := _sides(kept, at)) and (told := tell(*sides)):
            return told
    return ""


def _product(match: re.Match[str]) -> str:
    """world size 3 != dp (2) * tp (2): the number of processes, or one of what it is parted by."""
    whole = Side(ARTICLE.sub("", match["whole"]), int(match["value"]))
    factors = [Side(at["name"] or "", int(at["value"])) for at in ONE_FACTOR.finditer(match["factors"])]
    product = math.prod(each.value for each in factors)
    if product == whole.value or not all(each.name and each.value for each in factors) or product >= LARGEST:
        return ""
    ways = [_set(whole, (product,))]
    for each in factors:
        rest = product // each.value
        if whole.value and whole.value % rest == 0:
            ways.append(_set(each, (whole.value // rest,)))
    if len(ways) == 1:
        ways.append(f"change {', '.join(each.name for each in factors)} so that their product is {whole.value}")
    return f"{whole.value} is not {' x '.join(str(each.value) for each in factors)} = {product}: {', or '.join(ways)}"


def _sides(text: str, at: re.Match[str]) -> tuple[Side, Side] | None:
    behind = text[at.end() :]
    got = GOT.search(behind)
    if got is not None:
        given = list(_named(behind[got.end() :]))
        if len(given) == 2:
            return given[0], given[1]
    before = list(_named(text[: at.start()]))
    others = list(_named(behind[: got.start()] if got else behind))
    return (before[-1], others[0]) if before and others else None


def _named(text: str) -> list[Side]:
    sides = []
    for match in VALUE.finditer(text):
        value = int(match["value"] or match["number"] or match["count"])
        for factor in re.findall(r"\d+", match["times"] or ""):
            value *= int(factor)
        name = ARTICLE.sub("", (match["name"] or match["setting"] or match["plain"]).strip("`'\" ")).strip("`'\" ")
        if name and value < LARGEST:
            sides.append(Side(name, value))
    return sides


def _divisible(one: Side, other: Side) -> str:
    if not other.value or not one.value % other.value:
        return ""
    divisors = [number for number in range(2, min(one.value, NEAR * other.value) + 1) if one.value % number == 0]
    near = [number for number in divisors if number < other.value][-2:]
    near += [number for number in divisors if number > other.value][:1]
    lower = one.value - one.value % other.value
    ways = [_set(one, tuple(number for number in (lower, lower + other.value) if number))]
    if near:
        is_of_model = OF_MODEL.search(one.name) and not OF_MODEL.search(other.name)
        ways = [_set(other, tuple(near))] if is_of_model else [*ways, _set(other, tuple(near))]
    return f"{other.value} does not divide {one.value}: {', or '.join(ways)}"


def _at_most(one: Side, other: Side) -> str:
    if one.value <= other.value:
        return ""
    ways = [f"lower {one.name} to {other.value} or less"]
    if not OF_MODEL.search(other.name):
        ways.append(f"raise {other.name} to {one.value} or more")
    return f"{one.value} is more than {other.value}: {', or '.join(ways)}"


def _at_least(one: Side, other: Side) -> str:
    if one.value >= other.value:
        return ""
    ways = [f"raise {one.name} to {other.value} or more"] if not OF_MODEL.search(one.name) else []
    ways.append(f"lower {other.name} to {one.value} or less")
    return f"{one.value} is less than {other.value}: {', or '.join(ways)}"


def _set(side: Side, numbers: tuple[int, ...]) -> str:
    values = " or ".join(map(str, numbers))
    return f"start {values} processes" if OF_START.fullmatch(side.name) else f"set {side.name} to {values}"


__all__ = ["required"]
