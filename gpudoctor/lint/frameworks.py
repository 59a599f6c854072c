"""What trains in a Python text: Lightning, accelerate, DeepSpeed, or torch alone, and in which of its ways."""

import ast
from functools import lru_cache

from gpudoctor.lint.lightning import calls as lightning_calls, is_of_another
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import PythonCode, codes_and_starts
from gpudoctor.lint.split_models import split_models

_CLASSES = {
    "accelerate": ("accelerate.Accelerator", "accelerate.accelerator.Accelerator"),
    "deepspeed": ("deepspeed.initialize",),
    "horovod": ("horovod.torch.init",),
    "torch_xla": ("torch_xla.distributed.xla_multiprocessing.spawn", "torch_xla.launch"),
    "transformers": ("transformers.Trainer", "transformers.TrainingArguments", "transformers.Seq2SeqTrainer"),
}
"""A call of one of these is the framework's training."""
BESIDE_TORCH = ("apex", "fairscale")
"""Packages that wrap torch's models in torch's ways."""
_WAYS = {
    "ShardedDataParallel": "FSDP",
    "Pipe": "a pipeline",
    "DistributedDataParallel": "DistributedDataParallel",
    "FullyShardedDataParallel": "FSDP",
    "fully_shard": "FSDP",
    "DataParallel": "DataParallel",
}


def trains_by_tensorflow(job: LintJob) -> bool:
    """A program of the text imports TensorFlow, and none torch."""
    codes = [code for code, _ in codes_and_starts(job)]
    return any(code.brings("tensorflow") for code in codes) and not any(code.brings("torch") for code in codes)


def framework_in(job: LintJob, launch: LintLaunch | None = None) -> str | None:
    """ "lightning", "torch (DataParallel)"; None where nothing in the text trains. With a launch: of its program."""
    if launch is None and lightning_calls(job):
        return "lightning"
    found = [
        _of(code)
        for code, launches in codes_and_starts(job)
        if launch is None or launch in launches
    ]  # fmt: skip
    return next((each for each in found if each is not None), None)


@lru_cache(maxsize=16)  # asked for each start of a program
def _of(code: PythonCode) -> str | None:
    names = {code.name(call.func) for call in code.calls}
    for call in code.calls:
        last = code.name(call.func).rpartition(".")[2]
        if last in ("Trainer", "Fabric", "LightningLite", "LightningCLI") and not is_of_another(code, call.func):
            return "lightning"
    for framework, classes in _CLASSES.items():
        if names & set(classes):
            return framework
    if not any(name.startswith("torch.") for name in names) and not code.brings("torch", *BESIDE_TORCH):
        return None
    ways = [way for name, way in _WAYS.items() if any(_is(each, name) for each in names)]
    if any(True for _ in split_models(code)):
        ways.append("a model split over GPUs")
    if ways:
        return f"torch ({', '.join(dict.fromkeys(ways))})"
    if any(_is(name, "init_process_group") or _is(name, "DistributedSampler") for name in names):
        return "torch (torch.distributed)"
    attributes = {call.func.attr for call in code.calls if isinstance(call.func, ast.Attribute)}
    return "torch (one process, no wrapper)" if {"backward", "cuda"} & attributes else None


def _is(name: str, last: str) -> bool:
    return name.partition(".")[0] in ("torch", *BESIDE_TORCH) and name.rpartition(".")[2] == last
