"""Ranks that nothing has armed, and why: what arms them is an environment, which Python may be told to ignore."""

from collections.abc import Iterable, Sequence

from gpudoctor.knowledge.wording import counted
from gpudoctor.read.process import THIS
from gpudoctor.run.arming import LOGS

TORCH = b"/libtorch"
OPTIONS_WITH_VALUE = (b"-X", b"-W", b"--check-hash-based-pycs")
FLAGS = {b"I": "-I", b"E": "-E", b"S": "-S"}
"""Isolated and -E: no PYTHONPATH; -S: no sitecustomize (docs.python.org/3/using/cmdline.html)."""


def why(cmdline: bytes, environ: bytes) -> str:
    """Why a Python with that command line and environment is not armed, as a phrase; empty: nothing keeps it from it,
    or it is no Python."""
    words = cmdline.rstrip(b"\0").split(b"\0")
    if not words[0].rpartition(b"/")[2].startswith((b"python", b"pypy")):
        return ""
    if not any(variable.startswith(LOGS.encode() + b"=") for variable in environ.split(b"\0")):
        return "its environment is not the one that the command was given (env -i, sudo, a container)"
    for flag in _flags(words[1:]):
        return f"python {flag} ignores {'sitecustomize' if flag == '-S' else 'PYTHONPATH'}"
    return ""


def own_unarmed(pid: int) -> str:
    """The same of the command itself, if it has loaded torch; what cannot be read tells nothing."""
    try:
        maps = THIS.raw(f"/proc/{pid}/maps", 4 << 20)
        return why(THIS.raw(f"/proc/{pid}/cmdline", 1 << 20), THIS.raw(f"/proc/{pid}/environ", 1 << 20)) * (
            TORCH in maps
        )
    except OSError:
        return ""


def _flags(words: Sequence[bytes]) -> Iterable[str]:
    rest = iter(words)
    for word in rest:
        if word in OPTIONS_WITH_VALUE:
            next(rest, b"")
        elif not word.startswith(b"-") or word.startswith(b"--") or word == b"-":
            return
        else:
            for number in range(1, len(word)):
                letter = word[number : number + 1]
                if letter in FLAGS:
                    yield FLAGS[letter]
                if letter in b"cmXW":
                    return


def line(reasons: Sequence[str]) -> str:
    """To be said of such processes, of which `reasons` holds one each."""
    return (
        f"{counted(len(reasons), 'process', 'processes')} of it {'was' if len(reasons) == 1 else 'were'} not armed: "
        f"{reasons[0]}; collectives, steps and output of each rank by itself are not seen then"
    )
