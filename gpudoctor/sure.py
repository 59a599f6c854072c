"""How sure an answer is: a small scale with names. A rule says which of its observations gives which."""

PROVED = 0.95
"""What was read shows it, and leaves no other explanation: a process in state T, a kernel's log that names the pid."""
SEEN = 0.85
"""It was seen itself, and something else may lie behind it: a line of a log that says it in its own words."""
LIKELY = 0.65
"""Several observations fit it and none speaks against it; other causes look the same."""
BEST = 0.55
"""It fits best, and what was seen does not exclude what else fits: told first, with the test that decides."""
POSSIBLE = 0.45
"""One of several that fit."""
HINT = 0.25
"""It has been the cause of such a thing, and nothing else speaks for it."""

SCALE = (HINT, POSSIBLE, BEST, LIKELY, SEEN, PROVED)
_BY_OBSERVATION = (HINT, POSSIBLE, LIKELY, SEEN, PROVED)


def surer(sure: float) -> float:
    """The next name up, for what another observation bears out."""
    return next((name for name in _BY_OBSERVATION if name > sure), PROVED)


def less_sure(sure: float) -> float:
    """The next name down, where an observation speaks for something else too."""
    return next((name for name in reversed(_BY_OBSERVATION) if name < sure), HINT)


# What `hang` does with an answer:
PRIMARY = 0.5
"""From here on a cause is the answer, with a test where it is below `CERTAIN`; below it is one of several that fit."""
SHOWN = 0.7
"""From here on the order of blame counts; below it confidence alone does."""
CERTAIN = 0.9
"""From here on a cause is said to be shown; below, how to make sure is said too."""
