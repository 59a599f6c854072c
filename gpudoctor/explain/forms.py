"""The few forms of sentences in which libraries refuse, and what each asks for: put into what is to be done, in the
message's own words and with nothing else.

A form holds for a whole sentence: who expects what and was given what, what needs what, what a build has not. Where
none fits nothing is said of settings that somebody is to change: most of what a library raises nobody has set.
"""

import re

from gpudoctor.explain.own_fixes import command_fix
from gpudoctor.lazy import lazy_re

WORDS = r"[^;:\n]"
NOUN = r"[`'\"]?[\w./+-]{2,60}[`'\"]?"
LACKS_TOOL = tuple(
    lazy_re(text)
    for text in (
        r"(?<![\w/])(?P<name>[A-Za-z][\w+-]{1,40}) (?:was|is|were|could) not (?:be )?(?:found|available|installed)\b",
        r"(?i)\b(?:cannot|could not|can't|couldn't|unable to|failed to) (?:find|locate|run|execute) (?:the )?"
        r"(?:program |command |executable |binary )?[`'\"]?(?P<name>[A-Za-z][\w+-]{1,40})\b",
        r"^[`'\"]?(?P<name>[A-Za-z][\w+-]{1,40})[`'\"]? is (?:required|needed)\b",
        r"\['which', '(?P<name>[\w+-]{1,40})'\]' returned non-zero",
    )
)
"""A program that is wanted, by its name."""
BUILT_WITHOUT = lazy_re(
    r"(?:(?:not|n't) (?:been )?(?:compiled|built|build) with|(?:compiled|built|build) without)(?: the)? "
    r"(?P<part>[A-Za-z][\w+.-]{1,30})(?= (?:support|enabled|backend)\b|[.,;!)'\"]|$)|"
    r"(?:doesn't|does not) have (?P<other>[A-Za-z][\w+.-]{1,30}) built[ -]in"
)
FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(text), told)
    for text, told in (
        (rf"(?i)(?:^|\b)expected (?P<wanted>{WORDS}{{2,120}}?)(?:,| and)? but (?:it |we )?(?:got|found|received|"
         rf"was given|given|was|is)(?: instead)?:? (?P<given>{WORDS}{{1,160}}?)(?: instead)?$",
         "It is to be {wanted}, and it was {given}: give the one in place of the other"),
        (rf"(?P<what>{WORDS}{{1,90}}?) (?:can|may|could) only be (?:used|set|called|passed|enabled|loaded) "
         rf"(?P<when>(?:when|if|with|for|on|in|inside|after|before)\b{WORDS}{{3,140}})$",
         "Take {what} out, or use it only {when}"),
        (rf"(?P<what>{WORDS}{{1,90}}?) (?:is|are) only (?:supported|available|allowed|valid|implemented|possible) "
         rf"(?P<when>(?:when|if|with|for|on|in|inside|after|before)\b{WORDS}{{3,140}})$",
         "Take {what} out, or use it only {when}"),
        (rf"(?P<what>{WORDS}{{1,60}}?) (?:only supports?|supports? only) (?P<when>{WORDS}{{3,120}})$",
         "{what} is for {when} alone: with anything else do without it"),
        (rf"(?<![\w.-])(?P<what>(?!(?:[Tt]his|[Ii]t|[Tt]hat|[Ww]hich)\b)"
         rf"{NOUN}(?: [\w-]{{1,30}}){{0,3}}) requires? (?P<needed>(?:an?|the|at least|all|"
         rf"each|every|both|cuda|gpu|triton)\b{WORDS}{{2,120}})$",
         "Give {what} what it requires, {needed}, or do without it"),
        (rf"(?P<what>{WORDS}{{2,90}}?) (?:must|should|has to|needs to) be (?:evenly )?(?:divisible by|a multiple of) "
         rf"(?P<other>{WORDS}{{2,90}})$",
         "Change {what}, or {other}, so that the second divides the first without a rest"),
        (rf"(?P<what>{NOUN}) (?:is|was|has been) already (?:registered|defined|declared|taken)\b",
         "{what} is given twice: give the second one a name of its own, and let what makes it run once a process "
         "(in a notebook start the kernel again)"),
        (rf"(?i)^no (?P<what>[a-z][\w. -]{{2,60}}?) (?:was |were |is |are )?(?:found|available|exists?) "
         rf"(?P<where>(?:in|at|under|inside)\b{WORDS}{{2,160}})$",
         "There is no {what} {where}: list what is there, and name the place that has it, or make it first"),
        (rf"(?i)(?:can't|cannot|can not|could not|couldn't|unable to|failed to) find (?:the |an? |any )?"
         rf"(?P<what>{WORDS}{{2,80}}?) (?P<where>(?:at|in|under|inside)\b{WORDS}{{2,160}})$",
         "There is no {what} {where}: list what is there, and name the place that has it, or make it first"),
        (rf"(?i)^no (?P<what>{WORDS}{{2,80}}?) (?:is |was |were |are )?(?:defined|given|provided|specified)"
         rf"(?: (?P<when>{WORDS}{{2,120}}))?$",
         "Give {what}, or leave out what asks for it"),
    )
)  # fmt: skip


def lacking(message: str) -> str:
    """What brings the program that a message misses by its name, or the build that has what it lacks."""
    for found in (found for form in LACKS_TOOL for found in form.finditer(message)):
        if how := command_fix(found["name"])[1].get("how", ""):
            return how
    if match := BUILT_WITHOUT.search(message):
        part = match["part"] or match["other"]
        return (
            f"What is installed was built without {part}: install a build that has it (another wheel or channel, or "
            f"from its sources with {part}), or choose what does without"
        )
    return ""


def of_form(clause: str) -> str:
    """What is to be done, by the form of the sentence; empty: it has none of these."""
    if told := lacking(clause):
        return told.rstrip(".")
    for form, told in FORMS:
        if match := form.search(clause):
            return told.format_map({name: value.strip() for name, value in match.groupdict().items()})
    return ""


__all__ = ["lacking", "of_form"]
