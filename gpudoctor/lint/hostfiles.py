"""Hostfiles of DeepSpeed and Open MPI: `NAME slots=N`, `NAME:N`, `NAME slots=N max_slots=M`."""

from gpudoctor.lint.model import Hostfile


def looks_like_hostfile(text: str) -> bool:
    """Whether a text without a name is one."""
    return False


def read_hostfile(text: str, name: str = "hostfile", start: int = 0, line: int = 1) -> Hostfile:
    """Never raises; a line that is none carries its fault. `start` and `line` say where the text lies in the whole."""
    return Hostfile(name, ())
