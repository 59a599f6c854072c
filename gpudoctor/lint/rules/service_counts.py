"""Rules of numbers that services and flux hand to what they start: J28 to J32."""

import json
import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch, Option
from gpudoctor.lint.pods import is_in
from gpudoctor.lint.python_code import argument, codes_and_starts, constant
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule

_DSTACK = "type: task\nname: t\nnodes: 2\ncommands:\n  - {}\nresources:\n  gpu: H100:8\n  shm_size: 64GB\n"
_TORCHRUN = (
    "torchrun --nproc-per-node=${} --nnodes=$DSTACK_NODES_NUM --node-rank=$DSTACK_NODE_RANK"
    " --master-addr=$DSTACK_MASTER_NODE_IP --master-port=29500 train.py"
)
_ACCELERATE = (
    "accelerate launch --num_processes=${} --num_machines=$DSTACK_NODES_NUM --machine_rank=$DSTACK_NODE_RANK"
    " --main_process_ip=$DSTACK_MASTER_NODE_IP --main_process_port=29500 train.py"
)
_VARIABLE = lazy_re(r"[\"']?\$(?:(\w+)|\{(\w+)\})[\"']?")


def _names(option: Option | None) -> str:
    """The variable that an option's value is, and nothing else."""
    word = option.value if option is not None else None
    if word is None or len(word.expansions) != 1 or _VARIABLE.fullmatch(word.expansions[0].raw) is None:
        return ""
    return word.expansions[0].name if word.shown in (word.expansions[0].raw, word.text) else ""


@rule(
    "J28",
    title="A service's number of GPUs is that of a node where one node is meant, and of all where all are",
    source="dstack's reference of environment variables: DSTACK_GPUS_NUM is the total of the run; SkyPilot's:"
    " SKYPILOT_NUM_GPUS_PER_NODE; accelerate launch --help: --num_processes is the total",
    leads_to=("duplicate-gpu",),
    bad=(
        _DSTACK.format(_TORCHRUN.format("DSTACK_GPUS_NUM")),
        _DSTACK.format(_ACCELERATE.format("DSTACK_GPUS_PER_NODE")),
    ),
    good=(
        _DSTACK.format(_TORCHRUN.format("DSTACK_GPUS_PER_NODE")),
        _DSTACK.format(_ACCELERATE.format("DSTACK_GPUS_NUM")),
        _DSTACK.format(_TORCHRUN.format("DSTACK_GPUS_NUM")).replace("nodes: 2\n", "nodes: 1\n"),
    ),
)
def total_where_each_is_meant(job: LintJob) -> Iterator[LintFinding]:
    """torchrun's --nproc-per-node is for each node, accelerate's --num_processes for all together."""
    for manifest in job.manifests:
        kind = registry.manifest_kinds().get(manifest.kind)
        told = next((v for v in manifest.values if kind is not None and ".".join(v.path) == kind.nodes), None)
        nodes = look.whole(told.value) if told is not None else None
        if kind is None or nodes is None or nodes < 2:
            continue
        own = {what: name for name, what in kind.sets.items()}
        for launch in (each for each in job.launches if is_in(each, manifest)):
            each, every = launch.option("nproc-per-node"), launch.option("num-processes")
            name = _names(each)
            if each is not None and kind.sets.get(name) == "all gpus":
                what = f"{name} counts the GPUs of all {nodes} nodes, and {each.written} is for each"
                yield _counted(each, what, own["gpus"])
            name = _names(every)
            several = launch.option("num-machines") is not None
            if every is not None and kind.sets.get(name) == "gpus" and several:
                what = (
                    f"{name} counts the GPUs of one of {nodes} nodes, and {every.written} is the total of all machines"
                )
                yield _counted(every, what, own.get("all gpus", f"$(({own['nodes']} * {name}))"))


def _counted(option: Option, what: str, right: str) -> LintFinding:
    return LintFinding(
        span=option.span,
        summary=what,
        happens="Ranks beyond the last GPU end with invalid device ordinal."
        if option.name == "nproc-per-node"
        else "Each machine starts a part of its GPUs' ranks; the other GPUs stay idle.",
        fix=f"Write {option.written}={'' if right.startswith('$') else '$'}{right}.",
    )


_FLUX = (
    "flux run -N 2 -n {} -g {} bash -c 'torchrun --nnodes=2 --nproc_per_node=4 --node_rank=${} --master_addr=n1"
    " --master_port=29500 t.py'\n"
)


def _steps(job: LintJob) -> Iterator[tuple[LintLaunch, LintLaunch]]:
    """Each start under `flux run`, and the flux."""
    for launch in job.launches[: look.SIBLINGS]:
        yield from ((launch, outer) for outer in (*launch.around, launch) if outer.launcher == "flux")


def _number(launch: LintLaunch, name: str) -> int | None:
    return look.whole(launch.text(name) or "")


@rule(
    "J29",
    title="flux starts a launcher once on each node",
    source="flux-run(1): -n tasks, or --tasks-per-node on each; torch/distributed/run.py",
    leads_to=("master-port-in-use", "launcher-world-mismatch"),
    bad=(
        _FLUX.format(8, 1, "FLUX_TASK_RANK"),
        _FLUX.format(8, 1, "FLUX_TASK_RANK").replace("-n 8", "--tasks-per-node=4"),
    ),
    good=(_FLUX.format(2, 4, "FLUX_TASK_RANK"), "flux run -N 2 -n 8 -g 1 python train.py\n"),
)
def launcher_in_each_task(job: LintJob) -> Iterator[LintFinding]:
    """A launcher starts a node's ranks by itself: where flux starts it once for each rank, each starts all of them."""
    for launch, flux in _steps(job):
        nodes, tasks, each = (_number(flux, name) for name in ("nodes", "ntasks", "tasks-per-node"))
        if launch is flux or not look.traits(launch).a_node or launch.text("nproc-per-node") == "1":
            continue
        several = (each or 0) > 1 or (nodes is not None and tasks is not None and tasks > nodes)
        if several:
            option = flux.option("tasks-per-node") if each else flux.option("ntasks")
            yield LintFinding(
                span=option.span if option is not None else look.head_span(launch),
                summary=f"flux starts {launch.entry or launch.launcher} in each of {tasks or each} tasks"
                + ("" if each else f" on {counted(nodes or 1, 'node')}"),
                happens="Each of them starts the ranks of a node: EADDRINUSE, or more ranks than GPUs.",
                fix="Write one task a node: -n as large as -N, and -g the GPUs of a node.",
            )


@rule(
    "J30",
    title="Under flux the variables of flux are read",
    source="flux-environment(7): FLUX_TASK_RANK, FLUX_TASK_LOCAL_ID, FLUX_JOB_SIZE, FLUX_JOB_NNODES",
    leads_to=("program-error",),
    bad=(_FLUX.format(2, 4, "SLURM_NODEID"), _FLUX.format(2, 4, "SLURM_PROCID")),
    good=(_FLUX.format(2, 4, "FLUX_TASK_RANK"), "#SBATCH --nodes=2\nsrun " + _FLUX.format(2, 4, "SLURM_NODEID")),
)
def slurm_under_flux(job: LintJob) -> Iterator[LintFinding]:
    """flux starts no SLURM task: SLURM_NODEID and its likes are empty, where flux is not itself in a job of SLURM."""
    if "srun" in job.text or "#SBATCH" in job.text:
        return
    for launch, _ in _steps(job):
        for option in launch.every_option:
            name = next((each.name for each in option.value.expansions), "") if option.value is not None else ""
            if name in _FOR_SLURM and launch.invocation.settings.get(name) is None:
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} is ${name}, which SLURM sets, and flux starts this",
                    happens=f"The word is empty: {launch.entry or launch.launcher} refuses it.",
                    fix=f"Write {option.written}=${_FOR_SLURM[name]}.",
                )


_FOR_SLURM = {
    "SLURM_NODEID": "FLUX_TASK_RANK", "SLURM_PROCID": "FLUX_TASK_RANK", "SLURM_LOCALID": "FLUX_TASK_LOCAL_ID",
    "SLURM_NNODES": "FLUX_JOB_NNODES", "SLURM_JOB_NUM_NODES": "FLUX_JOB_NNODES", "SLURM_NTASKS": "FLUX_JOB_SIZE",
}  # fmt: skip
_HEADER = lazy_re(r"^#\s?flux:[ \t]*(?:-N[= ]?|--nodes[= ])(\d{1,5})\s*$", re.MULTILINE)
_BATCH = "#!/bin/bash\n#flux: -N 2\n#flux: -x\nflux run -N {} --tasks-per-node=1 --gpus-per-node=4 bash start.sh\n"


@rule(
    "J31",
    title="flux run asks for no more nodes than its batch job has",
    source="flux-batch(1): what is run inside is scheduled in the instance that the batch job is",
    leads_to=("launcher-world-mismatch",),
    bad=(_BATCH.format(4), _BATCH.format("8 -x")),
    good=(_BATCH.format(2), _BATCH.format(1)),
)
def more_nodes_than_the_batch(job: LintJob) -> Iterator[LintFinding]:
    """The instance of a batch job has the nodes of its header, and no others."""
    header = _HEADER.search(job.text)
    for invocation in job.invocations if header is not None else ():
        step = registry.called([word.shown for word in invocation.words[:3]])
        if header is None or step is None or step.form.launcher != "flux":
            continue
        asked = step.form.grammar.read(invocation.words, step.start).last.get("nodes")
        nodes = look.whole(asked.value.text or "") if asked is not None and asked.value is not None else None
        if asked is not None and nodes is not None and nodes > int(header[1]):
            yield LintFinding(
                span=asked.span,
                summary=f"flux run asks for {nodes} nodes, and the batch job has {header[1]}",
                happens="unsatisfiable request: the step is refused.",
                fix=f"Write -N {header[1]}, or #flux: -N {nodes}.",
            )


_SUBMIT = "ray job submit --address http://127.0.0.1:8265 {} -- {}\n"
_TRAIN = (
    "#@ file t.py\nfrom ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n"
    "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()\n"
)


@rule(
    "J32",
    title="The entrypoint of a job of Ray runs once, on one node, and leaves the GPUs to its workers",
    source="ray/dashboard/modules/dashboard_sdk.py, parse_runtime_env_args: json.loads; Ray's documentation of jobs:"
    " the entrypoint runs on the head node, --entrypoint-num-gpus are reserved for it",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _SUBMIT.format("", "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=h:1 t.py"),
        _SUBMIT.format("--runtime-env-json \"{'env_vars': {'A': '1'}}\"", "python t.py"),
        "ray start --head --num-gpus=8\n" + _SUBMIT.format("--entrypoint-num-gpus 8", "python t.py") + _TRAIN,
    ),
    good=(
        _SUBMIT.format("--entrypoint-num-gpus 8", "torchrun --standalone --nproc_per_node=8 t.py"),
        _SUBMIT.format('--runtime-env-json \'{"env_vars": {"A": "1"}}\'', "python t.py"),
        "ray start --head --num-gpus=8\n" + _SUBMIT.format("--entrypoint-num-cpus 1", "python t.py") + _TRAIN,
        "ray start --head --num-gpus=16\n" + _SUBMIT.format("--entrypoint-num-gpus 8", "python t.py") + _TRAIN,
    ),
)
def entrypoint_of_ray(job: LintJob) -> Iterator[LintFinding]:
    """What trains on several nodes is started by Ray's own workers, not by the entrypoint."""
    for launch in (each for each in job.launches if each.entry == "ray job submit"):
        option = launch.option("runtime-env-json")
        text = launch.text("runtime-env-json")
        if option is not None and text is not None and (fault := _json(text)):
            yield LintFinding(
                span=option.span,
                summary=f"--runtime-env-json is no JSON: {fault}",
                happens="ray job submit ends at once: json.decoder.JSONDecodeError.",
                fix="Write names and texts in double quotes, and all of it in single quotes.",
            )
        words = " ".join(word.shown for word in launch.script_words)
        starts = launch.script is not None and launch.script.shown.rpartition("/")[2] == "torchrun"
        several = re.search(r"--nnodes[= ](\d{1,4})(?=\s|$)", words, re.ASCII) if starts else None
        if several is not None and int(several[1]) > 1 and launch.script is not None:
            yield LintFinding(
                span=launch.script.span,
                summary=f"ray job submit starts this torchrun once, and it waits for --nnodes {several[1]}",
                happens="Nobody starts torchrun on a second node: it waits until its rendezvous times out.",
                fix="Start the ranks by Ray's own workers (TorchTrainer), or on one node with --standalone.",
            )
        yield from _held(job, launch)


def _json(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)[:80]
    return ""


def _held(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """The entrypoint holds the GPUs of which the workers need one each."""
    held = look.whole(launch.text("entrypoint-num-gpus") or "")
    head = re.findall(r"\bray start .*--num-gpus[= ](\d{1,3})\b", job.text)
    there = sum(map(int, head)) if head else (job.facts.gpus_per_node or 0) * (job.facts.nodes or 0)
    option = launch.option("entrypoint-num-gpus")
    if not held or not there or option is None:
        return
    for code, starts in codes_and_starts(job):
        for call in code.calls if launch in starts else ():
            if last_name(call.func) != "ScalingConfig" or constant(argument(call, "use_gpu")) is not True:
                continue
            workers = PythonValues(code).number(argument(call, "num_workers"))
            if workers is not None and held + workers > there >= workers:
                yield LintFinding(
                    span=option.span,
                    summary=f"--entrypoint-num-gpus {held} are the entrypoint's own; of {there} GPUs"
                    f" {there - held} are left for {counted(workers, 'worker')}",
                    happens="The workers wait for GPUs that are never free.",
                    fix="Leave --entrypoint-num-gpus out: the entrypoint computes nothing.",
                )
