"""Rules of jobs that Azure ML, SageMaker, Vertex AI, SkyPilot and Ray on Kubernetes start: J07 to J12."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import look, processes
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest, ManifestValue, Span
from gpudoctor.lint.pods import is_in
from gpudoctor.lint.python_code import PythonCode, argument, codes, codes_and_starts, constant
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import Example, LintFinding, rule

_ESTIMATOR = (
    "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='{}', instance_count=2, instance_type='{}',"
    " py_version='py310', framework_version='2.1', distribution={{'torch_distributed': {{'enabled': True}}}}).fit()\n"
)


@rule(
    "J07",
    title="SageMaker is asked for what its SDK lets through",
    source="sagemaker 2.254, fw_utils.py: validate_torch_distributed_distribution, validate_version_or_image_args",
    leads_to=("program-error",),
    bad=(
        _ESTIMATOR.format("train.py", "ml.c5.4xlarge"),
        _ESTIMATOR.format("start.sh", "ml.p4d.24xlarge"),
        _ESTIMATOR.format("train.py", "ml.p4d.24xlarge").replace("py_version", "metric"),
    ),
    good=(_ESTIMATOR.format("train.py", "ml.p4d.24xlarge"), _ESTIMATOR.format("train.py", "ml.trn1.32xlarge")),
)
def estimator_that_is_refused(job: LintJob) -> Iterator[LintFinding]:
    """torch_distributed is for instances with GPUs or Trainium, and starts Python programs alone."""
    for code in codes(job):
        values = PythonValues(code)
        for call in code.calls:
            if not code.name(call.func).startswith("sagemaker.") or any(
                keyword.arg is None for keyword in call.keywords
            ):
                continue
            version = argument(call, "framework_version")
            by_version = code.name(call.func) in ("sagemaker.pytorch.PyTorch", "sagemaker.tensorflow.TensorFlow")
            lacks = not argument(call, "image_uri") and not argument(call, "py_version") and by_version
            if lacks and version is not None:
                yield LintFinding(
                    span=code.span(version),
                    summary="framework_version is given, and neither py_version nor image_uri",
                    happens="ValueError: framework_version or py_version was None, yet image_uri was also None.",
                    fix="Write py_version too, as py311, or image_uri instead of both.",
                )
            kinds = values.mapping(argument(call, "distribution"))
            told = values.mapping(kinds.get("torch_distributed")) if kinds else None
            if not told or values.value(told.get("enabled")) is not True:
                continue
            node, program = argument(call, "instance_type"), argument(call, "entry_point")
            kind, name = values.value(node), values.value(program)
            family = re.fullmatch(r"ml[._]([a-z\d-]+)\.?\w*", kind) if isinstance(kind, str) else None
            if node is not None and family is not None and not re.match(r"p|g|trn", family[1]):
                yield LintFinding(
                    span=code.span(node),
                    summary=f"torch_distributed on {kind}, which has no GPU",
                    happens="ValueError when fit() is called: Currently torch_distributed is supported only for GPU and"
                    " Trainium instances.",
                    fix="Take an instance type of the families p or g, or leave distribution out.",
                )
            if program is not None and isinstance(name, str) and not name.endswith(".py"):
                yield LintFinding(
                    span=code.span(program),
                    summary=f"torch_distributed starts Python programs, and entry_point is {name}",
                    happens="ValueError: Unsupported entry point type for the distribution torch_distributed.",
                    fix="Name a file that ends in .py.",
                )


_VERTEX = (
    "workerPoolSpecs:\n  - machineSpec: {{machineType: a2-highgpu-8g, acceleratorType: NVIDIA_TESLA_A100,"
    " acceleratorCount: 8}}\n    replicaCount: {}\n    containerSpec:\n      imageUri: registry/train:1\n"
    "      command: [torchrun, --nproc_per_node=8, train.py]\n"
)


@rule(
    "J08",
    title="The first worker pool of a Vertex AI job has one replica",
    source="Vertex AI's documentation, Distributed training; python-aiplatform, worker_spec_utils.py: Chief spec"
    " replica count cannot be greater than 1",
    leads_to=("program-error",),
    bad=(
        _VERTEX.format(2),
        "from google.cloud import aiplatform\njob = aiplatform.CustomJob(display_name='t', worker_pool_specs=["
        "{'machine_spec': {'machine_type': 'a2-highgpu-8g'}, 'replica_count': 4, 'container_spec': {}}])\n",
    ),
    good=(_VERTEX.format(1), _VERTEX.format(1) + _VERTEX.format(3).partition("\n")[2]),
)
def two_primary_replicas(job: LintJob) -> Iterator[LintFinding]:
    """The first pool is the primary replica's alone; its fellows are the second pool."""
    places: list[tuple[int, Span]] = []
    for manifest in job.manifests:
        for value in manifest.values:
            if value.path[-3:] == ("workerPoolSpecs", "0", "replicaCount") and value.value.isdecimal():
                places.append((int(value.value[:9]), value.span))
    for code in codes(job):
        values = PythonValues(code)
        for call in code.calls:
            pools = argument(call, "worker_pool_specs")
            pools = values.behind(pools) if isinstance(pools, ast.Name) else pools
            first = values.mapping(pools.elts[0]) if isinstance(pools, ast.List) and pools.elts else None
            count = first.get("replica_count") if first else None
            number = values.number(count)
            if count is not None and number is not None:
                places.append((number, code.span(count)))
    for number, span in places:
        if number > 1:
            yield LintFinding(
                span=span,
                summary=f"the first worker pool has {number} replicas; it is the primary replica's, and has one",
                happens="Vertex AI refuses the job.",
                fix=f"Write replicaCount: 1, and a second pool like it with {number - 1}.",
            )


_AZURE = (
    "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ncommand: {}\n"
    "environment: azureml:torch@latest\ncompute: azureml:nd96\nresources:\n  instance_count: 2\n"
    "distribution:\n  type: pytorch\n  process_count_per_instance: {}\n"
)
_LAUNCHERS = ("torchrun", "torch.distributed.launch", "accelerate", "deepspeed")


def _azure(job: LintJob) -> Iterator[tuple[int, Span, tuple[LintLaunch, ...]]]:
    """Processes on each node of a job of Azure ML, where that is said, and the starts in its command."""
    for manifest in job.manifests:
        values = {".".join(value.path): value for value in manifest.values}
        count, kind = values.get("distribution.process_count_per_instance"), values.get("distribution.type")
        known = manifest.kind == "AzureML" and count is not None and count.value.isdecimal()
        if known and count is not None and kind is not None and kind.value.lower() in ("pytorch", "mpi"):
            inner = tuple(launch for launch in job.launches if is_in(launch, manifest))
            yield int(count.value[:9]), count.span, inner
    for code in codes(job):
        values_of = PythonValues(code)
        for call in code.calls:
            name = code.name(call.func).rpartition(".")[2]
            if name in ("PyTorchDistribution", "MpiDistribution"):
                node = argument(call, "process_count_per_instance")
            else:
                told = values_of.mapping(argument(call, "distribution")) if name == "command" else None
                node = told.get("process_count_per_instance") if told else None
            number = values_of.number(node)
            if node is not None and number is not None:
                yield number, code.span(node), ()


@rule(
    "J09",
    title="A command that Azure ML starts as each rank starts no ranks itself",
    source="Azure ML's documentation, Distributed GPU training: process_count_per_instance processes on each node run"
    " the command",
    leads_to=("launcher-world-mismatch", "master-port-in-use"),
    bad=(
        _AZURE.format("torchrun --nproc_per_node=4 --nnodes=2 --node_rank=$NODE_RANK train.py", 4),
        _AZURE.format("accelerate launch --num_processes 8 train.py", 8),
    ),
    good=(
        _AZURE.format("python train.py", 4),
        _AZURE.format("torchrun --nproc_per_node=8 --nnodes=2 --node_rank=$NODE_RANK train.py", 1),
    ),
)
def launcher_in_each_process(job: LintJob) -> Iterator[LintFinding]:
    """distribution starts the command once for each process of each node, with RANK and LOCAL_RANK set."""
    for count, span, inner in _azure(job):
        launch = next((each for each in inner if each.launcher in _LAUNCHERS), None)
        each = processes.started(job, launch).number if launch is not None else None
        if launch is None or count < 2 or each == 1:
            continue
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"Azure ML starts the command {count} times on each node, and each of them is a"
            f" {launch.entry or launch.launcher}" + (f" of {counted(each, 'process', 'processes')}"
                                                     if isinstance(each, int) else ""),
            happens="The launchers of a node open the same port, and their ranks share GPUs.",
            fix="Write python train.py, or process_count_per_instance: 1"
            f" (line {span.line}) beside {launch.entry or launch.launcher}.",
        )  # fmt: skip


_MOST_GPUS = 8
"""Of the largest machines that Azure has (ND A100 v4, ND H100 v5): docs, Sizes for virtual machines."""


@rule(
    "J12",
    title="Azure ML starts no more processes on a node than it has GPUs",
    needs="facts",
    source="azure-ai-ml, PyTorchDistribution: process_count_per_instance is the number of processes per node",
    leads_to=("duplicate-gpu",),
    bad=(_AZURE.format("python train.py", 16), Example(_AZURE.format("python train.py", 8), "gpus_per_node=4")),
    good=(_AZURE.format("python train.py", 8), _AZURE.format("python train.py --backend gloo", 16)),
)
def more_processes_than_a_node_has(job: LintJob) -> Iterator[LintFinding]:
    """It counts one node's processes, and not those of the whole job."""
    gpus = job.facts.gpus_per_node
    for count, span, inner in _azure(job):
        if count <= (gpus or _MOST_GPUS) or any(processes.on_cpu(each) for each in inner):
            continue
        yield LintFinding(
            span=span,
            summary=f"process_count_per_instance is {count}, for each node, and "
            + (
                f"a node has {counted(gpus, 'GPU')}" if gpus else f"no machine of Azure has more than {_MOST_GPUS} GPUs"
            ),
            happens="The ranks beyond the last GPU end: invalid device ordinal.",
            fix=f"Write process_count_per_instance: {gpus or _MOST_GPUS}; instance_count multiplies it.",
        )


_SKY = (
    "name: t\nnum_nodes: 2\nresources:\n  accelerators: A100:8\nsetup: |\n  {}\nrun: |\n"
    "  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=8 --node_rank=$SKYPILOT_NODE_RANK"
    ' --master_addr=$(echo "$SKYPILOT_NODE_IPS" | head -n1) --master_port=8008 train.py\n'
)
_OF_RUN = {
    "SKYPILOT_NODE_RANK": "SKYPILOT_SETUP_NODE_RANK",
    "SKYPILOT_NODE_IPS": "SKYPILOT_SETUP_NODE_IPS",
    "SKYPILOT_NUM_GPUS_PER_NODE": "SKYPILOT_SETUP_NUM_GPUS_PER_NODE",
    "SKYPILOT_NUM_NODES": "",
}
"""What SkyPilot sets for run, and the same for setup."""


@rule(
    "J10",
    title="SkyPilot's setup reads the variables of setup",
    source="skypilot 0.14, backends/cloud_vm_ray_backend.py, _setup_node: SKYPILOT_SETUP_NODE_RANK, _IPS,"
    " _NUM_GPUS_PER_NODE",
    bad=(_SKY.format('[ "$SKYPILOT_NODE_RANK" == "0" ] && python get.py'), _SKY.format("echo $SKYPILOT_NODE_IPS > h")),
    good=(_SKY.format('[ "$SKYPILOT_SETUP_NODE_RANK" == "0" ] && python get.py'), _SKY.format("pip install x")),
)
def variables_of_run_in_setup(job: LintJob) -> Iterator[LintFinding]:
    """SKYPILOT_NODE_RANK and its likes are set for run. setup has variables of its own."""
    for manifest in job.manifests:
        for value in manifest.values if manifest.kind == "SkyPilot" else ():
            if value.path[:1] != ("setup",):
                continue
            for name, own in _OF_RUN.items():
                match = re.search(rf"\$\{{?{name}\b", value.value)
                if match is None:
                    continue
                yield LintFinding(
                    span=_line_with(job, value, name),
                    summary=f"setup reads {name}, which SkyPilot sets for run alone",
                    happens="It is empty there: a test of it is never true, on no node.",
                    fix=f"Write {own}." if own else "Count the lines of SKYPILOT_SETUP_NODE_IPS.",
                )


def _line_with(job: LintJob, value: ManifestValue, name: str) -> Span:
    """Where a name stands in a value over several lines."""
    span = value.span
    at = job.text.find(name, span.start, span.end)
    if at < 0:
        return span
    return Span(at, at + len(name), span.line + job.text.count("\n", span.start, at), False)


_RAYJOB = (
    "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {{name: t}}\nspec:\n  entrypoint: python train.py --workers {}\n"
    "  rayClusterSpec:\n    headGroupSpec: {{template: {{spec: {{containers: [{{name: h, image: ray:1}}]}}}}}}\n"
    "    workerGroupSpecs:\n      - replicas: 2\n        groupName: g\n        template:\n          spec:\n"
    "            containers:\n              - name: w\n                image: ray:1\n"
    "                resources: {{limits: {{nvidia.com/gpu: 1}}}}\n#@ file train.py\nimport argparse\n"
    "from ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\np = argparse.ArgumentParser()\n"
    "p.add_argument('--workers', type=int, default=2)\na = p.parse_args()\n"
    "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=a.workers, use_gpu=True)).fit()\n"
)


@rule(
    "J11",
    title="A RayJob's pods have a GPU for each worker",
    source="ray 2.40, train/ScalingConfig: a GPU for each worker; KubeRay's RayCluster: replicas of workerGroupSpecs",
    bad=(_RAYJOB.format(4), _RAYJOB.format(3)),
    good=(_RAYJOB.format(2), _RAYJOB.format(4).replace("replicas: 2", "replicas: 4")),
)
def fewer_gpus_than_workers(job: LintJob) -> Iterator[LintFinding]:
    """A worker whose GPU no pod has is never placed, and the others wait for it."""
    for manifest in job.manifests:
        there = _gpus_of_cluster(manifest) if manifest.kind in ("RayJob", "RayCluster") else None
        if there is None:
            continue
        variables = _runtime_variables(manifest)
        for code, starts in codes_and_starts(job):
            if len(starts) > 1:
                continue
            values = PythonValues(code, starts[0] if starts else None, variables)
            for call in code.calls:
                asked = _gpus_asked(code, values, call)
                if asked is not None and asked[1] > there:
                    place = next((v for v in manifest.values if v.path[-1:] == ("runtimeEnvYAML",)), None)
                    place = place or next((v for v in manifest.values if v.path[-1:] == ("entrypoint",)), None)
                    yield LintFinding(
                        span=place.span if place is not None else code.span(call),
                        summary=f"num_workers is {asked[0]} with a GPU each ({asked[1]:g} GPUs), and the pods of the"
                        f" cluster have {counted(there, 'GPU')}",
                        happens="The trial stays pending: Ray waits for resources that never come.",
                        fix=f"Ask for {there} workers (NUM_WORKERS, --workers), or for more replicas.",
                    )


def _gpus_asked(code: PythonCode, values: PythonValues, call: ast.Call) -> tuple[int, float] | None:
    """Workers, and their GPUs."""
    if not code.name(call.func).endswith("ScalingConfig") or values.value(argument(call, "use_gpu", 2)) is not True:
        return None
    workers = values.number(argument(call, "num_workers", 1))
    asked = constant(argument(call, "resources_per_worker"))
    each = asked.get("GPU", 1) if isinstance(asked, dict) else 1
    return (workers, workers * each) if workers is not None and isinstance(each, (int, float)) else None


def _gpus_of_cluster(manifest: Manifest) -> int | None:
    """GPUs of all pods; None where a number is not told, or pods come and go."""
    values = {value.path: value.value for value in manifest.values}
    total = 0
    for path, text in values.items():
        if path[-2:] != ("limits", "nvidia.com/gpu"):
            continue
        if not text.isdecimal():
            return None
        replicas = "1"
        if "workerGroupSpecs" in path:
            group = path[: path.index("workerGroupSpecs") + 2]
            replicas = values.get((*group, "replicas"), values.get((*group, "minReplicas"), "1"))
            most = values.get((*group, "maxReplicas"), replicas)
            replicas = max(replicas, most, key=lambda text: (len(text), text))
        if not re.fullmatch(r"[0-9]{1,5}", replicas, re.ASCII):
            return None
        total += int(text[:5]) * int(replicas)
    return total or None


def _runtime_variables(manifest: Manifest) -> dict[str, str]:
    """env_vars of runtimeEnvYAML."""
    text = next((value.value for value in manifest.values if value.path[-1:] == ("runtimeEnvYAML",)), "")
    return {
        value.path[1]: value.value
        for document in read_manifests(text)
        for value in document.values
        if len(value.path) == 2 and value.path[0] == "env_vars"
    }
