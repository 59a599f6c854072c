"""Rules of numbers that are added up over the ranks: U27, U28, U33."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.courses.programs import courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import codes
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, RUN, of

_LOADER = (
    "from torch.utils.data import DataLoader, DistributedSampler\nfrom mine import held\n"
    "import torch.nn.functional as F\n"
    "loader = DataLoader(held, 8, sampler=DistributedSampler(held, shuffle=False))\n"
)
_SHARE = DDP + _LOADER + (
    "hits = seen = 0\nfor x, y in loader:\n    hits += (net(x) == y).sum()\n    seen += len(y)\nshare = hits / seen\n"
    "dist.all_reduce(share{})\n{}print(share.item())\n"
) + RUN  # fmt: skip
_LOSS = DDP + _LOADER + "for x, y in loader:\n    loss = F.cross_entropy(net(x), y)\n    {}.backward()\n" + RUN


@rule(
    "U27",
    title="A mean that is added up over the ranks is divided by their number",
    severity="warning",
    source="torch.distributed.all_reduce: ReduceOp.SUM where no other is told; keras#19340",
    bad=(
        _SHARE.format("", ""),
        _SHARE.format("", "").replace("print(share.item())", "print(f'{share.item():.3f}')"),
    ),
    good=(
        _SHARE.format(", op=dist.ReduceOp.AVG", ""),
        _SHARE.format("", "share /= dist.get_world_size()\n"),
        _SHARE.format("", "").replace("share = hits / seen", "share = hits / seen / 4"),
    ),
)  # fmt: skip
def sum_of_means(job: LintJob) -> Iterator[LintFinding]:
    """The sum of the ranks' means is as many times their mean as there are ranks: four ranks show 400 %."""
    for each in courses(job):
        deed = next((deed for _, deed in of(each.ranks[:1], "sum of shares")), None) if len(each.ranks) > 1 else None
        if deed is not None:
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="each rank's mean is summed over the ranks and shown, and nothing divides it by their number",
                happens="It is as many times too large as there are ranks.",
                fix="Write op=dist.ReduceOp.AVG, or sum numerator and denominator and divide then.",
            )


@rule(
    "U28",
    title="A mean loss goes backward as it is",
    severity="warning",
    source="torch/nn/parallel/distributed.py: gradients are averaged over the ranks; sparseml#135",
    bad=(
        _LOSS.format("(loss * dist.get_world_size())"),
        _LOSS.format("(dist.get_world_size() * loss)").replace(
            "F.cross_entropy(net(x), y)", "torch.nn.CrossEntropyLoss()(net(x), y)"
        ),
    ),
    good=(
        _LOSS.format("loss"),
        _LOSS.format("(loss * dist.get_world_size())").replace("net(x), y)", "net(x), y, reduction='sum')"),
    ),
)
def loss_times_the_ranks(job: LintJob) -> Iterator[LintFinding]:
    """DistributedDataParallel averages the gradients of the ranks' means: that is the gradient of the mean over all."""
    for each in courses(job):
        if len(each.ranks) < 2 or "gather" in each.code.text:  # a loss over gathered parts has a share of the gradient
            continue
        deed = next((deed for _, deed in of(each.ranks[:1], "backward of as many times")), None)
        if deed is not None:
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="a mean loss is multiplied by the world size, and the gradients are averaged, not summed",
                happens="Each step is as many times too large as there are ranks.",
                fix="Let the loss as it is: the average over the ranks is the gradient of the mean over all.",
            )


_TWICE = DDP + "right = torch.zeros(1).cuda()\nseen = torch.ones(1).cuda()\n{}" + RUN


@rule(
    "U33",
    title="A sum over the ranks is made once",
    severity="warning",
    source="torch.distributed.all_reduce works in place: what is summed already is summed again; pyg#9896",
    bad=(
        _TWICE.format("dist.all_reduce(right)\ndist.all_reduce(right)\n"),
        _TWICE.format("dist.all_reduce(right)\ndist.all_reduce(seen)\ndist.all_reduce(right, op=dist.ReduceOp.SUM)\n"),
    ),
    good=(
        _TWICE.format("dist.all_reduce(right)\ndist.all_reduce(seen)\n"),
        _TWICE.format("dist.all_reduce(right)\nright /= 2\ndist.all_reduce(right)\n"),
        _TWICE.format("dist.all_reduce(right, op=dist.ReduceOp.MAX)\ndist.all_reduce(right, op=dist.ReduceOp.MAX)\n"),
        _TWICE.format("dist.all_reduce(right, group=rows)\ndist.all_reduce(right, group=columns)\n"),
    ),
)
def summed_again(job: LintJob) -> Iterator[LintFinding]:
    """Two sums of one tensor over the same ranks, with other sums alone between them: a name is often copied."""
    for code in codes(job):
        for block in (getattr(node, part, ()) for node in code.nodes for part in ("body", "orelse", "finalbody")):
            if not isinstance(block, list):
                continue  # a lambda's, a condition's expression
            summed: dict[str, ast.Call] = {}
            for statement in block:
                call = statement.value if isinstance(statement, ast.Expr) else None
                if not isinstance(call, ast.Call) or code.name(call.func) != "torch.distributed.all_reduce":
                    summed.clear()
                    continue
                how = [ast.unparse(each.value) for each in call.keywords if each.arg == "op"]
                if len(call.args) != 1 or (how and not how[0].endswith("SUM")):
                    continue
                key = " ".join(map(ast.unparse, (*call.args, *(each for each in call.keywords if each.arg == "group"))))
                if key in summed:
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{ast.unparse(call.args[0])} is summed over the ranks in line"
                        f" {code.line_at(summed[key])}, and here again",
                        happens="all_reduce works in place: the second one adds up sums, which is too much by the"
                        " number of ranks.",
                        fix="Take it out, or name the tensor that was meant.",
                    )
                summed[key] = call
