"""What a message demands of a number: what that would have to be, or either of two that it holds against each other.

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


OF_VOCABULARY, OF_TOKENS = lazy_re(r"(?i)vocab|embed"), lazy_re(r"(?i)token|\bids?\b")
NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?(?:e-?\d{1,3})?"
BOUNDED = (
    r"^(?:[\w.]{1,60}: )?(?:(?:[Tt]he|[Aa]rgument|[Oo]ption|[Pp]arameter|[Vv]alue of|[Tt]he value of) )?"
    r"(?P<name>[`'\"]?(?:--)?[A-Za-z][\w.-]{0,50}[`'\"]?(?: (?!must|should|has|needs|is|was)[a-z][\w-]{1,20}){0,4})"
    rf"(?: ?=? ?\(?(?P<value>{NUMBER})\)?)? (?:must|should|has to|needs to)(?: all| always)? be (?:an? )?"
)
BOUNDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(BOUNDED + words), told)
    for words, told in (
        (rf"(?:(?:an )?(?:int\w*|float|number) )?(?:between (?P<low>{NUMBER}) and (?P<high>{NUMBER})\b|"
         rf"(?:with)?in (?:the )?(?:range|interval)?(?: of)? ?[\[(]{NUMBER}, ?{NUMBER}[\])])",
         "{span}"),
        (rf"(?:at least|>=|{MORE} than or equal to|no {LESS} than) ?(?P<low>{NUMBER})(?![\w.]*\d)", "{low} or more"),
        (rf"(?:at most|<=|{LESS} than or equal to|no {MORE} than) ?(?P<high>{NUMBER})(?![\w.]*\d)", "{high} or less"),
        (rf"(?:strictly )?(?:{MORE} than|>) ?(?P<low>{NUMBER})(?![\w.]*\d)", "more than {low}"),
        (rf"(?:strictly )?(?:{LESS} than|<) ?(?P<high>{NUMBER})(?![\w.]*\d)", "less than {high}"),
        (r"(?:strictly )?positive\b", "more than 0"),
        (r"non-?negative\b", "0 or more"),
        (r"(?P<low>odd|even)\b", "an {low} number"),
        (r"power of (?:2|two)\b", "a power of 2 (8, 16, 32, ...)"),
        (rf"(?:divisible by|(?:a )?multiple of) (?P<low>{NUMBER})(?![\w.]*\d)", "a multiple of {low}"),
    )
)  # fmt: skip
"""What is demanded of one that is named, by a number that the message gives."""
GIVEN = lazy_re(rf"(?i)\b(?:got|received|found|given|is|was|it is|but is)\b:? ?[`'\"]?(?P<value>{NUMBER})(?![\w.]*\d)")
WHEN = lazy_re(r"(?i)\b(?P<when>(?:when|if|for|with) [^,;:.\n]{4,80}?)(?:,|;|$| but\b| got\b)")
TOO_FEW = lazy_re(
    r"(?i)\b(?:requested|requesting|asked for|needs?|requires?|wants?|specified) (?:for )?(?P<wanted>\d{1,6}) "
    r"(?P<what>[A-Za-z][\w-]{1,20}(?: (?!but|only|and|are|is)[a-z]{2,15})?)\b"
    r"[^\n\d]{0,40}?\b(?:only|have|has|found|got|there (?:is|are))\b"
    r"[^\n\d]{0,20}(?P<has>\d{1,6})(?![\w.]*\d)"
)
DIVIDES = lazy_re(r"\b(?:does not|doesn't|must|should|has to)(?: evenly)? divide\b")


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
    forms = ((DIVISIBLE, _divisible), (DIVIDES, _divides), (AT_MOST, _at_most), (AT_LEAST, _at_least))
    for form, tell in forms:
        at = form.search(kept)
        if at is not None and (sides := _sides(kept, at)) and (told := tell(*sides)):
            return told
    return _too_few(kept) or _bounded(kept)


def _too_few(text: str) -> str:
    match = TOO_FEW.search(text)
    if match is None or int(match["wanted"]) <= int(match["has"]):
        return ""
    return f"Ask for {match['has']} {match['what']} or fewer, or give the job {match['wanted']}"


def _bounded(text: str) -> str:
    """num_beams must be at least 2 when ..., got 1."""
    for form, told in BOUNDS:
        if (match := form.search(text)) is None:
            continue
        values = {name: value for name, value in match.groupdict().items() if value}
        values["span"] = f"a value {match[0].rpartition(' be ')[2]}"
        name, behind = values["name"].strip("`'\""), text[match.end() :]
        given = GIVEN.search(behind)
        value = given["value"] if given else values.get("value", "")
        when = WHEN.search(behind)
        without = f", or do without what asks for that ({when['when']})" if when else ""
        return f"Set {name} to {told.format_map(values)}{f' (it is {value})' if value else ''}{without}"
    return ""


def _divides(one: Side, other: Side) -> str:
    return _divisible(other, one)


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
    if OF_VOCABULARY.search(one.name) and OF_TOKENS.search(other.name):
        rows = other.value + bool(re.search(r"(?i)\b(?:id|index)\b", other.name))
        return (
            f"The model has {one.value} rows for tokens, and the tokenizer or the data {rows}: take the tokenizer that "
            f"belongs to the model, or give the model more rows (resize_token_embeddings({rows}); a vocabulary of as "
            "many where it is trained from the start)"
        )
    ways = [f"raise {one.name} to {other.value} or more"] if not OF_MODEL.search(one.name) else []
    ways.append(f"lower {other.name} to {one.value} or less")
    return f"{one.value} is less than {other.value}: {', or '.join(ways)}"


def _set(side: Side, numbers: tuple[int, ...]) -> str:
    values = " or ".join(map(str, numbers))
    return f"start {values} processes" if OF_START.fullmatch(side.name) else f"set {side.name} to {values}"


__all__ = ["required"]
