"""Whose processes are the reader's own: only their command lines are ever offered to be pasted."""

import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")


def own_users() -> frozenset[int]:
    """The real user of this process; under sudo, the one who called it too."""
    if not hasattr(os, "getuid"):
        return frozenset()
    caller = os.environ.get("SUDO_UID", "")
    by_sudo = os.geteuid() == 0 and caller.isascii() and caller.isdecimal() and len(caller) < 11
    return frozenset({os.getuid(), int(caller)}) if by_sudo else frozenset({os.getuid()})


def own_pids(pids: Iterable[int], proc: Path = PROC) -> tuple[int, ...]:
    """Those of `pids` that nobody else has started: real, effective and saved user are the reader's own."""
    mine = own_users()
    return tuple(pid for pid in pids if (users := _users(pid, proc)) and users <= mine)


def _users(pid: int, proc: Path) -> frozenset[int]:
    """Empty where the process is gone."""
    try:
        for line in (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Uid:"):
                return frozenset(int(number) for number in line.split()[1:4])
    except (OSError, ValueError):
        pass
    return frozenset()
