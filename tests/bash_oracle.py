"""What bash really starts of a script, beside what `lint` believes: stubs in PATH write down their words and variables.

The stubs of launchers (`LEAVES`) write down how they were called and end well; srun, ssh and mpirun start what stands
behind their options, as they would, on this machine. What a script asks the cluster for (`hostname`, `scontrol`) gets
made-up answers, which lint does not know: its word for that is "undecided", and fits anything.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpudoctor.lint.model import Invocation, LintFacts, Word
from gpudoctor.lint.sections import split
from gpudoctor.lint.shell import invocations
from gpudoctor.lint.shell.sbatch import looks_like_batch

ENDS = ("exit", "return", "break", "continue", "exec")
LEAVES = ("torchrun", "python", "python3", "accelerate", "deepspeed")
STUBS = {
    "srun": """
while [ $# -gt 0 ]; do
  case $1 in
    -N|-n|-c|-w|-p|-t|-J|-o|-e|--nodes|--ntasks|--nodelist|--export) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *) break ;;
  esac
done
SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 exec "$@"
""",
    "mpirun": """
while [ $# -gt 0 ]; do
  case $1 in
    -np|-n|-H|--host|-hostfile|--hostfile|-N|--map-by|--bind-to) shift 2 ;;
    -x) case $2 in *=*) export "$2" ;; esac; shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
OMPI_COMM_WORLD_RANK=0 exec "$@"
""",
    "ssh": """
while [ $# -gt 0 ]; do
  case $1 in
    -o|-p|-i|-l|-F) shift 2 ;;
    -*) shift ;;
    *) shift; break ;;
  esac
done
[ $# -gt 0 ] || set -- bash -s
exec env -i PATH="$PATH" HOME=/root bash -c "$*"
""",
    "pdsh": """
while [ $# -gt 0 ]; do case $1 in -w|-R|-f) shift 2 ;; -*) shift ;; *) break ;; esac; done
exec env -i PATH="$PATH" HOME=/root bash -c "$*"
""",
    "hostname": "echo n0",
    "scontrol": "printf 'n0\\nn1\\n'",
    "nvidia-smi": "printf 'GPU 0\\nGPU 1\\n'",
    "numactl": 'while :; do case $1 in -*) shift ;; *) break ;; esac; done; exec "$@"',
    "module": "",
    "sleep": "",
}
LEAF = """#!/bin/sh
case {name} in python*) [ "$1" != -c ] || exec {python} "$@" ;; esac
{{ printf '%s\\0' {name!r} "$#" "$@"; /usr/bin/env -0; }} > "{folder}/$$.started"
"""
HELD = {
    "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n[0-1]", "SLURM_NODELIST": "n[0-1]", "SLURM_PROCID": "0",
    "SLURM_NODEID": "0", "HOME": "/root", "USER": "u", "LANG": "C",
}  # fmt: skip
OWN = frozenset(("PWD", "OLDPWD", "SHLVL", "_", "PATH", "LC_CTYPE", "BASHOPTS", "SHELLOPTS", *HELD))
PLATFORM = re.compile(r"SLURM_|OMPI_|BASH_")
NAME = re.compile(r"\b[A-Za-z_]\w*\b", re.ASCII)


class RealStart(NamedTuple):
    """A call of a stub."""

    words: tuple[str, ...]
    environment: dict[str, str]


class Outcome(NamedTuple):
    """`unlike`: where lint's belief is not what bash did; `undecided`: words that lint left open, of `words`."""

    unlike: list[str]
    undecided: int
    words: int


@cache
def _answers(name: str) -> str:
    return f"#!/bin/sh\n{STUBS[name]}\n"


def really(text: str, folder: Path) -> list[RealStart]:
    """What bash starts. `folder`: an empty one of its own."""
    programs, started = folder / "bin", folder / "started"
    programs.mkdir()
    started.mkdir()
    for name in STUBS:
        (programs / name).write_text(_answers(name))
    for name in LEAVES:
        (programs / name).write_text(LEAF.format(name=name, folder=started, python=sys.executable))
    for file in programs.iterdir():
        file.chmod(0o755)
    first, *files = split(text)
    for section in files:
        file = folder / section.name
        file.write_text(section.text)
        file.chmod(0o755)
    script = folder / "start.sh"
    script.write_text(first.text)
    environment = {**HELD, "PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(
        ["/bin/bash", str(script)], cwd=folder, env=environment, timeout=30, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return [_read(file) for file in sorted(started.iterdir())]


def _read(file: Path) -> RealStart:
    program, count, *rest = file.read_text().split("\0")
    words, environment = rest[: int(count)], rest[int(count) :]
    held = dict(line.partition("=")[::2] for line in environment if line)
    return RealStart((program, *words), {name: value for name, value in held.items() if name not in OWN})


def believed(text: str) -> tuple[list[Invocation], bool]:
    """What lint reads; and whether it leaves open that the script, a loop or a function ends early."""
    sections = split(text)
    batch = any(looks_like_batch(section.text) for section in sections if section.kind != "file")
    shell = invocations(text, sections, LintFacts(), batch)
    read = [
        invocation
        for invocation in shell.invocations
        if invocation.program in LEAVES
        and invocation.reached
        and [word.shown for word in invocation.words[1:2]] != ["-c"]
    ]
    return read, any(invocation.conditional and invocation.program in ENDS for invocation in shell.invocations)


def _fits(words: tuple[Word, ...], real: tuple[str, ...]) -> bool:
    """Whether these words may be those; one that is undecided may be any, and several outside quotes."""
    pattern = ""
    for word in words:
        if not word.quoted and "~" in word.raw:  # a home, which lint leaves as it is written
            pattern += "[^\0]*\0"
            continue
        pattern += (re.escape(word.text) + "\0") if word.text is not None else _open(word)
    return re.fullmatch(pattern, "".join(f"{word}\0" for word in real), re.DOTALL) is not None


def _open(word: Word) -> str:
    """What is known of it stands around the holes."""
    hole = "[^\0]*" if word.quoted and word.raw.startswith('"') and "[@]" not in word.raw else ".*"
    return f"(?:{hole}\0)?"


def _variables(invocation: Invocation, real: RealStart, names: frozenset[str]) -> Iterator[str]:
    for name in sorted(names):
        setting = invocation.settings.get(name)
        value = real.environment.get(name)
        if setting is None:
            if value is not None:
                yield f"{name} is {value!r}, and lint has none"
        elif invocation.in_loop and (value is None) == setting.exported:
            continue  # exported in one turn and not in another: lint has no word for that
        elif setting.exported and setting.word.text is not None and value != setting.word.text:
            yield f"{name} is {value!r}, and lint has {setting.word.text!r}"
        elif not setting.exported and value is not None:
            yield f"{name} is {value!r}, and lint has it not exported"


def compared(text: str, folder: Path) -> Outcome:
    """bash and lint side by side."""
    real = really(text, folder)
    read, may_end = believed(text)
    names = frozenset(name for name in NAME.findall(text) if name not in OWN and not PLATFORM.match(name))
    unlike: list[str] = []
    fitting: list[set[int]] = []
    for start in real:
        likely = {at for at, invocation in enumerate(read) if _fits(invocation.words, (*start.words,))}
        if not likely:
            unlike.append(f"bash starts {' '.join(start.words)!r}, and lint knows nothing of it")
            continue
        said = {at: list(_variables(read[at], start, names)) for at in likely}
        right = {at for at in likely if not said[at]}
        if not right:
            unlike.append(f"{' '.join(start.words)!r}: {min(said.values(), key=len)[0]}")
        fitting.append(right or likely)
    sure = {
        at
        for at, invocation in enumerate(read)
        if not may_end and not invocation.conditional and not invocation.in_loop
    }
    pairs = _paired(fitting, sure)
    for at, invocation in enumerate(read):
        if at in sure and at not in pairs:
            shown = " ".join(word.shown for word in invocation.words)
            unlike.append(f"lint is sure of {shown!r}, line {invocation.span.line}, which bash does not start")
    words = [word for invocation in read for word in invocation.words]
    undecided = sum(word.text is None for word in words)
    repeats = any(invocation.in_loop == "while" or (undecided and invocation.in_loop) for invocation in read)
    perhaps = repeats or may_end or any(invocation.conditional for invocation in read)
    if (len(real) != len(read) and not perhaps) or (len(pairs) < len(fitting) and not repeats):
        unlike.append(f"bash starts {len(real)}, lint has {len(read)}")
    return Outcome(unlike, undecided, len(words))


def _paired(fitting: list[set[int]], first: set[int]) -> set[int]:
    """Of which read ones a real one is the counterpart, as many as can be."""
    owner: dict[int, int] = {}

    def place(real: int, tried: set[int]) -> bool:
        for at in sorted(fitting[real] - tried, key=lambda read: (read not in first, read)):
            tried.add(at)
            if at not in owner or place(owner[at], tried):
                owner[at] = real
                return True
        return False

    for real in range(len(fitting)):
        place(real, set())
    return set(owner)
