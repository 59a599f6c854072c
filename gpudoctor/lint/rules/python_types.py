"""Rules of text where a number is wanted, and of numbers where text is: T33, T34."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import argument, codes_and_starts
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.spawning import set_variable

_HEAD = (
    "#@ file train.py\nimport argparse\nimport os\nimport torch\nimport torch.distributed as dist\n"
    "import torch.multiprocessing as mp\np = argparse.ArgumentParser()\np.add_argument('--gpus', {})\n"
    "args = p.parse_args()\n"
)
_MAIN = (
    "if __name__ == '__main__':\n    mp.spawn(work, nprocs=args.gpus, args=(args,))\n#@ every node\npython train.py\n"
)
_RUN = "#@ every node\ntorchrun --standalone --nproc-per-node=4 train.py\n"
_INT = "type=int, default=4"
_NUMBERS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "spawn": (("nprocs", 2, "TypeError: can't multiply sequence by non-int of type 'str'"),),
    "start_processes": (("nprocs", 2, "TypeError: can't multiply sequence by non-int of type 'str'"),),
    "init_process_group": (
        ("world_size", 3, "RuntimeError: `world_size` must be an integer."),
        ("rank", 4, "RuntimeError: `rank` must be an integer."),
    ),
    "set_device": (("device", 0, "RuntimeError: Invalid device string: '0'"),),
    "DistributedDataParallel": (("output_device", 2, "RuntimeError: Invalid device string: '0'"),),
    "DistributedSampler": (
        ("num_replicas", 1, "TypeError: '>=' not supported between instances of 'int' and 'str'"),
        ("rank", 2, "TypeError: '>=' not supported between instances of 'str' and 'int'"),
    ),
    "DataLoader": (
        ("batch_size", 1, "ValueError: batch_size should be a positive integer value"),
        ("num_workers", 5, "TypeError: '<' not supported between instances of 'str' and 'int'"),
    ),
}
"""Of torch's functions: arguments that are numbers, and what torch 2.13 says to text (tried)."""


@rule(
    "T33",
    title="Numbers that a program hands to torch are numbers, and not text",
    source="tried with torch 2.13: text where torch wants a whole number; Python: os.environ and argparse give text",
    leads_to=("program-error",),
    bad=(
        _HEAD.format("default='2'") + _MAIN,
        Example(_HEAD.format("required=True") + _MAIN.replace("train.py\n", "train.py --gpus 4\n")),
        _HEAD.format(_INT) + "dist.init_process_group('nccl', rank=os.environ['RANK'], world_size=4)\n" + _RUN,
        _HEAD.format(_INT) + "local = os.environ['LOCAL_RANK']\ntorch.cuda.set_device(local)\n" + _RUN,
    ),
    good=(
        _HEAD.format(_INT) + _MAIN,
        _HEAD.format("default=2") + _MAIN,
        _HEAD.format(_INT) + "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n" + _RUN,
        _HEAD.format(_INT) + "local = f'cuda:{os.environ[\"LOCAL_RANK\"]}'\ntorch.cuda.set_device(local)\n" + _RUN,
    ),
)
def text_for_a_number(job: LintJob) -> Iterator[LintFinding]:
    """os.environ holds text, and argparse gives text unless it is told a type."""
    for code, starts in codes_and_starts(job):
        values = PythonValues(code, starts[0] if len(starts) == 1 else None)
        for call in code.calls:
            function = code.torch_name(call.func)
            for name, place, happens in _NUMBERS.get(function, ()):
                node = argument(call, name, place)
                if node is None or values.kind(node) != "text":
                    continue
                if function in ("set_device", "DistributedDataParallel") and not _of_environment(values, node):
                    continue  # "cuda:1" is a device too
                shown = code.words(node)
                yield LintFinding(
                    span=code.span(node),
                    summary=f"{function} is given {shown[:60]} for {name}, which is text and no number",
                    happens=f"It ends with {happens}.",
                    fix=f"Write int({shown[:60]})" + (", or type=int in add_argument." if "." in shown else "."),
                    edits=(Edit(code.span(node), f"int({shown})"),),
                )


def _of_environment(values: PythonValues, node: ast.expr) -> bool:
    """The text is a number's: of a variable, or of an option whose value is one."""
    for _ in range(4):
        behind = values.behind(node) if isinstance(node, ast.Name) else None
        if behind is None:
            break
        node = behind
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.isdecimal()
    text = values.value(node)
    is_number = isinstance(text, str) and text.isdecimal()
    return is_number or (not isinstance(node, (ast.Attribute, ast.JoinedStr)) and "environ" in ast.unparse(node))


@rule(
    "T34",
    title="Variables of the environment are set to text",
    source="tried with Python 3.11: os.environ['X'] = 1 is a TypeError: str expected, not int",
    leads_to=("program-error",),
    bad=(
        _HEAD.format(_INT) + "os.environ['MASTER_PORT'] = 29500\n" + _RUN,
        _HEAD.format(_INT) + "os.environ['WORLD_SIZE'] = args.gpus\n" + _RUN,
    ),
    good=(
        _HEAD.format(_INT) + "os.environ['MASTER_PORT'] = '29500'\n" + _RUN,
        _HEAD.format(_INT) + "os.environ['WORLD_SIZE'] = str(args.gpus)\n" + _RUN,
    ),
)
def number_for_a_variable(job: LintJob) -> Iterator[LintFinding]:
    """os.environ takes text alone: a number has to be made text by str()."""
    for code, starts in codes_and_starts(job):
        values = PythonValues(code, starts[0] if len(starts) == 1 else None)
        for node in code.nodes:
            name = set_variable(code, node) if isinstance(node, ast.Assign) else ""
            if not isinstance(node, ast.Assign) or not name or values.kind(node.value) != "number":
                continue
            span, shown = code.span(node.value), code.words(node.value)
            yield LintFinding(
                span=span,
                summary=f"os.environ['{name}'] is set to {shown[:60]}, a number; it takes text",
                happens="TypeError: str expected, not int.",
                fix=f"Write str({shown[:60]}).",
                edits=(Edit(span, f"str({shown})"),),
            )
