"""What the API server refuses of the pods of a training, by the source of its validation: K39."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.pods import Container, containers
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules import manifest_formats
from gpudoctor.lint.rules.manifest_values import Refusal, by_path, children
from gpudoctor.lint.schema_words import found_by_schema, kubernetes, none_of_the_words

_QUANTITY = lazy_re(r"(?P<number>\+?(?:\d+\.?\d*|\.\d+))(?P<unit>m|u|n|[kMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)
_UNITS: dict[str, Decimal] = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}
_SIZES = "kMGTPE"
_STANDARD = lazy_re(r"cpu|memory|ephemeral-storage|storage|hugepages-.+")
_LABEL = lazy_re(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = lazy_re(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_CONTROLLERS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_OPEN = lazy_re(r"[$<{]|\b[A-Z]+_[A-Z_]+\b")
"""What somebody fills in before the API server sees it."""

_POD = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  backoffLimit: 0\n  template:\n    spec:\n"
    "      restartPolicy: Never\n      containers:\n        - name: main\n          image: registry/image:tag\n"
    "          command: [torchrun, --standalone, --nproc-per-node=4, train.py]\n          resources: {resources}\n"
    "          volumeMounts: [{{name: {mounted}, mountPath: /dev/shm}}]\n"
    "      volumes: [{{name: shm, emptyDir: {{medium: Memory, sizeLimit: {size}}}}}]\n"
)


def _pod(
    name: str = "train", resources: str = "{limits: {nvidia.com/gpu: 4}}", mounted: str = "shm", size: str = "16Gi"
) -> str:
    return _POD.format(name=name, resources=resources, mounted=mounted, size=size)


@rule(
    "K39",
    title="A pod's values are those that the API server takes",
    source="kubernetes 1.34, pkg/apis/core and batch/validation; apimachinery, resource/quantity.go",
    bad=(
        _pod(resources="{limits: {nvidia.com/gpu: 8}, requests: {nvidia.com/gpu: 4}}"),
        _pod(resources="{limits: {gpu: 4}}"),
        _pod(resources="{limits: {nvidia.com/gpu: 4, memory: 64GB}}"),
        _pod(resources="{limits: {nvidia.com/gpu: 4, memory: 32Gi}, requests: {memory: 64Gi}}"),
        _pod(mounted="dshm"),
        _pod(name="Train_1"),
        _pod(size="16g"),
        _pod().replace("      restartPolicy", "      resources: {limits: {nvidia.com/gpu: 4}}\n      restartPolicy"),
        _pod().replace("backoffLimit: 0", "backoffLimit: -1"),
        _pod().replace("Never", "never"),
    ),
    good=(
        _pod(),
        _pod(resources="{limits: {nvidia.com/gpu: 4, memory: 64G}, requests: {nvidia.com/gpu: 4, memory: 64000M}}"),
        _pod(resources="{limits: {nvidia.com/gpu: '4', cpu: 1.5}, requests: {cpu: 500m}}"),
    ),
)
def value_that_is_refused(job: LintJob) -> Iterator[LintFinding]:
    """Kubernetes looks at a whole manifest before it makes a pod, and refuses all of it for one value: another number
    of GPUs in requests than in limits, a resource without its domain, a size with GB, a mount of a volume that the pod
    does not have, a name in capitals."""
    for manifest in kubernetes(job):
        seen: set[int] = set()
        for problem in found_by_schema(job, manifest):
            if problem.what in ("word", "range"):
                seen.add(problem.value.span.start)
                yield none_of_the_words(problem)
        for value, what, happens, instead in _told(manifest):
            if value.span.start in seen or _OPEN.search(value.value):
                continue
            seen.add(value.span.start)
            yield LintFinding(
                span=value.span,
                summary=what,
                happens=happens,
                fix=instead,
            )


def _told(manifest: Manifest) -> Iterator[tuple[ManifestValue, str, str, str]]:
    """With what happens, in place of what the API server says."""
    for value, what, says, instead in _refused(manifest):
        yield value, what, f"The API server refuses the manifest: {says}. No pod is made.", instead
    for value in manifest.values:
        # Kubernetes 1.20 to 1.34 validate the size alone; pkg/volume/emptydir fails as it is mounted.
        if value.path[-1:] == ("medium",) and not re.fullmatch(r"Memory|HugePages(?:-\w+)?|", value.value):
            happens = "The API server takes it, and the pod stays in ContainerCreating: unknown storage medium."
            yield value, f"medium is {value.value}", happens, "Write Memory."


def _refused(manifest: Manifest) -> Iterator[Refusal]:
    for check in _CHECKS:
        yield from check(manifest)
    for container in containers(manifest):
        yield from _resources(container)


def quantity(text: str) -> Decimal | None:
    """A quantity's number; None when it is none."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or len(text) > 30:
        return None
    unit = match["unit"] or ""
    if unit[:1] in ("e", "E") and len(unit) > 1 and unit != "Ei":
        return Decimal(match["number"] + unit) if len(unit) < 5 else None
    if unit in _UNITS:
        return Decimal(match["number"]) * _UNITS[unit]
    power = _SIZES.index(unit[0].replace("K", "k")) + 1
    return Decimal(match["number"]) * Decimal(1024 if unit.endswith("i") else 1000) ** power


def _resources(container: Container) -> Iterator[Refusal]:
    of: dict[tuple[str, str], ManifestValue] = {
        (path[1], path[2]): value
        for path, value in container.values.items()
        if len(path) == 3 and path[0] == "resources" and path[1] in ("limits", "requests")
    }
    for (kind, name), value in of.items():
        if not value.value or _OPEN.search(value.value) or _OPEN.search(name):
            continue
        extended = "/" in name and "kubernetes.io/" not in name
        if "/" not in name and not _STANDARD.fullmatch(name):
            yield (
                value,
                f"{name} is no resource that Kubernetes knows",
                "must be a standard resource type or fully qualified",
                "Write the name that the device plugin registers: nvidia.com/gpu."
                if "gpu" in name
                else "Write cpu, memory, or a name with its domain.",
            )
            continue
        amount = quantity(value.value)
        if amount is None:
            yield (
                value,
                f"{value.value} is no quantity ({name} in {kind})",
                "quantities must match the regular expression ...",
                "Write 64Gi (1024 each) or 64G (1000 each): without a B, and in these capitals.",
            )
            continue
        if extended and amount != int(amount):
            yield value, f"{value.value} of {name} is no whole number", "must be an integer", "Write a whole number."
        limit = of.get(("limits", name)) if kind == "requests" else None
        most = quantity(limit.value) if limit is not None else None
        if limit is None or most is None:
            continue
        if extended and amount != most:
            yield (
                value,
                f"{value.value} of {name} are requested, and the limit is {limit.value}",
                f"must be equal to {name} limit of {limit.value}",
                f"Write {limit.value} in both, or leave {name} out of requests.",
            )
        elif amount > most:
            yield (
                value,
                f"{value.value} of {name} are requested, more than the limit of {limit.value}",
                f"must be less than or equal to {name} limit of {limit.value}",
                f"Raise the limit, or request at most {limit.value}.",
            )


def _volumes(manifest: Manifest) -> Iterator[Refusal]:
    """Mounts of volumes that there are, each path once; names once."""
    values = {value.path: value for value in manifest.values}
    of_claims = ("volumeClaimTemplates", "volumeClaimPolicies")  # a StatefulSet's, and a JobSet's since 0.11
    claims = {value.value for path, value in values.items() if path[-1] == "name" and {*of_claims} & {*path}}
    for pod in dict.fromkeys(container.path[:-2] for container in containers(manifest)):
        if manifest.kind == "TrainJob" or any(
            path[: len(pod)] == pod and path[len(pod) :] == ("<<",) for path in values
        ):
            continue
        names = [values.get((*pod, "volumes", index, "name")) for index in children(manifest, *pod, "volumes")]
        known = {name.value for name in names if name is not None} | claims
        if manifest.api_version.startswith("ray.io/") and any("authOptions" in path for path in values):
            known.add("ray-token")  # KubeRay's own, in every pod
        for container in containers(manifest):
            if container.path[:-2] != pod:
                continue
            paths: set[str] = set()
            for path, value in container.values.items():
                if path[0] != "volumeMounts" or len(path) != 3:
                    continue
                if path[2] == "name" and value.value not in known and None not in names:
                    yield (
                        value,
                        f"the volume {value.value} is mounted, and the pod has none of that name",
                        f'volumeMounts[{path[1]}].name: Not found: "{value.value}"',
                        f"Add it to the pod's volumes, or mount one of them: {', '.join(sorted(known)) or 'none'}.",
                    )
                if path[2] == "mountPath":
                    if value.value in paths:
                        yield value, f"{value.value} is mounted twice", "must be unique", "Mount one volume there."
                    paths.add(value.value)


def _names(manifest: Manifest) -> Iterator[Refusal]:
    is_role = manifest.api_version.startswith("rbac.authorization.k8s.io/")  # whose names may hold colons
    for path, value in ((value.path, value) for value in manifest.values if not is_role):
        if path == ("metadata", "name") and not _SUBDOMAIN.fullmatch(value.value):
            yield (
                value,
                f"{value.value} is no name of an object",
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'",
                "Write lower-case letters, digits and hyphens.",
            )
    pods: dict[tuple[str, ...], set[str]] = {}
    for container in containers(manifest):
        if container.name is None:
            continue
        if not _LABEL.fullmatch(container.name.value):
            yield (
                container.name,
                f"{container.name.value} is no name of a container",
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'",
                "Write lower-case letters, digits and hyphens.",
            )
        names = pods.setdefault(container.path[:-2], set())
        if container.name.value in names:
            yield container.name, f"two containers are named {container.name.value}", "Duplicate value", "Rename one."
        names.add(container.name.value)


def _tables(manifest: Manifest) -> Iterator[Refusal]:
    """Sizes, and what a pod has for all of its containers."""
    for value in manifest.values:
        of_claim = manifest.kind == "PersistentVolumeClaim" and value.path[:2] == ("spec", "resources")
        if of_claim and quantity(value.value) is None:
            yield (
                value,
                f"{value.value} is no quantity ({value.path[-1]})",
                "quantities must match the regular expression ...",
                "Write 2Ti (1024 each) or 2T (1000 each), without a blank.",
            )
        if value.path[-1:] == ("sizeLimit",) and "emptyDir" in value.path and quantity(value.value) is None:
            yield (
                value,
                f"sizeLimit {value.value} is no quantity",
                "quantities must match the regular expression ...",
                "Write 16Gi (1024 each) or 16G (1000 each).",
            )
        if value.path[-4:-3] == ("spec",) and value.path[-3] == "resources" and "/" in value.path[-1]:
            yield (
                value,
                f"{value.path[-1]} stands in the resources of the pod, which are CPUs and memory alone",
                "must be a supported resource for pod-level resources",
                "Move resources into the container, by its indentation.",
            )


def _variables(manifest: Manifest) -> Iterator[Refusal]:
    for container in containers(manifest):
        for path, value in container.values.items():
            if path[0] != "env" or len(path) != 3 or path[2] != "value" or not value.value:
                continue
            if any(other[:3] == ("env", path[1], "valueFrom") for other in container.values):
                yield (
                    value,
                    "a variable has a value and a valueFrom",
                    "may not be specified when `value` is not empty",
                    "Keep one of them.",
                )


def _jobs(manifest: Manifest) -> Iterator[Refusal]:
    """Selectors and restarts of controllers that keep pods running."""
    values = by_path(manifest)
    if manifest.kind not in _CONTROLLERS:
        return
    policy = values.get("spec.template.spec.restartPolicy")
    if policy is not None and policy.value in ("OnFailure", "Never"):
        yield (
            policy,
            f"the pods of a {manifest.kind} have restartPolicy {policy.value}",
            'Unsupported value: supported values: "Always"',
            "Make it a Job, which ends, or leave restartPolicy away: a finished training is then started again.",
        )
    for key in children(manifest, "spec", "selector", "matchLabels"):
        wanted = next(value for value in manifest.values if value.path == ("spec", "selector", "matchLabels", key))
        own = next(
            (value for value in manifest.values if value.path == ("spec", "template", "metadata", "labels", key)), None
        )
        if own is None or own.value != wanted.value:
            yield (
                wanted,
                f"the selector wants {key}: {wanted.value}, and the pods are labelled"
                f" {key + ': ' + own.value if own is not None else 'otherwise'}",
                "`selector` does not match template `labels`",
                f"Give the template the label {key}: {wanted.value}.",
            )


_CHECKS: tuple[Callable[[Manifest], Iterator[Refusal]], ...] = (
    *(_volumes, _names, _tables, _variables, _jobs),
    *manifest_formats.CHECKS,
)
