"""Rules of what each rank of a program does: U11."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.program_arguments import DEEPEST
from gpudoctor.lint.programs import FIRST_ONLY, OTHERS_ONLY
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes_and_starts, constant
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_options import world_of

_HEAD = (
    "import os\nimport torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
)
_JOIN = "dist.init_process_group('nccl')\n"
_STARTED = "#@ every node\ntorchrun --standalone --nproc-per-node=4 train.py\n"


@rule(
    "U11",
    title="One rank writes a file",
    severity="warning",
    source="torch.save writes in place: two writers of one file leave what neither of them wrote",
    leads_to=("checkpoint-race",),
    bad=(
        "#@ file train.py\n" + _HEAD + _JOIN + "torch.save(net.state_dict(), 'net.pt')\n" + _STARTED,
        "#@ file train.py\n"
        + _HEAD
        + "def main():\n    dist.init_process_group('nccl')\n    fit()\n    torch.save(net, 'a/b.pt')\nmain()\n"
        + _STARTED,
    ),
    good=(
        "#@ file train.py\n"
        + _HEAD
        + _JOIN
        + "if dist.get_rank() == 0:\n    torch.save(net.state_dict(), 'net.pt')\n"
        + _STARTED,
        "#@ file train.py\n" + _HEAD + _JOIN + "torch.save(net, f'net-{dist.get_rank()}.pt')\n" + _STARTED,
        "#@ file train.py\n" + _HEAD + _JOIN + "torch.save(net, 'net.pt')\n#@ every node\ntorchrun train.py\n",
    ),
)
def file_of_all_ranks(job: LintJob) -> Iterator[LintFinding]:
    """Every rank runs every line. What must happen once stands below a condition that holds on one rank."""
    for code, launches in codes_and_starts(job):
        if not any((world_of(job, launch) or 1) > 1 for launch in launches) or "init_process_group" not in code.text:
            continue
        for call in code.calls:
            place = constant(argument(call, "f", 1))
            if code.name(call.func) == "torch.save" and isinstance(place, str) and not _is_guarded(code, call, 0):
                yield LintFinding(
                    span=code.span(call),
                    summary=f"every rank writes {place}",
                    happens="The file is torn where two write at once; whoever reads it then fails, now and then.",
                    fix="Write it on rank 0 alone, below if torch.distributed.get_rank() == 0:, with a barrier()"
                    " behind it where others read it.",
                )
                break


def _is_guarded(code: PythonCode, node: ast.AST, depth: int) -> bool:
    """Whether a condition may keep ranks from a place: around it, before it in its function, or around that function's
    calls."""
    scope = code.scope_of(node)
    if any(isinstance(above, (ast.If, ast.IfExp, ast.ClassDef)) and not _is_main(above) for above in code.around(node)):
        return True
    before = [
        each
        for each in getattr(scope, "body", [])
        if isinstance(each, ast.If) and each.lineno < getattr(node, "lineno", 0)
    ]
    if any(OTHERS_ONLY.match(ast.unparse(each.test)) or FIRST_ONLY.match(ast.unparse(each.test)) for each in before):
        return True
    if not isinstance(scope, FUNCTIONS):
        return False
    uses = [each for each in code.nodes if isinstance(each, ast.Name) and each.id == scope.name]
    return depth > DEEPEST or not uses or any(_is_guarded(code, each, depth + 1) for each in uses)


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
