"""The rule of the turns that DistributedDataParallel does not average: T87."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lint.courses.events import Deed
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, RUN
from gpudoctor.lint.turns import Turns

_ACCUMULATED = (
    DDP + "from contextlib import nullcontext\nN = 4\nfor i, x in enumerate(data()):\n"
    "    with net.no_sync() if {} else nullcontext():\n        net(x).sum().backward()\n"
    "    if (i + 1) % N == 0:\n        opt.step()\n" + RUN
)


@rule(
    "T87",
    title="no_sync holds for the forward and backward of all but the last micro-batch",
    severity="warning",
    source="torch/nn/parallel/distributed.py of torch 2.13, no_sync: the forward pass should be included inside the"
    " context manager; gradients are synchronized in the first forward-backward that leaves it",
    bad=(
        DDP + "for x in data():\n    with net.no_sync():\n        for part in x:\n"
        "            net(part).sum().backward()\n    opt.step()\n" + RUN,
        DDP + "for x in data():\n    loss = net(x).sum()\n    with net.no_sync():\n        loss.backward()\n"
        "    net(x).sum().backward()\n    opt.step()\n" + RUN,
        _ACCUMULATED.format("i % N != 0"),
    ),
    good=(
        _ACCUMULATED.format("(i + 1) % N != 0"),
        DDP + "for x in data():\n    with net.no_sync():\n        net(x).sum().backward()\n"
        "    net(x).sum().backward()\n    opt.step()\n" + RUN,
        DDP + "from contextlib import nullcontext\nfor i, x in enumerate(data()):\n"
        "    with net.no_sync() if i % 4 else nullcontext():\n        net(x).sum().backward()\n    opt.step()\n" + RUN,
    ),
)  # fmt: skip
def no_sync_without_an_end(job: LintJob) -> Iterator[LintFinding]:
    """DistributedDataParallel decides in the forward whether the backward averages, and averages what has gathered with
    the first that is outside."""
    for each in courses(job):
        first = each.ranks[0]
        backward = [deed for deed in first.deeds if deed.what == "backward"]
        forward = [deed for deed in first.deeds if deed.what == "forward"]
        if not backward or not forward or len(each.ranks) < 2:
            continue
        inside = [deed for deed in backward if deed.more == "no sync"]
        if inside and not any(deed.more for deed in forward) and _is_backward_alone(each, inside[0]):
            yield LintFinding(
                span=each.code.span(inside[0].node),
                summary="no_sync holds for this backward, and its forward stands outside: it has no effect",
                happens="Gradients are averaged in every micro-step all the same, which costs time.",
                fix="Put the forward into the same block.",
            )
        elif (
            inside
            and len(inside) == len(backward)
            and ".step(" in each.code.text
            and "all_reduce" not in each.code.text
        ):
            yield LintFinding(
                span=each.code.span(inside[0].node),
                summary="every backward stands inside no_sync: none averages the gradients",
                happens="Each rank steps by its own gradients, and the models drift apart.",
                fix="Take the last micro-batch of each step (forward and backward) out of no_sync.",
            )
        else:
            yield from _steps_unsent(each)


def _steps_unsent(each: Courses) -> Iterator[LintFinding]:
    """The optimizer steps in turns whose backward stands inside no_sync, by what the loop's counter says."""
    code = each.code
    uses = [node for node in code.nodes if isinstance(node, ast.Attribute) and node.attr == "no_sync"]
    for node in uses:
        loops = [above for above in code.around(node) if isinstance(above, ast.For)]
        turns = next((made for made in (Turns(code, loop) for loop in loops) if made.counter), None)
        if turns is None:
            continue
        inside = turns.conditions(node)
        steps = [
            call for call in code.calls
            if last_name(call.func) == "step" and re.search(r"opt|scaler", ast.unparse(call.func))
            and turns.loop in code.around(call)
        ]  # fmt: skip
        for call in steps:
            when = turns.conditions(call)
            stepped = turns.of(when)
            if not (turns.speak(inside) and turns.speak(when) and stepped) or not stepped <= turns.of(inside):
                continue
            yield LintFinding(
                span=code.span(node),
                summary="no_sync holds in the very turns in which the optimizer steps (line"
                f" {code.line_of(call)}), and not in others",
                happens="What these steps take was never averaged in their own turn: the ranks' models drift apart.",
                fix="Enter no_sync in all turns but the one that steps, by the same expression:"
                f" `if not ({ast.unparse(when[0][0])})`.",
            )
            return


def _is_backward_alone(each: Courses, deed: Deed) -> bool:
    """Nothing else of the block could be the forward."""
    block = next((above for above in each.code.around(deed.node) if isinstance(above, ast.With)), None)
    calls = [node for line in block.body for node in walked(line) if isinstance(node, ast.Call)] if block else []
    return bool(calls) and all(last_name(call.func) in ("backward", "scale", "mean", "sum", "div") for call in calls)
