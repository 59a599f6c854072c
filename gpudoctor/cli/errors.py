"""Why there is no answer, said in one line: what a user did wrong, or what hindered us."""


class CannotTell(Exception):
    """Nothing could be looked at that would decide: `gpudoctor: MESSAGE` on standard error and exit status 3."""


class UsageProblem(Exception):
    """Wrong usage or unreadable input: `gpudoctor: MESSAGE` on standard error and exit status 2."""
