"""Rules of GPUs that a program names or hides itself: G08, G09, G10."""

import ast
from collections.abc import Iterator

from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.entries import entries, shown
from gpudoctor.knowledge.visible.repair import HIDING
from gpudoctor.lint import lightning, processes
from gpudoctor.lint.model import LintJob, LintLaunch, Span
from gpudoctor.lint.python_code import PythonCode, codes, codes_and_starts, constant
from gpudoctor.lint.python_devices import NamedDevices, SeenGpus, late_sets, named_devices, of_value, seen, sets_visible
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.visible_devices import fault_of
from gpudoctor.lint.trainers import of_arguments

_TORCH = "#@ file train.py\nimport os\nimport torch\nfrom torch.nn import DataParallel\n"
_TRAINER = "#@ file train.py\nfrom lightning import Trainer\ntrainer = Trainer({})\n"
_START = "#@ every node\nCUDA_VISIBLE_DEVICES=0,3 python train.py\n"
_ALONE = _TORCH.partition("\n")[2]
_SET = 'os.environ["CUDA_VISIBLE_DEVICES"] = {}\n'


@rule(
    "G08",
    title="A program numbers the GPUs that it sees from 0",
    source="CUDA Programming Guide; lightning/fabric/utilities/device_parser.py; torch/cuda/__init__.py",
    bad=(
        _TRAINER.format('accelerator="gpu", devices=[0, 3]') + _START,
        _TRAINER.format("gpus=[0, 3]") + _START,
        _TORCH + "model = DataParallel(model, device_ids=[0, 3])\n" + _START,
        _TORCH + "model = model.cuda(3)\n" + _START,
        _ALONE + _SET.format('"0,3"') + 'model.to("cuda:3")\n',
        Example(_TORCH + "model = DataParallel(model, device_ids=[0, 1, 2, 3])\n#@ every node\npython train.py\n",
                "gpus_per_node=2"),
        "CUDA_VISIBLE_DEVICES=0,3 python train.py --accelerator gpu --strategy ddp --devices 0,3\n",
    ),
    good=(
        _TRAINER.format('accelerator="gpu", devices=[0, 1]') + _START,
        _TRAINER.format('accelerator="gpu", devices=2') + _START,
        _TORCH + "model = DataParallel(model, device_ids=[1, 0]).cuda(1)\n" + _START,
        _ALONE + _SET.format('"3"') + "model.cuda(0)\n",
        Example(_TORCH + "model = DataParallel(model, device_ids=[0, 3])\n#@ every node\npython train.py\n",
                "gpus_per_node=4"),
        _TRAINER.format('accelerator="cpu", devices=4') + _START,
    ),
)  # fmt: skip
def device_number_not_visible(job: LintJob) -> Iterator[LintFinding]:
    """CUDA_VISIBLE_DEVICES hides GPUs and numbers the others anew, from 0. Whoever writes the machine's numbers into
    the program too has counted twice."""
    for code, launches in codes_and_starts(job):
        there = seen(job, code, launches)
        if there is None:
            continue
        for named_device in (*named_devices(code), *_of_trainers(job, code)):
            yield from _beyond(
                job, code.span(named_device.node), named_device, there, code.is_conditional(named_device.node)
            )
    for launch in job.launches:
        yield from _of_script(job, launch)


def _beyond(
    job: LintJob, span: Span, devices: NamedDevices, there: SeenGpus, conditional: bool
) -> Iterator[LintFinding]:
    beyond = [number for number in devices.numbers if number >= there.count]
    if not beyond:
        return
    known = all(number in there.numbers for number in devices.numbers)
    meant = [there.numbers.index(number) for number in devices.numbers] if known else []
    better = (
        devices.spelled.format(meant if len(devices.numbers) > 1 or devices.by != "torch" else meant[0])
        if meant
        else ""
    )
    twice = " The numbers are counted twice:" if meant else ""
    names = ", ".join(map(str, meant[:-1])) + f" and {meant[-1]}" if len(meant) > 1 else "".join(map(str, meant))
    yield LintFinding(
        span=span,
        severity="warning" if conditional else None,
        summary=f"{devices.shown} names GPU {beyond[0]}, and {there.phrase}"
        if not there.numbers
        else f"{devices.shown} in a program that sees {there.count} of the GPUs: {there.phrase}",
        happens=_SAYS[devices.by].format(list(devices.numbers), list(range(there.count))),
        fix=f"Write {better}.{twice} within the program {'they are' if len(meant) > 1 else 'it is'} {names}."
        if meant
        else f"Name GPUs from 0 to {there.count - 1}." if there.count > 1 else "Name GPU 0.",
        edits=(Edit(span, better),) if better and span.exact else (),
    )  # fmt: skip


_SAYS = {
    "Lightning": "MisconfigurationException: You requested gpu: {0}, but your machine only has: {1}.",
    "DataParallel": "AssertionError: Invalid device id, when DataParallel looks at its GPUs.",
    "DistributedDataParallel": "CUDA error: invalid device ordinal.",
    "torch": "CUDA error: invalid device ordinal.",
}


def _of_trainers(job: LintJob, code: PythonCode) -> Iterator[NamedDevices]:
    """devices=[0, 3] of Lightning's Trainer; a number alone is how many."""
    starts = {call.span.start for call in lightning.calls(job)}
    for call in code.calls:
        if code.span(call).start not in starts:
            continue
        arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
        if constant(arguments.get("accelerator")) not in (None, "gpu", "cuda", "auto", "ddp", "dp", "ddp_spawn"):
            continue
        for name in ("devices", "gpus"):
            listed = _listed(constant(arguments.get(name)))
            if listed:
                node = arguments[name]
                yield NamedDevices(listed, node, f"{name}={code.words(node)}", "Lightning")


@rule(
    "G11",
    title="A program names each GPU once",
    source="lightning/fabric/utilities/device_parser.py, _check_unique: Device ID's (GPU) must be unique; NCCL:"
    " Duplicate GPU detected",
    bad=(
        _TRAINER.format('accelerator="gpu", devices=[0, 0]') + "#@ every node\npython train.py\n",
        _ALONE + "model = DataParallel(model, device_ids=[1, 1])\n",
    ),
    good=(
        _TRAINER.format('accelerator="gpu", devices=[0, 1]') + "#@ every node\npython train.py\n",
        _ALONE + "model = DataParallel(model, device_ids=[0, 1])\n",
    ),
)
def gpu_named_twice(job: LintJob) -> Iterator[LintFinding]:
    """Two ranks on one GPU are what NCCL refuses, and Lightning before it."""
    for code in codes(job):
        for named_device in (*named_devices(code), *_of_trainers(job, code)):
            twice = next((number for number in named_device.numbers if named_device.numbers.count(number) > 1), None)
            if twice is not None:
                yield LintFinding(
                    span=code.span(named_device.node),
                    summary=f"{named_device.shown} names GPU {twice} twice;"
                    " a GPU takes one rank, or one part of the batch",
                    happens="It ends: device ids must be unique, or NCCL's Duplicate GPU detected.",
                    fix="Name each GPU once.",
                )


def _listed(value: object) -> tuple[int, ...]:
    """The numbers of [0, 3] and "0,3"; () of a count."""
    if isinstance(value, str) and "," in value:
        parts = [part.strip() for part in value.split(",") if part.strip()]
        return (
            tuple(map(int, parts)) if all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts) else ()
        )
    if isinstance(value, list) and all(type(item) is int and item >= 0 for item in value):
        return tuple(value)
    return ()


def _of_script(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """`--devices 0,3` of a script that hands it to Lightning's Trainer."""
    call = of_arguments(launch)
    if call is None or not lightning.is_lightning(job, launch):
        return
    shown_to_it = processes.shown_gpus(launch)
    there = of_value(shown_to_it.value) if shown_to_it is not None else None
    for name in ("devices", "gpus"):
        argument = lightning.argument(job, launch, name)
        if there is None or argument is None or name not in call.arguments:
            continue
        listed = _listed(argument.value)
        if any(number >= there.count for number in listed):
            known = all(number in there.numbers for number in listed)
            meant = ",".join(str(there.numbers.index(number)) for number in listed) if known else ""
            yield LintFinding(
                span=argument.span,
                summary=f"{argument.written} in a program that sees {there.count} of the GPUs: {there.phrase}",
                happens=_SAYS["Lightning"].format(list(listed), list(range(there.count))),
                fix=f"Write --{name} {meant}: the numbers are counted twice." if meant
                else f"Name GPUs from 0 to {there.count - 1}.",
            )  # fmt: skip


@rule(
    "G09",
    title="CUDA_VISIBLE_DEVICES is set before the first call into CUDA",
    source="torch/cuda/__init__.py: is_available calls cuInit, which reads the variable, once in a process",
    bad=(
        _ALONE + "model = Net().cuda()\n" + _SET.format('"1"') + "train(model)\n",
        _ALONE + "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n" + _SET.format('"0,1"'),
        _ALONE + "def main():\n    torch.cuda.set_device(0)\n    " + _SET.format("'1'") + "    train()\nmain()\n",
    ),
    good=(
        _ALONE + _SET.format('"1"') + "model = Net().cuda()\n",
        _ALONE + "print(torch.cuda.device_count())\ntorch.manual_seed(0)\n" + _SET.format('"1"') + "net.cuda()\n",
        "import subprocess\n" + _ALONE + "assert torch.cuda.is_available()\n" + _SET.format('"1"')
        + "subprocess.run(['python', 'train.py'])\n",
        _ALONE + _SET.format('"1"') + "model = Net().cuda()\n" + _SET.format('"1"'),
    ),
)  # fmt: skip
def visible_devices_set_too_late(job: LintJob) -> Iterator[LintFinding]:
    """CUDA reads CUDA_VISIBLE_DEVICES once, at the first call into it. `import torch` alone makes none, and neither
    does torch.cuda.device_count() of today; torch.cuda.is_available(), .cuda() and .to("cuda") do."""
    for code in codes(job):
        for visible_set, first in late_sets(code):
            line = code.line_of(first)
            yield LintFinding(
                span=code.span(visible_set.statement),
                summary=f"{VARIABLE} is set after {_short(code, first)} in line {line}, and no longer counts",
                happens="CUDA has read the variable by then, once for the whole process: the program goes on with the"
                " GPUs that it saw before, and no message tells of it.",
                fix=f"Set it above line {line}, before the first call into CUDA (import torch alone is none), or in the"
                " shell: " + _in_shell(constant(visible_set.value)),
            )


def _short(code: PythonCode, node: ast.expr) -> str:
    words = " ".join(code.words(node).split())
    return words if len(words) <= 50 else f"{words[:47]}..."


def _in_shell(value: object) -> str:
    plain = isinstance(value, str) and value and all(item in "0123456789," for item in value)
    return f"{VARIABLE}={value if plain else '...'} python ..."


@rule(
    "G10",
    title="A program sets CUDA_VISIBLE_DEVICES to a list that CUDA takes",
    source="CUDA Programming Guide; Python: os.environ takes str only",
    bad=(
        _ALONE + _SET.format('"0-3"'),
        _ALONE + _SET.format("0"),
        _ALONE + _SET.format('"cuda:1"'),
        Example(_ALONE + _SET.format('"0,1,4"'), "gpus_per_node=4"),
    ),
    good=(
        _ALONE + _SET.format('"0, 3"'),
        _ALONE + _SET.format('""') + _SET.format('"-1"'),
        _ALONE + _SET.format("str(args.gpu)"),
        Example(_ALONE + _SET.format('"0,1,3"'), "gpus_per_node=4"),
    ),
)
def visible_devices_malformed_in_python(job: LintJob) -> Iterator[LintFinding]:
    """The value is read as in a shell: numbers or UUIDs between commas, up to the first that names no GPU. What is no
    text is refused by Python itself."""
    for code in codes(job):
        for visible_set in sets_visible(code):
            value, span = constant(visible_set.value), code.span(visible_set.value)
            if isinstance(value, (int, list, tuple)) and not isinstance(value, bool):
                listed = value if isinstance(value, (list, tuple)) else [value]
                better = (
                    ",".join(str(item) for item in listed) if all(type(item) in (int, str) for item in listed) else ""
                )
                yield LintFinding(
                    span=span,
                    summary=f"{VARIABLE} is set to {code.words(visible_set.value)[:60]}, which is no text",
                    happens=f"TypeError: str expected, not {type(value).__name__}.",
                    fix=f'Write "{better}".' if better else "Write the numbers as one text, with commas.",
                    edits=(Edit(span, f'"{better}"'),) if better else (),
                )
            if not isinstance(value, str) or value.strip().lower() in HIDING:
                continue
            fault = fault_of(job.facts.gpus_per_node, entries(value.strip()))
            if fault is None:
                continue
            what, effect, better = fault
            yield LintFinding(
                span=span,
                summary=f"{VARIABLE} is {shown(value)}: {what}",
                happens=effect,
                fix=f'Write "{better}".' if better else "Write the GPUs' numbers with commas, each once.",
                edits=(Edit(span, f'"{better}"'),) if better else (),
            )
