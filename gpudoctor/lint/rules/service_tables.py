"""Rules of what services refuse of a start, or take otherwise, by their own schemas: J14 to J16, K50, K51."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue, Span
from gpudoctor.lint.pods import Container, containers, is_in, pods_of
from gpudoctor.lint.python_code import argument, codes
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import children, number
from gpudoctor.lint.schema_words import refused
from gpudoctor.lint.schemas import problems, schema

_RAY = (
    "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {{name: r}}\nspec:\n  entrypoint: {}\n{}  rayClusterSpec:\n"
    "    headGroupSpec:\n      rayStartParams: {{}}\n      template:\n        spec:\n"
    "          containers: [{{name: h, image: 'ray:1', resources: {{limits: {{cpu: 4}}}}}}]\n    workerGroupSpecs:\n"
    "      - groupName: g\n        replicas: 2\n        rayStartParams: {{}}\n        template:\n          spec:\n"
    "            containers: [{{name: w, image: 'ray:1', resources: {{limits: {{nvidia.com/gpu: 4}}}}}}]\n"
)
_VERL = "python -m verl.trainer.main_ppo trainer.n_gpus_per_node={} trainer.nnodes={}"
_WANTED = (
    (r"trainer\.n_gpus_per_node=(\d+)", r"trainer\.nnodes=(\d+)"),
    (r"--(?:actor_)?num_gpus_per_node[= ](\d+)", r"--(?:actor_)?num_nodes[= ](\d+)"),
    (r"--actor-num-gpus-per-node[= ](\d+)", r"--actor-num-nodes[= ](\d+)"),
)
"""How programs on Ray are told GPUs a node and nodes: verl, OpenRLHF, slime."""


@rule(
    "J14",
    title="A RayJob's cluster has what its entrypoint asks for",
    source="kuberay, RayJobSpec; ray job submit: the entrypoint is a shell command; verl and OpenRLHF's documentation",
    bad=(
        _RAY.format(_VERL.format(8, 2), ""),
        _RAY.format("train.py --epochs 3", ""),
        _RAY.format("python train.py", "  entrypointNumGpus: 8\n"),
    ),
    good=(_RAY.format(_VERL.format(4, 2), ""), _RAY.format("python train.py", "  entrypointNumGpus: 4\n")),
)
def rayjob_that_never_starts(job: LintJob) -> Iterator[LintFinding]:
    """Ray waits for resources that no node has, without an end. The entrypoint is a command: a program of Python needs
    python before it."""
    for manifest in job.manifests:
        entry = next((value for value in manifest.values if value.path == ("spec", "entrypoint")), None)
        if manifest.kind != "RayJob" or entry is None:
            continue
        first = entry.value.split()[0] if entry.value.split() else ""
        if first.endswith(".py") and "/" not in first:
            yield LintFinding(
                span=entry.span,
                summary=f"the entrypoint begins with {first}, and it is a shell command",
                happens=f"{first}: command not found; the job fails.",
                fix=f"Write python {first} ...",
            )
        gpus = [container.gpus for container in containers(manifest)]
        if None in [gpu for gpu, container in zip(gpus, containers(manifest), strict=True) if _hides(container)]:
            continue
        most = max((gpu or 0 for gpu in gpus), default=0)
        wanted = next((value for value in manifest.values if value.path == ("spec", "entrypointNumGpus")), None)
        if wanted is not None and (number(wanted) or 0) > most:
            yield _pending(wanted, f"entrypointNumGpus is {wanted.value}", most)
        total = _gpus(manifest)
        for each, nodes in _WANTED:
            per_node, count = re.search(each, entry.value), re.search(nodes, entry.value)
            if per_node is None or total is None or most == 0:
                continue
            wanted_gpus = int(per_node[1]) * int(count[1] if count is not None else 1)
            if int(per_node[1]) > most or wanted_gpus > total:
                yield _pending(
                    entry, f"the program wants {per_node[1]} GPUs on each of {(count or ['', '1'])[1]} nodes", most
                )


def _hides(container: Container) -> bool:
    return any("{" in value.value for path, value in container.values.items() if path[0] == "resources")


def _pending(value: ManifestValue, what: str, most: int) -> LintFinding:
    return LintFinding(
        span=value.span,
        summary=f"{what}, and the largest pod has {counted(most, 'GPU')}",
        happens="The job stays pending: Ray waits for resources that no node of the cluster has.",
        fix="Ask for what the worker groups have, or give them more.",
    )


def _gpus(manifest: Manifest) -> int | None:
    """GPUs of all worker groups at their largest, and of the head."""
    values = {value.path: value for value in manifest.values}
    total = 0
    for container in containers(manifest):
        if "template" not in container.path:
            return None  # no pod as kuberay makes them
        group = container.path[: container.path.index("template")]
        counts = [values.get((*group, name)) for name in ("maxReplicas", "replicas")]
        told = [number(count) for count in counts if count is not None]
        if None in told:
            return None
        replicas = max((count for count in told if count is not None), default=1)
        total += (container.gpus or 0) * (replicas if "workerGroupSpecs" in group else 1)
    return total


_SKY = "name: t\n{}\nresources:\n  accelerators: {}\nrun: |\n  torchrun --standalone --nproc_per_node=8 {}train.py\n"
_OLD = lazy_re(r"\$\{?(SKY_(?:NODE_RANK|NODE_IPS|NODE_ID|NUM_GPUS_PER_NODE|NUM_NODES|JOB_ID))\b")


@rule(
    "J15",
    title="A task of SkyPilot has the fields and variables that SkyPilot knows",
    source="skypilot 0.14, sky/utils/schemas.py (additionalProperties: False); skylet/constants.py: SKYPILOT_*",
    bad=(
        _SKY.format("nodes: 2", "A100:8", ""),
        _SKY.format("num_nodes: 1", "A100*8", ""),
        _SKY.format("num_nodes: 2", "A100:8", "--node_rank=$SKY_NODE_RANK "),
    ),
    good=(_SKY.format("num_nodes: 1", "A100:8", ""), _SKY.format("num_nodes: 1", "{A100:8, H100:8}", "")),
)
def field_of_no_task(job: LintJob) -> Iterator[LintFinding]:
    """SkyPilot refuses a task with a field that it does not know; the variables SKY_* of early releases are gone."""
    for manifest in job.manifests:
        if manifest.kind != "SkyPilot":
            continue
        for problem in problems(schema("skypilot"), "Task", manifest, job.text):
            yield refused(job, problem, "sky launch refuses", "Invalid task YAML")
        kind = next((value for value in manifest.values if value.path == ("resources", "accelerators")), None)
        if kind is not None and not re.fullmatch(r"[\w.{}$/-]+(?::[\d.$\w{}]+)?\+?", kind.value):
            yield LintFinding(
                span=kind.span,
                summary=f"accelerators is {kind.value}; it is NAME or NAME:COUNT",
                happens="sky launch refuses: the accelerator is not found in any cloud.",
                fix="Write A100:8, with the name as `sky show-gpus` has it.",
            )
        old = _OLD.search(job.text)
        if old is not None and old[1] + "=" not in job.text:
            new = old[1].replace("SKY_", "SKYPILOT_").replace("NODE_ID", "NODE_RANK")
            yield LintFinding(
                span=Span(old.start(), old.end(), job.text.count("\n", 0, old.start()) + 1),
                summary=f"{old[1]} was renamed to {new}, and is not set any more",
                happens="It is empty: the option gets no value, or takes the next word.",
                fix=f"Write ${new}.",
            )


_COMPOSE = (
    "services:\n  t:\n    image: train:1\n    ipc: host\n    {}\n"
    "    command: torchrun --standalone --nproc_per_node=2 train.py\n"
)
_DEVICES = (
    "deploy:\n      resources:\n        {}:\n          devices:\n            - driver: nvidia\n"
    "              count: {}\n"
    "              capabilities: [gpu]"
)


@rule(
    "K50",
    title="A compose file is one that compose takes",
    source="compose-spec, schema/compose-spec.json; compose-go, validation: declares mutually exclusive",
    bad=(
        _COMPOSE.format(_DEVICES.format("limits", 2)),
        _COMPOSE.format(_DEVICES.format("reservations", "two")),
        _COMPOSE.format("network_mode: host\n    networks: [train]"),
    ),
    good=(
        _COMPOSE.format(_DEVICES.format("reservations", 2)),
        _COMPOSE.format(_DEVICES.format("reservations", "all")),
        _COMPOSE.format("network_mode: host\n    gpus: all"),
    ),
)
def compose_refuses(job: LintJob) -> Iterator[LintFinding]:
    """compose checks a file against its schema before it makes a container."""
    for manifest in job.manifests:
        if manifest.kind != "Compose":
            continue
        for problem in problems(schema("compose"), "Compose", manifest, job.text):
            yield refused(job, problem, "docker compose refuses the file", "")
        for service in children(manifest, "services"):
            both = children(manifest, "services", service, "networks")
            mode = next((v for v in manifest.values if v.path == ("services", service, "network_mode")), None)
            if mode is not None and both:
                yield LintFinding(
                    span=mode.span,
                    summary=f"network_mode and networks in the service {service}",
                    happens="docker compose refuses the file: declares mutually exclusive network_mode and networks.",
                    fix="Write one of them.",
                )
        for value in manifest.values:
            is_count = "devices" in value.path and value.path[-1] == "count"
            if is_count and not re.fullmatch(r"\d+|all|-1|\$.*", value.value):
                yield LintFinding(
                    span=value.span,
                    summary=f"count is {value.value} in the service {value.path[1]}",
                    happens="docker compose refuses the file: count must be a number or all.",
                    fix="Write a number, or all.",
                )


_PODS = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: train}}\nspec:\n  pytorchReplicaSpecs:\n"
    "    Worker:\n      replicas: {}\n      template:\n        spec:\n          containers:\n"
    "            - name: pytorch\n"
    "              image: train:1\n              command: [torchrun, {}, --nproc-per-node=4, train.py]\n"
    "              resources: {{limits: {{nvidia.com/gpu: 4}}}}\n"
)


@rule(
    "K51",
    title="Pods of one training do not stand alone",
    source="torch 2.13, distributed/run.py: --standalone sets a rendezvous on localhost, whatever PET_* say",
    leads_to=("launcher-world-mismatch",),
    bad=(_PODS.format(2, "--standalone"), _PODS.format(4, "--standalone")),
    good=(_PODS.format(2, "--max-restarts=0"), _PODS.format(1, "--standalone")),
)
def standalone_in_several_pods(job: LintJob) -> Iterator[LintFinding]:
    """The operator tells torchrun how many pods there are and where the head is. --standalone sets all that aside: each
    pod trains for itself."""
    for launch in job.launches[: look.SIBLINGS]:
        given = launch.option("standalone")
        if given is None or not look.standalone(launch):
            continue
        for manifest in job.manifests:
            if manifest.kind not in ("PyTorchJob", "TrainJob") or not is_in(launch, manifest):
                continue
            pods = pods_of(manifest, launch)
            if pods is not None and pods > 1:
                yield LintFinding(
                    span=given.span,
                    summary=f"{given.written} in {counted(pods, 'pod')} of one {manifest.kind}",
                    happens=f"{counted(pods, 'training')} beside each other, each with a world of its own.",
                    fix=f"Take {given.written} away.",
                )


_ESTIMATOR = (
    "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='train.py', role='r', framework_version='2.3',"
    " py_version='py311', instance_count=2, instance_type='{}', distribution={}).fit()\n"
)
_KINDS = (
    "torch_distributed", "smdistributed", "mpi", "pytorchddp", "pytorchxla", "parameter_server", "instance_groups",
    "multi_worker_mirrored_strategy",
)  # fmt: skip
_DATA_PARALLEL = ("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge", "local_gpu")


@rule(
    "J16",
    title="SageMaker knows the kind of distribution, and has it for the instance",
    source="sagemaker 2.232, fw_utils.py: SM_DATAPARALLEL_SUPPORTED_INSTANCE_TYPES, validate_distribution",
    bad=(
        _ESTIMATOR.format("ml.g5.2xlarge", "{'smdistributed': {'dataparallel': {'enabled': True}}}"),
        _ESTIMATOR.format("ml.p4d.24xlarge", "{'torchdistributed': {'enabled': True}}"),
        _ESTIMATOR.format("ml.p4d.24xlarge", "{'torch_distributed': True}"),
        _ESTIMATOR.format("ml.p4d.24xlarge", "{'torch_distributed': {'enable': True}}"),
    ),
    good=(
        _ESTIMATOR.format("ml.p4d.24xlarge", "{'smdistributed': {'dataparallel': {'enabled': True}}}"),
        _ESTIMATOR.format("ml.p4d.24xlarge", "{'torch_distributed': {'enabled': True}}"),
    ),
)
def distribution_that_is_unknown(job: LintJob) -> Iterator[LintFinding]:
    """A kind that the SDK does not know starts nothing but plain python; the data-parallel library is for instances
    with eight GPUs of some types."""
    for code in codes(job):
        values = PythonValues(code)
        for call in code.calls:
            node = argument(call, "distribution")
            kinds = values.mapping(node) if code.name(call.func).startswith("sagemaker.") and node is not None else None
            if not kinds or node is None:
                continue
            unknown = next((str(name) for name in kinds if name not in _KINDS), None)
            if unknown is not None:
                yield LintFinding(
                    span=code.span(node),
                    summary=f"{unknown} is no kind of distribution of SageMaker's",
                    happens="Nothing starts the ranks: the program runs once on each instance by plain python.",
                    fix="Write 'torch_distributed': {'enabled': True}.",
                )
            for name, told in kinds.items():
                if name in _KINDS and isinstance(values.value(told), bool):
                    yield LintFinding(
                        span=code.span(node),
                        summary=f"{name} of distribution is {values.value(told)}, and a mapping is wanted there",
                        happens="AttributeError: 'bool' object has no attribute 'get'.",
                        fix=f"Write {{'{name}': {{'enabled': True}}}}.",
                    )
                within = values.mapping(told) if name in _KINDS[:1] + _KINDS[2:6] else None
                if within and "enabled" not in within:
                    yield LintFinding(
                        span=code.span(node),
                        summary=f"{name} is not enabled: no 'enabled' stands in its mapping",
                        happens="Nothing starts the ranks: the program runs once on each instance by plain python.",
                        fix=f"Write {{'{name}': {{'enabled': True}}}}.",
                    )
            inside = values.mapping(kinds.get("smdistributed"))
            place = argument(call, "instance_type")
            kind = values.value(place) if place is not None else None
            wants = inside is not None and "dataparallel" in inside and isinstance(kind, str) and kind.startswith("ml.")
            if wants and kind not in _DATA_PARALLEL and place is not None:
                yield LintFinding(
                    span=code.span(place),
                    summary=f"smdistributed's data parallel library is not for {kind}",
                    happens="ValueError: Provided instance_type is not supported by smdataparallel.",
                    fix="Take ml.p4d.24xlarge and its likes, or torch_distributed.",
                )
