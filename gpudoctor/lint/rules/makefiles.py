"""Rules of what make does with the lines of a recipe: Q25, Q26."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import makefile
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = "NGPU := 4\ntrain: data\n\t@mkdir -p out\n"
_WORD = lazy_re(r"(?<!\$)\$([A-Za-z_]\w+)", re.ASCII)
_ALONE = lazy_re(r"^\t[@+-]*\s*(cd\s+[^;&|]+|export\s+\w+=[^;&|]*|(?:source|\.)\s+[^;&|]+|conda\s+activate\s+[^;&|]+)$")
_STARTS = lazy_re(r"\b(?:torchrun|accelerate|deepspeed|python[\d.]*|mpirun|srun|horovodrun)\s")


@rule(
    "Q25",
    title="A variable of the shell is written $$NAME in a Makefile",
    source="GNU make's manual, Variables in recipes: $NAME is the variable N and the letters AME",
    bad=(
        _HEAD + "\ttorchrun --standalone --nproc-per-node=$NGPU train.py\n",
        _HEAD + "\tfor p in 29500 29501; do torchrun --nproc-per-node=2 --master-port=$port train.py; done\n",
        _HEAD + "\tsrun bash -c 'torchrun --nnodes=2 \\\n\t  --node-rank=$SLURM_NODEID train.py'\n",
    ),
    good=(
        _HEAD + "\ttorchrun --standalone --nproc-per-node=$(NGPU) train.py\n",
        _HEAD + "\tfor p in 29500 29501; do torchrun --nproc-per-node=2 --master-port=$$p train.py; done\n",
    ),
)
def shell_variable_in_make(job: LintJob) -> Iterator[LintFinding]:
    """make reads one letter behind a dollar, unless it stands in brackets: of $NGPU the word GPU is left."""
    for section, text in makefile.makefiles(job):
        at, goes_on, recipe, starts = 0, False, False, False
        for line in text.split("\n"):
            recipe = line.startswith("\t") or (goes_on and recipe)
            starts = bool(_STARTS.search(line)) or (goes_on and starts)
            goes_on = line.endswith("\\")
            match = _WORD.search(line) if recipe and starts else None
            if match is not None:
                yield LintFinding(
                    span=section.span(at + match.start(), at + match.end()),
                    summary=f"make takes {match[0]} for the variable {match[1][0]} and the letters {match[1][1:]}",
                    happens=f"The command gets {match[1][1:]!r}, not the value.",
                    fix=f"Write $({match[1]}) for a variable of the Makefile, $${match[1]} for one of the shell.",
                )
            at += len(line) + 1


@rule(
    "Q26",
    title="Lines of a recipe that belong together stand in one line",
    source="GNU make's manual, Recipe execution: each line of a recipe is run in a shell of its own",
    bad=(
        "train: data\n\tcd src\n\ttorchrun --standalone --nproc-per-node=4 train.py\n",
        "train: data\n\texport CUDA_VISIBLE_DEVICES=0,1\n\ttorchrun --standalone --nproc-per-node=2 train.py\n",
    ),
    good=(
        "train: data\n\tcd src && torchrun --standalone --nproc-per-node=4 train.py\n\techo done\n",
        ".ONESHELL:\ntrain: data\n\tcd src\n\ttorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def recipe_lines_apart(job: LintJob) -> Iterator[LintFinding]:
    """make gives each line of a recipe to a shell of its own: what cd, export and source do is gone in the next."""
    for section, text in makefile.makefiles(job):
        if re.search(r"^\.ONESHELL:", text, re.MULTILINE):
            continue
        lines, at = text.split("\n"), 0
        for index, line in enumerate(lines):
            match = _ALONE.match(line)
            following = lines[index + 1] if index + 1 < len(lines) else ""
            if match is not None and following.startswith("\t") and _STARTS.search(following):
                yield LintFinding(
                    span=section.span(at, at + len(line)),
                    summary=f"`{match[1].strip()[:40]}` holds in its own line of the recipe only",
                    happens="The next line is another shell: another folder, and variables that are not set.",
                    fix=f"Write {match[1].strip()[:40]} && {following.strip()[:40]} ...",
                )
            at += len(line) + 1
