"""Of `lint`, beside its rules."""

from gpudoctor.said.one import Meaning, said_by

_said = said_by("lint")

LINT: dict[str, Meaning] = {
    "ignore-names-no-rule": _said(
        "A comment `# gpudoctor: ignore[...]` names no rule, or one that there is not.",
        "It silences nothing.",
        "Write the code that stands in brackets behind the problem: ignore[S04], and why.",
    ),
    "ignore-without-effect": _said(
        "A comment `# gpudoctor: ignore[...]` names a rule that does not fire there.",
        "What it was written for is gone; it would silence the next problem of that kind.",
        "Take the comment away.",
    ),
}
