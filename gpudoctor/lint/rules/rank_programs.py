"""Rules of what each rank of a program does: U11, U30."""

import ast
import sys
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.launch_settings import TORCHRUN
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.program_arguments import DEEPEST
from gpudoctor.lint.programs import FIRST_ONLY, OTHERS_ONLY
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes_and_starts, constant
from gpudoctor.lint.python_text import last_name
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


_ALONE = (
    "#@ file train.py\nimport torch\nfrom torch.utils.data import DataLoader\n{}"
    "for x in loader:\n    net(x).backward()\n"
)
_PLAIN_PACKAGES = lazy_re(
    r"torch(?:vision|audio|text|metrics)?|numpy|scipy|pandas|sklearn|matplotlib|PIL|cv2|tqdm|yaml|omegaconf|tensorboardX?"
    r"|timm|einops|h5py|albumentations|seaborn|" + "|".join(sys.stdlib_module_names)
)
"""Packages none of which makes a process group by itself."""
_JOINS = lazy_re(
    r"distributed|RANK|rank|environ|getenv|WORLD|PROCID|world_size|multiprocessing|import_module|runpy|exec\(|DataParallel|\bddp\b|\bDDP\b"
)


@rule(
    "U30",
    title="A program that is started as several ranks joins a group",
    source="torch.distributed.run starts processes and sets variables; what they do with each other is the program's",
    bad=(
        _ALONE.format("") + _STARTED,
        _ALONE.format("net = torch.nn.Linear(4, 1).cuda()\n")
        + "#@ every node\naccelerate launch --multi_gpu --num_processes 4 train.py\n",
    ),
    good=(
        _ALONE.format("torch.distributed.init_process_group('nccl')\n") + _STARTED,
        _ALONE.format("from mine import net\n") + _STARTED,
        _ALONE.format("") + "#@ every node\ntorchrun --nproc-per-node=1 train.py\n",
    ),
)
def ranks_that_know_nothing_of_each_other(job: LintJob) -> Iterator[LintFinding]:
    """Without a process group each process trains the whole on its own, on the first GPU, and all write the same
    files."""
    for code, launches in codes_and_starts(job):
        started = next(
            (each for each in launches if each.launcher in _GIVES_RANKS and (world_of(job, each) or 1) > 1), None
        )
        names = {each.partition(".")[0] for each in code.imports.values()}
        if (
            started is None
            or "torch" not in names
            or any(not _PLAIN_PACKAGES.fullmatch(each) for each in names)
            or _JOINS.search(code.text)
        ):
            continue
        steps = [call for call in code.calls if last_name(call.func) == "backward"]
        if steps and started.script is not None:
            count = world_of(job, started)
            yield LintFinding(
                span=started.script.span,
                summary=f"{count} processes run {started.script.shown}, which joins no group and asks for no rank",
                happens=f"The same training runs {count} times beside itself, all on the first GPU, and writes the same"
                " files.",
                fix="Call init_process_group and wrap the model into DistributedDataParallel, or start it by python.",
            )


_GIVES_RANKS = (*TORCHRUN, "accelerate", "deepspeed")
