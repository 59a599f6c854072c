"""Rules of calls that torch, accelerate or Lightning refuse on some rank or all: L13, T63, T64."""

import ast
import difflib
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, constant, own_nodes
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule

_TRAINER = "import lightning as L\ntrainer = L.Trainer(devices=4, precision={})\n"
_PRECISIONS = ("64", "32", "16", "bf16", "64-true", "32-true", "16-true", "bf16-true", "16-mixed", "bf16-mixed",
               "transformer-engine", "transformer-engine-float16", "mixed", "32-mixed")  # fmt: skip
_MEANT = {"fp16": "16-mixed", "float16": "16-mixed", "half": "16-mixed", "amp": "16-mixed", "fp32": "32-true",
          "float32": "32-true", "full": "32-true", "bfloat16": "bf16-mixed", "fp64": "64-true",
          "double": "64-true"}  # fmt: skip
_ACCELERATE = (
    "from accelerate import Accelerator\naccelerator = Accelerator({})\n"
    "net, optimizer, loader = accelerator.prepare(net, optimizer, loader)\nfor batch in loader:\n"
    "    loss = net(batch)\n    {}\n    optimizer.step()\n"
)
_GROUP = "import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\nrank = dist.get_rank()\n"
_LISTS = {
    "gather": ("gather_list", "non-destination"),
    "gather_object": ("object_gather_list", "non-destination"),
    "scatter": ("scatter_list", "non-source"),
}
"""What only one rank may give, as second argument: its name, and whom torch refuses it of."""


@rule(
    "L13",
    title="precision is a value that Lightning knows",
    source="lightning/fabric/plugins/precision/precision.py, _PRECISION_INPUT: Precision 'fp16' is invalid",
    leads_to=("program-error",),
    bad=(_TRAINER.format('"fp16"'), _TRAINER.format('"bfloat16"')),
    good=(_TRAINER.format('"16-mixed"'), _TRAINER.format("16"), _TRAINER.format("chosen")),
)
def no_such_precision(job: LintJob) -> Iterator[LintFinding]:
    """Lightning takes some numbers and words, and ends with an error at all others."""
    for code in codes(job):
        for call in code.calls:
            package, _, name = code.name(call.func).rpartition(".")
            if name not in ("Trainer", "Fabric") or package.partition(".")[0] not in ("lightning", "pytorch_lightning"):
                continue
            given = argument(call, "precision")
            value = constant(given)
            if given is None or not isinstance(value, str) or value in _PRECISIONS:
                continue
            near = _MEANT.get(value.lower()) or next(iter(difflib.get_close_matches(value, _PRECISIONS, 1, 0.5)), "")
            yield LintFinding(
                span=code.span(given),
                summary=f"precision={value!r} is no precision of Lightning",
                happens=f"Every rank ends: Precision {value!r} is invalid.",
                fix=f'Write precision="{near or "bf16-mixed"}".',
            )


@rule(
    "T63",
    title="With accelerate the loss goes backward by the Accelerator",
    severity="warning",
    source="accelerate/accelerator.py, backward: it scales the loss (fp16) and divides it by the steps it accumulates;"
    " torch/amp/grad_scaler.py: Attempted step but _scale is None",
    leads_to=("program-error",),
    bad=(
        _ACCELERATE.format("mixed_precision='fp16'", "loss.backward()"),
        _ACCELERATE.format("gradient_accumulation_steps=4", "loss.backward()"),
    ),
    good=(
        _ACCELERATE.format("mixed_precision='fp16'", "accelerator.backward(loss)"),
        _ACCELERATE.format("", "loss.backward()"),
    ),
)
def backward_past_the_accelerator(job: LintJob) -> Iterator[LintFinding]:
    """The scaler of fp16 has then scaled nothing, and the optimizer's step ends with an error; with accumulation the
    gradients are a sum where a mean was meant."""
    for code in codes(job):
        methods = [call for call in code.calls if isinstance(call.func, ast.Attribute)]
        made = next((call for call in code.calls if code.name(call.func) == "accelerate.Accelerator"), None)
        own = [call for call in methods if last_name(call.func) == "backward" and not call.args]
        if made is None or not own or any(last_name(call.func) == "backward" and call.args for call in methods):
            continue
        half = constant(argument(made, "mixed_precision")) == "fp16"
        steps = constant(argument(made, "gradient_accumulation_steps"))
        if not half and not (isinstance(steps, int) and steps > 1):
            continue
        yield LintFinding(
            span=code.span(own[0]),
            severity="error" if half else None,
            summary=f"{code.words(own[0])} goes past the Accelerator, which "
            + ("scales the loss for fp16" if half else f"divides it by {steps}"),
            happens="AssertionError at the optimizer's step: Attempted step but _scale is None."
            if half
            else f"The gradients are {steps} times what they should be.",
            fix="Write accelerator.backward(loss).",
        )


@rule(
    "T64",
    title="One rank alone gives the list of a gather or scatter",
    source="tried with torch 2.13: Argument gather_list must NOT be specified on non-destination ranks",
    leads_to=("program-error",),
    bad=(
        _GROUP + "parts = [None] * dist.get_world_size()\ndist.gather_object({'rank': rank}, parts, dst=0)\n",
        _GROUP + "x = torch.ones(2)\ndist.gather(x, gather_list=[torch.empty(2) for _ in range(2)])\n",
    ),
    good=(
        _GROUP + "parts = [None] * 2 if rank == 0 else None\ndist.gather_object({'rank': rank}, parts, dst=0)\n",
        _GROUP + "x = torch.ones(2)\ndist.gather(x, [torch.empty(2)] * 2 if rank == 0 else None)\n",
        _GROUP + "parts = None\nif rank == 0:\n    parts = [None] * 2\ndist.gather_object(rank, parts)\n",
        _GROUP + "if rank == 0:\n    dist.gather_object(rank, [None] * 2)\nelse:\n    dist.gather_object(rank)\n",
    ),
)
def list_of_every_rank(job: LintJob) -> Iterator[LintFinding]:
    """torch takes the list from the rank that gets or hands out the parts, and refuses it of all others."""
    for code in codes(job):
        for call in code.calls:
            name = code.name(call.func)
            known = _LISTS.get(name.rpartition(".")[2]) if name.startswith("torch.distributed.") else None
            given = argument(call, known[0], 1) if known is not None else None
            if known is None or given is None or code.is_conditional(call) or not _is_list(code, call, given):
                continue
            yield LintFinding(
                span=code.span(given),
                summary=f"every rank gives {name.rpartition('.')[2]}() its {known[0]}",
                happens=f"ValueError: Argument {known[0]} must NOT be specified on {known[1]} ranks: the others wait.",
                fix=f"Give it on one rank, and None on the others: {known[0]}={code.words(given)} if"
                " torch.distributed.get_rank() == 0 else None.",
            )


def _is_list(code: PythonCode, call: ast.Call, given: ast.expr) -> bool:
    """Whether an argument certainly is a list that has parts: as written, or by its only assignment, in its scope."""
    if isinstance(given, ast.Name):
        scope = code.scope_of(call)
        stores = [
            node
            for node in code.nodes
            if isinstance(node, ast.Name) and node.id == given.id and isinstance(node.ctx, ast.Store)
        ]
        line = code.parents.get(stores[0]) if len(stores) == 1 else None
        if not isinstance(line, ast.Assign) or line not in own_nodes(scope) or code.is_conditional(line):
            return False
        if any(isinstance(above, FUNCTIONS) and code.is_conditional(above) for above in code.around(call)):
            return False
        given = line.value
    if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Mult):
        return isinstance(given.left, ast.List) and bool(given.left.elts)
    return isinstance(given, ast.ListComp) or (isinstance(given, ast.List) and bool(given.elts))
