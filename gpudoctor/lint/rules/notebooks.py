"""Rules of notebooks: accelerate's notebook_launcher and lines with `!`: T46, T47, Q48."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import notebook
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, constant, has_stars
from gpudoctor.lint.rule import LintFinding, rule

_NOTEBOOK = "from accelerate import Accelerator, notebook_launcher\ndef f(lr):\n    train(Accelerator())\n{}"


@rule(
    "T46",
    title="notebook_launcher is told how many processes to start",
    source="accelerate 1.15, launchers.py: You have to specify the number of devices, outside of Colab and Kaggle",
    leads_to=("program-error",),
    bad=(
        _NOTEBOOK.format("notebook_launcher(f, (0.1,))\n"),
        _NOTEBOOK.format("notebook_launcher(f, args=(0.1,), mixed_precision='bf16')\n"),
    ),
    good=(
        _NOTEBOOK.format("notebook_launcher(f, (0.1,), num_processes=2)\n"),
        _NOTEBOOK.format("notebook_launcher(f, (0.1,), 4)\n"),
        _NOTEBOOK.format("import google.colab\nnotebook_launcher(f, (0.1,))\n"),
    ),
)
def notebook_without_a_number(job: LintJob) -> Iterator[LintFinding]:
    """Only Colab and Kaggle have a number of their own; elsewhere num_processes is None, which is refused."""
    for code in codes(job):
        if re.search(r"colab|kaggle|xla|TPU", code.text, re.IGNORECASE):
            continue
        for call in code.calls:
            if not code.name(call.func).endswith("notebook_launcher") or has_stars(call):
                continue
            if argument(call, "num_processes", 2) is None:
                yield LintFinding(
                    span=code.span(call),
                    summary="notebook_launcher is not told num_processes",
                    happens="ValueError, outside of Colab and Kaggle: You have to specify the number of devices you"
                    " would like to use.",
                    fix="Add num_processes=, the number of GPUs.",
                )


_CUDA = lazy_re(
    r"torch\.cuda\.(?:set_device|init|synchronize|empty_cache|current_device|get_device_\w+|memory_\w+|mem_get_info)"
)
"""Calls that begin CUDA's context in this process; is_available and device_count do not."""


@rule(
    "T47",
    title="Nothing touches CUDA before a launcher forks the ranks",
    source="accelerate 1.15, launchers.py: start_method fork; torch: Cannot re-initialize CUDA in forked subprocess",
    leads_to=("program-error",),
    bad=(
        _NOTEBOOK.format("net = make().cuda()\nnotebook_launcher(f, (net,), num_processes=2)\n"),
        _NOTEBOOK.format("x = make().to('cuda:0')\nnotebook_launcher(f, (0.1,), num_processes=4)\n"),
    ),
    good=(
        _NOTEBOOK.format("net = make()\nnotebook_launcher(f, (net,), num_processes=2)\n"),
        _NOTEBOOK.format("net = make().cuda()\nnotebook_launcher(f, (net,), num_processes=1)\n"),
    ),
)
def cuda_before_the_fork(job: LintJob) -> Iterator[LintFinding]:
    """A forked process cannot use CUDA where the one that it comes from has begun to."""
    for code in codes(job):
        launcher = next((call for call in code.calls if code.name(call.func).endswith("notebook_launcher")), None)
        if launcher is None or constant(argument(launcher, "num_processes", 2)) == 1:
            continue
        for call in code.calls:
            at_top = not isinstance(code.scope_of(call), (*FUNCTIONS, ast.Lambda)) and not code.is_conditional(call)
            if call.lineno < launcher.lineno and at_top and _begins(code, call):
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{code.words(call.func)[-60:]}() begins CUDA before notebook_launcher forks the ranks",
                    happens="RuntimeError: Cannot re-initialize CUDA in forked subprocess.",
                    fix="Move it into the function that is launched, and restart the notebook's kernel.",
                )
                break


def _begins(code: PythonCode, call: ast.Call) -> bool:
    if _CUDA.fullmatch(code.name(call.func)):
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("cuda", "to"):
        return False
    told = constant(call.args[0]) if call.args else None
    return call.func.attr == "cuda" or (isinstance(told, str) and told.startswith("cuda"))


_CELLS = (
    '{{"cells": [{{"cell_type": "code", "source": [\n"{}\\n",\n'
    '"!torchrun --standalone --nproc_per_node=2 t.py"\n]}}]}}\n'
)


@rule(
    "Q48",
    title="Folders and variables of a notebook are set by %cd and %env",
    severity="error",
    source="IPython's documentation, System shell access: each ! is a shell of its own (!cd does not work; %cd)",
    bad=(_CELLS.format("!cd speech"), _CELLS.format("!export OMP_NUM_THREADS=4")),
    good=(_CELLS.format("%cd speech"), _CELLS.format("!cd speech && ls"), _CELLS.format("%env OMP_NUM_THREADS=4")),
)
def line_of_its_own_shell(job: LintJob) -> Iterator[LintFinding]:
    """A line that begins with ! runs in a shell that ends with it: what cd and export do is gone in the next one."""
    for section in job.sections:
        text = job.text[section.start : section.start + len(section.text)]
        if not notebook.looks_like_notebook(text) or not job.launches:
            continue
        ends = [0, *(found.end() for found in re.finditer("\n", text)), len(text)]
        for number, line in notebook.command_lines(text):
            if notebook.HOLDS_NOTHING.match(line):
                yield LintFinding(
                    span=section.span(ends[number], max(ends[number], ends[number + 1] - 1)),
                    summary=f"!{line[:60]} holds in the shell of its own line only, which ends with it",
                    happens="The lines behind it run in the folder of before and without these variables.",
                    fix="Write %cd for a folder and %env NAME=value for a variable, or join the lines with &&.",
                )
