"""What a text only takes to be possible, apart from what it tells as a fact: a message that cannot know lists what may
have happened ("This indicates that the task has failed, got preempted, or crashed")."""

import re

from gpudoctor.lazy import lazy_re

GUESS = lazy_re(
    r"(?<=[.;!?)\]:,\"\n])\s{0,4}(?:[^.;!?\n]{0,200}?\b(?:"
    r"(?:may|might|could|can) (?:also |have |indicate |mean )?(?:be(?:en)?\b|due\b|indicate\b|mean\b|happen\b)|"
    r"(?:this |which |it )(?:\w+ ){0,3}(?:indicates?|suggests?|means|happens)\b|"
    r"(?:most |very )?likely\b|possibl[ey]\b|probably\b|perhaps\b|usually\b|typically\b|is often\b|"
    r"(?:possible|likely) (?:cause|reason|solution)s?\b|for (?:example|instance)\b)[^.;!?\n]{0,300})",
    re.IGNORECASE,
)
"""A sentence of such words, behind another. The first sentence of a text is what it tells, however it says it."""


def without_guesses(text: str) -> str:
    return GUESS.sub("", text)
