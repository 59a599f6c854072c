"""Write gpudoctor/knowledge/schemas/*.txt from schemas that others publish: `python docs/schema_tables.py FOLDER`.

FOLDER holds what was fetched by hand: swagger.json (kubernetes-client/python, kubernetes/swagger.json.unprocessed), the
operators' CRDs as *.yaml, compose.json (compose-spec, schema/compose-spec.json) and skypilot.json (the schema that
sky.utils.schemas.get_task_schema and get_resources_schema return). It is not shipped, and nothing of them is: only
names, kinds of values and words to choose from are kept. schemas/README.txt says how a line is read.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent.parent / "gpudoctor" / "knowledge" / "schemas"
Schema = Mapping[str, Any]

ROOTS = (
    *("Pod", "Service", "ConfigMap", "PersistentVolumeClaim", "PersistentVolume", "Secret", "Namespace"),
    *("ServiceAccount", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "NetworkPolicy"),
    *("PriorityClass", "ResourceClaimTemplate", "LimitRange", "ResourceQuota", "RuntimeClass", "PodDisruptionBudget"),
)
ENUMS = {
    "Container.imagePullPolicy": "Always IfNotPresent Never",
    "Container.terminationMessagePolicy": "File FallbackToLogsOnError",
    "PodSpec.restartPolicy": "Always OnFailure Never",
    "PodSpec.dnsPolicy": "ClusterFirst ClusterFirstWithHostNet Default None",
    "PodSpec.preemptionPolicy": "PreemptLowerPriority Never",
    "PriorityClass.preemptionPolicy": "PreemptLowerPriority Never",
    "ContainerPort.protocol": "TCP UDP SCTP",
    "ServicePort.protocol": "TCP UDP SCTP",
    "ServiceSpec.type": "ClusterIP NodePort LoadBalancer ExternalName",
    "ServiceSpec.sessionAffinity": "None ClientIP",
    "ServiceSpec.externalTrafficPolicy": "Cluster Local",
    "Toleration.operator": "Exists Equal Lt Gt",
    "Toleration.effect": "NoSchedule PreferNoSchedule NoExecute",
    "NodeSelectorRequirement.operator": "In NotIn Exists DoesNotExist Gt Lt",
    "LabelSelectorRequirement.operator": "In NotIn Exists DoesNotExist",
    "HostPathVolumeSource.type": " DirectoryOrCreate Directory FileOrCreate File Socket CharDevice BlockDevice",
    "JobSpec.completionMode": "Indexed NonIndexed",
    "JobSpec.podReplacementPolicy": "TerminatingOrFailed Failed",
    "PodFailurePolicyRule.action": "FailJob Ignore Count FailIndex",
    "PodFailurePolicyOnExitCodesRequirement.operator": "In NotIn",
    "PersistentVolumeClaimSpec.volumeMode": "Filesystem Block",
    "PersistentVolumeSpec.volumeMode": "Filesystem Block",
    "PersistentVolumeSpec.persistentVolumeReclaimPolicy": "Retain Delete Recycle",
    "TopologySpreadConstraint.whenUnsatisfiable": "DoNotSchedule ScheduleAnyway",
    "TopologySpreadConstraint.nodeAffinityPolicy": "Honor Ignore",
    "TopologySpreadConstraint.nodeTaintsPolicy": "Honor Ignore",
    "StatefulSetSpec.podManagementPolicy": "OrderedReady Parallel",
    "StatefulSetUpdateStrategy.type": "RollingUpdate OnDelete",
    "DaemonSetUpdateStrategy.type": "RollingUpdate OnDelete",
    "DeploymentStrategy.type": "Recreate RollingUpdate",
    "CronJobSpec.concurrencyPolicy": "Allow Forbid Replace",
    "SeccompProfile.type": "Unconfined RuntimeDefault Localhost",
    "VolumeMount.mountPropagation": "None HostToContainer Bidirectional",
    "SecurityContext.procMount": "Default Unmasked",
    "PodSecurityContext.fsGroupChangePolicy": "Always OnRootMismatch",
    "HTTPGetAction.scheme": "HTTP HTTPS",
    "PodOS.name": "linux windows",
}
"""core/v1, batch/v1, apps/v1: types.go, which the published OpenAPI leaves out."""
ENUM_ITEMS = {
    "PersistentVolumeClaimSpec.accessModes": "ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod",
    "PersistentVolumeSpec.accessModes": "ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod",
    "NetworkPolicySpec.policyTypes": "Ingress Egress",
}
OPERATORS = {
    "JobSpecPolicy.event": "* PodFailed PodEvicted PodPending Unknown TaskCompleted TaskFailed JobUpdated",
    "JobSpecPolicy.action": "AbortJob RestartJob RestartTask RestartPod RestartPartition TerminateJob CompleteJob"
    " ResumeJob",
    "MPIJobSpec.launcherCreationPolicy": "AtStartup WaitForWorkersReady",
    "MPIJobSpecMpiReplicaSpecs.restartPolicy": "Always OnFailure Never ExitCode",
    "MPIJobSpecRunPolicy.cleanPodPolicy": "None Running All",
    "ClusterTrainingRuntimeSpecTemplateSpecFailurePolicyRule.onJobFailureReasons": "BackoffLimitExceeded"
    " DeadlineExceeded FailedIndexes MaxFailedIndexesExceeded PodFailurePolicy",
}
"""volcano, webhooks/admission/jobs/validate/util.go; mpi-operator and training-operator, validation, types.go;
JobSet, jobset_webhook.go."""
OPERATORS_RANGES = {"TrainJobSpecTrainer.numNodes": "1..", "MPIJobSpec.slotsPerWorker": "1..",
                    "LeaderWorkerSetSpecLeaderWorkerTemplate.size": "1.."}  # fmt: skip
RANGES = {
    "ContainerPort.containerPort": "1..65535", "ContainerPort.hostPort": "0..65535", "ServicePort.port": "1..65535",
    "JobSpec.parallelism": "0..", "JobSpec.completions": "0..", "JobSpec.backoffLimit": "0..",
    "JobSpec.backoffLimitPerIndex": "0..", "JobSpec.maxFailedIndexes": "0..", "JobSpec.activeDeadlineSeconds": "0..",
    "JobSpec.ttlSecondsAfterFinished": "0..", "DeploymentSpec.replicas": "0..", "StatefulSetSpec.replicas": "0..",
    "ReplicaSetSpec.replicas": "0..", "PodSpec.activeDeadlineSeconds": "1..",
    "PodSpec.terminationGracePeriodSeconds": "0..",
    "TopologySpreadConstraint.maxSkew": "1..",
}  # fmt: skip
"""pkg/apis/core and batch/validation."""
REQUIRED = {"Container": "name", "JobSpec": "template", "PersistentVolumeClaimSpec": "accessModes resources",
            "ObjectMeta": ""}  # fmt: skip
OLDER = {
    "PyTorchJobSpec": "cleanPodPolicy:s ttlSecondsAfterFinished:i backoffLimit:i activeDeadlineSeconds:i",
    "TrainJobSpec": "podSpecOverrides:* podTemplateOverrides:* runtimePatches:*",
    "TrainJobSpecTrainer": "numProcPerNode:i(1..)/s(auto|cpu|gpu)",
    "TrainingRuntimeSpecMlPolicyTorch": "numProcPerNode:x elasticPolicy:*",
    "ClusterTrainingRuntimeSpecMlPolicyTorch": "numProcPerNode:x elasticPolicy:*",
    "PodSpec": "workloadRef:*",
    "WorkflowSpecTemplate": "container:@WorkflowSpecTemplateScript",
    "Container": "restartPolicyRules:*",
}
"""Fields of older or newer versions that the fetched ones lack."""
DEFAULTED = ("ClusterTrainingRuntimeSpecTemplateSpecFailurePolicyRule.name",)
"""What a webhook fills in before the schema is asked: JobSet 0.10, jobset_webhook.go."""


_WHOLE = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))


class Table:
    def __init__(self) -> None:
        self.types: dict[str, dict[str, str]] = {}
        self.kinds: dict[str, str] = {}
        self.cores: dict[frozenset[str], str] = {}

    def add(self, name: str, fields: dict[str, str]) -> str:
        """The name under which an object stands: that of one just like it, where there is one."""
        for known, other in self.types.items():
            if other == fields and len(fields) > 1:
                return known
        while name in self.types and self.types[name] != fields:
            name += "_"
        self.types[name] = fields
        return name

    def write(self, path: Path, head: Iterable[str] = ()) -> None:
        lines = [*head, *(f"= {kind} {name}" for kind, name in sorted(self.kinds.items()))]
        for name in sorted(self.types):
            words = [f"{field}:{shape}" for field, shape in self.types[name].items()]
            lines.append(f"{name} {' '.join(words)}".rstrip())
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(path, path.stat().st_size, "bytes", len(self.types), "objects")


# ---- Kubernetes' own types


def short(reference: str) -> str:
    name = reference.rpartition(".")[2]
    return "RawExtension" if name == "RawExtension" else name


def core(table: Table, swagger: Schema) -> None:
    definitions: Schema = swagger["definitions"]
    full = {}
    for long, schema in definitions.items():
        for gvk in schema.get("x-kubernetes-group-version-kind", []):
            version = f"{gvk['group']}/{gvk['version']}".lstrip("/")
            if gvk["kind"] in ROOTS and not re.search(r"(?:alpha|beta)\d", version) and len(schema["properties"]) > 1:
                full[f"{version} {gvk['kind']}"] = long
    names: dict[str, str] = {}
    for kind, long in full.items():
        if kind.split()[1] in names.values() or "events" in kind:
            continue
        names[long] = kind.split()[1]
        table.kinds[kind] = kind.split()[1]
    pending = list(names)
    done: set[str] = set()
    while pending:
        long = pending.pop()
        if long in done:
            continue
        done.add(long)
        schema = definitions[long]
        name = short(long)
        required = set(schema.get("required", [])) if name not in REQUIRED else set(REQUIRED[name].split())
        fields = {}
        for field, inner in schema.get("properties", {}).items():
            shape = core_shape(definitions, inner, pending)
            key = f"{name}.{field}"
            if key in ENUMS:
                shape = f"s({'|'.join(ENUMS[key].split(' '))})"
            elif key in ENUM_ITEMS:
                shape = f"[s({'|'.join(ENUM_ITEMS[key].split())})]"
            elif key in RANGES:
                shape = f"i({RANGES[key]})"
            if field == "status":
                shape = "*"
            fields[field + "!" * (field in required)] = shape
        table.types[name] = fields
    reachable: set[str] = set()
    waiting = list(table.kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in reachable:
            reachable.add(name)
            waiting += [found for shape in table.types[name].values() for found in re.findall(r"@(\w+)", shape)]
    table.types = {name: table.types[name] for name in sorted(reachable)}
    for name, fields in table.types.items():
        table.cores[frozenset(field.rstrip("!") for field in fields)] = name


def core_shape(definitions: Schema, schema: Schema, pending: list[str]) -> str:
    if "$ref" in schema:
        long = schema["$ref"].rpartition("/")[2]
        name = short(long)
        if name == "Quantity":
            return "q"
        if name == "IntOrString":
            return "x"
        target = definitions[long]
        if "properties" not in target:
            return core_shape(definitions, {key: value for key, value in target.items() if key != "$ref"}, pending)
        pending.append(long)
        return f"@{name}"
    kind = schema.get("type")
    if kind == "array":
        return f"[{core_shape(definitions, schema['items'], pending)}]"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"{{{core_shape(definitions, inner, pending)}}}" if isinstance(inner, dict) and inner else "*"
    return {"string": "s", "integer": "i", "boolean": "b", "number": "n"}.get(str(kind), "*")


# ---- operators' CRDs, and JSON schemas


class Reader:
    def __init__(self, table: Table, root: Schema, *, closed: bool) -> None:
        self.table = table
        self.root = root
        self.closed = closed
        """Objects take no other fields unless they say so (CRDs), or the other way round (JSON schema)."""
        self.seen: dict[str, str] = {}

    def shape(self, schema: Any, name: str) -> str:
        if not isinstance(schema, Mapping) or (
            schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties")
        ):
            return "*"
        if "$ref" in schema:
            reference = schema["$ref"]
            if reference not in self.seen:
                target: Any = self.root
                for part in reference.removeprefix("#/").split("/"):
                    target = target[part]
                self.seen[reference] = "*"  # what holds itself
                self.seen[reference] = self.shape(target, reference.rpartition("/")[2].title().replace("_", ""))
            return self.seen[reference]
        if schema.get("x-kubernetes-int-or-string"):
            return "q" if "pattern" in schema else "x"
        several = [
            *schema.get("oneOf", []), *(schema.get("anyOf", []) if not schema.get("properties") else [])
        ]  # fmt: skip
        several = [
            one
            for one in several
            if isinstance(one, Mapping) and one.keys() & {"type", "$ref", "enum", "anyOf", "oneOf"}
        ]
        if several and not schema.get("properties"):
            shapes = dict.fromkeys(self.shape(one, name) for one in several)
            shapes.pop("0", None)
            return "*" if "*" in shapes else "/".join(shapes)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            shapes = dict.fromkeys(self.shape({**schema, "type": kind}, name) for kind in kinds if kind != "null")
            return "*" if "*" in shapes or not shapes else "/".join(shapes)
        if kinds == "array":
            return f"[{self.shape(schema.get('items', {}), re.sub('ies$', 'y', name).rstrip('s'))}]"
        if kinds == "object" or "properties" in schema:
            return self.object(schema, name)
        if kinds == "null":
            return "0"
        words = schema.get("enum") or schema.get("case_insensitive_enum")
        if words and all(isinstance(word, str) and re.fullmatch(r"[\w.+-]*", word) for word in words):
            fold = "~" if "case_insensitive_enum" in schema else ""
            return f"s({fold}{'|'.join(words)})"
        if kinds == "integer":
            ends = [schema.get(name) for name in ("minimum", "maximum")]
            least, most = (str(end) if isinstance(end, int) else "" for end in ends)
            return f"i({least}..{most})" if least or most else "i"
        return {"string": "s", "boolean": "b", "number": "n"}.get(str(kinds), "*")

    def as_strict(self, schema: Schema, other: str) -> bool:
        wanted = {field[:-1] for field in self.table.types[other] if field.endswith("!")}
        return other in REQUIRED or wanted <= set(schema.get("required", []))

    def object(self, schema: Schema, name: str) -> str:
        properties = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        patterns = {key: value for key, value in (schema.get("patternProperties") or {}).items() if key != "^x-"}
        if not properties:
            inner = more if isinstance(more, Mapping) and more else next(iter(patterns.values()), None)
            return f"{{{self.shape(inner, name)}}}" if inner else "*"
        names = frozenset(properties)
        if self.closed:
            if names <= _WHOLE and "accessModes" in (properties.get("spec", {}).get("properties") or {}):
                return "@PersistentVolumeClaim"
            for known, other in self.table.cores.items():
                if known <= _WHOLE or not self.as_strict(schema, other):
                    continue
                if (
                    names <= known
                    and len(names) > 0.75 * len(known)
                    and (len(names) > 2 or known == names)
                    and names != {"metadata", "spec"}
                    and len(names) > 1
                ):
                    return f"@{other}"
            if names == {"metadata", "spec"}:
                inside = (properties["spec"].get("properties") or {}).keys()
                if "containers" in inside:
                    return "@PodTemplateSpec"
                if "template" in inside and "completions" in inside:
                    return "@JobTemplateSpec"
            if name.endswith("Metadata") or (
                names <= {"name", "namespace", "labels", "annotations", "finalizers"} and "annotations" in names
            ):
                return "@ObjectMeta" if self.closed else "*"
        required = {field for field in schema.get("required", []) if "default" not in properties.get(field, {})}
        fields = {
            field + "!" * (field in required): self.shape(
                inner, name + field[:1].upper() + field[1:].replace("_", "").replace("-", "")
            )
            if field != "status"
            else "*"
            for field, inner in properties.items()
        }
        is_open = (
            more not in (None, False)
            or (more is None and not self.closed)
            or schema.get("x-kubernetes-preserve-unknown-fields")
        )
        if is_open:
            fields["..."] = "*"
        if "^x-" in (schema.get("patternProperties") or {}):
            fields["x-..."] = "*"
        return "@" + self.table.add(name, fields)


WORKFLOWS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate")
WORKFLOW_PARTS = ("spec", "workflowSpec", "templates", "items", "container", "script", "initContainers", "sidecars",
                  "volumes", "affinity", "tolerations", "securityContext", "dnsConfig", "hostAliases")  # fmt: skip
"""Parts of Argo's workflows whose fields are kept: the full CRDs (manifests/base/crds/full) hold the same artifacts
eight times over, 200 kB."""


def shallow(schema: Any, name: str = "spec") -> Any:
    """Of an object only the fields whose parts are in WORKFLOW_PARTS with what they hold."""
    if not isinstance(schema, Mapping) or name not in WORKFLOW_PARTS:
        plain = isinstance(schema, Mapping) and schema.get("type") in ("string", "boolean", "integer")
        return schema if plain else {}
    if name in WORKFLOW_PARTS[4:]:
        return schema
    kept = dict(schema)
    if "properties" in schema:
        kept["properties"] = {key: shallow(inner, key) for key, inner in schema["properties"].items()}
    if "items" in schema:
        kept["items"] = shallow(schema["items"], "items")
    return kept


def kubernetes(folder: Path) -> None:
    table = Table()
    swagger = json.loads((folder / "swagger.json").read_text())
    core(table, swagger)
    every: dict[str, set[str]] = {}
    for schema in swagger["definitions"].values():
        for gvk in schema.get("x-kubernetes-group-version-kind", []):
            if (
                not gvk["kind"].endswith("List")
                and len(schema.get("properties", {})) > 1
                and gvk["kind"] not in ("DeleteOptions", "WatchEvent", "Status")
            ):
                every.setdefault(f"{gvk['group']}/{gvk['version']}".lstrip("/"), set()).add(gvk["kind"])
    for path in sorted(folder.glob("*.yaml")):
        for crd in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            if not isinstance(crd, dict) or crd.get("kind") != "CustomResourceDefinition":
                continue
            kind, group = crd["spec"]["names"]["kind"], crd["spec"]["group"]
            if group == "argoproj.io" and kind not in WORKFLOWS:
                continue
            for version in crd["spec"]["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                if group == "argoproj.io":
                    schema = shallow(schema)
                own = {key: value for key, value in schema["properties"].items() if key in ("spec",)}
                others = {
                    key: value
                    for key, value in schema["properties"].items()
                    if key not in ("spec", "apiVersion", "kind", "metadata", "status")
                }
                reader = Reader(table, schema, closed=True)
                fields = {"apiVersion": "s", "kind": "s", "metadata": "@ObjectMeta", "status": "*"}
                required = schema.get("required", [])
                fields |= {
                    field + "!" * (field in required): reader.shape(inner, kind + field.capitalize())
                    for field, inner in (own | others).items()
                }
                full = f"{group}/{version['name']}"
                table.kinds[f"{full} {kind}"] = table.add(kind, fields)
                if group != "argoproj.io":  # Argo CD, Events and Rollouts share it
                    every.setdefault(full, set()).add(kind)
    for name, words in (OPERATORS | OPERATORS_RANGES).items():
        type_, _, field = name.partition(".")
        of = table.types[type_]
        key = next(known for known in of if known.rstrip("!") == field)
        shape = f"i({words})" if name in OPERATORS_RANGES else f"s({'|'.join(words.split())})"
        of[key] = f"[{shape}]" if of[key][0] == "[" else shape
    for name in DEFAULTED:
        type_, _, field = name.partition(".")
        table.types[type_][field] = table.types[type_].pop(f"{field}!")
    for name, words in OLDER.items():
        for word in words.split():
            field, _, shape = word.partition(":")
            table.types.get(name, {})[field] = shape
    every.setdefault("batch.volcano.sh/v1alpha1", set()).add("CronJob")  # volcano 1.14, which is not fetched
    head = [f"+ {version} {' '.join(sorted(kinds))}" for version, kinds in sorted(every.items())]
    table.write(HERE / "kubernetes.txt", head)


def compose(folder: Path) -> None:
    table = Table()
    schema = json.loads((folder / "compose.json").read_text())
    table.kinds["compose"] = Reader(table, schema, closed=False).shape(schema, "Compose").removeprefix("@")
    table.write(HERE / "compose.txt")


def skypilot(folder: Path) -> None:
    table = Table()
    schema = json.loads((folder / "skypilot.json").read_text())
    for name in ("envs", "secrets"):
        schema["properties"][name] = {}  # made strings before they are looked at
    schema["properties"]["experimental"] = {}  # config's name until 0.10
    table.kinds["skypilot"] = Reader(table, schema, closed=False).shape(schema, "Task").removeprefix("@")
    table.write(HERE / "skypilot.txt")


PYDANTIC = {"bool": "b", "int": "i", "float": "n", "str": "s", "Path": "s", "Optional": "", "None": "", "Any": "*"}
DEEPSPEED = ("runtime/zero/config.py", "runtime/zero/offload_config.py", "runtime/zero/leaf_module_config.py",
             "runtime/precision_config.py")  # fmt: skip
EARLIER = {
    "DeepSpeedZeroConfig": "zeropp_loco_param mics_shard_size mics_hierarchical_params_gather grad_hooks"
    " prefetch_bucket_size param_persistence_threshold model_persistence_threshold max_live_parameters"
    " max_reuse_distance gather_16bit_weights_on_model_save",
    "DeepSpeedZeroOffloadOptimizerConfig": "pipeline",
    "DeepSpeedBF16Config": "loss_scale initial_scale_power auto_cast",
    "DeepSpeedFP16Config": "opt_level loss_scale_tolerance",
}
"""Keys of earlier releases, and those that have an alias."""


def deepspeed(folder: Path) -> None:
    """The pydantic models of DeepSpeed's sources, FOLDER/deepspeed."""
    table = Table()
    classes: dict[str, ast.ClassDef] = {}
    for name in DEEPSPEED:
        for node in ast.parse((folder / "deepspeed" / name).read_text()).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] = node
    for name, node in classes.items():
        if "DeepSpeedConfigModel" not in [ast.unparse(base) for base in node.bases]:
            continue
        fields: dict[str, str] = {}
        for line in node.body:
            if isinstance(line, ast.AnnAssign):
                fields |= dict([_pydantic(line, classes)])
        fields |= {field: "*" for field in EARLIER.get(name, "").split() if field not in fields}
        table.types[name] = fields
    table.types["Config"] = {
        "train_batch_size": "i", "train_micro_batch_size_per_gpu": "i", "gradient_accumulation_steps": "i",
        "gradient_clipping": "n", "steps_per_print": "i", "zero_optimization": "@DeepSpeedZeroConfig",
        "bf16": "@DeepSpeedBF16Config", "fp16": "@DeepSpeedFP16Config", "...": "*",
    }  # fmt: skip
    table.kinds["deepspeed"] = "Config"
    table.write(HERE / "deepspeed.txt", ["! lax"])


def _pydantic(line: ast.AnnAssign, classes: Mapping[str, ast.ClassDef]) -> tuple[str, str]:
    shapes = [_shape_of(word, classes) for word in re.findall(r"\w+", ast.unparse(line.annotation))]
    shape = "/".join(dict.fromkeys(filter(None, shapes))) or "*"
    given = line.value if isinstance(line.value, ast.Call) else ast.Call(ast.Name("Field"), [], [])
    told = {keyword.arg: ast.unparse(keyword.value) for keyword in given.keywords}
    least = told.get("ge") or (str(int(told["gt"]) + 1) if "gt" in told else "")
    if shape == "i" and (least or "le" in told):
        shape = f"i({least}..{told.get('le', '')})"
    name = told["alias"].strip("'") if "alias" in told else ast.unparse(line.target)
    return name, "*" if "*" in shape else shape


def _shape_of(word: str, classes: Mapping[str, ast.ClassDef]) -> str:
    node = classes.get(word)
    if node is None:
        return PYDANTIC.get(word, "*")
    if "Enum" not in ast.unparse(node.bases[-1]):
        return f"@{word}"
    words = [ast.literal_eval(line.value) for line in node.body if isinstance(line, ast.Assign)
             and isinstance(line.value, ast.Constant)]  # fmt: skip
    return f"s({'|'.join(words)})" if words and all(isinstance(each, str) for each in words) else "i(0..3)"


if __name__ == "__main__":
    kubernetes(Path(sys.argv[1]))
    compose(Path(sys.argv[1]))
    if (Path(sys.argv[1]) / "skypilot.json").exists():
        skypilot(Path(sys.argv[1]))
    if (Path(sys.argv[1]) / "deepspeed").exists():
        deepspeed(Path(sys.argv[1]))
