"""Rules of what Lightning 2 refuses in a LightningModule: L14."""

import ast
from collections.abc import Iterator

from gpudoctor.lint import lightning
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import Example, LintFinding, rule

_GONE = {
    "training_epoch_end": "on_train_epoch_end(self)",
    "validation_epoch_end": "on_validation_epoch_end(self)",
    "test_epoch_end": "on_test_epoch_end(self)",
}
"""Hooks of Lightning 1 that take the outputs of an epoch, and what stands in their place."""
_MODULE = (
    "import lightning as L\nimport torch\nclass Net(L.LightningModule):\n    def training_step(self, batch, index{}):\n"
    "        return self.net(batch).sum()\n    def configure_optimizers(self):\n"
    "        return {}\n{}"
)
_ONE = "torch.optim.Adam(self.parameters())"
_TWO = "[torch.optim.Adam(self.a.parameters()), torch.optim.Adam(self.b.parameters())]"


@rule(
    "L14",
    title="A LightningModule has the hooks of its Lightning, and as many optimizers as that steps",
    needs="facts",
    source="lightning 2.6, configuration_validator.py: Support for `validation_epoch_end` has been removed in v2.0.0;"
    " core/optimizer.py: Training with multiple optimizers is only supported with manual optimization",
    leads_to=("program-error",),
    bad=(
        _MODULE.format("", _ONE, "    def validation_epoch_end(self, outputs):\n        pass\n"),
        _MODULE.format("", _TWO, ""),
        _MODULE.format(", optimizer_idx", _ONE, ""),
    ),
    good=(
        _MODULE.format("", _ONE, "    def on_validation_epoch_end(self):\n        pass\n"),
        _MODULE.format("", _TWO, "    automatic_optimization = False\n"),
        Example(_MODULE.format(", optimizer_idx", _TWO, ""), "lightning=1.9"),
    ),
)
def module_of_another_lightning(job: LintJob) -> Iterator[LintFinding]:
    """Lightning 2 calls no hook with an epoch's outputs, and steps one optimizer itself. A module that was written for
    Lightning 1 ends before the first batch."""
    if lightning.before(job, 2, 0):
        return
    for code in codes(job):
        sure = lightning.version(job) is not None or any(
            each.partition(".")[0] == "lightning" for each in code.imports.values()
        )
        for node in code.nodes:
            if not isinstance(node, ast.ClassDef) or not any(
                last_name(each) == "LightningModule" for each in node.bases
            ):
                continue
            for place, what, says, fix in _wrong(code, node):
                yield LintFinding(
                    span=code.span(place),
                    severity=None if sure else "warning",
                    summary=what + ("" if sure else " (since Lightning 2.0)"),
                    happens=says,
                    fix=fix,
                )


def _wrong(code: PythonCode, node: ast.ClassDef) -> Iterator[tuple[ast.expr | ast.stmt, str, str, str]]:
    own = {each.name: each for each in node.body if isinstance(each, FUNCTIONS)}
    for name, better in _GONE.items():
        if name in own:
            yield (
                own[name],
                f"{node.name} has {name}(), which Lightning 2 refuses",
                f"NotImplementedError: Support for `{name}` has been removed in v2.0.0.",
                f"Write {better}, and keep the outputs in a list of the module.",
            )
    step = own.get("training_step")
    several = "Training with multiple optimizers is only supported with manual optimization"
    if step is not None and any(each.arg == "optimizer_idx" for each in step.args.args):
        yield (
            step,
            f"training_step of {node.name} takes optimizer_idx, which Lightning 2 gives nobody",
            f"RuntimeError: {several}. Remove the `optimizer_idx` argument.",
            "Write self.automatic_optimization = False, and opt1, opt2 = self.optimizers() in training_step.",
        )
        return
    made = _optimizers(code, own.get("configure_optimizers"))
    if made is not None and "automatic_optimization" not in code.text_of(node):
        yield (
            made,
            f"{node.name} has several optimizers, and Lightning 2 steps one itself",
            f"RuntimeError: {several}.",
            "Write self.automatic_optimization = False in __init__, and step them in training_step.",
        )


def _optimizers(code: PythonCode, function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> ast.expr | None:
    """What configure_optimizers returns, where that is two optimizers or more."""
    if function is None:
        return None
    lines = [node for node in walked(function) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    named = {
        target.id for line in lines for target in line.targets
        if isinstance(target, ast.Name) and _is_optimizer(code, line.value)
    }  # fmt: skip
    returned = [node.value for node in walked(function) if isinstance(node, ast.Return) and node.value is not None]
    if len(returned) != 1:
        return None
    value = returned[0]
    if isinstance(value, ast.Tuple) and value.elts and isinstance(value.elts[0], ast.List):
        value = value.elts[0]  # optimizers, schedulers
    if not isinstance(value, (ast.Tuple, ast.List)):
        return None
    count = sum(_is_optimizer(code, each) or (isinstance(each, ast.Name) and each.id in named) for each in value.elts)
    return value if count > 1 else None


def _is_optimizer(code: PythonCode, node: ast.expr) -> bool:
    name = code.name(node.func) if isinstance(node, ast.Call) else ""
    return name.startswith("torch.optim.") and "lr_scheduler" not in name
