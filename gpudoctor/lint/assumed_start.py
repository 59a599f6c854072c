"""A program alone that only a launcher's ranks can run -> the same program with the start that everybody gives it.

What torchrun hands to each rank is all that such a program asks for, so that it is judged as one rank of several, and
nothing is said of the start itself.
"""

import ast
import re

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, TextSection
from gpudoctor.lint.python_code import PythonCode, argument, codes
from gpudoctor.lint.read import read_shell

NAME = "program.py"
START = f"\ntorchrun --standalone --nproc-per-node=2 {NAME}\n"
OF_OTHERS = lazy_re(
    r"SLURM_|OMPI_|PMI_|MV2_|JSM_|submitit|mpi4py|\bspawn\b|\bProcess\(|start_processes|notebook_launcher|\bray\b|horovod"
    r"|deepspeed|--?local[_-]rank|MASTER_ADDR|MASTER_PORT|RANK[\"']\]\s*=|setdefault\(|accelerat|lightning|xla"
    r"|unittest|pytest|TestCase|Elastic|\bexec\(",
    re.IGNORECASE,
)
"""Who starts its ranks otherwise, or tells each of them its number itself."""


def as_started(job: LintJob) -> LintJob | None:
    """None: it is not such a program, or starts are in the text."""
    if job.kind != "python" or job.launches or len(job.sections) != 1 or OF_OTHERS.search(job.text):
        return None
    code = next(codes(job), None)
    if code is None or OF_OTHERS.search(code.text) or not _wants_ranks(code):
        return None
    end = len(job.text)
    sections = (
        TextSection("file", name=NAME, text=job.text),
        TextSection("every", text=START, start=end, line=job.text.count("\n") + 1),
    )
    return structs.replace(read_shell(job.text + START, sections, job.facts, "shell"), linked=job.linked)


def _wants_ranks(code: PythonCode) -> bool:
    """Whether it certainly joins a group whose place in it the environment tells."""
    for call in code.calls:
        if code.name(call.func) != "torch.distributed.init_process_group" or code.is_conditional(call):
            continue
        told = {keyword.arg for keyword in call.keywords}
        where = argument(call, "init_method", 1)
        by_environment = where is None or (isinstance(where, ast.Constant) and where.value == "env://")
        scope = code.scope_of(call)
        if by_environment and not told & {"rank", "world_size", "store", None} and len(call.args) < 3:
            return isinstance(scope, ast.Module) or code.is_called(scope)
    return False
