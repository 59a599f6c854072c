"""Rules of what DataParallel is given: U01, U02."""

from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.wrapped_models import CPU, LossApart, MisplacedModel, faults

_HEAD = "import torch\nfrom torch import nn\n"


@rule(
    "U01",
    title="A model lies on the first GPU of the list before DataParallel takes it",
    source="torch/nn/parallel/data_parallel.py, forward: module must have its parameters and buffers on device_ids[0]",
    leads_to=("program-error",),
    bad=(
        _HEAD + "net = nn.DataParallel(make().to('cuda:3'), device_ids=[0, 3])\n",
        _HEAD + "net = nn.DataParallel(make(), device_ids=[2, 3])\nnet.cuda()\nnet(x)\n",
        _HEAD + "net = nn.DataParallel(nn.Linear(4, 4), device_ids=[0, 1])\nnet(x.cuda())\n",
        _HEAD
        + "net = nn.DataParallel(nn.Linear(4, 4).cuda(), device_ids=[0, 1])\n"
        + "loss = nn.functional.mse_loss(net(x), y.to('cuda:1'))\n",
    ),
    good=(
        _HEAD + "net = nn.DataParallel(make().to('cuda:0'), device_ids=[0, 3])\nnet(x.to('cuda:3'))\n",
        _HEAD + "ids = [2, 3]\nnet = nn.DataParallel(make(), device_ids=ids).cuda(ids[0])\n",
        _HEAD + "torch.cuda.set_device(2)\nnet = nn.DataParallel(make().cuda(), device_ids=[2, 3])\n",
        _HEAD + "net = nn.DataParallel(make().to('cuda:1'), device_ids=[0])\n",
    ),
)
def model_beside_data_parallel(job: LintJob) -> Iterator[LintFinding]:
    """DataParallel copies the model from the first of its GPUs at every step. It does not bring it there, unless it has
    one GPU alone."""
    for code, launches in codes_and_starts(job):
        told: set[int] = set()
        for launch in launches or (None,):
            for fault in faults(PythonValues(code, launch)):
                place = fault.wrapped if isinstance(fault, MisplacedModel) else fault.call
                if place.lineno in told:
                    continue
                told.add(place.lineno)
                yield _misplaced(code, fault) if isinstance(fault, MisplacedModel) else _apart(code, fault)


def _misplaced(code: PythonCode, fault: MisplacedModel) -> LintFinding:
    is_cpu = fault.device == CPU
    taken = "of all GPUs, which it takes where device_ids is not given" if fault.takes_all else "of its device_ids"
    number = fault.device.rpartition(":")[2]
    listed = argument(fault.wrapped, "device_ids", 1)
    begun = f"; or name {number} first in {code.words(listed)[:40]}" if listed is not None and not is_cpu else ""
    return LintFinding(
        span=code.span(fault.moved if fault.moved is not None else fault.wrapped),
        severity="warning" if fault.is_conditional else None,
        summary=f"the model is on {'the CPU, moved nowhere,' if is_cpu else fault.device} and DataParallel wants it on"
        f" {fault.first}, the first device {taken}",
        happens=f"RuntimeError: module must have its parameters and buffers on device {fault.first} (device_ids[0]) but"
        f" found one of them on device: {fault.device}.",
        fix=f'Write model.to("{fault.first}") before DataParallel takes it{begun}.',
    )


def _apart(code: PythonCode, fault: LossApart) -> LintFinding:
    return LintFinding(
        span=code.span(fault.value),
        summary=f"DataParallel gathers its output on {fault.output}, and what it is compared with is on {fault.device}",
        happens=f"RuntimeError: Expected all tensors to be on the same device, but found at least two devices,"
        f" {fault.output} and {fault.device}.",
        fix=f'Move the labels to "{fault.output}", or give DataParallel output_device={fault.device[5:]}.',
    )


@rule(
    "U02",
    title="device_ids are numbers or devices",
    source="torch/_utils.py, _get_device_index: a text is given to torch.device, which knows no '0'",
    leads_to=("program-error",),
    bad=(
        _HEAD + "net = nn.DataParallel(make().cuda(), device_ids='0,1'.split(','))\n",
        _HEAD + "gpus = '0,1'\nids = [g for g in gpus.split(',')]\nnet = nn.DataParallel(make(), device_ids=ids)\n",
    ),
    good=(
        _HEAD + "net = nn.DataParallel(make().cuda(), device_ids=[int(i) for i in '0,1'.split(',')])\n",
        _HEAD + "net = nn.DataParallel(make().cuda(), device_ids=['cuda:0', 'cuda:1'])\n",
    ),
)
def device_ids_of_text(job: LintJob) -> Iterator[LintFinding]:
    """What str.split gives are texts, and the text "0" is no device."""
    for code, launches in codes_and_starts(job):
        for call in code.calls:
            if code.torch_name(call.func) not in ("DataParallel", "DistributedDataParallel"):
                continue
            listed = argument(call, "device_ids", 1)
            value = PythonValues(code, launches[0] if launches else None).value(listed)
            texts = [each for each in value if isinstance(each, str) and each.strip().isdigit()] if isinstance(
                value, list) else []  # fmt: skip
            if listed is not None and texts:
                yield LintFinding(
                    span=code.span(listed),
                    summary=f"device_ids are texts ({texts[0]!r}), and torch wants whole numbers",
                    happens=f"RuntimeError: Invalid device string: '{texts[0]}'.",
                    fix=f"Write [int(each) for each in {code.words(listed)[:60]}].",
                )
