"""Lines to paste that take a setting of NCCL out, or change it, where it was set."""

import re

from gpudoctor.command import Command, command
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, Setting

NOT_BY_NAME = "NCCL_COMM_ID decides that, and NCCL_SOCKET_IFNAME does not: take it out."


def take_out(*settings: Setting) -> tuple[Command, ...]:
    """The lines that unset variables of the environment, and delete lines of files."""
    plain = [setting.name for setting in settings if setting.origin == ENVIRONMENT]
    lines = [command("unset {:variables}", plain)] if plain else []
    for setting in settings:
        if setting.origin != ENVIRONMENT:
            # A file's name may hold what means something to sed, or spaces that are hard to see.
            pattern = re.sub(r"[^A-Za-z0-9_]", ".", setting.name)
            lines.append(command("sed -i {} {:path}", f"/^{pattern}=/d", setting.origin))
    return tuple(lines)


def set_to(setting: Setting, value: str, name: str = "") -> tuple[Command, ...]:
    """The lines that give it another value, or this value under another name."""
    taken_out = take_out(setting) if name and name != setting.name else ()
    if setting.origin == ENVIRONMENT:
        return (*taken_out, command("export {:variable}={:value}", name or setting.name, value))
    change = take_out(setting)[0]
    return (
        change,
        command(r"printf '%s\n' {:variable}={:value} >> {:path}", name or setting.name, value, setting.origin),
    )
