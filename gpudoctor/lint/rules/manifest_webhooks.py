"""Rules of what operators' webhooks look at before they take a manifest: K52 to K54."""

import re
from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from gpudoctor.knowledge.refused_manifests import REFUSED, RefusedManifest
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.conditions import holds, names_of, value_of_word
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.python_values import UNDECIDED
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import by_path, children, number

_FILLED_IN = lazy_re(r"[$<{]")
_POD = (
    "template:\n        spec:\n          containers:\n            - {name: main, image: 'registry/image:tag',"
    " command: [python, train.py]}\n"
)
_RAYJOB = (
    "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: train}\nspec:\n  entrypoint: python train.py\n  MORE\n"
    "  rayClusterSpec:\n    headGroupSpec:\n      rayStartParams: {}\n      " + _POD + "    workerGroupSpecs:\n"
    "    - groupName: gpu\n      replicas: 2\n      minReplicas: LEAST\n      maxReplicas: MOST\n      " + _POD
)
_RAY = _RAYJOB.replace("MORE", "shutdownAfterJobFinishes: true").replace("LEAST", "1")


class _Place(Struct, frozen=True):
    """What stands below one place of a manifest, by names that conditions can have."""

    values: dict[str, ManifestValue]
    kueue: bool

    def value(self, name: str) -> object:
        if name == "kueue":
            return self.kueue
        value = self.values.get(name)
        if value is None:
            return UNDECIDED if self.is_told(name) else None
        return UNDECIDED if _FILLED_IN.search(value.value) else value_of_word(value.value)

    def is_told(self, name: str) -> bool:
        return name in self.values or any(known.startswith(f"{name}.") for known in self.values)

    def spans(self, condition: str) -> list[tuple[str, ManifestValue]]:
        named = []
        for name in names_of(condition):
            value = self.values.get(name) or next(
                (value for known, value in self.values.items() if known.startswith(f"{name}.")), None
            )
            if value is not None:
                named.append((name, value))
        return named


def _places(manifest: Manifest, at: str) -> Iterator[_Place]:
    """Below `at`, whose `*` is every item of a list."""
    queue = any(
        value.path[-1] == "kueue.x-k8s.io/queue-name" for value in manifest.values if value.path[:1] == ("metadata",)
    )
    pattern = at.split(".") if at else []
    by_place: dict[tuple[str, ...], dict[str, ManifestValue]] = {}
    for value in manifest.values:
        place, rest = value.path[: len(pattern)], value.path[len(pattern) :]
        if rest and len(place) == len(pattern) and all(map(_fits, pattern, place)):
            by_place.setdefault(place, {})[".".join(map(_name_of, rest))] = value
    yield from (_Place(values, queue) for values in by_place.values())


def _name_of(key: str) -> str:
    """A key as a condition writes it."""
    return f"n{key}" if key.isdecimal() else key.replace("-", "_")


def _fits(wanted: str, key: str) -> bool:
    return wanted == key or (wanted == "*" and key.isdecimal())


def _is_of(row: RefusedManifest, manifest: Manifest) -> bool:
    for kind in row.kinds:
        name, _, group = kind.partition(":")
        if name == manifest.kind and manifest.api_version.startswith(group):
            return True
    return False


def _of_rows(job: LintJob, *, is_silent: bool) -> Iterator[LintFinding]:
    for manifest in job.manifests:
        if manifest.fault or not (manifest.api_version or manifest.kind in ("dstack", "SkyPilot", "AzureML")):
            continue
        said: set[int] = set()
        for row in REFUSED:
            if row.is_silent != is_silent or not _is_of(row, manifest):
                continue
            for place in _places(manifest, row.at):
                placed = place.spans(row.when)
                if not placed or not holds(row.when, place.value, place.is_told) or placed[0][1].span.start in said:
                    continue
                said.add(placed[0][1].span.start)
                shown = " and ".join(
                    f"{name.rpartition('.')[2]} {value.value}" if name in place.values else name
                    for name, value in placed[:3]
                )
                yield LintFinding(
                    span=placed[0][1].span,
                    summary=f"{shown}: the {manifest.kind} {'is done otherwise' if is_silent else 'is refused'}",
                    happens=f"{row.says[:1].upper()}{row.says[1:]}." if is_silent else f"No pod is made: {row.says}.",
                    fix=row.fix,
                )


@rule(
    "K52",
    title="A manifest is one that its operator takes",
    source="KubeRay 1.5, JobSet 0.10, LeaderWorkerSet 0.7, Kubeflow Trainer 2.1, training-operator 1.9, mpi-operator "
    "0.6, Volcano 1.12, Kueue 0.14: a row for each check of their webhooks in knowledge/refused_manifests.py",
    bad=(
        _RAY.replace("MOST", "0"),
        _RAYJOB.replace("MORE", "ttlSecondsAfterFinished: 60").replace("LEAST", "1").replace("MOST", "2"),
    ),
    good=(
        _RAY.replace("MOST", "2"),
        _RAY.replace("MOST", "${MOST}"),
        _RAY.replace("MOST", "2").replace("true", "true\n  ttlSecondsAfterFinished: 60"),
    ),
)
def refused_by_its_operator(job: LintJob) -> Iterator[LintFinding]:
    """An operator looks at the whole of its manifest before it makes a pod: numbers that contradict each other, parts
    that exclude each other, words that are none of its own."""
    yield from _of_rows(job, is_silent=False)


@rule(
    "K53",
    title="An operator does what the manifest says",
    severity="warning",
    source="KubeRay 1.5, utils/util.go (GetWorkerGroupDesiredReplicas); training-operator 1.9, pytorch/elastic.go",
    bad=(_RAY.replace("MOST", "1"), _RAY.replace("MOST", "4").replace("minReplicas: 1", "minReplicas: 3")),
    good=(_RAY.replace("MOST", "2"), _RAY.replace("MOST", "4")),
)
def done_otherwise(job: LintJob) -> Iterator[LintFinding]:
    """A number is taken, and another one is used: of workers beyond the greatest number that is allowed none starts."""
    yield from _of_rows(job, is_silent=True)


_LONGEST = {"RayCluster": 53, "RayJob": 47, "RayService": 47, "TrainJob": 63}
_LABEL = lazy_re(r"[a-z](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_JOBSET = (
    "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: NAME}\nspec:\n  successPolicy:\n"
    "    operator: All\n    targetReplicatedJobs: [TARGET]\n  replicatedJobs:\n  - name: workers\n    replicas: 1\n"
    "    template:\n      spec:\n        parallelism: 2\n        completions: 2\n"
    "        completionMode: Indexed\n        " + _POD.replace("        ", "            ")
)


@rule(
    "K54",
    title="Names of an operator's job are short enough, and name what there is",
    source="KubeRay 1.5, utils/constant.go; JobSet 0.10, jobset_webhook.go; Trainer 2.1, trainjob_types.go;"
    " mpi-operator 0.6, validateMPIJobName; Volcano 1.12, admit_job.go",
    bad=(
        _JOBSET.replace("NAME", "train").replace("TARGET", "worker"),
        _JOBSET.replace("NAME", "a" * 46).replace("TARGET", "workers"),
        _RAY.replace("MOST", "2").replace("{name: train}", "{name: 8b-train}"),
        _RAY.replace("MOST", "2") + "    - groupName: gpu\n      replicas: 1\n      " + _POD,
    ),
    good=(_JOBSET.replace("NAME", "train").replace("TARGET", "workers"), _RAY.replace("MOST", "2")),
)
def names_of_an_operator(job: LintJob) -> Iterator[LintFinding]:
    """The names of pods and services are made of the job's name, and have at most 63 characters. What a policy names is
    a part of the same job."""
    for manifest in job.manifests:
        values = by_path(manifest)
        name = values.get("metadata.name")
        if not manifest.api_version or manifest.fault:
            continue
        if name is not None and not _FILLED_IN.search(name.value):
            yield from _name(manifest, name)
        if manifest.kind == "JobSet":
            yield from _jobset_parts(manifest, values)
        groups: set[str] = set()
        for group in (value for value in manifest.values if value.path[-1:] == ("groupName",)):
            if group.value in groups and group.path[-3] == "workerGroupSpecs":
                yield LintFinding(
                    span=group.span,
                    summary=f"two worker groups are named {group.value}",
                    happens="The operator counts the pods of both as each one's, and makes and deletes them by turns.",
                    fix="Give each worker group a groupName of its own.",
                )
            groups.add(group.value)
        if manifest.kind == "Job" and manifest.api_version.startswith("batch.volcano.sh"):
            tasks = {
                value.value for value in manifest.values
                if value.path[:2] == ("spec", "tasks") and len(value.path) == 4 and value.path[-1] == "name"
            }  # fmt: skip
            for value in manifest.values:
                needs = value.path[:2] == ("spec", "tasks") and value.path[3:5] == ("dependsOn", "name")
                if needs and tasks and value.value not in tasks:
                    yield _unknown(value, value.value, tasks, "the task can not be found")


def _name(manifest: Manifest, name: ManifestValue) -> Iterator[LintFinding]:
    longest, most = _longest(manifest, name.value)
    if len(longest) > most:
        yield LintFinding(
            span=name.span,
            summary=f"{longest} has {len(longest)} characters, and {manifest.kind}'s names have at most {most}",
            happens="The job is refused, or its pods are: must be no more than 63 characters.",
            fix="Shorten the name.",
        )
    elif manifest.kind in (*_LONGEST, "MPIJob", "PyTorchJob", "JobSet") and not _LABEL.fullmatch(name.value):
        yield LintFinding(
            span=name.span,
            summary=f"{name.value} is no name of a {manifest.kind}: its services are named by it",
            happens="The job is refused: a DNS-1035 label must consist of lower case alphanumeric characters or '-',"
            " start with an alphabetic character, and end with an alphanumeric character.",
            fix="Begin with a letter; take lower-case letters, digits and hyphens.",
        )


def _longest(manifest: Manifest, name: str) -> tuple[str, int]:
    """The longest name that is made of a job's, and how long it may be."""
    if manifest.kind in _LONGEST:
        return name, _LONGEST[manifest.kind]
    values = by_path(manifest)
    if manifest.kind == "MPIJob":
        workers = number(values.get("spec.mpiReplicaSpecs.Worker.replicas")) or 1
        return f"{name}-worker-{workers - 1}", 63
    if manifest.kind == "JobSet":
        names = []
        for at in children(manifest, "spec", "replicatedJobs"):
            part = values.get(f"spec.replicatedJobs.{at}.name")
            copies = number(values.get(f"spec.replicatedJobs.{at}.replicas")) or 1
            pods = number(values.get(f"spec.replicatedJobs.{at}.template.spec.completions")) or 1
            mode = values.get(f"spec.replicatedJobs.{at}.template.spec.completionMode")
            of_pod = f"-{pods - 1}-abcde" if mode is not None and mode.value == "Indexed" else ""
            if part is not None and not _FILLED_IN.search(part.value):
                names.append(f"{name}-{part.value}-{copies - 1}{of_pod}")
        return max(names, key=len, default=name), 63
    return "", 63


def _jobset_parts(manifest: Manifest, values: dict[str, ManifestValue]) -> Iterator[LintFinding]:
    parts = {
        value.value for value in manifest.values
        if value.path[:2] == ("spec", "replicatedJobs") and len(value.path) == 4 and value.path[-1] == "name"
    }  # fmt: skip
    named = (
        value
        for value in manifest.values
        if "targetReplicatedJobs" in value.path or value.path == ("spec", "coordinator", "replicatedJob")
        or (value.path[:2] == ("spec", "replicatedJobs") and value.path[3:4] == ("dependsOn",)
            and value.path[-1] == "name")
    )  # fmt: skip
    unknown = partial(_unknown, parts=parts, says="invalid replicatedJob name does not appear in .spec.ReplicatedJobs")
    if parts:
        yield from (unknown(value, value.value) for value in named if value.value not in parts)


def _unknown(value: ManifestValue, name: str, parts: set[str], says: str) -> LintFinding:
    return LintFinding(
        span=value.span,
        summary=f"{name} is none of {', '.join(sorted(parts))}",
        happens=f"The job is refused: {says}.",
        fix=f"Write {' or '.join(sorted(parts)[:3])}.",
    )
