"""How many ranks a start has, where its launcher says it in a way of its own, or its default is a rank for each GPU."""

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look, processes
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest, Word
from gpudoctor.lint.pods import manifest_of
from gpudoctor.lint.program_arguments import decided_number
from gpudoctor.lint.programs import program_of
from gpudoctor.lint.python_code import PythonCode, argument, codes, codes_and_starts, has_stars
from gpudoctor.lint.python_text import last_name

_STARTS_MORE = lazy_re(
    r"\b(?:distributed|spawn|start_processes|Process|subprocess|Popen|Trainer|Accelerator|deepspeed|horovod|hvd|ray|Fabric"
    r"|fabric|launch\w*|torchrun|multiprocessing|mpi4py|Pool|submitit|fork|os\.system|RANK)\b"
)
"""A program with none of these words is one process."""
_RANKS_EACH = (
    *("nproc_per_node", "nprocs_per_node", "num_proc_per_node", "processes_per_node", "process_count_per_instance"),
    *("tasks_per_node", "ntasks_per_node", "slots_per_trial", "slots_per_worker"),
)
_OF_RAY = ("TorchTrainer", "HorovodTrainer", "LightningTrainer", "TransformersTrainer", "AccelerateTrainer")


class ToldCounts(Struct, frozen=True):
    """What is told; None: nothing."""

    nodes: int | None = None
    each: int | None = None
    total: int | None = None


NOTHING = ToldCounts()


def counts(job: LintJob, launch: LintLaunch) -> ToldCounts:
    """Of one start."""
    for reader in (_pods, _flux, _jsrun, _mpirun, _gpus_each, _by_program):
        told_counts = reader(job, launch)
        if told_counts != NOTHING:
            return told_counts
    return NOTHING


def of_python(job: LintJob) -> ToldCounts:
    """Of a program that hands its ranks to somebody: Ray's trainers, submitit's executors, torch's elastic_launch."""
    return next((told_counts for code in codes(job) if (told_counts := _called(code, None)) != NOTHING), NOTHING)


def starter(job: LintJob) -> tuple[str, ToldCounts]:
    """A call that tells somebody how many ranks to start on each node, whoever that is: `current.torch.run(...,
    nproc_per_node=4)`. Empty where there is none."""
    for code in codes(job):
        for call in code.calls:
            by_keyword = next((keyword.arg for keyword in call.keywords if keyword.arg in _RANKS_EACH), None)
            if by_keyword is not None and last_name(call.func) not in ("dict", "add_argument", "ArgumentParser"):
                each = decided_number(code, argument(call, by_keyword), None)
                return ast.unparse(call.func)[:60], ToldCounts(each=each or None)
    return "", NOTHING


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,6}", text, re.ASCII) else None


def _pods(job: LintJob, launch: LintLaunch) -> ToldCounts:
    """Plain python in the pods of an operator that sets RANK: a rank in each. Azure ML starts several."""
    if launch.launcher != "python":
        return NOTHING
    manifest = manifest_of(job, launch) or (job.manifests[0] if len(job.manifests) == 1 else None)
    if manifest is None or not look.from_platform(job, launch):
        return NOTHING
    values = {".".join(value.path): value.value for value in manifest.values}
    if manifest.kind == "PyTorchJob":
        pods = _sum(values.get(f"spec.pytorchReplicaSpecs.{role}.replicas", "0") for role in ("Master", "Worker"))
        return ToldCounts(pods, 1, pods) if pods else NOTHING
    if manifest.kind == "AzureML" and values.get("distribution.type", "").lower() in ("pytorch", "mpi"):
        each = _number(values.get("distribution.process_count_per_instance", "1"))
        nodes = _number(values.get("resources.instance_count", "1"))
        return ToldCounts(nodes, each, nodes * each if nodes and each else None)
    return _volcano(manifest, values)


def _volcano(manifest: Manifest, values: dict[str, str]) -> ToldCounts:
    """Of a Job of Volcano with the plugin pytorch: the pods of its two tasks."""
    arguments = [value.value for value in manifest.values if value.path[:3] == ("spec", "plugins", "pytorch")]
    if not arguments or "volcano" not in manifest.api_version:
        return NOTHING
    roles = dict.fromkeys(("master", "worker"), "")
    for role in roles:
        roles[role] = next((word.partition("=")[2] for word in arguments if word.startswith(f"--{role}=")), role)
    replicas = [
        values.get(path.replace(".name", ".replicas"), "1")
        for path, name in values.items()
        if re.fullmatch(r"spec\.tasks\.\d+\.name", path, re.ASCII) and name in roles.values()
    ]
    pods = _sum(replicas)
    return ToldCounts(pods, 1, pods) if pods else NOTHING


def of_images(job: LintJob) -> tuple[str, ToldCounts]:
    """A job of an operator whose containers name no command: their images start the training (args are words for the
    image's own). Empty: there is none."""
    for manifest in job.manifests:
        values = {".".join(value.path): value.value for value in manifest.values}
        if any("command" in value.path for value in manifest.values) or "image" not in str(values.keys()):
            continue
        if manifest.kind == "PyTorchJob":
            pods = _sum(values.get(f"spec.pytorchReplicaSpecs.{role}.replicas", "0") for role in ("Master", "Worker"))
            return manifest.kind, ToldCounts(nodes=pods or None)
        if (counts := _volcano(manifest, values)) != NOTHING:
            return f"{manifest.kind} (Volcano)", ToldCounts(nodes=counts.nodes)
    return "", NOTHING


def _sum(texts: Iterator[str] | list[str]) -> int | None:
    numbers = [_number(text) for text in texts]
    return sum(number or 0 for number in numbers) if None not in numbers else None


def _flux(job: LintJob, launch: LintLaunch) -> ToldCounts:
    """flux-run(1): -n tasks, else --tasks-per-node on each of -N nodes, else one on each."""
    if launch.launcher != "flux":
        return NOTHING
    nodes, each, total = (_of(job, launch, name) for name in ("nodes", "tasks-per-node", "ntasks"))
    if total is None and nodes and launch.option("ntasks") is None:
        total = nodes * each if each else nodes if launch.option("tasks-per-node", "cores") is None else None
    return ToldCounts(nodes, each, total)


def _option(words: tuple[Word, ...], *names: str) -> int | None:
    for index, word in enumerate(words):
        for name in names:
            if word.shown == name and index + 1 < len(words):
                return _number(words[index + 1].text)
            if word.shown.startswith(f"{name}=") or (len(name) == 2 and re.match(rf"{name}\d", word.shown)):
                return _number((word.text or "")[len(name) :].removeprefix("="))
    return None


def _jsrun(job: LintJob, launch: LintLaunch) -> ToldCounts:
    """jsrun(1): -n resource sets of -a tasks (1 unless it is given), -r of them on a host."""
    if launch.launcher != "jsrun":
        return NOTHING
    sets, hosts = (_of(job, launch, name) for name in ("nrs", "rs-per-host"))
    tasks = 1 if launch.option("tasks-per-rs") is None else _of(job, launch, "tasks-per-rs")
    if not sets or not tasks or launch.option("np") is not None:
        return NOTHING
    return ToldCounts(sets // hosts if hosts else None, hosts * tasks if hosts else None, sets * tasks)


def _of(job: LintJob, launch: LintLaunch, name: str) -> int | None:
    option = launch.option(name)
    return _number(allocation.resolved(job, option.value)) if option is not None else None


def _mpirun(job: LintJob, launch: LintLaunch) -> ToldCounts:
    """-npernode, -ppn, --map-by ppr:N:node."""
    if launch.launcher != "mpirun":
        return NOTHING
    each = _of(job, launch, "npernode")
    option = launch.option("map-by")
    if each is None and option is not None and option.value is not None and option.value.text is not None:
        match = re.match(r"ppr:([0-9]{1,5}):node\b", option.value.text, re.ASCII)
        each = int(match[1]) if match is not None else None
    return ToldCounts(each=each) if each else NOTHING


def _gpus_each(job: LintJob, launch: LintLaunch) -> ToldCounts:
    """Launchers that start a rank for each GPU of the node unless they are told a number: deepspeed, composer,
    LLaMA-Factory with FORCE_TORCHRUN."""
    gpus = processes.gpus(job, launch)
    if launch.launcher == "deepspeed" and launch.option("num-gpus", "exclude") is None:
        option = launch.option("include")
        if option is None:
            return ToldCounts(each=gpus)
        match = re.fullmatch(r"[^:@]+:([0-9]+(?:,[0-9]+)*)", option.value.text or "") if option.value else None
        return ToldCounts(each=len(set(match[1].split(",")))) if match is not None else NOTHING
    words = launch.invocation.words
    if launch.entry == "composer":
        each, total = _option(words, "-n", "--nproc"), _option(words, "--world_size")
        unsure = any(word.shown in ("-n", "--nproc") for word in words) and each is None
        alone = not any(word.shown.startswith(("--node_rank", "--base_rank", "--world_size")) for word in words)
        if alone and "WORLD_SIZE" not in launch.invocation.settings and total is None:
            total = each  # composer/cli/launcher.py: the world is this node's, unless it is told otherwise
        return ToldCounts(each=None if unsure else each or gpus, total=total)
    if launch.entry == "colossalai run":
        return ToldCounts(nodes=_option(words, "--num_nodes"), each=_option(words, "--nproc_per_node"))
    forced = launch.invocation.settings.get("FORCE_TORCHRUN")
    if launch.launcher == "llamafactory" and forced is not None and "USE_RAY" not in launch.invocation.settings:
        return ToldCounts(each=gpus) if launch.option("nproc-per-node") is None else NOTHING
    return NOTHING


def _by_program(job: LintJob, launch: LintLaunch) -> ToldCounts:
    """What the program of plain python, or of a job handed to Ray, makes of itself."""
    if launch.launcher != "python" and launch.entry != "ray job submit":
        return NOTHING
    for code, starts in codes_and_starts(job):
        if launch in starts and (told_counts := _called(code, launch)) != NOTHING:
            return told_counts
    program = program_of(job, launch)
    alone = len(job.launches) == 1 and not launch.around and not look.from_platform(job, launch)
    if program is None or not alone or launch.invocation.in_loop or launch.entry != "python" or job.is_batch:
        return NOTHING
    if _STARTS_MORE.search(program.text) or (job.facts.nodes or 1) > 1 or job.node_sections:
        return NOTHING
    if ".backward(" not in program.text or launch.invocation.within:
        return NOTHING  # who trains is another file, or stands on another machine
    return ToldCounts(1, 1, 1)


def _called(code: PythonCode, launch: LintLaunch | None) -> ToldCounts:
    names = {last_name(call.func) for call in code.calls}

    def whole(call: ast.Call, name: str) -> int | None:
        return decided_number(code, argument(call, name), launch) or None

    for call in code.calls:
        name = last_name(call.func)
        if has_stars(call):
            continue
        if name == "ScalingConfig" and names & {*_OF_RAY}:
            return ToldCounts(total=whole(call, "num_workers"))
        if name == "LaunchConfig" and "elastic_launch" in names:
            least, most = whole(call, "min_nodes"), whole(call, "max_nodes")
            each = whole(call, "nproc_per_node")
            nodes = least if least == most else None
            return ToldCounts(nodes, each, nodes * each if nodes and each else None)
        by_text = "torchrun" in code.text and argument(call, "launcher") is None  # in the script that it starts
        if name in ("SlurmExecutor", "LocalExecutor") and code.brings("nemo_run") and not by_text:
            nodes = whole(call, "nodes") if argument(call, "nodes") is not None else 1
            each = whole(call, "torchrun_nproc_per_node") or whole(call, "ntasks_per_node")
            return ToldCounts(nodes, each, nodes * each if nodes and each else None)
        if name == "update_parameters" and names & {"AutoExecutor", "SlurmExecutor"}:
            nodes, each = whole(call, "nodes"), whole(call, "tasks_per_node")
            if nodes and each:
                return ToldCounts(nodes, each, nodes * each)
    return NOTHING
