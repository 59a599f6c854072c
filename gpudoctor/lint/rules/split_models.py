"""Rules of models that a program splits over GPUs by hand: T13, L08."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import lightning
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, constant, has_stars
from gpudoctor.lint.python_text import walked
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.split_models import (
    SplitModel,
    comparable,
    device_names,
    moved_to,
    output_of,
    split_models,
    wrong_halves,
)

_MODEL = (
    "import torch\nfrom torch import nn\nclass Net({}):\n    def __init__(self):\n        super().__init__()\n"
    "        self.first = nn.Linear(8, 8).to('cuda:0')\n        self.second = nn.Linear(8, 8).to('cuda:1')\n"
    "    def forward(self, x):\n{}"
)
_MOVES = "        x = self.first(x.to('cuda:0'))\n        return self.second(x.to('cuda:1'))\n"
_FORGETS = "        x = torch.relu(self.first(x.to('cuda:0')))\n        return self.second(x)\n"
_LIGHTNING = "import lightning as pl\n" + _MODEL.format("pl.LightningModule", _MOVES)


@rule(
    "T13",
    title="Each half of a split model gets its input on its own GPU",
    source="torch: an operation wants all of its tensors on one device (ATen/TensorIterator.cpp)",
    bad=(
        _MODEL.format("nn.Module", _FORGETS),
        _MODEL.format("nn.Module", "        return self.second(self.first(x))\n"),
        _MODEL.format("nn.Module", _FORGETS).replace("'cuda:0'", "dev0").replace("'cuda:1'", "dev1")
        + "dev0 = torch.device('cuda:0')\ndev1 = 'cuda:1'\n",
        _MODEL.format("nn.Module", _FORGETS)
        .replace("__init__(self)", "__init__(self, dev0, dev1)", 1)
        .replace("__init__()\n", "__init__()\n        self.dev0, self.kept = dev0, 3\n", 1)
        .replace("'cuda:0'", "dev0")
        .replace("x.to(dev0)", "x.to('cuda:0')")
        .replace("'cuda:1'", "dev1"),
        _MODEL.format("nn.Module", "        x = self.first(x)\n" + _MOVES[59:])
        + "model = Net()\nout = model(inputs.to('cuda:1'))\n",
        _MODEL.format("nn.Module", _MOVES)
        + "model = Net()\nloss = nn.MSELoss()\nout = model(inputs)\nloss(out, labels.to('cuda:0')).backward()\n",
    ),
    good=(
        _MODEL.format("nn.Module", _MOVES) + "model = Net()\nout = model(inputs.to('cuda:1'))\n",
        _MODEL.format("nn.Module", "        return self.second(self.first(x).to('cuda:1'))\n")
        + "model = Net()\nout = model(inputs.to('cuda:0'))\n"
        "nn.functional.mse_loss(out, labels.to('cuda:1')).backward()\n",
        _MODEL.format("nn.Module", "        return self.second(move(self.first(x)))\n"),
    ),
)
def input_on_the_other_half(job: LintJob) -> Iterator[LintFinding]:
    """A model whose parts stand on two GPUs has to move its activations between them; the one line that does not ends
    the first forward pass."""
    for code in codes(job):
        for model in split_models(code):
            for wrong in wrong_halves(model):
                words = code.words(wrong.value)
                better = f"{words}.to({model.spelled(wrong.on)})"
                yield LintFinding(
                    span=code.span(wrong.value),
                    summary=f"self.{wrong.part} is on {wrong.on}, and what it is given comes from {wrong.comes_from}",
                    severity=None if wrong.on.startswith("cuda:") else "warning",
                    happens=_ERROR.format(wrong.on, wrong.comes_from),
                    fix=f"Write self.{wrong.part}({better}).",
                    edits=(Edit(code.span(wrong.value), better),) if not isinstance(wrong.value, ast.Starred) else (),
                )
            yield from _wrong_inputs(code, model)
            yield from _wrong_labels(code, model)


_LOSS = lazy_re(r"torch\.nn\.(?:modules\.loss\.)?\w+Loss")
_ERROR = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, {0} and {1}."


def _wrong_inputs(code: PythonCode, model: SplitModel) -> Iterator[LintFinding]:
    """`model(x.to("cuda:1"))` where the first part, on cuda:0, takes the argument as it comes."""
    wants = _wants(model)
    made, outside = _made(code, model), device_names(code.tree.body)
    for call in code.calls if wants else ():
        given = call.args[0] if len(call.args) == 1 and not call.keywords else None
        is_model = isinstance(call.func, ast.Name) and call.func.id in made
        there = moved_to(given, outside) if given is not None and is_model else ""
        if given is None or not there or there == wants or not comparable(there, wants):
            continue
        assert isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute)
        better = f'{code.words(given.func.value)}.to("{wants}")'
        yield LintFinding(
            span=code.span(given),
            summary=f"the input is moved to {there}, and the first part of {model.name} is on {wants}",
            happens=_ERROR.format(wants, there),
            fix=f"Write {code.words(call.func)}({better}).",
            edits=(Edit(code.span(given), better),),
        )


def _made(code: PythonCode, model: SplitModel) -> set[str]:
    """What the program calls the models of that class."""
    return {
        node.targets[0].id
        for node in code.nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        and _is_call_of(node.value, {model.name})
    }  # fmt: skip


def _wrong_labels(code: PythonCode, model: SplitModel) -> Iterator[LintFinding]:
    """`loss(model(x), y.to("cuda:0"))` where the model's last part is on cuda:1."""
    ends = output_of(model)
    made, outside = _made(code, model), device_names(code.tree.body)
    losses = {
        target.id
        for node in code.nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        and _LOSS.fullmatch(code.name(node.value.func))
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    results = {
        target.id
        for node in code.nodes
        if isinstance(node, ast.Assign) and _is_call_of(node.value, made)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    for call in code.calls if ends else ():
        of_torch = code.name(call.func).startswith("torch.nn.functional.")
        made_here = isinstance(call.func, ast.Call) and _LOSS.fullmatch(code.name(call.func.func)) is not None
        if not of_torch and not made_here and not (isinstance(call.func, ast.Name) and call.func.id in losses):
            continue
        given, label = call.args[:2] if len(call.args) == 2 else (None, None)
        is_output = isinstance(given, ast.Name) and given.id in results
        there = moved_to(label, outside) if label is not None else ""
        known = bool(there) and there != ends and comparable(there, ends)
        if label is None or not known or not (is_output or _is_call_of(given, made)):
            continue
        assert isinstance(label, ast.Call) and isinstance(label.func, ast.Attribute)
        better = f'{code.words(label.func.value)}.to("{ends}")'
        yield LintFinding(
            span=code.span(label),
            summary=f"the labels are moved to {there}, and {model.name} ends on {ends}",
            happens=_ERROR.format(ends, there),
            fix=f"Write {better}.",
            edits=(Edit(code.span(label), better),),
        )


def _is_call_of(node: ast.expr | None, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _wants(model: SplitModel) -> str:
    """The GPU of the part that takes forward's only argument as it comes; empty where that is not certain."""
    forward = next(
        (node for node in model.node.body if isinstance(node, ast.FunctionDef) and node.name == "forward"), None
    )
    names = [arg.arg for arg in forward.args.args] if forward is not None else []
    if forward is None or len(names) != 2:
        return ""
    reads = [node for node in walked(forward) if isinstance(node, ast.Name) and node.id == names[1]]
    reads = [node for node in reads if isinstance(node.ctx, ast.Load)]
    first = min(reads, key=lambda node: (node.lineno, node.col_offset), default=None)
    for node in walked(forward):
        if isinstance(node, ast.Call) and len(node.args) == 1 and node.args[0] is first and first is not None:
            own = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
            if own and isinstance(node.func, ast.Attribute):
                return model.parts.get(node.func.attr, "") if getattr(node.func.value, "id", "") == "self" else ""
    return ""


@rule(
    "L08",
    title="A model that is split by hand is trained by one process",
    needs="facts",
    source="Lightning 2.6.6: accelerator and devices are auto; single_device.py and ddp.py move the whole model",
    bad=(
        _LIGHTNING + "trainer = pl.Trainer()\n",
        Example(_LIGHTNING + "trainer = pl.Trainer(max_epochs=3)\n", "lightning=2.4,gpus_per_node=2"),
        _LIGHTNING + "trainer = pl.Trainer(accelerator='gpu', devices=2)\n",
    ),
    good=(
        _LIGHTNING + "trainer = pl.Trainer(accelerator='gpu', devices=1)\n",
        Example(_LIGHTNING + "trainer = pl.Trainer()\n", "lightning=1.9"),
        _MODEL.format("nn.Module", _MOVES),
        "import lightning as pl\ntrainer = pl.Trainer()\n",
    ),
)
def split_model_under_many_ranks(job: LintJob) -> Iterator[LintFinding]:
    """Since Lightning 2.0 a Trainer that is told nothing takes all GPUs, one process each. A model that places its
    halves on two GPUs itself wants both in one process."""
    if lightning.before(job, 2, 0) or job.facts.gpus_per_node == 1:  # then the placing itself is wrong, G08's
        return
    for code in codes(job):
        model = next((split_model for split_model in split_models(code) if _is_lightnings(split_model.node)), None)
        if model is None or not code.brings("lightning", "pytorch_lightning", "lightning_fabric"):
            continue
        for call in code.calls:
            name = code.name(call.func)
            if name.rpartition(".")[2] != "Trainer" or "lightning" not in name or has_stars(call):
                continue
            count = argument(call, "devices")
            devices = constant(count)
            many = count is None or devices in (-1, "auto", "-1") or (type(devices) is int and devices > 1)
            if not many or constant(argument(call, "accelerator")) == "cpu" or argument(call, "strategy") is not None:
                continue
            asked = "all GPUs" if count is None or devices in (-1, "auto", "-1") else f"{devices} GPUs"
            yield LintFinding(
                span=code.span(call),
                summary=f"{model.name} places its parts on {_listed(model)} itself, and Trainer takes {asked}, a"
                " process for each" + (" (the defaults since Lightning 2.0)" if count is None else ""),
                happens="Lightning moves the whole model of each process onto that process's own GPU, after __init__:"
                " the halves meet there, and forward ends with: Expected all tensors to be on the same device.",
                fix="Write devices=1 and place the parts in on_fit_start(), which comes after Lightning's own move; or"
                ' leave the placing out and write strategy="fsdp".',
            )


def _is_lightnings(node: ast.ClassDef) -> bool:
    return any(re.search(r"LightningModule", ast.unparse(base)) for base in node.bases)


def _listed(model: SplitModel) -> str:
    names = sorted(set(model.parts.values()))
    return ", ".join(names[:-1]) + " and " + names[-1]
