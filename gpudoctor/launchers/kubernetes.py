"""Kubernetes: a manifest for each of the three usual operators, of which one is to be applied; `nccl-test`'s own Job.

PyTorchJob (Kubeflow training operator 1.9), TrainJob (Kubeflow Trainer 2), JobSet (kubernetes-sigs/jobset). The first
two set PET_* variables, which are torchrun's own options; JobSet and Job set none.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from gpudoctor.emit.comments import comment
from gpudoctor.emit.kubernetes import scalar, variable, word, yaml
from gpudoctor.launch.parts import USUAL_GPUS, job_name, left_out, on_gloo, portable
from gpudoctor.launch.plan import Emission, EmittedFile, LaunchPlan, PasteBlock
from gpudoctor.launch.words import check, line
from gpudoctor.launcher.traits import LauncherTraits, ManifestKind

IMAGE = "REGISTRY/IMAGE:TAG"
NODE_RANK = "$(JOB_COMPLETION_INDEX)"
"""The kubelet puts the pod's index in its place (Kubernetes' documentation, "Indexed Job"); no shell is needed."""
OPERATORS = {
    "pytorchjob": "Kubeflow's training operator (v1): kubectl get crd pytorchjobs.kubeflow.org",
    "trainjob": "Kubeflow Trainer (v2): kubectl get crd trainjobs.trainer.kubeflow.org",
    "jobset": "JobSet: kubectl get crd jobsets.jobset.x-k8s.io",
}

TEST = "gpudoctor-nccl-test"
TEST_PORT = 61234
"""Above what Linux hands out to clients (ip_local_port_range ends at 60999)."""
TEST_SECONDS = 1800
"""Far more than a test takes; less than pods that stand still may cost."""
TEST_IMAGE = "registry.example/training:latest"
START = (
    'exec torchrun --nnodes="$1" --nproc-per-node="$2" --node-rank="$JOB_COMPLETION_INDEX" '
    '--master-addr="$3" --master-port="$4" -m gpudoctor.nccl "${@:5}"'
)


def write(plan: LaunchPlan) -> Emission:
    """Three files, each complete. Raises `CannotEmit`."""
    check(plan.program)
    name = job_name(plan)
    documents = {
        "pytorchjob": _pytorchjob(plan, name),
        "trainjob": _trainjob(plan, name),
        "jobset": _jobset(plan, name),
    }
    files = tuple(
        EmittedFile(f"{name}.{kind}.yaml", _text(documents[kind]), alternative=kind != "pytorchjob")
        for kind in OPERATORS
    )
    return Emission(
        blocks=(PasteBlock("where kubectl works", line(["kubectl", "apply", "-f", files[0].name]) + "\n", 0),),
        files=files,
        notes=(
            "Apply one of the three files (-o DIR writes them all), that of the operator which your cluster has: "
            + "; ".join(f"{needs} ({file.name})" for file, needs in zip(files, OPERATORS.values(), strict=True))
            + ".",
            f"Put the image that has torch and the script in place of {IMAGE}.",
            *left_out(
                (*plan.environment, *(env_variable for node in plan.nodes for env_variable in node.environment)),
                "in pods",
            ),
        ),
    )


def _text(documents: Iterable[dict[str, Any]]) -> str:
    return "---\n".join("".join(f"{each}\n" for each in yaml(document)) for document in documents)


def _document(
    api: str, kind: str, name: str, spec: dict[str, Any], *, about: str | Sequence[str] = "", **metadata: Any
) -> dict[str, Any]:
    return {"#": about, "apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def _indexed(nodes: int, pod: dict[str, Any]) -> dict[str, Any]:
    """A Job whose pods know their index, none of which is started a second time."""
    return {
        "completionMode": "Indexed", "completions": nodes, "parallelism": nodes, "backoffLimit": 0, "template": pod,
    }  # fmt: skip


def _pytorchjob(plan: LaunchPlan, name: str) -> list[dict[str, Any]]:
    pod = {"#": "The operator sets its variables in a container of this name only.", **_training(plan, "pytorch")}
    roles = {
        role: {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": pod}}
        for role, replicas in (("Master", 1), ("Worker", len(plan.nodes) - 1))
        if replicas
    }
    about = (
        "For Kubeflow's training operator (v1). It sets PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and so on, which "
        "torchrun reads as its options; plain python would be one process a pod."
    )
    spec = {
        "nprocPerNode": scalar(str(plan.nodes[0].processes)),
        "runPolicy": {"cleanPodPolicy": "Running"},
        "pytorchReplicaSpecs": roles,
    }
    return [_document("kubeflow.org/v1", "PyTorchJob", name, spec, about=about)]


def _trainjob(plan: LaunchPlan, name: str) -> list[dict[str, Any]]:
    pod = {"spec": {"restartPolicy": "Never", **_training(plan, "node")}}
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": pod},
    }
    runtime = {
        "mlPolicy": {"numNodes": len(plan.nodes), "torch": "{}"},
        "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}},
    }
    trainer = {
        "numNodes": len(plan.nodes),
        "numProcPerNode": plan.nodes[0].processes,
        "command": [word(each) for each in ("torchrun", *plan.program)],
    }
    if plan.accelerator == "cuda":
        trainer["resourcesPerNode"] = _limits(plan.nodes[0].processes)
    of_runtime = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": name}
    about = (
        "For Kubeflow Trainer (v2). The runtime is the job's own, for /dev/shm: the usual one, torch-distributed, "
        "leaves it at 64 MiB. The operator sets PET_*, which torchrun reads: the command must be torchrun."
    )
    api, labels = "trainer.kubeflow.org/v1alpha1", {"trainer.kubeflow.org/framework": "torch"}
    return [
        _document(api, "TrainingRuntime", name, runtime, about=about, labels=labels),
        _document(api, "TrainJob", name, {"runtimeRef": of_runtime, "trainer": trainer}),
    ]


def _jobset(plan: LaunchPlan, name: str) -> list[dict[str, Any]]:
    head = f"{name}-node-0-0.{name}"
    options = (
        f"--nnodes={len(plan.nodes)}",
        f"--nproc-per-node={plan.nodes[0].processes}",
        f"--node-rank={NODE_RANK}",
        f"--master-addr={head}",
        f"--master-port={plan.master_port}",
    )
    pod = {"spec": {"restartPolicy": "Never", **_training(plan, "trainer", options)}}
    about = (
        "For JobSet, which sets no variable of torchrun's: rank and master stand in the command. Its headless service "
        f"gives the pods names; that of rank 0 is {head}."
    )
    spec = {
        "network": {"enableDNSHostnames": "true", "publishNotReadyAddresses": "true"},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": _indexed(len(plan.nodes), pod)}}],
    }
    return [_document("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec, about=about)]


def _training(plan: LaunchPlan, container: str, options: Iterable[str] = ()) -> dict[str, Any]:
    """What stands under a pod's `spec:`. `options` come after the command's first word, for the kubelet to expand."""
    variables = [
        variable(env_variable.name, env_variable.value, comment(env_variable.reason) if env_variable.reason else ())
        for env_variable in portable(plan.environment)
    ]
    return _pod(
        container,
        {"image": scalar(IMAGE)},
        [word("torchrun"), *map(scalar, options), *map(word, plan.program)],
        ({"env": variables} if variables else {})
        | ({"resources": _limits(plan.nodes[0].processes)} if plan.accelerator == "cuda" else {}),
    )


def _limits(gpus: int) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": gpus}}


def _pod(container: str, image: dict[str, Any], command: list[str], more: dict[str, Any]) -> dict[str, Any]:
    mount = {"name": "shared-memory", "mountPath": "/dev/shm"}
    about = "Loader workers and NCCL need more than a container's 64 MiB."
    return {
        "containers": [{"name": container, **image, "command": command, **more, "volumeMounts": [mount]}],
        "volumes": [{"name": "shared-memory", "#": about, "emptyDir": {"medium": "Memory"}}],
    }


def bandwidth_test(nodes: int, ranks_per_node: int | None, arguments: Sequence[str], *, image: str = "") -> str:
    """One pod a node, torchrun with a static rendezvous in each: an Indexed Job, whose pods get stable hostnames
    through a headless Service (Kubernetes' documentation: "Job with Pod-to-Pod Communication").

    `image`: one that has torch and gpudoctor; empty: a placeholder, which is marked.
    """
    gloo, gpus = on_gloo(arguments), ranks_per_node or USUAL_GPUS
    ranks = str(ranks_per_node or 1) if gloo else str(gpus)
    about = (
        *comment("gpudoctor nccl-test, one pod a node. Start it with: kubectl apply -f FILE"),
        *comment(f"Read its answer: kubectl logs -f -l batch.kubernetes.io/job-completion-index=0,app={TEST}"),
        *comment(f"Remove it: kubectl delete job,service {TEST}"),
    )
    change = {} if image else {"#": "CHANGE to the image that trains; gpudoctor must be installed in it:"}
    where = "here, and the second word after the command's name"
    unsure = {"#": f"CHANGE where a node has another number of GPUs, {where}:"} if ranks_per_node is None else {}
    rdma = {"#": "For RDMA add the resource of your cluster's device plugin."}
    limits = {"limits": "{}"} if gloo else {**unsure, "limits": {"nvidia.com/gpu": gpus, **rdma}}
    words = ["bash", "-c", START, TEST, str(nodes), ranks, f"{TEST}-0.{TEST}", str(TEST_PORT), *arguments]
    own = _pod("test", {**change, "image": scalar(image or TEST_IMAGE)}, [*map(word, words)], {"resources": limits})
    labels = {"app": TEST}
    elsewhere = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [elsewhere]}}
    affinity = {"affinity": apart} if nodes > 1 else {}
    pod = {"metadata": {"labels": labels}, "spec": {"subdomain": TEST, "restartPolicy": "Never", **affinity, **own}}
    service = {"clusterIP": "None", "publishNotReadyAddresses": "true", "selector": labels}
    job = {"activeDeadlineSeconds": TEST_SECONDS, **_indexed(nodes, pod)}
    return _text([_document("v1", "Service", TEST, service, about=about), _document("batch/v1", "Job", TEST, job)])


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
    line_prefixes=(r"\[pod/(?P<host>[^/\]\s]{1,253})/[^\]\s]{1,253}\]\s?",),  # kubectl logs --prefix
    write=write,
    bandwidth_test=bandwidth_test,
    # Under torchrun each rank is started once.
    not_in_a_test=("--hosts", "--hostfile", "--exclude", "--find-slow", "--compare"),
    fixed="a manifest is emitted for a fixed set of nodes",
    even="a manifest starts the same number on every node",
    scheduler="kubernetes",
    in_this_shell=False,
)
