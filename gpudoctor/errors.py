"""What gpudoctor's functions raise for a user's sake. The text is one line that says what to do; commands print it."""


class Error(Exception):
    """Of all that is raised on purpose: `except gpudoctor.Error` misses nothing, and catches no bug."""

    status = 2
    """With which a command ends that raises it."""


class BadInput(Error, ValueError):
    """What was given cannot be used: a value, a name, a file."""


class CannotTell(Error):
    """Nothing could be looked at that would decide."""

    status = 3


class Unreached(Error):
    """No host that was named can be reached."""

    status = 1
