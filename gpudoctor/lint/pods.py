"""The containers of a manifest, and how many pods run a command of it."""

import math
import re
from collections.abc import Callable

from gpudoctor.lint.model import LintJob, LintLaunch, Manifest, ManifestValue
from gpudoctor.lint.once import once_each

BY_OPERATOR = ("PyTorchJob", "TrainJob", "HyperPodPyTorchJob", "ElasticJob", "MPIJob")
"""Kinds whose operator tells torchrun how many pods there are."""
_COUNTS = ("completions", "parallelism", "size", "replicas")
_REPLICA_TYPES = ("pytorchReplicaSpecs",)
_LISTS = ("replicatedJobs", "tasks")


class Container:
    """One container of a manifest, by its path."""

    def __init__(self, path: tuple[str, ...], values: dict[tuple[str, ...], ManifestValue]) -> None:
        self.path = path
        self.values = values

    @property
    def name(self) -> ManifestValue | None:
        return self.values.get(("name",))

    @property
    def gpus(self) -> int | None:
        """GPUs that it is limited to; None when it names none."""
        for kind in ("limits", "requests"):
            for key, value in self.values.items():
                if key[:2] == ("resources", kind) and key[-1] == "nvidia.com/gpu" and value.value.isascii():
                    return int(value.value) if value.value.isdigit() and len(value.value) < 5 else None
        return None

    @property
    def mounts(self) -> list[str]:
        return [
            value.value for key, value in self.values.items() if key[0] == "volumeMounts" and key[-1] == "mountPath"
        ]

    @property
    def command(self) -> list[ManifestValue]:
        return [value for key, value in self.values.items() if key[0] in ("command", "args")]


@once_each
def containers(manifest: Manifest) -> tuple[Container, ...]:
    """Every container, init containers left out."""
    by_path: dict[tuple[str, ...], dict[tuple[str, ...], ManifestValue]] = {}
    for value in manifest.values:
        if "containers" not in value.path[:-1]:
            continue
        at = value.path.index("containers") + 2
        if at <= len(value.path) - 1:
            by_path.setdefault(value.path[:at], {})[value.path[at:]] = value
    return tuple(Container(path, values) for path, values in by_path.items())


@once_each
def of_steps(manifest: Manifest) -> tuple[Container, ...]:
    """The containers of a workflow's templates (Argo) or of a task's steps (Tekton)."""
    by_path: dict[tuple[str, ...], dict[tuple[str, ...], ManifestValue]] = {}
    argo, tekton = (manifest.api_version.startswith(group) for group in ("argoproj.io/", "tekton.dev/"))
    for value in manifest.values if argo or tekton else ():
        key = next((key for key in (("container", "script") if argo else ("steps",)) if key in value.path[:-1]), "")
        at = value.path.index(key) + (1 if argo else 2) if key else 0
        if at and at < len(value.path) and (tekton or "templates" in value.path[:at]):
            first = "resources" if value.path[at] == "computeResources" else value.path[at]  # Tekton's v1
            by_path.setdefault(value.path[:at], {})[(first, *value.path[at + 1 :])] = value
    return tuple(Container(path, values) for path, values in by_path.items())


@once_each
def extent(manifest: Manifest) -> tuple[int, int]:
    """From where to where its text stands; of an empty one nowhere."""
    spans = [value.span for value in manifest.values]
    return min((span.start for span in spans), default=1), max((span.end for span in spans), default=0)


def is_in(launch: LintLaunch, manifest: Manifest) -> bool:
    """Whether the text of the launch is part of the manifest's."""
    first, last = extent(manifest)
    return first <= launch.invocation.span.start <= last


def manifest_of(job: LintJob, launch: LintLaunch) -> Manifest | None:
    """The manifest of Kubernetes whose pods run this command."""
    if not launch.invocation.manifest_path:
        return None
    return next((manifest for manifest in job.manifests if manifest.api_version and is_in(launch, manifest)), None)


def is_template(job: LintJob, launch: LintLaunch) -> bool:
    """Whether the manifest is filled in before Kubernetes gets it: ${NAME} stands where no shell and no kubelet looks
    (the number of replicas, an image), as for envsubst."""
    manifest = manifest_of(job, launch)
    return manifest is not None and _has_gaps(manifest)


@once_each
def _has_gaps(manifest: Manifest) -> bool:
    return any(
        re.fullmatch(r"\$\{?[A-Za-z_]\w*\}?", value.value) is not None and not {"command", "args"} & {*value.path}
        for value in manifest.values
    )


def container_of(job: LintJob, launch: LintLaunch) -> Container | None:
    manifest = manifest_of(job, launch)
    path = launch.invocation.manifest_path
    every = [*containers(manifest), *of_steps(manifest)] if manifest is not None else []
    return next((container for container in every if path[: len(container.path)] == container.path), None)


@once_each
def _by_path(manifest: Manifest) -> dict[tuple[str, ...], str]:
    return {value.path: value.value for value in manifest.values}


def pods_of(manifest: Manifest, launch: LintLaunch) -> int | None:
    """How many pods run this command as one training, by the counts around it; None where the text does not tell.

    Of an operator's replica types (Master, Worker) all together, each 1 unless it says more (training-operator 1.9);
    of one JobSet's job or Volcano's task the copies of it times the pods of each; where there are several such beside
    each other, nobody knows which of them train together.
    """
    path = launch.invocation.manifest_path
    values = _by_path(manifest)
    if manifest.kind == "TrainJob":
        return _of_numbers(sum, [values.get(("spec", "trainer", "numNodes"), "?")])
    for name in _REPLICA_TYPES:
        if name in path:
            types = path[: path.index(name) + 1]
            if any(value.path[-1:] == ("maxReplicas",) for value in manifest.values):
                return None  # elastic: they come and go
            names = {value[len(types)] for value in values if value[: len(types)] == types}
            return _of_numbers(sum, [values.get((*types, each, "replicas"), "1") for each in names])
    levels: list[str] = []
    for length in range(1, len(path)):
        above = path[:length]
        if above[-1] in _LISTS and (*above, "1") in {value[: length + 1] for value in values}:
            return None
        counts = [values[(*above, name)] for name in _COUNTS if (*above, name) in values and _counts(manifest, name)]
        levels += [max(counts, key=lambda text: (len(text), text))] if counts else []
    return _of_numbers(math.prod, levels) if levels else None


def _counts(manifest: Manifest, name: str) -> bool:
    """Copies of a Deployment or of a LeaderWorkerSet's group are trainings of their own."""
    return not (name == "replicas" and manifest.kind in ("Deployment", "LeaderWorkerSet"))


def _of_numbers(together: Callable[[list[int]], int], texts: list[str]) -> int | None:
    if not all(re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) for text in texts):
        return None
    return together([int(text) for text in texts])
