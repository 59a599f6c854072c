"""Rules of a document's fields, by the tables of knowledge/schemas; keys of accelerate's file: K37, K67, K68, W13,
W20."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.hugging_face_options import nearest
from gpudoctor.launcher import registry
from gpudoctor.lint.known_up_to import KnownUpTo, held_against, is_misspelt
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, Manifest
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.schema_words import found_by_schema, kubernetes, missing, unknown
from gpudoctor.lint.schemas import schema

_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: train}}\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n{}      containers:\n        - name: main\n          image: registry/image:tag\n"
    "          {}: [torchrun, --standalone, --nproc-per-node=4, train.py]\n"
)


@rule(
    "K37",
    title="A manifest's fields are those that Kubernetes and the operator know",
    source="Kubernetes 1.36's OpenAPI and the operators' CRDs; kubectl apply validates fields strictly since 1.25",
    bad=(
        _JOB.format("", "comand"),
        _JOB.format("      limits: {nvidia.com/gpu: 4}\n", "command"),
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  pytorchReplicaSpec:\n"
        "    Worker:\n      replicas: 2\n      template:\n        spec:\n          containers:\n"
        '            - {name: pytorch, image: "registry/image:tag", command: [torchrun, train.py]}\n',
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: train}\nspec:\n  cleanPodPolicy: Running\n"
        "  mpiReplicaSpecs:\n    Launcher:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
        '            - {name: l, image: "registry/image:tag", command: [mpirun, python, train.py]}\n',
    ),
    good=(
        _JOB.format("", "command"),
        _JOB.format("      nodeSelector: {gpu: a100}\n", "args"),
    ),
)
def unknown_field(job: LintJob) -> Iterator[LintFinding]:
    """A field of another name, or one that stands a level too high or too low, is refused by kubectl, and dropped where
    validation is off: the container then lacks it. A key that stands twice is refused too."""
    for manifest in kubernetes(job):
        for problem in found_by_schema(job, manifest):
            if problem.what == "unknown":
                yield unknown(job, problem, "kubectl refuses it: unknown field", "without validation it is dropped")
        for value in manifest.twice:
            yield LintFinding(
                span=value.span,
                summary=f"{value.path[-1]} stands twice in one mapping",
                happens=f'kubectl refuses it: key "{value.path[-1]}" already set in map.',
                fix="Keep one of them, or put both values below one.",
            )


_PVC = (
    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec:\n  accessModes: [{}]\n"
    "  resources: {{requests: {{storage: 1Ti}}}}\n---\n"
)


@rule(
    "K67",
    title="A manifest has the fields that are required",
    source="Kubernetes' OpenAPI and the operators' CRDs: required; pkg/apis/core/validation: Required value",
    bad=(
        _JOB.format("", "command").replace("        - name: main\n          image", "        - image"),
        _PVC.format("") + _JOB.format("", "command").replace("spec:\n  template:", "spec:\n  suspend: true\n  pods:"),
    ),
    good=(
        _JOB.format("", "command"),
        _PVC.format("ReadWriteMany") + _JOB.format("", "command"),
        _PVC.format("").replace(" {name: data}", "\n  name:") + _JOB.format("", "command"),
    ),
)
def missing_field(job: LintJob) -> Iterator[LintFinding]:
    """What every object of a kind has to say is asked for before anything else is looked at."""
    for manifest in kubernetes(job):
        for problem in found_by_schema(job, manifest):
            if problem.what == "required":
                yield missing(problem)


@rule(
    "K68",
    title="apiVersion and kind belong together",
    source="Kubernetes' OpenAPI, x-kubernetes-group-version-kind; the operators' CRDs; Deprecated API Migration Guide",
    bad=(
        _JOB.format("", "command").replace("batch/v1", "v1"),
        _JOB.format("", "command").replace("batch/v1", "apps/v1"),
        _PVC.format("ReadWriteMany").replace("v1", "v1/core") + _JOB.format("", "command"),
    ),
    good=(_JOB.format("", "command"), _JOB.format("", "command").replace("batch/v1", "mine.example.com/v1")),
)
def kind_of_another_version(job: LintJob) -> Iterator[LintFinding]:
    """A kind is known in its group alone: a Job is batch/v1's, a Deployment apps/v1's. Versions that were beta are
    gone from the groups of Kubernetes itself."""
    versions = schema("kubernetes").versions
    groups = {version.rpartition("/")[0] for version in versions}
    for manifest in kubernetes(job):
        right = [version for version, kinds in versions.items() if manifest.kind in kinds]
        group = manifest.api_version.rpartition("/")[0]
        if not right or manifest.api_version in right:
            continue
        own = "." not in group or (group.endswith("k8s.io") and "x-k8s.io" not in group)
        if not own and (group not in groups or any(version.startswith(f"{group}/") for version in right)):
            continue  # an operator's other releases
        value = next((value for value in manifest.values if value.path == ("apiVersion",)), None)
        if value is None or not re.fullmatch(r"[\w.-]*/?[\w.-]*(?:/\w+)?", value.value):
            continue
        yield LintFinding(
            span=value.span,
            summary=f"{manifest.kind} is no kind of {manifest.api_version}; it is {right[-1]}'s",
            happens=f'kubectl refuses it: no matches for kind "{manifest.kind}" in version "{manifest.api_version}".',
            fix=f"Write apiVersion: {' or '.join(right[-2:])}.",
            edits=(Edit(value.span, right[0]),) if len(right) == 1 and value.span.exact else (),
        )


_KEYS = (
    "compute_environment distributed_type mixed_precision use_cpu debug num_processes machine_rank num_machines"
    " gpu_ids main_process_ip main_process_port rdzv_backend same_network main_training_function"
    " enable_cpu_affinity deepspeed_config fsdp_config parallelism_config megatron_lm_config ipex_config"
    " mpirun_config fp8_config tpu_name tpu_zone tpu_use_cluster tpu_use_sudo command_file commands tpu_vm tpu_env"
    " dynamo_config downcast_bf16 fp16 dynamo_backend num_cpu_threads_per_process tpu_env iam_role_name image_uri"
    " profile region base_job_name pytorch_version transformers_version py_version sagemaker_inputs_file"
    " sagemaker_metrics_file additional_args ec2_instance_type use_mps_device"
)
"""accelerate 0.10 to 1.15, commands/config/config_args.py."""
_ACCELERATE = frozenset(_KEYS.split())
_READ = KnownUpTo("accelerate", "1.15")
_FILE = "accelerate launch --config_file a.yaml t.py\n#@ file a.yaml\ncompute_environment: LOCAL_MACHINE\n{}: {}\n"


@rule(
    "W13",
    title="Keys of accelerate's file are those that accelerate has",
    source="accelerate, commands/config/config_args.py: The config file had unknown keys",
    leads_to=("program-error",),
    bad=(
        _FILE.format("distributed_type: MULTI_GPU\nnum_process", 4),
        _FILE.format("distributed_type: FSDP\nfsdp_sharding_strategy", 1),
    ),
    good=(
        _FILE.format("distributed_type: MULTI_GPU\nnum_processes", 4),
        _FILE.format("distributed_type: FSDP\nfsdp_config", "{fsdp_sharding_strategy: 1}"),
    ),
)
def unknown_key_of_accelerate(job: LintJob) -> Iterator[LintFinding]:
    """accelerate makes its configuration of the file's keys, and ends where it does not know one."""
    for manifest in _of_accelerate(job):
        said: set[str] = set()
        for value in manifest.values:
            name = value.path[0] if value.path else ""
            if not name or name in _ACCELERATE or name in said or re.search(r"[$<{]", name):
                continue
            said.add(name)
            near = nearest(name, _ACCELERATE)
            home = next((each for each in ("fsdp", "deepspeed") if name.startswith(each)), "")
            finding = LintFinding(
                span=value.span,
                summary=f"{name} is no key of accelerate's file" + (f"; {near} is one" if near else ""),
                happens="ValueError: The config file had unknown keys.",
                fix=f"Put it below {home}_config:, indented." if home else f"Write {near}." if near else "Take it out.",
            )
            yield held_against(job, (_READ,), finding, sure=bool(home) or is_misspelt(name, near))


def _of_accelerate(job: LintJob) -> Iterator[Manifest]:
    """The files that `accelerate launch --config_file` names."""
    told = (each for launch in job.launches if launch.launcher == "accelerate" for each in launch.every_option)
    values = (option.value for option in told if option.name == "config-file" and option.value is not None)
    short = {value.shown.rpartition("/")[2] for value in values} - {""}
    for section in job.sections:
        if section.kind == "file" and section.name.rpartition("/")[2] in short and len(section.text) <= 20_000:
            yield from read_manifests(section.text, section.start, section.line)


@rule(
    "W20",
    title="Keys below fsdp_config and deepspeed_config are those that accelerate reads",
    severity="warning",
    source="accelerate 1.15, commands/launch.py: every key below them becomes an option, whether there is one or not",
    bad=(
        _FILE.format("distributed_type: FSDP\nfsdp_config", "{fsdp_sharding_strategys: FULL_SHARD}"),
        _FILE.format("distributed_type: FSDP\nfsdp_config", "{fsdp_transformer_layer_cls_wrap: Block}"),
        _FILE.format("distributed_type: DEEPSPEED\ndeepspeed_config", "{zero_stages: 3}"),
    ),
    good=(
        _FILE.format("distributed_type: FSDP\nfsdp_config", "{transformer_layer_cls_to_wrap: Block}"),
        _FILE.format("distributed_type: DEEPSPEED\ndeepspeed_config", "{zero_stage: 3, mine: 1}"),
    ),
)
def unread_key_of_accelerate(job: LintJob) -> Iterator[LintFinding]:
    """What stands below fsdp_config and deepspeed_config is not looked at by its name: a key that is nearly one of
    accelerate's options is taken, and nothing is done with it."""
    for manifest in _of_accelerate(job):
        known = frozenset(spec.name.replace("-", "_") for spec in registry.form("accelerate").grammar.options)
        for value in manifest.values:
            if len(value.path) != 2 or value.path[0] not in ("fsdp_config", "deepspeed_config"):
                continue
            name = value.path[1]
            whole = f"fsdp_{name}" if value.path[0] == "fsdp_config" and "fsdp" not in name else name
            near = nearest(whole, known, 0.88) if whole not in known else ""
            if near:
                yield LintFinding(
                    span=value.span,
                    summary=f"{name} is no key that accelerate reads; {near} is one",
                    happens=f"It is passed over: {near} stays what it is by default.",
                    fix=f"Write {near}.",
                )
