"""Rules of GPUs for ranks that calls, torchx and accelerate's file start: G14, G15, C08, C09."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import look, processes
from gpudoctor.lint.conditions import value_of_word
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, LintLaunch, ManifestValue, Span, file_named
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts, constant
from gpudoctor.lint.python_devices import sets_visible
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import Example, LintFinding, rule

_NOTEBOOK = "from accelerate import notebook_launcher\ndef f():\n    train()\nnotebook_launcher(f, (), {})\n"
_STARTERS = {
    "notebook_launcher": ("num_processes", 2),
    "TorchDistributor": ("num_processes", 0),
    "LaunchConfig": ("nproc_per_node", 2),
    "start_processes": ("nprocs", 2),
}
"""Calls that start ranks on this machine, and where they say how many."""


@rule(
    "G14",
    title="A call starts no more ranks than the machine has GPUs",
    needs="facts",
    source="accelerate, launchers.py; pyspark.ml.torch.distributor, local_mode; torch/distributed/launcher/api.py;"
    " torchx, components/dist.py: -j NxG",
    leads_to=("duplicate-gpu",),
    bad=(
        Example(_NOTEBOOK.format("num_processes=8"), "gpus_per_node=4"),
        "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\n" + _NOTEBOOK.format("num_processes=4"),
        Example("torchx run -s local_cwd dist.ddp -j 1x8 --script t.py\n", "nodes=1,gpus_per_node=4"),
        "torchx run -s local_cwd dist.ddp -j 2x2 --gpu 2 --script t.py\n",
    ),
    good=(
        Example(_NOTEBOOK.format("num_processes=4"), "gpus_per_node=4"),
        _NOTEBOOK.format("num_processes=4"),
        Example("torchx run -s local_cwd dist.ddp -j 2x4 --script t.py\n", "nodes=2,gpus_per_node=4"),
        "torchx run -s local_cwd -cfg auto_set_cuda_visible_devices=true dist.ddp -j 2x2 --gpu 2 --script t.py\n",
    ),
)
def more_ranks_than_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Each rank takes the GPU of its local rank; one beyond the last GPU finds none."""
    gpus = job.facts.gpus_per_node
    for launch in job.launches:
        ranks = _counts_of(launch)[1]
        if ranks is not None and gpus is not None and ranks > gpus and not processes.on_cpu(launch):
            option = launch.option("j")
            yield _too_many(option.span if option is not None else look.head_span(launch), ranks, gpus, "a node has")
        else:
            yield from _on_one_machine(job, launch)
    for code, starts in codes_and_starts(job):
        values = PythonValues(code, starts[0] if len(starts) == 1 else None)
        shown = _shown(code)
        there, why = (shown, "CUDA_VISIBLE_DEVICES shows") if shown is not None else (gpus, "the machine has")
        for call in code.calls if there else ():
            name, place = _STARTERS.get(code.name(call.func).rpartition(".")[2], ("", 0))
            node = argument(call, name, place) if name else None
            count = values.number(node)
            if node is None or count is None or there is None or count <= there or _on_cpu(code, call):
                continue
            yield _too_many(code.span(node), count, there, why)


def _on_one_machine(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """torchx's local schedulers start all replicas here, and show each the same GPUs (schedulers/local_scheduler.py:
    auto_set_cuda_visible_devices is False)."""
    nodes, ranks = _counts_of(launch)
    scheduler, told = launch.text("scheduler") or "", launch.text("scheduler-args") or ""
    if not (nodes and ranks) or nodes < 2 or scheduler not in ("local", "local_cwd") or processes.on_cpu(launch):
        return
    if "auto_set_cuda_visible_devices" in told or launch.option("gpu") is None or launch.text("gpu") == "0":
        return  # without --gpu it may be a trial on CPUs, as torchx's own documentation has it
    option = launch.option("j")
    yield LintFinding(
        span=option.span if option is not None else look.head_span(launch),
        summary=f"{scheduler} starts {nodes} replicas of {counted(ranks, 'rank')} on this machine, and each sees"
        " the same GPUs",
        happens="The first ranks of every replica take GPU 0: NCCL's Duplicate GPU detected.",
        fix=f"Write -j 1x{nodes * ranks}, or -cfg auto_set_cuda_visible_devices=true.",
    )


def _counts_of(launch: LintLaunch) -> tuple[int | None, int | None]:
    each = look.traits(launch).counts
    return each(launch) if each is not None and launch.launcher == "torchx" else (None, None)


def _too_many(span: Span, ranks: int, gpus: int, who: str) -> LintFinding:
    return LintFinding(
        span=span,
        summary=f"{counted(ranks, 'rank')} are started on a machine, and {who} {counted(gpus, 'GPU')}",
        happens="The ranks beyond end: invalid device ordinal, or NCCL's Duplicate GPU detected.",
        fix=f"Start {gpus}, or show more GPUs.",
    )


def _on_cpu(code: PythonCode, call: ast.Call) -> bool:
    told = argument(call, "use_gpu")
    local = argument(call, "local_mode")
    off = isinstance(told, ast.Constant) and told.value is False
    spread = isinstance(local, ast.Constant) and local.value is False
    return off or spread or re.search(r"\bgloo\b|cpu=True|use_cpu", code.text) is not None


def _shown(code: PythonCode) -> int | None:
    """GPUs that the program shows itself by a constant."""
    places = list(sets_visible(code))
    told = constant(places[0].value) if len(places) == 1 else None
    return len([part for part in told.split(",") if part.strip()]) if isinstance(told, str) else None


_CONFIG = (
    "accelerate launch --config_file c.yaml{} train.py\n#@ file c.yaml\ncompute_environment: LOCAL_MACHINE\n"
    "distributed_type: {}\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: {}\nuse_cpu: {}\n"
)
_KINDS = ("multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "tpu")


def _config(job: LintJob, launch: LintLaunch) -> dict[str, ManifestValue]:
    """The values of accelerate's file, by their keys."""
    name = launch.text("config-file") or ""
    option = next((each for each in launch.every_option if each.name == "config-file"), None)
    if not name and option is not None and option.value is not None:
        name = option.value.text or ""
    file = file_named(job.sections, name)
    documents = read_manifests(file.text, file.start, file.line) if file is not None else ()
    return {value.path[-1]: value for document in documents for value in document.values if value.path}


@rule(
    "C08",
    title="accelerate's file names a kind of training for its processes",
    source="accelerate 1.15, commands/launch.py: without multi_gpu, deepspeed, fsdp or megatron the simple launcher,"
    " which starts one process",
    bad=(_CONFIG.format("", "'NO'", 4, "false"), _CONFIG.format("", '"NO"', 8, "false")),
    good=(
        _CONFIG.format("", "MULTI_GPU", 4, "false"),
        _CONFIG.format("", "'NO'", 1, "false"),
        _CONFIG.format(" --multi_gpu", "'NO'", 4, "false"),
    ),
)
def file_without_a_kind(job: LintJob) -> Iterator[LintFinding]:
    """distributed_type NO is the simple launcher: num_processes is not looked at."""
    for launch in job.launches:
        values = _config(job, launch) if launch.launcher == "accelerate" else {}
        kind, count = values.get("distributed_type"), values.get("num_processes")
        if kind is None or count is None or kind.value != "NO" or not re.fullmatch(r"[0-9]{1,5}", count.value):
            continue
        if int(count.value) < 2 or any(launch.option(kind) is not None for kind in _KINDS):
            continue
        yield LintFinding(
            span=kind.span,
            summary=f"distributed_type is NO, and num_processes is {count.value}: accelerate starts one process",
            happens="One process trains alone; the other GPUs idle, without a message.",
            fix="Write distributed_type: MULTI_GPU.",
        )


@rule(
    "C09",
    title="accelerate's file does not turn the GPUs off",
    source="accelerate 1.15, utils/launch.py: ACCELERATE_USE_CPU is args.cpu or args.use_cpu",
    bad=(_CONFIG.format("", "MULTI_GPU", 4, "true"), _CONFIG.format("", "FSDP", 8, "true")),
    good=(_CONFIG.format("", "MULTI_GPU", 4, "false"), _CONFIG.format("", "MULTI_CPU", 4, "true")),
)
def gpus_turned_off(job: LintJob) -> Iterator[LintFinding]:
    """use_cpu: true makes each rank compute on the CPU, whatever distributed_type says."""
    for launch in job.launches:
        values = _config(job, launch) if launch.launcher == "accelerate" else {}
        kind, cpu = values.get("distributed_type"), values.get("use_cpu")
        if kind is None or cpu is None or value_of_word(cpu.value) is not True:
            continue
        if kind.value in ("MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM"):
            yield LintFinding(
                span=cpu.span,
                summary=f"use_cpu is true beside distributed_type {kind.value}",
                happens="The ranks compute on the CPU, or end where the kind of training wants GPUs.",
                fix="Write use_cpu: false.",
            )


_VERTEX = (
    "workerPoolSpecs:\n  - machineSpec: {{machineType: {}, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: {}}}\n"
    "    replicaCount: 1\n    containerSpec:\n      imageUri: x:1\n      command: [python, train.py]\n"
)
_OF_TYPE = {
    "a2-highgpu-1g": 1, "a2-highgpu-2g": 2, "a2-highgpu-4g": 4, "a2-highgpu-8g": 8, "a2-megagpu-16g": 16,
    "a2-ultragpu-1g": 1, "a2-ultragpu-2g": 2, "a2-ultragpu-4g": 4, "a2-ultragpu-8g": 8, "a3-highgpu-8g": 8,
    "a3-megagpu-8g": 8, "a3-ultragpu-8g": 8, "g2-standard-4": 1, "g2-standard-8": 1, "g2-standard-12": 1,
    "g2-standard-16": 1, "g2-standard-24": 2, "g2-standard-32": 1, "g2-standard-48": 4, "g2-standard-96": 8,
}  # fmt: skip
"""GPUs that Google's accelerator-optimized machine types have: Compute Engine's documentation, GPU machine types."""
_NAMED = {
    "a2-highgpu": "NVIDIA_TESLA_A100", "a2-megagpu": "NVIDIA_TESLA_A100", "a2-ultragpu": "NVIDIA_A100_80GB",
    "a3-highgpu": "NVIDIA_H100_80GB", "a3-megagpu": "NVIDIA_H100_MEGA_80GB", "a3-ultragpu": "NVIDIA_H200_141GB",
    "g2-standard": "NVIDIA_L4",
}  # fmt: skip
"""How Vertex AI names their GPUs (AcceleratorType)."""


@rule(
    "G15",
    title="A machine of Google's is asked for the GPUs that its type has",
    source="Compute Engine's documentation, GPU machine types: a2, a3 and g2 have a fixed number",
    bad=(
        _VERTEX.format("a2-highgpu-4g", 8),
        _VERTEX.format("a2-highgpu-8g", 4),
        _VERTEX.format("g2-standard-24", 2),
    ),
    good=(_VERTEX.format("a2-highgpu-8g", 8), _VERTEX.format("n1-standard-32", 4)),
)
def gpus_of_another_type(job: LintJob) -> Iterator[LintFinding]:
    """Only n1 machines take a number of GPUs; those of a2, a3 and g2 stand in the type's name."""
    for manifest in job.manifests:
        values = {value.path: value for value in manifest.values}
        for path, value in values.items():
            kind = values.get((*path[:-1], "machineType")) if path[-1:] == ("acceleratorCount",) else None
            has = _OF_TYPE.get(kind.value) if kind is not None else None
            if kind is None or has is None or not value.value.isdecimal() or int(value.value[:6]) == has:
                continue
            yield LintFinding(
                span=value.span,
                summary=f"acceleratorCount is {value.value}, and {kind.value} has {counted(has, 'GPU')}",
                happens="The job is refused.",
                fix=f"Write acceleratorCount: {has}, or another machineType.",
            )
        for path, value in values.items():
            kind = values.get((*path[:-1], "machineType")) if path[-1:] == ("acceleratorType",) else None
            named = _NAMED.get(kind.value.rpartition("-")[0]) if kind is not None else None
            if kind is not None and named is not None and value.value.startswith("NVIDIA_") and value.value != named:
                yield LintFinding(
                    span=value.span,
                    summary=f"acceleratorType is {value.value}, and {kind.value} has {named}",
                    happens="The job is refused: the machine type does not support the accelerator.",
                    fix=f"Write acceleratorType: {named}, or another machineType.",
                )
