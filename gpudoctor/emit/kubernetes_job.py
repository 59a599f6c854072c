"""A manifest for Kubernetes that runs `gpudoctor nccl-test` in one pod a node: `nccl-test --emit kubernetes`.

An Indexed Job, whose pods get stable hostnames through a headless Service; torchrun with a static rendezvous starts
the ranks of each (Kubernetes' documentation: "Job with Pod-to-Pod Communication").
"""

from collections.abc import Iterator, Sequence

from gpudoctor.emit.comments import comment
from gpudoctor.emit.kubernetes import scalar
from gpudoctor.emit.slurm_batch import USUAL_GPUS, on_gloo

NAME = "gpudoctor-nccl-test"
PORT = 61234
"""Above what Linux hands out to clients (ip_local_port_range ends at 60999)."""
SECONDS = 1800
"""Far more than a test takes; less than pods that stand still may cost."""
DEFAULT_IMAGE = "registry.example/training:latest"
START = (
    'exec torchrun --nnodes="$1" --nproc-per-node="$2" --node-rank="$JOB_COMPLETION_INDEX" '
    '--master-addr="$3" --master-port="$4" -m gpudoctor.nccl "${@:5}"'
)


def manifest(nodes: int, ranks_per_node: int | None, arguments: Sequence[str], *, image: str = "") -> str:
    """The whole manifest. `arguments`: options of `gpudoctor nccl-test` besides --nodes and --emit.

    `image`: one that has torch and gpudoctor; empty: a placeholder, which is marked.
    """
    return "\n".join(_lines(nodes, ranks_per_node, arguments, image)) + "\n"


def _lines(nodes: int, ranks_per_node: int | None, arguments: Sequence[str], image: str) -> Iterator[str]:
    gloo = on_gloo(arguments)
    gpus = ranks_per_node or USUAL_GPUS
    ranks = str(ranks_per_node or 1) if gloo else str(gpus)
    yield from comment("gpudoctor nccl-test, one pod a node. Start it with: kubectl apply -f FILE")
    yield from comment(f"Read its answer: kubectl logs -f -l batch.kubernetes.io/job-completion-index=0,app={NAME}")
    yield from comment(f"Remove it: kubectl delete job,service {NAME}")
    yield "apiVersion: v1"
    yield "kind: Service"
    yield "metadata:"
    yield f"  name: {NAME}"
    yield "spec:"
    yield "  clusterIP: None"
    yield "  publishNotReadyAddresses: true"
    yield "  selector:"
    yield f"    app: {NAME}"
    yield "---"
    yield "apiVersion: batch/v1"
    yield "kind: Job"
    yield "metadata:"
    yield f"  name: {NAME}"
    yield "spec:"
    yield "  completionMode: Indexed"
    yield f"  completions: {nodes}"
    yield f"  parallelism: {nodes}"
    yield "  backoffLimit: 0"
    yield f"  activeDeadlineSeconds: {SECONDS}"
    yield "  template:"
    yield "    metadata:"
    yield "      labels:"
    yield f"        app: {NAME}"
    yield "    spec:"
    yield f"      subdomain: {NAME}"
    yield "      restartPolicy: Never"
    if nodes > 1:
        yield "      affinity:"
        yield "        podAntiAffinity:"
        yield "          requiredDuringSchedulingIgnoredDuringExecution:"
        yield "            - topologyKey: kubernetes.io/hostname"
        yield "              labelSelector:"
        yield "                matchLabels:"
        yield f"                  app: {NAME}"
    yield "      containers:"
    yield "        - name: test"
    if not image:
        yield from _indented(10, comment("CHANGE to the image that trains; gpudoctor must be installed in it:"))
    yield f"          image: {scalar(image or DEFAULT_IMAGE)}"
    yield "          command:"
    first = f"{NAME}-0.{NAME}"
    words = ["bash", "-c", START, NAME, str(nodes), ranks, first, str(PORT), *arguments]
    # The kubelet expands $(NAME) and reads $$ as one dollar sign.
    yield from (f"            - {scalar(word.replace('$', '$$'))}" for word in words)
    yield "          resources:"
    if gloo:
        yield "            limits: {}"
    else:
        if ranks_per_node is None:
            where = "here, and the second word after the command's name"
            yield from _indented(12, comment(f"CHANGE where a node has another number of GPUs, {where}:"))
        yield "            limits:"
        yield f"              nvidia.com/gpu: {gpus}"
        yield from _indented(14, comment("For RDMA add the resource of your cluster's device plugin."))
    yield "          volumeMounts:"
    yield "            - name: shared-memory"
    yield "              mountPath: /dev/shm"
    yield "      volumes:"
    yield "        - name: shared-memory"
    yield "          emptyDir:"
    yield "            medium: Memory"


def _indented(columns: int, lines: Iterator[str]) -> Iterator[str]:
    yield from (" " * columns + line for line in lines)
