"""Kubernetes: a manifest for each of the three usual operators, of which one is to be applied.

PyTorchJob (Kubeflow training operator 1.9), TrainJob (Kubeflow Trainer 2), JobSet (kubernetes-sigs/jobset). The first
two set PET_* variables, which are torchrun's own options; JobSet sets none.
"""

from collections.abc import Iterator

from gpudoctor.emit.kubernetes import scalar
from gpudoctor.launch.parts import job_name, left_out, portable
from gpudoctor.launch.plan import Emission, EmittedFile, LaunchPlan, PasteBlock
from gpudoctor.launch.words import check, comment, line
from gpudoctor.launcher.traits import LauncherTraits, ManifestKind

IMAGE = "REGISTRY/IMAGE:TAG"
NODE_RANK = "$(JOB_COMPLETION_INDEX)"
"""The kubelet puts the pod's index in its place (Kubernetes' documentation, "Indexed Job"); no shell is needed."""


def write(plan: LaunchPlan) -> Emission:
    """Three files, each complete. Raises `CannotEmit`."""
    processes = plan.nodes[0].processes
    check(plan.program)
    name = job_name(plan)
    manifests = (
        ("pytorchjob.yaml", _pytorchjob, "Kubeflow's training operator (v1): kubectl get crd pytorchjobs.kubeflow.org"),
        ("trainjob.yaml", _trainjob, "Kubeflow Trainer (v2): kubectl get crd trainjobs.trainer.kubeflow.org"),
        ("jobset.yaml", _jobset, "JobSet: kubectl get crd jobsets.jobset.x-k8s.io"),
    )
    files = tuple(
        EmittedFile(
            f"{name}.{ending}",
            "\n".join(_each(make(plan, name, processes))) + "\n",
            alternative=make is not _pytorchjob,
        )
        for ending, make, _ in manifests
    )
    return Emission(
        blocks=(PasteBlock("where kubectl works", line(["kubectl", "apply", "-f", files[0].name]) + "\n", 0),),
        files=files,
        notes=(
            "Apply one of the three files (-o DIR writes them all), that of the operator which your cluster has: "
            + "; ".join(f"{needs} ({file.name})" for file, (_, _, needs) in zip(files, manifests, strict=True))
            + ".",
            f"Put the image that has torch and the script in place of {IMAGE}.",
            *left_out((*plan.environment, *(each for node in plan.nodes for each in node.environment)), "in pods"),
        ),
    )


def _each(lines: Iterator[str]) -> Iterator[str]:
    for each in lines:
        yield from each.splitlines() or [""]


def _indented(columns: int, lines: Iterator[str]) -> Iterator[str]:
    yield from (" " * columns + each for each in _each(lines))


def _pytorchjob(plan: LaunchPlan, name: str, processes: int) -> Iterator[str]:
    yield comment(
        "For Kubeflow's training operator (v1). It sets PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and so on,"
    )
    yield comment("which torchrun reads as its options; plain python would be one process a pod.")
    yield "apiVersion: kubeflow.org/v1"
    yield "kind: PyTorchJob"
    yield "metadata:"
    yield f"  name: {name}"
    yield "spec:"
    yield f'  nprocPerNode: "{processes}"'
    yield "  runPolicy:"
    yield "    cleanPodPolicy: Running"
    yield "  pytorchReplicaSpecs:"
    for role, replicas in (("Master", 1), ("Worker", len(plan.nodes) - 1)):
        if not replicas:
            continue
        yield f"    {role}:"
        yield f"      replicas: {replicas}"
        yield "      restartPolicy: Never"
        yield "      template:"
        yield "        spec:"
        yield "          # The operator sets its variables in a container of this name only."
        yield from _indented(10, _pod(plan, processes, "pytorch", ("torchrun", *plan.program)))


def _trainjob(plan: LaunchPlan, name: str, processes: int) -> Iterator[str]:
    yield comment(
        "For Kubeflow Trainer (v2). The runtime is the job's own, for /dev/shm: the usual one, torch-distributed,"
    )
    yield comment("leaves it at 64 MiB. The operator sets PET_*, which torchrun reads: the command must be torchrun.")
    yield "apiVersion: trainer.kubeflow.org/v1alpha1"
    yield "kind: TrainingRuntime"
    yield "metadata:"
    yield f"  name: {name}"
    yield "  labels:"
    yield "    trainer.kubeflow.org/framework: torch"
    yield "spec:"
    yield "  mlPolicy:"
    yield f"    numNodes: {len(plan.nodes)}"
    yield "    torch: {}"
    yield "  template:"
    yield "    spec:"
    yield "      replicatedJobs:"
    yield "        - name: node"
    yield "          template:"
    yield "            metadata:"
    yield "              labels:"
    yield "                trainer.kubeflow.org/trainjob-ancestor-step: trainer"
    yield "            spec:"
    yield "              template:"
    yield "                spec:"
    yield from _indented(18, _pod(plan, processes, "node", ("torchrun", *plan.program), restart="Never"))
    yield "---"
    yield "apiVersion: trainer.kubeflow.org/v1alpha1"
    yield "kind: TrainJob"
    yield "metadata:"
    yield f"  name: {name}"
    yield "spec:"
    yield "  runtimeRef:"
    yield "    apiGroup: trainer.kubeflow.org"
    yield "    kind: TrainingRuntime"
    yield f"    name: {name}"
    yield "  trainer:"
    yield f"    numNodes: {len(plan.nodes)}"
    yield f"    numProcPerNode: {processes}"
    yield "    command:"
    yield from (f"      - {_word(each)}" for each in ("torchrun", *plan.program))
    if plan.accelerator == "cuda":
        yield "    resourcesPerNode:"
        yield "      limits:"
        yield f"        nvidia.com/gpu: {processes}"


def _jobset(plan: LaunchPlan, name: str, processes: int) -> Iterator[str]:
    head = f"{name}-node-0-0.{name}"
    yield comment(
        "For JobSet, which sets no variable of torchrun's: rank and master stand in the command. Its headless"
    )
    yield comment(f"service gives the pods names; that of rank 0 is {head}.")
    yield "apiVersion: jobset.x-k8s.io/v1alpha2"
    yield "kind: JobSet"
    yield "metadata:"
    yield f"  name: {name}"
    yield "spec:"
    yield "  network:"
    yield "    enableDNSHostnames: true"
    yield "    publishNotReadyAddresses: true"
    yield "  failurePolicy:"
    yield "    maxRestarts: 0"
    yield "  replicatedJobs:"
    yield "    - name: node"
    yield "      replicas: 1"
    yield "      template:"
    yield "        spec:"
    yield "          completionMode: Indexed"
    yield f"          completions: {len(plan.nodes)}"
    yield f"          parallelism: {len(plan.nodes)}"
    yield "          backoffLimit: 0"
    yield "          template:"
    yield "            spec:"
    options = (
        f"--nnodes={len(plan.nodes)}",
        f"--nproc-per-node={processes}",
        f"--node-rank={NODE_RANK}",
        f"--master-addr={head}",
        f"--master-port={plan.master_port}",
    )
    yield from _indented(
        14, _pod(plan, processes, "trainer", ("torchrun", *plan.program), options=options, restart="Never")
    )


def _pod(
    plan: LaunchPlan,
    processes: int,
    container: str,
    command: tuple[str, ...],
    *,
    options: tuple[str, ...] = (),
    restart: str = "",
) -> Iterator[str]:
    """What stands under a pod's `spec:`. `options` come after the command's first word, for the kubelet to expand."""
    if restart:
        yield f"restartPolicy: {restart}"
    yield "containers:"
    yield f"  - name: {container}"
    yield f"    image: {scalar(IMAGE)}"
    yield "    command:"
    first, *rest = command
    for each in (_word(first), *map(scalar, options), *map(_word, rest)):
        yield f"      - {each}"
    variables = portable(plan.environment)
    if variables:
        yield "    env:"
        for variable in variables:
            if variable.reason:
                yield from _indented(6, iter((comment(variable.reason),)))
            yield f"      - name: {variable.name}"
            yield f"        value: {_word(variable.value)}"
    if plan.accelerator == "cuda":
        yield "    resources:"
        yield "      limits:"
        yield f"        nvidia.com/gpu: {processes}"
    yield "    volumeMounts:"
    yield "      - name: shared-memory"
    yield "        mountPath: /dev/shm"
    yield "volumes:"
    yield "  - name: shared-memory"
    yield from _indented(4, iter((comment("Loader workers and NCCL need more than a container's 64 MiB."),)))
    yield "    emptyDir:"
    yield "      medium: Memory"


def _word(text: str) -> str:
    """The kubelet expands $(NAME) in commands and values, and reads $$ as one dollar sign."""
    return scalar(text.replace("$", "$$"))


LAUNCHER = LauncherTraits(
    name="kubernetes",
    manifests=(
        ManifestKind(
            kind="PyTorchJob",
            pods=("spec.pytorchReplicaSpecs.Master.replicas", "spec.pytorchReplicaSpecs.Worker.replicas"),
            ranks="spec.nprocPerNode",
        ),
        ManifestKind(kind="TrainJob", pods=("spec.trainer.numNodes",), ranks="spec.trainer.numProcPerNode"),
    ),
    write=write,
    fixed="a manifest is emitted for a fixed set of nodes",
    even="a manifest starts the same number on every node",
    scheduler="kubernetes",
    in_this_shell=False,
)
