"""Why another process's memory may not be read here, and what would allow it: ptrace(2), "access mode checking"."""

import os
from pathlib import Path

from gpudoctor.read.process import fields_of, numbers_of
from gpudoctor.read.users import user_name

PROC = Path("/proc")
CAP_SYS_PTRACE = 19
"""<linux/capability.h>"""
DENIED = "permission denied; run gpudoctor as its user or as root"
IN_CONTAINER = (
    "start the container with the capability SYS_PTRACE (docker run --cap-add=SYS_PTRACE; "
    "Kubernetes: securityContext.capabilities.add: [SYS_PTRACE])"
)


def not_permitted(pid: int) -> str:
    """Why this process's stacks were denied to us, and what to do."""
    owner = user_of(pid)
    us = os.geteuid() if hasattr(os, "geteuid") else -1
    if us != 0 and owner is not None and owner != us:
        name = user_name(owner)
        name = f"#{name}" if name.isdecimal() else name  # as sudo -u takes it
        if owner == 0:
            return "permission denied: it belongs to root; run gpudoctor with sudo"
        return f"permission denied: it belongs to user {name}; run gpudoctor as that user (sudo -u {name}) or as root"
    capable = has_capability(CAP_SYS_PTRACE)
    scope = ptrace_scope()
    if scope == 3:
        return "permission denied: kernel.yama.ptrace_scope is 3, which forbids it to everybody until the next boot"
    if us == 0 and capable is False:
        return f"permission denied: root lacks the capability SYS_PTRACE here; {IN_CONTAINER}"
    if scope and not capable:
        allowed = "only root may" if scope == 2 else "only a process's parent may, or root"
        release = "" if scope == 2 else ", or allow it on this node with `sudo sysctl kernel.yama.ptrace_scope=0`"
        return f"permission denied: kernel.yama.ptrace_scope is {scope} ({allowed}); run gpudoctor with sudo{release}"
    if _in_container():
        return f"permission denied in a container; {IN_CONTAINER}"
    return (
        "permission denied though the user is the right one: it has changed its user or has capabilities that we lack, "
        "or a security module forbids it; run gpudoctor as root"
    )


def user_of(pid: int) -> int | None:
    """The effective user id of a process, from its status: the owner of /proc/PID is root where it is not dumpable."""
    return next(iter(numbers_of(pid, "Uid")[1:]), None)


def has_capability(number: int) -> bool | None:
    """Whether this process has a capability; None: not told."""
    try:
        return bool(int(fields_of("self")["CapEff"], 16) >> number & 1)
    except (OSError, KeyError, ValueError):
        return None


def ptrace_scope() -> int | None:
    """kernel.yama.ptrace_scope: 0 same user, 1 descendants only, 2 CAP_SYS_PTRACE only, 3 nobody; None: no Yama.

    Source: the kernel's Documentation/admin-guide/LSM/Yama.rst.
    """
    try:
        return int((PROC / "sys/kernel/yama/ptrace_scope").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _in_container() -> bool:
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")) or bool(
        os.environ.get("KUBERNETES_SERVICE_HOST")
    )
