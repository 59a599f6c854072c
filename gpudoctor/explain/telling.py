"""What a row is written against that tells which lines elsewhere in a log decide a fix (`explain/shown_by.py`)."""

from gpudoctor.command import Command, command
from gpudoctor.lazy import lazy_re

BRIDGE = r"(?<![\d.])(?P<address>172\.17\.0\.1|192\.168\.122\.1)(?![\d.])"
"""What docker's default bridge (docker0) and libvirt's (virbr0) are on each host that has them."""
ADDRESSES = (command("ip -brief address"),)


class Telling:
    """`causes`: of which it is asked. `lines`: patterns, each of which a line of the log's end must fit; their groups
    are values for `fix`. `own`: what the cause's first line must hold too."""

    def __init__(
        self,
        causes: tuple[str, ...],
        lines: tuple[str, ...],
        fix: str,
        commands: tuple[Command, ...] = (),
        unless: str = "",
        own: str = "",
    ) -> None:
        self.causes, self.fix, self.commands = frozenset(causes), fix, commands
        self.lines = tuple(map(lazy_re, lines))
        self.unless = lazy_re(unless) if unless else None
        self.own = lazy_re(own)


__all__ = ["ADDRESSES", "BRIDGE", "Telling"]
