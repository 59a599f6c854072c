"""Rules of names that old programs import: U07, U08."""

import ast
from collections.abc import Iterator

from gpudoctor.knowledge.moved_names import WHY, MovedName, moved
from gpudoctor.knowledge.superseded import dotted
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes
from gpudoctor.lint.rule import Example, LintFinding, rule

_APEX = "import torch\nfrom apex import amp\n"
_LITE = "from pytorch_lightning.lite import LightningLite\n"
_SCALER = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"


def _uses(code: PythonCode) -> Iterator[tuple[ast.stmt | ast.expr, MovedName]]:
    """Imports and calls of names that moved, each entry once; not where the program has another way beside it."""
    told: set[str] = set()
    for node in sorted((each for each in code.nodes if isinstance(each, (ast.ImportFrom, ast.Call))),
                       key=lambda each: each.lineno):  # fmt: skip
        names = [code.name(node.func)] if isinstance(node, ast.Call) else _imported(code, node)
        for name in names:
            entry = moved(name)
            if entry is not None and entry.today not in told and not _is_choice(code, node):
                told.add(entry.today)
                yield node, entry


def _imported(code: PythonCode, node: ast.ImportFrom) -> list[str]:
    """Whole names, without those that mean something else on another line."""
    known = set(code.imports.values())
    names = [f"{node.module}.{each.name}" for each in node.names if node.module and not node.level]
    return [name for name in names if name in known]


def _is_choice(code: PythonCode, node: ast.AST) -> bool:
    """Below a try, the program goes on without it."""
    for above in code.around(node):
        if isinstance(above, ast.Try):
            return True
        if isinstance(above, FUNCTIONS):
            return False
    return False


@rule(
    "U07",
    title="What torch has itself is taken from torch",
    severity="warning",
    needs="facts",
    source="torch/cuda/amp of the wheels of 2.3.0 and 2.4.0; NVIDIA/apex#818; PyPI's apex and fairscale",
    bad=(
        _APEX + "model, opt = amp.initialize(model, opt, opt_level='O1')\n",
        "import torch\nimport apex\nnet = apex.parallel.convert_syncbn_model(net)\n",
        "from fairscale.nn import FullyShardedDataParallel as FSDP\nmodel = FSDP(model)\n",
        Example(_SCALER, "torch=2.4"),
    ),
    good=(
        Example(_SCALER, "torch=2.3"),
        Example("import torch\nscaler = torch.amp.GradScaler('cuda')\n", "torch=2.13"),
        "import torch\ntry:\n    from apex import amp\nexcept ImportError:\n    amp = None\n",
    ),
)
def name_that_torch_has(job: LintJob) -> Iterator[LintFinding]:
    """Apex and fairscale were where mixed precision, SyncBatchNorm and sharding were tried out. torch took them over,
    and torch.cuda.amp became torch.amp."""
    version = job.facts.version("torch")
    for code in codes(job):
        for node, entry in _uses(code):
            if entry.package == "lightning" or (version is not None and version < max(entry.first, entry.deprecated)):
                continue
            old = entry.deprecated
            yield LintFinding(
                span=code.span(node),
                severity="info" if old else None,
                summary=f"{entry.name} is deprecated since torch {dotted(old)}"
                if old
                else f"{entry.name} is of {entry.package}, and torch does this itself",
                happens=WHY.get(entry.package, "It works, with a FutureWarning."),
                fix=f"Write {entry.today}.",
            )


@rule(
    "U08",
    title="What is imported from Lightning is there in its release",
    needs="facts",
    source="the wheels of pytorch-lightning 1.5.10, 1.6.5, 1.7.7, 1.8.6, 1.9.5 and 2.0.1",
    leads_to=("program-error",),
    bad=(
        Example(_LITE + "class Lite(LightningLite):\n    pass\n", "lightning=2.1"),
        Example("from pytorch_lightning.plugins import DDPPlugin\nplugin = DDPPlugin()\n", "lightning=1.9"),
    ),
    good=(
        Example(_LITE, "lightning=1.9"),
        Example("from pytorch_lightning.plugins import DDPPlugin\n", "lightning=1.5"),
        Example("from pytorch_lightning.plugins import MixedPrecisionPlugin\n", "lightning=2.1"),
    ),
)
def name_that_lightning_lost(job: LintJob) -> Iterator[LintFinding]:
    """Lightning's plugins for several processes became strategies, and LightningLite became Fabric."""
    version = job.facts.version("lightning")
    for code in codes(job):
        for node, entry in _uses(code):
            if entry.package == "lightning" and (version is None or version >= entry.gone):
                yield LintFinding(
                    span=code.span(node),
                    severity=None if version is not None else "warning",
                    summary=f"{entry.name} was removed in lightning {dotted(entry.gone)}",
                    happens="ImportError, or ModuleNotFoundError, in this line.",
                    fix=f"Write {entry.today}.",
                )
