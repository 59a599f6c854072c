"""Rules of what objects of Kubernetes take from each other: K70, K71."""

from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.pods import containers
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import by_path, number
from gpudoctor.lint.schema_words import kubernetes

_OPEN = lazy_re(r"[$<{]")
_POD = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: sizes}}\ndata: {{nodes: '2'}}\n---\n"
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: train}}\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n      containers:\n        - name: main\n          image: registry/image:tag\n"
    "          command: [torchrun, --standalone, --nproc-per-node=4, train.py]\n"
    "          env: [{{name: NODES, valueFrom: {{configMapKeyRef: {{name: {}, key: {}}}}}}}]\n"
)
_WORKFLOW = (
    "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {{generateName: fit-}}\nspec:\n  entrypoint: {}\n"
    "  templates:\n    - name: main\n      steps:\n        - - {{name: one, template: {}}}\n    - name: fit\n"
    "      container:\n        image: registry/image:tag\n"
    "        command: [torchrun, --standalone, --nproc_per_node=4, fit.py]\n"
)
_SOURCES = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}


@rule(
    "K70",
    title="What a manifest takes from another object, or from a part of itself, is there",
    source="Kubernetes' documentation, ConfigMaps: CreateContainerConfigError; Argo Workflows 3.6,"
    " workflow/validate: template name undefined",
    bad=(_POD.format("sizes", "nnodes"), _WORKFLOW.format("train", "fit"), _WORKFLOW.format("main", "fitt")),
    good=(
        _POD.format("sizes", "nodes"),
        _POD.format("others", "nnodes"),
        _POD.format("sizes", "nnodes, optional: true"),
        _WORKFLOW.format("main", "fit"),
    ),
)
def taken_and_not_there(job: LintJob) -> Iterator[LintFinding]:
    """A container whose variable comes from a key that the ConfigMap or Secret lacks is not started, and no error ends
    the job. A workflow that names a template which it does not have is refused."""
    every = list(kubernetes(job))
    keys = {found: known for manifest in every if (found := _named(manifest)) and (known := _keys(manifest))}
    for manifest in every:
        values = {value.path: value for value in manifest.values}
        for path, value in values.items():
            kind = _SOURCES.get(path[-2], "") if len(path) > 1 and path[-1] == "key" else ""
            name = values.get((*path[:-1], "name"))
            optional = values.get((*path[:-1], "optional"))
            there = keys.get((kind, name.value)) if name is not None else None
            if there is None or value.value in there or _OPEN.search(value.value):
                continue
            if optional is None or optional.value != "true":
                yield LintFinding(
                    span=value.span,
                    summary=f"the {kind} {name.value if name is not None else ''} has no key {value.value}; it has"
                    f" {', '.join(sorted(there)[:6])}",
                    happens="The container is not started (CreateContainerConfigError), and the others wait for it.",
                    fix="Write one of its keys, or add the key to it.",
                )
        if manifest.kind in ("Workflow", "WorkflowTemplate", "CronWorkflow"):
            yield from _templates(manifest)


def _named(manifest: Manifest) -> tuple[str, str] | None:
    name = by_path(manifest).get("metadata.name")
    return (manifest.kind, name.value) if name is not None and manifest.kind in _SOURCES.values() else None


def _keys(manifest: Manifest) -> set[str]:
    """The keys of a ConfigMap or Secret."""
    of = (("data",), ("stringData",), ("binaryData",))
    return {value.path[1] for value in manifest.values if value.path[:1] in of and len(value.path) > 1}


def _templates(manifest: Manifest) -> Iterator[LintFinding]:
    known = {
        value.value for value in manifest.values
        if "templates" in value.path and value.path[-1] == "name" and value.path[-3] == "templates"
    }  # fmt: skip
    if not known or any(
        "templateRef" in value.path or value.path[-1] == "workflowTemplateRef" for value in manifest.values
    ):
        return
    for value in manifest.values:
        is_step = value.path[-1] == "template" and ("steps" in value.path or "tasks" in value.path)
        is_first = value.path[-1] == "entrypoint" and value.path[:1] == ("spec",) and "templates" not in value.path
        if (is_step or is_first) and value.value not in known and not _OPEN.search(value.value):
            yield LintFinding(
                span=value.span,
                summary=f"{value.path[-1]} is {value.value}, and the templates are {', '.join(sorted(known)[:6])}",
                happens=f"argo refuses the workflow: template name '{value.value}' undefined.",
                fix="Name one of its templates.",
            )


_CLAIM = (
    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec:\n  accessModes: [{}]\n"
    "  resources: {{requests: {{storage: 1Ti}}}}\n---\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\n"
    "metadata: {{name: train}}\nspec:\n  nprocPerNode: '8'\n  pytorchReplicaSpecs:\n    Worker:\n      replicas: {}\n"
    "      restartPolicy: OnFailure\n      template:\n        spec:\n          containers:\n          - name: pytorch\n"
    "            image: registry/image:tag\n            command: [torchrun, train.py]\n"
    "            resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
    "            volumeMounts: [{{name: data, mountPath: /data}}, {{name: shm, mountPath: /dev/shm}}]\n"
    "          volumes:\n          - {{name: shm, emptyDir: {{medium: Memory}}}}\n"
    "          - {{name: data, persistentVolumeClaim: {{claimName: data}}}}\n"
)


@rule(
    "K71",
    title="A volume that several pods mount may be mounted by several",
    source="Kubernetes' documentation, Persistent Volumes, Access Modes: ReadWriteOncePod is for one pod alone",
    bad=(_CLAIM.format("ReadWriteOncePod", 2), _CLAIM.format("ReadWriteOncePod", 8)),
    good=(_CLAIM.format("ReadWriteMany", 2), _CLAIM.format("ReadWriteOncePod", 1)),
)
def claim_of_one_pod(job: LintJob) -> Iterator[LintFinding]:
    """ReadWriteOncePod lets one pod have the volume: the others stay pending, and the first waits for them."""
    claims: dict[str, ManifestValue] = {}
    for manifest in kubernetes(job):
        modes = [value for value in manifest.values if value.path[:2] == ("spec", "accessModes")]
        name = by_path(manifest).get("metadata.name")
        is_claim = manifest.kind == "PersistentVolumeClaim" and name is not None
        if is_claim and name is not None and [mode.value for mode in modes] == ["ReadWriteOncePod"]:
            claims[name.value] = modes[0]
    for manifest in kubernetes(job) if claims else ():
        pods = _pods_by_claim(manifest)
        for claim, count in pods.items():
            if claim in claims and count > 1:
                yield LintFinding(
                    span=claims[claim].span,
                    summary=f"the claim {claim} is ReadWriteOncePod, and {counted(count, 'pod')} mount it",
                    happens="One pod gets the volume; the others stay pending, and the training waits for them.",
                    fix="Write ReadWriteMany, with a storage class that has it.",
                )


_COUNTS = ("replicas", "parallelism", "numNodes")


def _pods_by_claim(manifest: Manifest) -> dict[str, int]:
    """How many pods mount each claim, by the counts above their volumes."""
    values = {value.path: value for value in manifest.values}
    pods: dict[str, int] = {}
    templates = {container.path[:-2] for container in containers(manifest)}
    for path, value in values.items():
        if path[-2:] != ("persistentVolumeClaim", "claimName") or path[:-4] not in templates:
            continue
        count = 1
        for length in range(1, len(path)):
            told = [number(values[(*path[:length], name)]) for name in _COUNTS if (*path[:length], name) in values]
            count *= max((each for each in told if each is not None), default=1)
        pods[value.value] = pods.get(value.value, 0) + count
    return pods
