"""Lines to paste that take a setting of NCCL out, or change it, where it was set."""

import re
import shlex

from gpudoctor.command import word
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, Setting


def take_out(*settings: Setting) -> tuple[str, ...]:
    """The lines that unset variables of the environment, and delete lines of files."""
    plain = [setting.name for setting in settings if setting.origin == ENVIRONMENT]
    lines = [f"unset {' '.join(shlex.quote(name) for name in plain)}"] if plain else []
    for setting in settings:
        if setting.origin != ENVIRONMENT:
            # A file's name may hold what means something to sed, or spaces that are hard to see.
            pattern = re.sub(r"[^A-Za-z0-9_]", ".", setting.name)
            lines.append(f"sed -i {shlex.quote(f'/^{pattern}=/d')} {shlex.quote(setting.origin)}")
    return tuple(lines)


def set_to(setting: Setting, value: str, name: str = "") -> tuple[str, ...]:
    """The lines that give it another value, or this value under another name."""
    taken_out = take_out(setting) if name and name != setting.name else ()
    if setting.origin == ENVIRONMENT:
        return (*taken_out, f"export {name or setting.name}={word(value)}")
    change = take_out(setting)[0]
    line = f"echo {shlex.quote(f'{name or setting.name}={value}')} >> {shlex.quote(setting.origin)}"
    return (change, line)
