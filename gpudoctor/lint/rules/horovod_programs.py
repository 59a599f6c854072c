"""Rules of programs that train with Horovod: U05, U06."""

import ast
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = "#@ file train.py\nimport horovod.torch as hvd\nimport os\nimport torch\nhvd.init()\n"
_DEVICE = "torch.cuda.set_device(hvd.local_rank())\n"
_MODEL = "net = make().cuda()\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
_AVERAGES = "opt = hvd.DistributedOptimizer(opt)\n"
_SAME = "hvd.broadcast_parameters(net.state_dict(), root_rank=0)\n"
_STEP = "net(x).sum().backward()\nopt.step()\n"
_RUN = "#@ every node\nhorovodrun -np 4 -H localhost:4 python train.py\n"
_WHOLE = _HEAD + _DEVICE + _MODEL + _AVERAGES + _SAME + _STEP + _RUN
_SAMPLES = "from torch.utils.data.distributed import DistributedSampler\nsampler = DistributedSampler(data{})\n"
AVERAGES = lazy_re(r"DistributedOptimizer|allreduce|DistributedTrainer|reducescatter|elastic")


def _programs(job: LintJob) -> Iterator[PythonCode]:
    """Those that call hvd.init()."""
    yield from (code for code in codes(job) if any(code.name(call.func) == "horovod.torch.init" for call in code.calls))


def _trains(code: PythonCode) -> ast.Call | None:
    """The step of an optimizer, where the training itself stands in the text."""
    methods = [call for call in code.calls if isinstance(call.func, ast.Attribute)]
    steps = [
        call for call in methods if isinstance(call.func, ast.Attribute) and call.func.attr == "step" and not call.args
    ]
    backward = any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in methods)
    return steps[0] if steps and backward else None


@rule(
    "U05",
    title="Horovod's ranks average their gradients",
    source="Horovod's documentation of PyTorch: DistributedOptimizer averages in step(); nothing else does",
    bad=(_WHOLE.replace(_AVERAGES, ""), (_HEAD + _DEVICE + _MODEL + _SAME + _STEP).replace("#@ file train.py\n", "")),
    good=(_WHOLE, _WHOLE.replace(_AVERAGES, "").replace("opt.step()", "hvd.allreduce_(net.weight.grad)\nopt.step()")),
)
def horovod_gradients_apart(job: LintJob) -> Iterator[LintFinding]:
    """hvd.init() makes ranks of processes, and no more: it is the wrapped optimizer that averages."""
    for code in _programs(job):
        step = _trains(code)
        if step is not None and not AVERAGES.search(code.text):
            yield LintFinding(
                span=code.span(step),
                summary="nothing averages the gradients of Horovod's ranks",
                happens="Every rank trains a model of its own, on its share of the data.",
                fix="Write optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters()).",
            )


@rule(
    "U06",
    title="A sampler under Horovod is told how many ranks there are",
    source="torch/utils/data/distributed.py: without num_replicas and rank it asks torch.distributed, which has to be"
    " initialised",
    leads_to=("program-error",),
    bad=(_HEAD + _SAMPLES.format("") + _RUN, _HEAD + _SAMPLES.format(", shuffle=True") + _RUN),
    good=(
        _HEAD + _SAMPLES.format(", num_replicas=hvd.size(), rank=hvd.rank()") + _RUN,
        _HEAD + "torch.distributed.init_process_group('gloo')\n" + _SAMPLES.format("") + _RUN,
    ),
)
def sampler_without_horovods_ranks(job: LintJob) -> Iterator[LintFinding]:
    """DistributedSampler is torch's, and knows torch's process group alone."""
    for code in _programs(job):
        if "init_process_group" in code.text:
            continue
        for call in code.calls:
            if code.torch_name(call.func) != "DistributedSampler" or any(each.arg is None for each in call.keywords):
                continue
            if argument(call, "num_replicas", 1) is None or argument(call, "rank", 2) is None:
                yield LintFinding(
                    span=code.span(call),
                    summary="DistributedSampler is not told Horovod's ranks",
                    happens="It ends: Default process group has not been initialized.",
                    fix="Write DistributedSampler(..., num_replicas=hvd.size(), rank=hvd.rank()).",
                )
