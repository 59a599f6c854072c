"""What gpudoctor's functions raise for a user's sake. The text is one line that says what to do; commands print it."""


class Error(Exception):
    """Of all that is raised on purpose: `except gpudoctor.Error` misses nothing, and catches no bug."""


class BadInput(Error, ValueError):
    """What was given cannot be used: a value, a name, a file. The commands' exit status 2."""


class CannotTell(Error):
    """Nothing could be looked at that would decide. The commands' exit status 3."""
