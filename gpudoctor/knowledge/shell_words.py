"""Words for lines that users paste into bash, zsh, dash or ksh."""

import shlex


def word(value: str) -> str:
    """`value` as one word that each of these shells reads back.

    shlex.quote leaves a leading "=" bare, and zsh takes `export NAME==eth0` for the path of a command called eth0.
    """
    return f"'{value}'" if value.startswith("=") and "'" not in value else shlex.quote(value)
