"""A command on several nodes: the batch script in which each node's part is attended (`--print-sbatch`), and how many
nodes a command is for."""

import re
import shlex
from collections.abc import Mapping, Sequence

from gpudoctor.lazy import lazy_re

NODES = lazy_re(r"--(?:nnodes|num[-_]machines)(?:=|$)(?P<value>.*)")
PER_NODE = lazy_re(r"--nproc[-_]per[-_]node(?:=|$)(?P<value>.*)")
OF_SLURM = ("srun", "mpirun", "mpiexec", "prun")
"""They start a process on each node themselves: one doctor around them is enough."""


SECRET = "export GPUDOCTOR_TOKEN=$(od -An -N18 -tx1 /dev/urandom | tr -d ' \\n')  # by which the nodes know each other"


def nodes_of(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """On how many nodes this same line is run, as far as it, SLURM or an operator tells; 1 where nobody does."""
    if not command or command[0].rpartition("/")[2] in OF_SLURM:
        return 1
    tasks, nodes = environment.get("SLURM_STEP_NUM_TASKS", ""), environment.get("SLURM_STEP_NUM_NODES", "")
    of_operator = environment.get("PET_NNODES", "")
    counts = [_count(command, NODES) or 1, int(of_operator) if of_operator.isdecimal() else 1]
    if nodes.isdecimal() and nodes == tasks:  # a task on each node
        counts.append(int(nodes))
    return max(counts)


def word_of(words: Sequence[str], form: re.Pattern[str]) -> str:
    """The value of an option of a launcher; empty: it is not given."""
    for index, word in enumerate(words):
        if match := form.fullmatch(word):
            return match["value"] or ("" if "=" in word or index + 1 >= len(words) else words[index + 1])
    return ""


def _count(words: Sequence[str], form: re.Pattern[str]) -> int | None:
    """None: it is not given, or is no number."""
    text = word_of(words, form)
    return int(text) if text.isdecimal() and len(text) < 6 else None


def script(command: Sequence[str], options: Sequence[str]) -> str:
    """Nodes and GPUs as the command says, where it does; a comment where they are to be filled in."""
    nodes, gpus = _count(command, NODES), _count(command, PER_NODE)
    around = ["gpudoctor", "run", *options, "--"]
    alone = command[0].rpartition("/")[2] in OF_SLURM
    header = [
        "--job-name=train",
        f"--nodes={nodes or 1}",
        *([] if alone else ["--ntasks-per-node=1"]),
        f"--gpus-per-node={gpus}" if gpus else "--gpus-per-node=8",
        "--time=24:00:00",
        "--output=%x-%j.out",
    ]
    start = [*around, *command] if alone else ["srun", "--kill-on-bad-exit=1", *around, *command]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {line}" for line in header),
        "",
        "# One report of all nodes, in ~/.local/state/gpudoctor/runs of the first; --report DIR names another folder.",
        *([SECRET] if (nodes or 1) > 1 and not alone else []),
        shlex.join(start),
    ]
    return "\n".join(lines) + "\n"
