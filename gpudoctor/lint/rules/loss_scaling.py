"""Rules of gradients that a GradScaler has multiplied: T62."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes, own_nodes
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = "import torch\nscaler = torch.amp.GradScaler('cuda')\ndef step(net, optimizer, x):\n    "
_SCALED = "scaler.scale(net(x).sum()).backward()\n    "
_CLIPS = "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n    "
_STEPS = "scaler.step(optimizer)\n    scaler.update()\n"
_CLIPPERS = ("clip_grad_norm_", "clip_grad_value_")


@rule(
    "T62",
    title="Gradients are clipped when the loss scale is taken out of them",
    severity="warning",
    source="torch.amp's examples, gradient clipping: unscale_ before it; grad_scaler.py: a first scale of 2**16",
    bad=(
        _HEAD + _SCALED + _CLIPS + _STEPS,
        _HEAD
        + "loss = net(x).sum()\n    scaler.scale(loss).backward()\n    "
        + _CLIPS.replace("norm_", "value_")
        + _STEPS,
    ),
    good=(
        _HEAD + _SCALED + "scaler.unscale_(optimizer)\n    " + _CLIPS + _STEPS,
        _HEAD + "net(x).sum().backward()\n    " + _CLIPS + "optimizer.step()\n",
        _HEAD + _SCALED + _STEPS,
    ),
)
def clipped_while_scaled(job: LintJob) -> Iterator[LintFinding]:
    """scale() multiplies the loss, and by it every gradient; step() divides them again only where unscale_ has not."""
    for code in codes(job):
        if "unscale_" in code.text:
            continue
        for scope in (code.tree, *(node for node in code.nodes if isinstance(node, FUNCTIONS))):
            calls = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
            scales = [call for call in calls if _is_scaled_backward(call)]
            if not scales:
                continue
            after = min(call.lineno for call in scales)
            steps = [call.lineno for call in calls if last_name(call.func) == "step" and _is_scaler(code, call)]
            for call in calls:
                name = last_name(call.func)
                if name in _CLIPPERS and after < call.lineno < max(steps, default=0):
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{name} clips gradients that are still scaled: no unscale_ stands before",
                        happens="The limit meets gradients 65,536 times too large at first: nearly all of a step is cut"
                        " away.",
                        fix="Call scaler.unscale_(optimizer) before it.",
                    )


def _is_scaled_backward(call: ast.Call) -> bool:
    """scaler.scale(...).backward()"""
    inner = call.func.value if last_name(call.func) == "backward" and isinstance(call.func, ast.Attribute) else None
    return isinstance(inner, ast.Call) and last_name(inner.func) == "scale"


def _is_scaler(code: PythonCode, call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and "scal" in code.words(call.func.value).lower()
