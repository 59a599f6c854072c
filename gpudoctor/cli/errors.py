"""What a user did wrong, said in one line."""


class UsageProblem(Exception):
    """Wrong usage or unreadable input: `gpudoctor: MESSAGE` on standard error and exit status 2."""
