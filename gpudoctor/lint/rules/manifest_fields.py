"""Rules of names that a file may hold: fields of Kubernetes' objects, keys of accelerate's file: K37, W13."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.hugging_face_options import nearest
from gpudoctor.knowledge.kubernetes_fields import FIELDS
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import of_kubernetes

_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: train}}\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n{}      containers:\n        - name: main\n          image: registry/image:tag\n"
    "          {}: [torchrun, --standalone, --nproc-per-node=4, train.py]\n"
)
_LISTS = {"containers": "container", "initContainers": "container"}
_OF_CONTAINER = {"env": "variable", "volumeMounts": "mount", "ports": "port"}
_REPLICAS = ("pytorchReplicaSpecs", "mpiReplicaSpecs")


@rule(
    "K37",
    title="A manifest's fields are those that Kubernetes and the operator know",
    source="Kubernetes 1.34's OpenAPI and the operators' CRDs; kubectl apply validates fields strictly since 1.25",
    bad=(
        _JOB.format("", "comand"),
        _JOB.format("      limits: {nvidia.com/gpu: 4}\n", "command"),
        _JOB.format("      resources: {limits: {nvidia.com/gpu: 4}}\n", "command"),
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  pytorchReplicaSpec:\n"
        "    Worker:\n      replicas: 2\n      template:\n        spec:\n          containers:\n"
        '            - {name: pytorch, image: "registry/image:tag", command: [torchrun, train.py]}\n',
    ),
    good=(
        _JOB.format("", "command"),
        _JOB.format("      nodeSelector: {gpu: a100}\n", "args"),
    ),
)
def unknown_field(job: LintJob) -> Iterator[LintFinding]:
    """A field of another name, or one that stands a level too high or too low, is refused by kubectl, and dropped where
    validation is off: the container then lacks it."""
    for manifest in of_kubernetes(job):
        said: set[tuple[str, ...]] = set()
        for value in manifest.values:
            for length in range(len(value.path)):
                above, name = value.path[:length], value.path[length]
                kind = _object(manifest, above)
                path = (*above, name)
                if (
                    kind == "pod"
                    and value.path[length : length + 2] == ("resources", "limits")
                    and "gpu" in value.path[-1]
                ):
                    kind, path = "pod's resources", value.path  # of a pod are CPUs and memory alone
                    yield _unknown(manifest, value, path, kind)
                    break
                if not kind or name in FIELDS[kind] or path in said or re.search(r"[$<{*]", name) or name == "<<":
                    continue
                said.add(path)
                yield _unknown(manifest, value, path, kind)


def _object(manifest: Manifest, path: tuple[str, ...]) -> str:
    """What stands at a path, where its fields are known; empty elsewhere."""
    if not path:
        return ""
    last, before = path[-1], path[-2] if len(path) > 1 else ""
    in_container = any(
        name in _LISTS and path[at + 1].isdecimal() for at, name in enumerate(path[:-1]) if at + 1 < len(path)
    )
    if last.isdecimal() and before in _LISTS:
        return _LISTS[before]
    if last.isdecimal() and before in _OF_CONTAINER and in_container:
        return _OF_CONTAINER[before]
    if last == "resources" and before.isdecimal() and len(path) > 2 and path[-3] in _LISTS:
        return "resources"
    if last == "spec" and before == "template" and not in_container:
        inside = {value.path[len(path)] for value in manifest.values if value.path[: len(path)] == path}
        if "containers" in inside:
            return "pod"
        return "Job" if "replicatedJobs" in path else ""
    if before in _REPLICAS:
        return "replicas of an operator"
    if path == ("spec",):
        if manifest.kind == "Pod":
            return "pod"
        if manifest.kind == "Job":
            return "volcano" if "volcano" in manifest.api_version else "Job" if "batch/" in manifest.api_version else ""
        old = manifest.api_version.startswith("kubeflow.org/v1alpha")  # other fields
        return manifest.kind if manifest.kind in FIELDS and not old else ""
    return ""


def _unknown(manifest: Manifest, value: ManifestValue, path: tuple[str, ...], kind: str) -> LintFinding:
    name = path[-1]
    near = nearest(name, FIELDS.get(kind, frozenset()))
    homes = [other for other, fields in FIELDS.items() if name in fields and other not in ("template", kind)]
    where = f"the spec of a {manifest.kind}" if path[:-1] == ("spec",) and kind != "pod" else f"a {kind}"
    where = where.replace("a replicas", "replicas")
    fix = (
        f"Write {near}."
        if near
        else f"Move it into the {homes[0]} to which it belongs, by its indentation."
        if homes
        else "Move resources into the container, by its indentation."
        if kind.endswith("resources")
        else "Move it to where it belongs, by its indentation, or take it out."
    )
    return LintFinding(
        span=value.span,
        summary=f"{name} is no field of {where}",
        happens=f'kubectl refuses it: unknown field "{".".join(path)[-80:]}"; without validation it is dropped.',
        fix=fix,
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
    told = (each for launch in job.launches if launch.launcher == "accelerate" for each in launch.every_option)
    values = (option.value for option in told if option.name == "config-file" and option.value is not None)
    short = {value.shown.rpartition("/")[2] for value in values} - {""}
    for section in job.sections:
        if section.kind != "file" or section.name.rpartition("/")[2] not in short or len(section.text) > 20_000:
            continue
        for manifest in read_manifests(section.text, section.start, section.line):
            said: set[str] = set()
            for value in manifest.values:
                name = value.path[0] if value.path else ""
                if not name or name in _ACCELERATE or name in said or re.search(r"[$<{]", name):
                    continue
                said.add(name)
                near = nearest(name, _ACCELERATE)
                home = next((each for each in ("fsdp", "deepspeed") if name.startswith(each)), "")
                yield LintFinding(
                    span=value.span,
                    summary=f"{name} is no key of accelerate's file" + (f"; {near} is one" if near else ""),
                    happens="ValueError: The config file had unknown keys.",
                    fix=f"Put it below {home}_config:, indented."
                    if home
                    else f"Write {near}."
                    if near
                    else "Take it out.",
                )
