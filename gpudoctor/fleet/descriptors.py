"""File descriptors: how many this process may have, and how many a test of so many nodes wants."""

import sys

from gpudoctor.command import Command, command
from gpudoctor.errors import BadInput

OWN = 64
"""The interpreter's own, the terminal, the engine's, pipes to children and the logs of ranks. Our rule of thumb: a
bandwidth test of one node stalls with 16 and is done with 24 (two ranks, gloo, torch 2.13, Python 3.11)."""
A_NODE = {"ssh": 3, "srun": 0, "join": 1, "local": 0}
"""ssh: its standard input, output and error; srun: one for all; join: its connection."""
WAITING = 64
"""Connections that may wait at the door of join mode (join_door.MOST_WAITING)."""


class TooFew(BadInput):
    """There are not as many as are wanted; the message is one line for the user."""


def wanted(how: str, nodes: int) -> int:
    """How many the head wants for `nodes` nodes, reached in this way ("ssh", "srun", "join", "local")."""
    return OWN + A_NODE[how] * nodes + (WAITING if how == "join" else 0)


def allowed() -> int:
    """How many this process may have (RLIMIT_NOFILE's soft limit)."""
    return _limits()[0]


def ensure(how: str, nodes: int = 1) -> None:
    """Raise `TooFew` where there are too few: what runs out of them stalls, and blames something else.

    For ssh, which does not mind, our own limit is raised as far as it may be. Children that look at this machine
    inherit it, and must find the user's.
    """
    need, (soft, hard) = wanted(how, nodes), _limits()
    if soft < need <= hard and how == "ssh":
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (need, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    elif need > soft:
        what = f"{nodes} nodes" if nodes > 1 else "this"
        raise TooFew(
            f"too few file descriptors: {soft} are allowed (ulimit -n), and {what} wants {need}; {_remedy(need, hard)}"
        )


def _remedy(need: int, hard: int) -> str:
    line: Command = command("ulimit -n {:number}", max(need, min(hard, 1024)))
    if need <= hard:
        return f"in this shell: {line}"
    return f"the hard limit is {hard}, which root raises (limits.conf; LimitNOFILE; docker --ulimit nofile): {line}"


def _limits() -> tuple[int, int]:
    """Soft and hard."""
    if sys.platform == "win32":
        return sys.maxsize, sys.maxsize
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return sys.maxsize if soft == unlimited else soft, sys.maxsize if hard == unlimited else hard
