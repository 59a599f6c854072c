"""Rules of what Kubernetes and its operators refuse in a manifest, by its text alone: K14 to K18."""

import re
from collections.abc import Iterator, Sequence

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.pods import Container, containers
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.schema_words import found_by_schema, is_filled_in, kubernetes, of_another_kind
from gpudoctor.lint.understood import whole

Refusal = tuple[ManifestValue, str, str, str]
"""The value, what stands there, what the API server says, what to write."""
_PLUGINS = ("ssh", "env", "svc", "tensorflow", "mpi", "pytorch", "hcclrank", "ray")

_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  restartPolicy: Never\n  containers:\n"
    "    - name: main\n      image: registry/image:tag\n"
    "      command: [torchrun, --standalone, --nproc-per-node=4, train.py]\n"
    "      env:\n        - {name: OMP_NUM_THREADS, value: VALUE}\n"
)
_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec:\n  completionMode: Indexed\n  parallelism: 2\n"
    "  completions: 2\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n        - name: main\n"
    '          image: registry/image:tag\n          command: ["python", "train.py"]\n'
)
_TRAINJOB = (
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: train}\nspec:\n"
    "  runtimeRef: {name: torch-distributed}\n  trainer:\n    image: registry/image:tag\n    numNodes: 2\n"
    '    command: ["torchrun", "train.py"]\n    env:\n      - {name: NAME, value: "2"}\n'
)
_VOLCANO = (
    "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\nspec:\n  minAvailable: 3\n"
    '  plugins:\n    pytorch: ["--master=master", "--worker=worker"]\n  tasks:\n'
    + "".join(
        f"    - name: {name}\n      replicas: {count}\n      template:\n        spec:\n          containers:\n"
        '            - {name: main, image: "registry/image:tag", command: ["python", "train.py"]}\n'
        for name, count in (("master", 1), ("worker", 2))
    )
)
_PYTORCHJOB = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  pytorchReplicaSpecs:\n"
    + "".join(
        f"    {name}:\n      replicas: {count}\n      template:\n        spec:\n          containers:\n"
        '            - {name: pytorch, image: "registry/image:tag", command: ["torchrun", "train.py"]}\n'
        for name, count in (("Master", 1), ("Worker", 3))
    )
)
_MPIJOB = (
    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: train}\nspec:\n  slotsPerWorker: SLOTS\n"
    "  mpiReplicaSpecs:\n    Launcher:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
    '            - {name: l, image: "registry/image:tag", command: ["mpirun", "-np", "16", "python", "train.py"]}\n'
    "    Worker:\n      replicas: 2\n      template:\n        spec:\n          containers:\n"
    '            - {name: w, image: "registry/image:tag"}\n'
)


def of_kubernetes(job: LintJob) -> Iterator[Manifest]:
    """Whole manifests with a container that has an image: what is given as a patch to another is left out, and so is
    what is filled in before Kubernetes gets it."""
    for manifest in job.manifests:
        if manifest.api_version and not manifest.fault and not is_filled_in(job, manifest):
            every = containers(manifest)
            if any(("image",) in container.values for container in every) or manifest.kind == "TrainJob":
                yield manifest


def by_path(manifest: Manifest) -> dict[str, ManifestValue]:
    return {".".join(value.path): value for value in manifest.values}


def number(value: ManifestValue | None) -> int | None:
    """A count that certainly is one."""
    is_number = value is not None and re.fullmatch(r"[0-9]{1,6}", value.value, re.ASCII)
    return int(value.value) if is_number and value is not None else None


def children(manifest: Manifest, *path: str) -> list[str]:
    """The keys of a mapping, or the indexes of a list, in order."""
    return list(
        dict.fromkeys(
            value.path[len(path)]
            for value in manifest.values
            if len(value.path) > len(path) and value.path[: len(path)] == path
        )
    )


@rule(
    "K14",
    title="Variables, words of a command and labels are strings",
    source="Kubernetes API: env[].value, command, args, labels and annotations are strings; kubernetes#82296",
    bad=(
        _POD.replace("VALUE", "8"),
        _POD.replace("VALUE", "true"),
        _POD.replace("VALUE", '"8"').replace("--nproc-per-node=4,", "--nproc-per-node, 4,"),
    ),
    good=(
        _POD.replace("VALUE", '"8"'),
        _POD.replace("VALUE", "'true'"),
        _POD.replace("VALUE", "1e3x"),
        _POD.replace("VALUE", "{{ .Values.threads }}"),
    ),
)
def number_for_a_string(job: LintJob) -> Iterator[LintFinding]:
    """YAML makes a number of 8 and a boolean of true. Kubernetes takes a string there, and the whole manifest is
    refused: cannot unmarshal number into Go struct field EnvVar.value of type string."""
    for manifest in kubernetes(job):
        for problem in found_by_schema(job, manifest):
            if problem.what == "kind":
                yield of_another_kind(job, problem)


@rule(
    "K15",
    title="A Job says how often and how it restarts, and how many pods it has",
    source="kubernetes, pkg/apis/batch/validation: Indexed needs completions; restartPolicy is OnFailure or Never",
    bad=(
        _JOB.replace("  completions: 2\n", ""),
        _JOB.replace("restartPolicy: Never", "restartPolicy: Always"),
        _JOB.replace("      restartPolicy: Never\n", ""),
    ),
    good=(
        _JOB,
        _JOB.replace("Never", "OnFailure"),
        _JOB.replace("  completions: 2\n", "").replace("  completionMode: Indexed\n", ""),
    ),
)
def job_that_is_refused(job: LintJob) -> Iterator[LintFinding]:
    """Kubernetes refuses a Job whose pods would restart for ever (Always, which is the default of a pod), and an
    indexed one that does not say how many indexes there are."""
    for manifest in of_kubernetes(job):
        if manifest.kind != "Job" or not manifest.api_version.startswith("batch/"):
            continue
        values = by_path(manifest)
        mode, policy = values.get("spec.completionMode"), values.get("spec.template.spec.restartPolicy")
        if mode is not None and mode.value == "Indexed" and "spec.completions" not in values:
            pods = number(values.get("spec.parallelism"))
            yield LintFinding(
                span=mode.span,
                summary="completionMode is Indexed, and completions is not given",
                happens="The Job is refused: spec.completions: Required value: when completion mode is Indexed.",
                fix=f"Add completions: {pods or 'N'} beside it, as many as parallelism.",
            )
        first = next((value for value in manifest.values if value.path[:3] == ("spec", "template", "spec")), None)
        if first is not None and (policy is None or policy.value == "Always"):
            yield LintFinding(
                span=policy.span if policy is not None else first.span,
                summary="the pods of a Job restart always"
                + ("" if policy is not None else ", which is so where restartPolicy is not given"),
                happens="The Job is refused: spec.template.spec.restartPolicy: Required value: OnFailure or Never.",
                fix="Write restartPolicy: Never in the pod's spec (backoffLimit says how often the Job tries again).",
                edits=(Edit(policy.span, "Never"),) if policy is not None and policy.span.exact else (),
            )


@rule(
    "K16",
    title="An operator gets the roles and variables that it takes",
    source="training-operator 1.9, mpi-operator 0.6 and Kubeflow Trainer 2: their validating webhooks",
    bad=(
        _TRAINJOB.replace("NAME", "PET_NNODES"),
        _PYTORCHJOB.replace("replicas: 1", "replicas: 2"),
        _PYTORCHJOB.replace("    Master:", "    Launcher:"),
    ),
    good=(_TRAINJOB.replace("NAME", "NCCL_DEBUG"), _PYTORCHJOB),
)
def operator_refuses(job: LintJob) -> Iterator[LintFinding]:
    """A PyTorchJob has the roles Master (one pod) and Worker, an MPIJob one Launcher. In a TrainJob the variables
    PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT are the torch runtime's."""
    for manifest in of_kubernetes(job):
        values = by_path(manifest)
        if manifest.kind == "PyTorchJob":
            yield from _roles(manifest, "pytorchReplicaSpecs", ("Master", "Worker"), "Master")
        elif manifest.kind == "MPIJob":
            yield from _roles(manifest, "mpiReplicaSpecs", ("Launcher", "Worker"), "Launcher")
        elif manifest.kind == "TrainJob":
            runtime = values.get("spec.runtimeRef.name")
            for value in manifest.values:
                reserved = re.fullmatch(r"PET_(?:NNODES|NPROC_PER_NODE|NODE_RANK|MASTER_ADDR|MASTER_PORT)", value.value)
                if value.path[:3] != ("spec", "trainer", "env") or value.path[-1] != "name" or reserved is None:
                    continue
                if runtime is not None and "torch" in runtime.value:
                    yield LintFinding(
                        span=value.span,
                        summary=f"{value.value} is set in a TrainJob; the runtime {runtime.value} sets it itself",
                        happens="The TrainJob is refused: must not have reserved envs, invalid envs configured.",
                        fix="Take it out; numNodes and numProcPerNode say what it said.",
                    )


def _roles(manifest: Manifest, key: str, known: tuple[str, ...], single: str) -> Iterator[LintFinding]:
    for name in children(manifest, "spec", key):
        first = next(value for value in manifest.values if value.path[:3] == ("spec", key, name))
        replicas = next((value for value in manifest.values if value.path == ("spec", key, name, "replicas")), None)
        if name not in known:
            yield LintFinding(
                span=first.span,
                summary=f"{name} is no role of a {manifest.kind}: it has {' and '.join(known)}",
                happens="The job is refused: Unsupported value.",
                fix=f"Name it {known[-1]}.",
            )
        elif name == single and replicas is not None and (number(replicas) or 0) > 1:
            yield LintFinding(
                span=replicas.span,
                summary=f"{name} has {replicas.value} replicas; a {manifest.kind} has one",
                happens="The job is refused: must be 1.",
                fix=f"Write replicas: 1, and the others as {known[-1]}."
                if known[-1] != single
                else "Write replicas: 1.",
                edits=(Edit(replicas.span, "1"),) if replicas.span.exact and manifest.kind == "MPIJob" else (),
            )


@rule(
    "K17",
    title="Volcano's plugins know the tasks, and no more pods are waited for than there are",
    source="volcano 1.12, pkg/controllers/job/plugins and pkg/webhooks/admission/jobs",
    bad=(
        _VOLCANO.replace("name: master\n", "name: leader\n"),
        _VOLCANO.replace("minAvailable: 3", "minAvailable: 4"),
        _VOLCANO.replace("    pytorch:", "    torch:"),
        _VOLCANO.replace("    pytorch:", "    mpi:").replace("name: master\n", "name: leader\n"),
    ),
    good=(_VOLCANO, _VOLCANO.replace("--master=master", "--master=boss").replace("name: master\n", "name: boss\n")),
)
def volcano_job(job: LintJob) -> Iterator[LintFinding]:
    """The plugin pytorch sets MASTER_ADDR, RANK and WORLD_SIZE in the tasks that it is told (master and worker unless
    it is told others), and says nothing where there are none of these names. minAvailable is at most the sum of the
    replicas."""
    for manifest in of_kubernetes(job):
        if manifest.kind != "Job" or not manifest.api_version.startswith("batch.volcano.sh/"):
            continue
        values = by_path(manifest)
        tasks = children(manifest, "spec", "tasks")
        names = [values.get(f"spec.tasks.{index}.name") for index in tasks]
        replicas = [number(values.get(f"spec.tasks.{index}.replicas")) for index in tasks]
        least = values.get("spec.minAvailable")
        total = sum(replica or 0 for replica in replicas)
        if least is not None and None not in replicas and total and (number(least) or 0) > total:
            yield LintFinding(
                span=least.span,
                summary=f"minAvailable is {least.value}, and the tasks have {counted(total, 'pod')}",
                happens="The job is refused: job 'minAvailable' should not be greater than total replicas in tasks.",
                fix=f"Write minAvailable: {total}.",
                edits=(Edit(least.span, str(total)),) if least.span.exact else (),
            )
        for plugin in children(manifest, "spec", "plugins"):
            first = next(value for value in manifest.values if value.path[:3] == ("spec", "plugins", plugin))
            if plugin not in _PLUGINS:
                yield LintFinding(
                    span=first.span,
                    severity="warning",  # a site may have built its own in
                    summary=f"{plugin} is no plugin of Volcano's jobs: it has {', '.join(_PLUGINS)}",
                    happens=f"The job is refused: unable to find job plugin: {plugin}.",
                    fix="Name the plugin as Volcano does.",
                )
            elif plugin in ("pytorch", "mpi") and all(name is not None for name in names) and names:
                arguments = [value.value for value in manifest.values if value.path[:3] == ("spec", "plugins", plugin)]
                master = next((word.partition("=")[2] for word in arguments if word.startswith("--master=")), "master")
                if master not in {name.value for name in names if name is not None}:
                    shown = ", ".join(name.value for name in names if name is not None)
                    yield LintFinding(
                        span=first.span,
                        summary=f"the plugin {plugin} looks for a task named {master}; the tasks are {shown}",
                        happens="No pod gets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, and nothing says so."
                        if plugin == "pytorch"
                        else "The job is refused: The specified mpi master task was not found.",
                        fix=f"Name the first task {master}, or tell the plugin the tasks' names: --master=, --worker=.",
                    )
                worker = next((word.partition("=")[2] for word in arguments if word.startswith("--worker=")), "worker")
                if plugin == "mpi" and worker not in {name.value for name in names if name is not None}:
                    yield LintFinding(
                        span=first.span,
                        summary=f"the plugin mpi looks for a task named {worker}, and there is none",
                        happens="MPI_HOST is not set in the master, so that mpirun gets no hosts.",
                        fix=f"Add the workers' task {worker}, or tell the plugin its name: --worker=.",
                    )


@rule(
    "K18",
    title="An MPIJob's workers have a slot for each rank, and a GPU for each slot",
    source="mpi-operator 0.6: the hostfile is WORKER slots=slotsPerWorker; mpirun(1)",
    leads_to=("launcher-world-mismatch",),
    bad=(_MPIJOB.replace("SLOTS", "4"), _MPIJOB.replace("  slotsPerWorker: SLOTS\n", "")),
    good=(_MPIJOB.replace("SLOTS", "8"), _MPIJOB.replace("SLOTS", "4").replace('"-np"', '"--oversubscribe", "-np"')),
)
def mpijob_slots(job: LintJob) -> Iterator[LintFinding]:
    """The operator writes a hostfile with slotsPerWorker (1 unless it is given) for each worker. mpirun refuses more
    ranks than slots; more ranks than GPUs share them."""
    for manifest in of_kubernetes(job):
        values = by_path(manifest)
        workers = number(values.get("spec.mpiReplicaSpecs.Worker.replicas"))
        value = values.get("spec.slotsPerWorker")
        slots = number(value) if value is not None else 1
        as_worker = values.get("spec.runLauncherAsWorker")
        if manifest.kind != "MPIJob" or not workers or not slots or (as_worker and as_worker.value == "true"):
            continue
        gpus = _gpus_of_workers(containers(manifest))
        for launch in job.launches:
            starters = [
                lint_launch
                for lint_launch in (*launch.around, launch)
                if lint_launch.launcher in ("mpirun", "horovodrun")
            ]
            if "Launcher" not in launch.invocation.manifest_path or not starters:
                continue
            option = starters[0].option("np", "n")
            ranks = whole(option) or 0
            written = {option.written.lstrip("-") for option in starters[0].every_option}
            mapped = starters[0].text("map-by")
            if option is None or written & {"oversubscribe", "hostfile", "machinefile", "H", "host"}:
                continue
            if "map-by" in written and (mapped or "ppr:").split(":")[0] not in _MAPPED:
                continue
            if ranks > workers * slots:
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} {ranks} ranks, and {counted(workers, 'worker')} with"
                    f" {counted(slots, 'slot')} each",
                    happens="mpirun ends: There are not enough slots available in the system.",
                    fix=f"Write slotsPerWorker: {-(-ranks // workers)}, or {option.written} {workers * slots}.",
                )
            elif gpus and slots > gpus and ranks > workers * gpus:
                yield LintFinding(
                    span=value.span if value is not None else option.span,
                    summary=f"a worker has {counted(slots, 'slot')} and {counted(gpus, 'GPU')}: {ranks} ranks",
                    happens="Ranks share a GPU or get none: Duplicate GPU, or invalid device ordinal.",
                    fix=f"Write slotsPerWorker: {gpus} and {option.written} {workers * gpus}.",
                )


_MAPPED = ("slot", "node", "socket", "numa", "core", "hwthread", "package")
"""Ways to place ranks by which no more of them start than there are slots."""


def _gpus_of_workers(found: Sequence[Container]) -> int | None:
    return next((container.gpus for container in found if "Worker" in container.path), None)
