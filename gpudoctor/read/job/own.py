"""Whose processes are the reader's own: only their command lines are ever offered to be pasted."""

import os
from collections.abc import Iterable

from gpudoctor.read.process import THIS, numbers_of
from gpudoctor.read.system import System


def own_users() -> frozenset[int]:
    """The real user of this process; under sudo, the one who called it too."""
    if not hasattr(os, "getuid"):
        return frozenset()
    caller = os.environ.get("SUDO_UID", "")
    by_sudo = os.geteuid() == 0 and caller.isascii() and caller.isdecimal() and len(caller) < 11
    return frozenset({os.getuid(), int(caller)}) if by_sudo else frozenset({os.getuid()})


def own_pids(pids: Iterable[int], system: System = THIS) -> tuple[int, ...]:
    """Those of `pids` that nobody else has started: real, effective and saved user are the reader's own."""
    mine = own_users()
    return tuple(pid for pid in pids if (users := numbers_of(pid, "Uid", system)[:3]) and mine.issuperset(users))
