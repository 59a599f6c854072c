"""What became of an ssh, from its exit status and the end of its standard error -> `Lost`."""

import re
from collections.abc import Sequence

from gpudoctor.fleet.fleet import Lost, LostKind
from gpudoctor.fleet.ssh_command import MISSING
from gpudoctor.lazy import lazy_re

SSH_FAILED = 255
"""ssh's own exit status when the connection failed (ssh(1), EXIT STATUS); any other is the remote command's."""
COMMAND_NOT_FOUND, NOT_EXECUTABLE = 127, 126
SHOWN = 300
LONGEST = 2000
"""Characters of a line that are looked at."""

_SAID: tuple[tuple[str, LostKind], ...] = (
    # OpenSSH's words (ssh.c, sshconnect.c, sshconnect2.c, misc.c) and strerror's. A changed key also says
    # "Host key verification failed", and a jump host's complaint comes before that of the connection through it.
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "host key changed"),
    ("Host key verification failed", "host key unknown"),
    (r"No \S+ host key is known for", "host key unknown"),
    (r"Permission denied \(", "auth refused"),
    ("Too many authentication failures", "auth refused"),
    ("Could not resolve hostname", "unresolvable"),
    ("Connection refused", "refused"),
    ("Connection timed out during banner exchange", "no answer"),
    ("timed out during banner exchange", "no answer"),
    (
        r"(?:Connection|Operation) timed out|No route to host|Network is (?:unreachable|down)|Host is down",
        "unreachable",
    ),
    (r"kex_exchange_identification|Connection (?:closed|reset) by", "refused"),
)
_NOISE = lazy_re(r"^(?:@+$|Warning: Permanently added|\*\* |Connection to \S+ closed\.?$|\s*$)")


def lost_from(status: int, errors: Sequence[str], *, had_begun: bool) -> Lost:
    """Why a node is lost. `errors`: the last lines of ssh's standard error. `had_begun`: its agent had said Hello."""
    cleaned = [printable(line[:LONGEST]) for line in errors]
    lines = [line for line in cleaned if not _NOISE.match(line)]
    last = lines[-1][:SHOWN] if lines else ""
    ending = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    if had_begun:
        if status == SSH_FAILED or status < 0:
            return Lost("connection lost", last or f"ssh: {ending}")
        return Lost("gpudoctor failed", f"{ending}: {last}" if last else ending)
    for line in lines:
        if MISSING in line:
            named = line.partition(MISSING)[2].strip()[:SHOWN]
            return Lost(
                "gpudoctor missing",
                f"{named} (--remote-gpudoctor) is no command there"
                if named
                else "not at this machine's path, and not on the PATH of a login there",
            )
    if status == SSH_FAILED:
        for pattern, kind in _SAID:
            for line in reversed(lines):
                if re.search(pattern, line):
                    return Lost(kind, line[:SHOWN])
        return Lost("connection lost", last or f"ssh: {ending}")
    if status < 0:
        return Lost("connection lost", last or f"ssh: {ending}")
    if status in (COMMAND_NOT_FOUND, NOT_EXECUTABLE):
        return Lost("gpudoctor missing", last or ending)
    return Lost("gpudoctor failed", f"{ending}: {last}" if last else ending)


def printable(line: str) -> str:
    """Without control characters: what another machine says must not steer this user's terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in line).strip()
