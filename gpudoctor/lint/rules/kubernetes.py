"""Rules of Kubernetes manifests: K01 to K04, K75."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest
from gpudoctor.lint.pods import Container, containers, is_in, of_steps
from gpudoctor.lint.rule import Edit, LintFinding, rule

_POD = """\
        template:
          spec:
            containers:
              - name: {name}
                image: registry/image:tag
                command: ["{program}", {more}"train.py"]
                resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
                volumeMounts: [{{mountPath: /dev/shm, name: shm}}]
            volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]
"""
_HEAD = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n"
_REPLICAS = "  pytorchReplicaSpecs:\n"


def _pytorchjob(
    program: str = "torchrun", gpus: int = 4, name: str = "pytorch", worker_gpus: int = 0, processes: str = ""
) -> str:
    def pod(count: int) -> str:
        return _POD.format(name=name, program=program, more="", gpus=count)

    head = _HEAD + (f'  nprocPerNode: "{processes}"\n' if processes else "")
    master = "    Master:\n        replicas: 1\n" + pod(gpus)
    worker = "    Worker:\n        replicas: 1\n" + pod(worker_gpus or gpus)
    return head + _REPLICAS + master + worker


def _trainjob(program: str = "torchrun", nodes: int = 2, runtime: str = "torch-distributed") -> str:
    return (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: train}\nspec:\n"
        f"  runtimeRef: {{name: {runtime}}}\n  trainer:\n    image: registry/image:tag\n    numNodes: {nodes}\n"
        f'    numProcPerNode: 4\n    command: ["{program}", "train.py"]\n'
    )


def _pod_yaml(mount: str) -> str:
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  containers:\n    - name: main\n"
        '      image: registry/image:tag\n      command: ["torchrun", "--nproc-per-node=4", "train.py"]\n'
        "      resources: {limits: {nvidia.com/gpu: 4}}\n"
        f"      volumeMounts: [{{mountPath: {mount}, name: data}}]\n"
        "  volumes: [{name: data, emptyDir: {}}]\n"
    )


def _value(manifest: Manifest, *path: str) -> str | None:
    return next((value.value for value in manifest.values if value.path == path), None)


def _launch_in(job: LintJob, path: tuple[str, ...]) -> LintLaunch | None:
    return next((launch for launch in job.launches if launch.invocation.manifest_path[: len(path)] == path), None)


def _plain_python(job: LintJob, manifest: Manifest, path: tuple[str, ...]) -> LintLaunch | None:
    """The start in this place, when it is plain Python and of this manifest."""
    launch = _launch_in(job, path)
    return launch if launch is not None and launch.launcher == "python" and is_in(launch, manifest) else None


def _to_torchrun(job: LintJob, launch: LintLaunch) -> tuple[Edit, ...]:
    """The word python -> torchrun, its quotes kept."""
    span = launch.invocation.words[0].span
    written = job.text[span.start : span.end]
    inner = written.strip("\"'")
    if not span.exact or inner not in ("python", "python3") or launch.python_options:
        return ()
    return (Edit(span, written.replace(inner, "torchrun")),)


@rule(
    "K01",
    title="A pod with several GPUs starts one process for each",
    source="training-operator 1.9: the operator starts the container's command once a pod",
    bad=(
        _pytorchjob("python3"),
        _pytorchjob("python3", gpus=1, worker_gpus=2),
        _pytorchjob("torchrun", gpus=4, worker_gpus=2, processes="4"),
    ),
    good=(_pytorchjob("torchrun", processes="4"), _pytorchjob("python3", gpus=1)),
)
def pytorchjob_python_with_gpus(job: LintJob) -> Iterator[LintFinding]:
    """The operator starts a pod's command once, and counts WORLD_SIZE by pods unless nprocPerNode says more. Plain
    python in a pod with several GPUs trains on one of them."""
    for manifest in job.manifests:
        if manifest.kind != "PyTorchJob":
            continue
        every = containers(manifest)
        counts = {
            container.path[2] if len(container.path) > 2 else "": container.gpus
            for container in every
            if container.gpus is not None
        }
        for container in every:
            launch = _plain_python(job, manifest, container.path)
            if launch is None or (container.gpus or 0) < 2 or {"WORLD_SIZE", "RANK"} & set(launch.invocation.settings):
                continue
            idle = counted((container.gpus or 1) - 1, "GPU")
            yield LintFinding(
                span=launch.invocation.words[0].span,
                summary=f"a pod with {counted(container.gpus or 0, 'GPU')} starts plain {launch.invocation.program}",
                happens=f"One process a pod trains on one GPU; {idle} of each idle.",
                fix=f'Start torchrun, and set spec.nprocPerNode: "{container.gpus}".',
                edits=_to_torchrun(job, launch),
            )
        if len(set(counts.values())) > 1 and _value(manifest, "spec", "nprocPerNode") not in (None, "gpu", "auto"):
            names = ", ".join(f"{count} in {name}" for name, count in counts.items())
            first = next(container for container in every if container.gpus is not None)
            yield LintFinding(
                span=next(iter(first.values.values())).span,
                summary=f"pods with different numbers of GPUs ({names}) and one nprocPerNode",
                happens="The smaller pod gets more processes than GPUs: invalid device ordinal, and the others wait.",
                fix="Give all pods the same number of GPUs.",
            )


@rule(
    "K02",
    title="A TrainJob's command is torchrun",
    source="Kubeflow Trainer 2: the torch runtime sets PET_* variables, which torchrun reads and python does not",
    bad=(_trainjob("python"), _trainjob("python3", nodes=4)),
    good=(_trainjob(), _trainjob("python", runtime="deepspeed-distributed"), _pytorchjob("python3", gpus=1)),
)
def trainjob_python(job: LintJob) -> Iterator[LintFinding]:
    """The torch runtime of Kubeflow Trainer sets PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and so on, which are
    torchrun's options. It sets no RANK and no WORLD_SIZE: plain python trains alone in every pod."""
    for manifest in job.manifests:
        if manifest.kind != "TrainJob":
            continue
        runtime = _value(manifest, "spec", "runtimeRef", "name") or "torch"
        nodes = look.whole(_value(manifest, "spec", "trainer", "numNodes"))
        processes = look.whole(_value(manifest, "spec", "trainer", "numProcPerNode"))
        launch = _plain_python(job, manifest, ("spec", "trainer"))
        if launch is None or "torch" not in runtime or max(nodes or 1, processes or 1) < 2:
            continue
        yield LintFinding(
            span=launch.invocation.words[0].span,
            summary=f"the TrainJob starts plain {launch.invocation.program} on {counted(nodes or 1, 'node')}",
            happens=f"{counted(nodes or 1, 'separate training')} of world size 1, without any message: nothing"
            " reads the PET_* variables.",
            fix="Write torchrun in place of python.",
            edits=_to_torchrun(job, launch),
        )


@rule(
    "K69",
    title="An operator starts one process for each GPU of a pod",
    source="training-operator 1.9, pytorch/envvar.go (PET_NPROC_PER_NODE); Trainer 2.1, plugins/torch/torch.go",
    bad=(
        _pytorchjob("torchrun", gpus=2, worker_gpus=2, processes="4"),
        _pytorchjob("torchrun", gpus=4, worker_gpus=4, processes="1"),
        _trainjob() + "    resourcesPerNode: {limits: {nvidia.com/gpu: 2}}\n",
    ),
    good=(
        _pytorchjob("torchrun", gpus=4, worker_gpus=4, processes="4"),
        _trainjob() + "    resourcesPerNode: {limits: {nvidia.com/gpu: 4}}\n",
    ),
)
def processes_and_gpus_of_a_pod(job: LintJob) -> Iterator[LintFinding]:
    """torchrun starts as many processes as the operator tells it, unless its command says a number itself: more than
    GPUs end in invalid device ordinal, and with fewer the others idle."""
    for manifest in job.manifests:
        values = {value.path: value for value in manifest.values}
        at = ("spec", "nprocPerNode") if manifest.kind == "PyTorchJob" else ("spec", "trainer", "numProcPerNode")
        told = values.get(at)
        each = look.whole(told.value) if told is not None else None
        starts = [launch for launch in job.launches if launch.invocation.manifest_path and is_in(launch, manifest)]
        own = [launch for launch in starts if launch.launcher != "torchrun" or launch.option("nproc-per-node")]
        if told is None or each is None or manifest.kind not in ("PyTorchJob", "TrainJob") or not starts or own:
            continue
        limits = {value.value for path, value in values.items() if path[-2:] == ("limits", "nvidia.com/gpu")}
        gpus = look.whole(next(iter(limits))) if len(limits) == 1 else None
        if gpus is None or gpus == each:
            continue
        yield LintFinding(
            span=told.span,
            severity="error" if each > gpus else "warning",
            summary=f"{at[-1]} is {each}, and a pod has {counted(gpus, 'GPU')}",
            happens="Processes share a GPU or get none: invalid device ordinal, or Duplicate GPU detected."
            if each > gpus
            else f"Of each pod's GPUs {gpus - each} idle.",
            fix=f"Write {at[-1]}: {gpus}, or give the pods {counted(each, 'GPU')}.",
        )


@rule(
    "K03",
    title="A PyTorchJob's container is named pytorch",
    source="training-operator 1.9: the default container name is pytorch",
    bad=(_pytorchjob(name="trainer"), _pytorchjob("python3", gpus=1, name="main")),
    good=(_pytorchjob(), _trainjob()),
)
def pytorchjob_container_name(job: LintJob) -> Iterator[LintFinding]:
    """The operator puts MASTER_ADDR, RANK and the others into the container named pytorch, and refuses a job that has
    none of that name."""
    for manifest in job.manifests:
        if manifest.kind != "PyTorchJob":
            continue
        pods: dict[tuple[str, ...], list[Container]] = {}
        for container in containers(manifest):
            pods.setdefault(container.path[:-1], []).append(container)
        for inside in pods.values():
            names = [container.name for container in inside]
            if any(name is None or name.value == "pytorch" for name in names):
                continue
            first = names[0]
            assert first is not None
            replica = inside[0].path[2] if len(inside[0].path) > 2 else "the pod"
            only = len(inside) == 1 and first.span.exact
            yield LintFinding(
                span=first.span,
                summary=f"the container of {replica} is named {first.value}; the operator looks for pytorch",
                happens="The job is refused, or its ranks get no MASTER_ADDR, RANK and WORLD_SIZE.",
                fix="Name it pytorch.",
                edits=(Edit(first.span, "pytorch"),) if only else (),
            )


@rule(
    "K04",
    title="A pod that trains mounts memory at /dev/shm",
    severity="warning",
    source="Kubernetes gives a container 64 MiB of /dev/shm; PyTorch's loader workers and NCCL use it",
    leads_to=("shm-too-small",),
    bad=(_pod_yaml("/data"), _pytorchjob(processes="4").replace("/dev/shm", "/data")),
    good=(_pod_yaml("/dev/shm"), _pytorchjob(processes="4")),
)
def pod_without_shm(job: LintJob) -> Iterator[LintFinding]:
    """A container has 64 MiB of shared memory unless a volume is mounted there. Loader workers hand batches over
    through it, and NCCL the data between GPUs without a direct link."""
    for manifest in job.manifests:
        shared = any(value.path[-1:] == ("hostIPC",) and value.value == "true" for value in manifest.values)
        for container in (*containers(manifest), *of_steps(manifest)):
            if shared or not container.gpus or _launch_in(job, container.path) is None:
                continue
            if any(mount.rstrip("/") in ("/dev/shm", "/dev") for mount in container.mounts):
                continue
            first = container.name or next(iter(container.values.values()))
            yield LintFinding(
                span=first.span,
                # One rank a pod hands nothing to another through it; whether it has loader workers is not in the text.
                severity=None if container.gpus > 1 else "info",
                summary=f"container {first.value} has {counted(container.gpus, 'GPU')} and no volume at /dev/shm",
                happens="With loader workers: 'Bus error', or a worker is killed; NCCL: no space left on device.",
                fix="Add a volume {name: shm, emptyDir: {medium: Memory}} and mount it at /dev/shm.",
            )
            break


_GPU_NAMES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi")
_NO_NAME = lazy_re(r"(?:nvidia|amd)(?:\.com|\.io)?[/.]gpus?", re.IGNORECASE)


@rule(
    "K75",
    title="A pod asks for GPUs by the name that their device plugin registers",
    source="the device plugins of NVIDIA (nvidia.com/gpu) and AMD (amd.com/gpu); the scheduler says Insufficient",
    bad=(
        _pytorchjob("python3").replace("nvidia.com/gpu:", "nvidia.com/gpus:"),
        _pytorchjob("python3").replace("nvidia.com/gpu:", "nvidia/gpu:"),
    ),
    good=(_pytorchjob("torchrun"), _pytorchjob("torchrun").replace("nvidia.com/gpu:", "nvidia.com/gpu.shared:")),
)
def gpus_by_a_name_of_nobody(job: LintJob) -> Iterator[LintFinding]:
    """Kubernetes takes any name with a domain, and waits for a node that has some of it."""
    for manifest in job.manifests:
        for value in manifest.values if manifest.api_version else ():
            if len(value.path) < 3 or value.path[-3] != "resources" or value.path[-2] not in ("limits", "requests"):
                continue
            name = value.path[-1]
            if _NO_NAME.fullmatch(name) and name not in _GPU_NAMES:
                meant = "amd.com/gpu" if name.lower().startswith("amd") else "nvidia.com/gpu"
                yield LintFinding(
                    span=value.span,
                    summary=f"{name} is the name of no device plugin; {meant} is one",
                    happens=f"The pod stays Pending: 0 nodes are available: Insufficient {name}.",
                    fix=f"Write {meant}.",
                )
                return
