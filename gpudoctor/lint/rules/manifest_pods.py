"""Rules of what a pod has and who it is, beside the other documents of the text: K56, K58 to K62."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.pods import Container, containers, extent, manifest_of
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import by_path, children, of_kubernetes

_LIMITS = "{nvidia.com/gpu: 8MORE}"
_POD = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: trainLABELS}\nspec:\n  backoffLimit: 0\n  template:\n    spec:\n"
    "      restartPolicy: NeverNODES\n      containers:\n        - name: main\n          image: IMAGE\n"
    "          command: [torchrun, --standalone, --nproc-per-node=8, train.py]\nSECURITY"
    "          resources: {limits: " + _LIMITS + "}\n"
    "          volumeMounts: [{name: shm, mountPath: /dev/shm}]\n"
    "      volumes: [{name: shm, emptyDir: {medium: Memory}}]\n"
)


def _pod(
    more: str = "", security: str = "", nodes: str = "", image: str = "registry/image:tag", labels: str = ""
) -> str:
    text = _POD.replace("MORE", more).replace("SECURITY", security).replace("NODES", nodes).replace("IMAGE", image)
    return text.replace("LABELS", labels)


_RDMA = lazy_re(r"rdma/.+|nvidia\.com/(?:hostdev|sriov\S*|rdma\S*|mlnxnics)|mellanox\.com/.+|openshift\.io/\S*rdma\S*")
_LOCK = "          securityContext: {capabilities: {add: [IPC_LOCK]}}\n"


@rule(
    "K56",
    title="A pod that asks for RDMA may lock memory",
    severity="info",  # where the container runtime's own limit is infinite nothing is missing
    source="k8s-rdma-shared-dev-plugin and network-operator, examples: capabilities add IPC_LOCK; ibv_reg_mr(3): ENOMEM"
    " at RLIMIT_MEMLOCK",
    bad=(_pod(", rdma/hca: 1"), _pod(", nvidia.com/hostdev: 8", "          securityContext: {privileged: false}\n")),
    good=(
        _pod(),
        _pod(", rdma/hca: 1", _LOCK),
        _pod(", rdma/hca: 1", "          securityContext: {privileged: true}\n"),
    ),
)
def rdma_without_lock(job: LintJob) -> Iterator[LintFinding]:
    """RDMA registers memory, which the kernel then locks. A container's limit for that is a few MiB on many nodes
    unless it has the capability IPC_LOCK, or is privileged."""
    for manifest in of_kubernetes(job):
        for container in containers(manifest):
            asked = next(
                (
                    value
                    for path, value in container.values.items()
                    if path[:1] == ("resources",) and _RDMA.fullmatch(path[-1])
                ),
                None,
            )
            if asked is None or _may_lock(container) or asked.value in ("0", "null"):
                continue
            yield LintFinding(
                span=asked.span,
                summary=f"the container asks for {_last(container, asked)}, and has no capability IPC_LOCK",
                happens="NCCL ends, or falls back to sockets: ibv_reg_mr fails, Cannot allocate memory.",
                fix="Add securityContext: {capabilities: {add: [IPC_LOCK]}} to the container.",
            )


def _last(container: Container, asked: ManifestValue) -> str:
    return next(path[-1] for path, value in container.values.items() if value is asked)


def _may_lock(container: Container) -> bool:
    return any(
        path[0] == "securityContext"
        and ((path[-1] == "privileged" and value.value == "true") or value.value in ("IPC_LOCK", "CAP_IPC_LOCK", "ALL"))
        for path, value in container.values.items()
    )


_ARM = lazy_re(r"(?<![a-z0-9])(?:arm64|aarch64)(?![a-z0-9])")
_INTEL = lazy_re(r"(?<![a-z0-9])(?:amd64|x86[_-]64)(?![a-z0-9])")
_SUPERCHIP = lazy_re(r"NVIDIA-G[HB](?:200|300)", re.IGNORECASE)
"""Grace is arm64."""


@rule(
    "K58",
    title="An image is of the nodes' architecture",
    source="Kubernetes' documentation, well-known labels: kubernetes.io/arch; OCI image-spec: an image of one platform",
    bad=(
        _pod(nodes="\n      nodeSelector: {kubernetes.io/arch: arm64}", image="registry/train:2.7-amd64"),
        _pod(
            nodes="\n      nodeSelector: {nvidia.com/gpu.product: NVIDIA-GH200-480GB}", image="registry/x86_64/train:1"
        ),
    ),
    good=(
        _pod(nodes="\n      nodeSelector: {kubernetes.io/arch: arm64}", image="registry/train:2.7-arm64"),
        _pod(nodes="\n      nodeSelector: {kubernetes.io/arch: amd64}", image="registry/train:2.7-amd64"),
        _pod(image="registry/train:2.7-amd64"),
    ),
)
def image_of_another_machine(job: LintJob) -> Iterator[LintFinding]:
    """A name with amd64 or arm64 in it is of that machine alone; a selector says which the nodes are."""
    for manifest in of_kubernetes(job):
        wanted = ""
        for value in manifest.values:
            key, text = value.path[-1] if value.path else "", value.value
            if "nodeSelector" in value.path and (key == "kubernetes.io/arch" or key == "nvidia.com/gpu.product"):
                wanted = (
                    "arm64" if text == "arm64" or _SUPERCHIP.match(text) else "amd64" if text == "amd64" else wanted
                )
        other = _INTEL if wanted == "arm64" else _ARM if wanted == "amd64" else None
        for container in containers(manifest) if other is not None else ():
            image = container.values.get(("image",))
            if image is not None and other is not None and other.search(image.value.lower()):
                yield LintFinding(
                    span=image.span,
                    summary=f"the image is {image.value}, and the nodes that are selected are {wanted}",
                    happens="The container ends at once: exec format error.",
                    fix=f"Take an image of {wanted}, or one of several platforms.",
                )


_QUEUES = (
    "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: all}\nspec:\n  namespaceSelector: {}\n"
    "  resourceGroups:\n    - coveredResources: [cpu, memoryMORE]\n      flavors:\n        - name: default\n"
    "          resources:\n            - {name: cpu, nominalQuota: 200}\n"
    "            - {name: memory, nominalQuota: 2Ti}\n---\n"
    "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: lab}\nspec: {clusterQueue: all}\n---\n"
)
_QUEUED = _pod(labels=", labels: {kueue.x-k8s.io/queue-name: lab}")


@rule(
    "K59",
    title="A job's queue has what the job asks for",
    source="Kueue's documentation, ClusterQueue: a workload that requests a resource which no group covers is not"
    " admitted",
    bad=(
        _QUEUES.replace("MORE", "") + _QUEUED,
        _QUEUES.replace("MORE", ", ephemeral-storage") + _QUEUED,
    ),
    good=(
        _QUEUES.replace("MORE", ", nvidia.com/gpu").replace(
            "2Ti}\n---", "2Ti}\n            - {name: nvidia.com/gpu, nominalQuota: 8}\n---"
        )
        + _QUEUED,
        _QUEUES.replace("MORE", "") + _pod(),
    ),
)
def queue_without_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Kueue admits a job when a ClusterQueue has a quota of each resource that it asks for. GPUs that no group covers
    are never there."""
    covered: dict[str, tuple[set[str], ManifestValue]] = {}
    queues: dict[str, str] = {}
    for manifest in job.manifests:
        values = by_path(manifest)
        name = values.get("metadata.name")
        if name is not None and manifest.kind == "ClusterQueue":
            listed = [value for value in manifest.values if "coveredResources" in value.path]
            if listed:
                covered[name.value] = {value.value for value in listed}, listed[0]
        elif name is not None and manifest.kind == "LocalQueue" and "spec.clusterQueue" in values:
            queues[name.value] = values["spec.clusterQueue"].value
    for manifest in of_kubernetes(job):
        label = next(
            (
                value.value
                for value in manifest.values
                if value.path == ("metadata", "labels", "kueue.x-k8s.io/queue-name")
            ),
            "",
        )
        there = covered.get(queues.get(label, ""))
        if there is None:
            continue
        asked = {
            path[2] for container in containers(manifest) for path in container.values
            if path[:1] == ("resources",) and len(path) == 3 and path[2].endswith("/gpu")
            and path[1] in ("limits", "requests")
        }  # fmt: skip
        for resource in sorted(asked - there[0]):
            yield LintFinding(
                span=there[1].span,
                summary=f"the ClusterQueue has {', '.join(sorted(there[0]))}; the {manifest.kind} asks for {resource}",
                happens="Kueue never admits it: resource unavailable in ClusterQueue; it stays suspended.",
                fix=f"Add {resource} to coveredResources, with a nominalQuota in each flavor.",
            )


_VOLCANO = (
    "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\nspec:\n  minAvailable: 2\n"
    "  plugins:\n    ssh: []\nSVC  tasks:\n    - name: master\n      replicas: 1\n      template:\n        spec:\n"
    "          restartPolicy: Never\n          containers:\n            - name: main\n"
    "              image: registry/image:tag\n"
    "              command: [sh, -c, 'mpirun -np 2 --host $(cat /etc/volcano/worker.host"
    ' | tr "\\n" ",") python t.py\']\n'
    "    - name: worker\n      replicas: 2\n      template:\n        spec:\n          restartPolicy: Never\n"
    "          containers:\n            - {name: main, image: 'registry/image:tag', command: [/usr/sbin/sshd, -D]}\n"
)


@rule(
    "K60",
    title="A Volcano job that reads its hosts has the plugin that writes them",
    source="volcano 1.12, pkg/controllers/job/plugins/svc: /etc/volcano/TASK.host, VC_TASK_HOSTS; plugins/env:"
    " VC_TASK_INDEX",
    leads_to=("master-unreachable",),
    bad=(
        _VOLCANO.replace("SVC", ""),
        _VOLCANO.replace("SVC", "").replace("$(cat /etc/volcano/worker.host", "$(echo $VC_WORKER_HOSTS"),
    ),
    good=(
        _VOLCANO.replace("SVC", "    svc: []\n"),
        _VOLCANO.replace("SVC", "    svc: ['--publish-not-ready-addresses=true']\n"),
    ),
)
def hosts_that_nobody_writes(job: LintJob) -> Iterator[LintFinding]:
    """The file of a task's hosts, VC_TASK_HOSTS and the pods' names below the job's come from the plugin svc; the
    plugin env sets VC_TASK_INDEX."""
    for manifest in of_kubernetes(job):
        if manifest.kind != "Job" or not manifest.api_version.startswith("batch.volcano.sh"):
            continue
        text = job.text[slice(*extent(manifest))]
        plugins = children(manifest, "spec", "plugins")
        own = {value.value for value in manifest.values if value.path[-1:] == ("name",) and "env" in value.path}
        if {"svc", "mpi", "pytorch", "tensorflow", "ray"} & {*plugins} or re.search(r"\bsvc[\"']?:", text):
            continue  # the others bring svc with them; svc: [] has no value of its own
        for container in containers(manifest):
            read = next(
                (
                    (value, match[0])
                    for value in container.command
                    if (match := re.search(r"/etc/volcano/[\w.-]+\.host|\bVC_[A-Z0-9_]+_HOSTS\b", value.value))
                    is not None
                ),
                None,
            )
            if read is not None and read[1] not in own:
                yield LintFinding(
                    span=read[0].span,
                    summary=f"{read[1]} is the plugin svc's, and the job has {', '.join(plugins) or 'no plugins'}",
                    happens="There is no such file, or variable: mpirun gets no hosts.",
                    fix="Add svc: [] below plugins.",
                )
                break


_MPI = (
    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: train}\nspec:\n  slotsPerWorker: 1\n"
    "  mpiReplicaSpecs:\n    Launcher:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
    "            - {name: l, image: 'registry/image:tag', command: [mpirun, -np, '2', python, train.py]}\n"
    "    Worker:\n      replicas: 2\n      template:\n        spec:\n          containers:\n"
    "            - {name: w, image: 'registry/image:tag'MORE}\n"
)


@rule(
    "K61",
    title="The workers of an MPIJob run sshd",
    source="mpi-operator 0.6, mpi_job_controller.go: without a command a worker runs /usr/sbin/sshd -De; the launcher"
    " comes by ssh",
    leads_to=("master-unreachable",),
    bad=(
        _MPI.replace("MORE", ", command: [sleep, infinity]"),
        _MPI.replace("MORE", ", command: [bash, -c, 'tail -f /dev/null']"),
    ),
    good=(
        _MPI.replace("MORE", ""),
        _MPI.replace("MORE", ", command: [/usr/sbin/sshd, -De]"),
        _MPI.replace("MORE", ", command: [bash, -c, 'mkdir -p /run/sshd; exec /usr/sbin/sshd -De']"),
        _MPI.replace("MORE", ", command: [/start.sh]"),
    ),
)
def workers_without_sshd(job: LintJob) -> Iterator[LintFinding]:
    """mpirun of the launcher reaches the workers by ssh. A command of their own takes sshd's place."""
    for manifest in of_kubernetes(job):
        if manifest.kind != "MPIJob" or not manifest.api_version.startswith("kubeflow.org/v2"):
            continue
        for container in containers(manifest):
            words = [value.value for path, value in container.values.items() if path[0] in ("command", "args")]
            if "Worker" not in container.path or not words:
                continue
            text = " ".join(words)
            first = container.command[0]
            if re.search(r"\b(?:sleep|tail -f|python[\d.]*|top|cat|read)\b", text) and not re.search(
                r"ssh|\.sh\b|entrypoint", text
            ):
                yield LintFinding(
                    span=first.span,
                    summary=f"the workers run {text[:40]!r}, and no sshd",
                    happens="mpirun ends: connection refused on port 22; ORTE was unable to reliably start daemons.",
                    fix="Leave the workers' command out: the operator starts sshd. Or end it with /usr/sbin/sshd -De.",
                )


_DEPLOYMENT = (
    "apiVersion: apps/v1\nkind: KIND\nmetadata: {name: ddp}\nspec:\n  replicas: 2\n  serviceName: ddp\n  selector:"
    " {matchLabels: {app: ddp}}\n  template:\n    metadata: {labels: {app: ddp}}\n    spec:\n      containers:\n"
    "        - name: main\n          image: registry/image:tag\n          command: [bash, -c, 'torchrun --nnodes=2"
    " --nproc-per-node=8 --node-rank=${HOSTNAME##*-} --master-addr=head.lab --master-port=29500 train.py']\n"
    "          resources: {limits: {nvidia.com/gpu: 8}}\n          volumeMounts: [{name: shm, mountPath: /dev/shm}]\n"
    "      volumes: [{name: shm, emptyDir: {medium: Memory}}]\n"
)


@rule(
    "K62",
    title="A node rank is cut from a name that ends in a number",
    source="Kubernetes' documentation: pods of a Deployment are NAME-HASH-RANDOM, those of a StatefulSet NAME-INDEX, of"
    " an Indexed Job NAME-INDEX by their hostname",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _DEPLOYMENT.replace("KIND", "Deployment").replace("  serviceName: ddp\n", ""),
        _DEPLOYMENT.replace("KIND", "Deployment")
        .replace("  serviceName: ddp\n", "")
        .replace("${HOSTNAME##*-}", "$(hostname | cut -d- -f3)"),
    ),
    good=(
        _DEPLOYMENT.replace("KIND", "StatefulSet").replace("head.lab", "ddp-0.ddp"),
        _DEPLOYMENT.replace("KIND", "StatefulSet")
        .replace("head.lab", "ddp-0.ddp")
        .replace("${HOSTNAME##*-}", "$(hostname | cut -d- -f2)"),
    ),
)
def rank_of_random_letters(job: LintJob) -> Iterator[LintFinding]:
    """Pods of a Deployment, and of a Job that is not indexed, end in random letters."""
    for launch in job.launches:
        manifest, rank = manifest_of(job, launch), look.value(launch, "node-rank")
        if manifest is None or rank is None or not _random_names(manifest):
            continue
        cut = [
            expansion
            for expansion in look.origins(rank.word, launch.invocation)
            if re.search(
                r"(?:HOSTNAME|POD_NAME|hostname)\b.*(?:##\*-|##\*\[|-F|cut|sed|awk|grep|\[0-9\])", expansion.raw
            )
        ]
        if cut:
            yield LintFinding(
                span=rank.span,
                summary=f"{rank.written} is cut from the pod's name, which ends in random letters in a {manifest.kind}",
                happens="It is no number: torchrun refuses it, or the ranks are wrong.",
                fix="Make it a StatefulSet (podManagementPolicy: Parallel), or a Job with completionMode: Indexed.",
            )


def _random_names(manifest: Manifest) -> bool:
    if manifest.kind == "Job" and manifest.api_version.startswith("batch/"):
        mode = by_path(manifest).get("spec.completionMode")
        return mode is None or mode.value != "Indexed"
    return manifest.kind in ("Deployment", "ReplicaSet")
