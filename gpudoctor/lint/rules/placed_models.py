"""Rules of what libraries place or start anew, and of the current GPU: T48, T50, T51."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import lightning, processes
from gpudoctor.lint.courses.seats import SETS_RANKS
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.notebook import looks_like_notebook
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts, constant
from gpudoctor.lint.python_values import PythonValues, Undecided
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_files import everywhere
from gpudoctor.lint.told_options import world_of

_HF = (
    "#@ file sft.py\nfrom transformers import AutoModelForCausalLM, Trainer\n"
    "model = AutoModelForCausalLM.from_pretrained('m'{})\nTrainer(model=model).train()\n#@ every node\n"
)
_FOUR = "torchrun --standalone --nproc_per_node=4 sft.py\n"
_ZERO = (
    "accelerate launch --config_file z.yaml sft.py\n#@ file z.yaml\ndistributed_type: DEEPSPEED\nnum_machines: 1\n"
    "num_processes: 1\ndeepspeed_config:\n  zero_stage: {}\n"
)
_SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")
_TRAINS = lazy_re(r"Trainer\(|\.prepare\(|DistributedDataParallel|\.backward\(")


@rule(
    "T48",
    title="A model that several processes train is not spread over the GPUs by device_map",
    source="accelerate, Accelerator.prepare_model: You can't train a model that has been loaded with device_map='auto'"
    " in any distributed mode; transformers, from_pretrained: DeepSpeed Zero-3 is not compatible with a device_map",
    leads_to=("program-error",),
    bad=(
        _HF.format(", device_map='auto'") + _FOUR,
        _HF.format(", device_map={'': 0}") + _ZERO.format(3),
        _HF.format(", device_map={'': 0}") + _FOUR,
    ),
    good=(
        _HF.format("") + _FOUR,
        _HF.format(", device_map='auto'") + "python sft.py\n",
        _HF.format(", device_map={'': 0}") + _ZERO.format(2),
    ),
)
def spread_in_each_process(job: LintJob) -> Iterator[LintFinding]:
    """device_map="auto" gives the layers of one model to all GPUs of the machine: that is one process's way to train.
    ZeRO-3 places the parameters itself."""
    for code, starts in codes_and_starts(job):
        if "device_map" not in code.text or not _TRAINS.search(code.text):
            continue
        for launch in starts:
            zero = _is_zero_three(job, launch)
            several = (processes.per_node(job, launch) or world_of(job, launch) or 1) > 1
            values = PythonValues(code, launch)
            for call in code.calls:
                told = next((each.value for each in call.keywords if each.arg == "device_map"), None)
                if told is None or not (zero or several) or code.is_conditional(call):
                    continue
                value = values.value(told)
                mapping = isinstance(told, ast.Dict) or (not isinstance(value, Undecided) and value is not None)
                spreads = several and value in _SPREADS
                by_number = several and not zero and launch.launcher in SETS_RANKS
                if by_number and (fixed := _fixed(told)) is not None:
                    yield LintFinding(
                        span=code.span(told),
                        summary=f"device_map={code.words(told)[:40]} in each of several processes: all load the model"
                        f" onto GPU {fixed}",
                        happens="GPU 0 runs out of memory, or accelerate ends: You can't train a model that has been"
                        " loaded on another device than the one of the process.",
                        fix='Write device_map={"": int(os.environ["LOCAL_RANK"])}, or leave it out.',
                    )
                    break
                if not spreads and not (zero and mapping):
                    continue
                yield LintFinding(
                    span=code.span(told),
                    summary=f"device_map={code.words(told)[:40]} under DeepSpeed's ZeRO stage 3, which places the model"
                    if zero
                    else f'device_map="{value}" in each of several processes: each spreads the model over all GPUs',
                    happens="ValueError: DeepSpeed Zero-3 is not compatible with passing a device_map."
                    if zero
                    else "accelerate ends: You can't train a model that has been loaded with device_map='auto' in any"
                    " distributed mode.",
                    fix="Take device_map out."
                    if zero
                    else "Take device_map out (or write device_map={'': local_rank}); or start one process by python.",
                )
            break


def _is_zero_three(job: LintJob, launch: LintLaunch) -> bool:
    if launch.text("zero-stage") == "3" and launch.option("use-deepspeed") is not None:
        return True
    named = everywhere(job, launch).get("deepspeed")
    name = (named.value or "").rpartition("/")[2] if named is not None else launch.text("deepspeed-config-file")
    return bool(name) and any(
        section.kind == "file"
        and section.name.rpartition("/")[2] == (name or "").rpartition("/")[2]
        and re.search(r'"stage"\s*:\s*3\b', section.text) is not None
        for section in job.sections
    )


_CELLS = '{{"cells": [\n{{"cell_type": "code",\n"source": [\n"import lightning as L\\n",\n{}]}}]}}\n'
_TRAINER = '"trainer = L.Trainer(devices=2, strategy=\\"{}\\", accelerator=\\"gpu\\")\\n"\n'


@rule(
    "T50",
    title="In a notebook Lightning's strategy is one that a notebook can start",
    source="lightning 2.1, accelerator_connector.py: is not compatible with an interactive environment; launchers'"
    " is_interactive_compatible is true of fork alone",
    leads_to=("program-error",),
    bad=(_CELLS.format(_TRAINER.format("ddp")), _CELLS.format(_TRAINER.format("ddp_spawn"))),
    good=(_CELLS.format(_TRAINER.format("ddp_notebook")), _CELLS.format(_TRAINER.format("auto"))),
)
def script_started_from_a_notebook(job: LintJob) -> Iterator[LintFinding]:
    """ddp starts the script again for each further GPU, and a notebook is no script; only forked processes work."""
    if not looks_like_notebook(job.text):
        return
    for call in lightning.calls(job):
        source = call.arguments.get("strategy", "")
        try:
            value = constant(ast.parse(source, mode="eval").body)
        except (SyntaxError, ValueError):
            continue
        if (
            isinstance(value, str)
            and re.match(r"(?:ddp|fsdp|deepspeed)", value)
            and not re.search("notebook|fork", value)
        ):
            yield LintFinding(
                span=call.spans["strategy"],
                summary=f'strategy="{value}" in a notebook: Lightning cannot start the notebook again for each GPU',
                happens=f"MisconfigurationException: `Trainer(strategy='{value}')` is not compatible with an"
                " interactive environment.",
                fix='Write strategy="ddp_notebook", or move the training into a script.',
            )


_JOIN = (
    "#@ file t.py\nimport os\nimport torch\nimport torch.distributed as dist\ndist.init_process_group('{}')\n{}"
    "dist.all_gather_object([None] * 4, os.uname().nodename)\n#@ every node\n"
    "torchrun --standalone --nproc_per_node=4 t.py\n"
)
_OBJECTS = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list")
_CURRENT = lazy_re(r"set_device\(|device_id=|cuda\.device\(|CUDA_VISIBLE_DEVICES|set_default_device")


@rule(
    "T51",
    title="Objects are sent by the GPU of the rank",
    source="torch/distributed/distributed_c10d.py: with NCCL, objects go by torch.cuda.current_device()",
    leads_to=("duplicate-gpu",),
    bad=(
        _JOIN.format("nccl", ""),
        _JOIN.format("nccl", "net = torch.nn.Linear(4, 4).to('cuda:' + os.environ['LOCAL_RANK'])\n"),
    ),
    good=(_JOIN.format("nccl", "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"), _JOIN.format("gloo", "")),
)
def objects_by_the_first_gpu(job: LintJob) -> Iterator[LintFinding]:
    """Objects travel by the current GPU, whatever device the model is moved to."""
    for code, starts in codes_and_starts(job):
        if any((processes.per_node(job, launch) or 0) > 1 for launch in starts) and not code.brings(
            *_CHOOSE_THEMSELVES
        ):
            yield from _objects(code)


_CHOOSE_THEMSELVES = ("lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed", "ray", "composer")
"""Packages that set each rank's GPU."""


def _objects(code: PythonCode) -> Iterator[LintFinding]:
    joins = [call for call in code.calls if code.torch_name(call.func) == "init_process_group"]
    if len(joins) != 1 or constant(argument(joins[0], "backend", 0)) != "nccl" or _CURRENT.search(code.text):
        return
    for call in code.calls:
        name = code.torch_name(call.func)
        if name in _OBJECTS and not any(each.arg in ("group", "device") for each in call.keywords):
            yield LintFinding(
                span=code.span(call),
                summary=f"{name} goes by the current GPU, which is GPU 0 in each rank: set_device is never called",
                happens="NCCL ends with: Duplicate GPU detected; or it hangs.",
                fix='Write torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before init_process_group.',
            )
            return


def _fixed(told: ast.expr) -> int | None:
    """The GPU of device_map={"": 0}, or of "cuda:0"."""
    value = constant(told)
    place = value.get("") if isinstance(value, dict) and len(value) == 1 else value
    if isinstance(place, str) and place.startswith("cuda:") and place[5:].isdecimal():
        place = int(place[5:])
    return place if type(place) is int and place >= 0 else None
