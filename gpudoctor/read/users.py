"""Whose a process is, by the kernel's word, and what that user is called."""

from gpudoctor.read.process import fields_of
from gpudoctor.read.system import System

SUBORDINATE = "/etc/subuid"
FIRST_LOGIN = 1000
"""UID_MIN of login.defs(5): below it are services, whose containers (dockremap, kubelet) are many users'."""


def user_of(system: System, pid: int) -> int:
    """The number of its real user, who has started it; -1 where that is not told.

    Not the owner of its folder in /proc: that is its effective user, which is root while it runs one of root's programs
    with the set-user-ID bit.
    """
    try:
        return int(fields_of(pid, system)["Uid"].split()[0])
    except (KeyError, IndexError, ValueError):
        return -1
    except FileNotFoundError:  # it ended, or another system's /proc
        pass
    except OSError:
        return -1
    try:
        return system.status(f"/proc/{pid}").user_id
    except OSError:
        return -1


def user_name(number: int) -> str:
    """The name of a user; for one of the numbers that a user's containers have, that user's; else the number."""
    if number < 0:
        return ""
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except ImportError:
        return str(number)
    except (KeyError, OverflowError):
        return _whose_container(number) or str(number)


def is_known(user: str) -> bool:
    """Whether this machine has such a user. Any number may be one."""
    import pwd

    if user.isdecimal():
        return True
    try:
        return bool(pwd.getpwnam(user))
    except (KeyError, ValueError):  # ValueError: a NUL in it
        return False


def _whose_container(number: int) -> str:
    """Who has this number for the user namespaces of their containers, by subuid(5); "" where nobody has."""
    import pwd

    try:
        lines = System().raw(SUBORDINATE, 1 << 20).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if not (first.isdecimal() and count.isdecimal() and int(first) <= number < int(first) + int(count)):
            continue
        try:
            owner = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        except (KeyError, OverflowError):
            return ""
        return owner.pw_name if owner.pw_uid >= FIRST_LOGIN else ""
    return ""
