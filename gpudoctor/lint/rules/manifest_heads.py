"""Rules of how the head is reached in a cluster, and of a container's words: K63 to K66."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest, ManifestValue
from gpudoctor.lint.pods import containers, manifest_of, pods_of
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_refusals import quantity
from gpudoctor.lint.rules.manifest_values import by_path, children, number, of_kubernetes

_SET = (
    "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: t, namespace: ml}\nspec:\n  serviceName: t\n"
    "  replicas: 4\n  podManagementPolicy: Parallel\n  selector: {matchLabels: {app: t}}\n  template:\n"
    "    metadata: {labels: {app: t}}\n    spec:\n      containers:\n        - name: main\n"
    "          image: registry/image:tag\n"
    "          command: [bash, -c, 'torchrun --nnodes=4 --nproc-per-node=8 --node-rank=${HOSTNAME##*-}"
    " --master-addr=HEAD --master-port=29500 t.py']\n"
    "          env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]\n"
    "          resources: {limits: {nvidia.com/gpu: 8}}\n          volumeMounts: [{name: shm, mountPath: /dev/shm}]\n"
    "      volumes: [{name: shm, emptyDir: {medium: MemorySIZE}}]\n---\napiVersion: v1\nkind: Service\n"
    "metadata: {name: head}\nspec:\n  selector: {SELECTS}\n  ports: [{port: PORT}]\n"
)


def _set(
    head: str = "head", selects: str = "app: t, apps.kubernetes.io/pod-index: '0'", port: int = 29500, size: str = ""
) -> str:
    text = _SET.replace("HEAD", head).replace("SELECTS", selects).replace("PORT", str(port))
    return text.replace("SIZE", size)


def _several(job: LintJob) -> Iterator[tuple[LintLaunch, Manifest, look.Value]]:
    """Starts of several pods, and the head that they are told."""
    for launch in job.launches:
        manifest, head, nodes = manifest_of(job, launch), look.master(launch), look.nnodes(launch)
        if manifest is not None and head is not None and nodes is not None and nodes[0] > 1:
            yield launch, manifest, head


@rule(
    "K63",
    title="A service that stands for the head leads to the head alone, on its port",
    source="Kubernetes' documentation, Service: a cluster IP spreads connections over the pods that are selected, and"
    " forwards the ports that it lists",
    leads_to=("master-unreachable",),
    bad=(_set(selects="app: t"), _set(port=29400)),
    good=(_set(), _set(selects="app: t, statefulset.kubernetes.io/pod-name: t-0"), _set(head="t-0.t")),
)
def service_of_all_pods(job: LintJob) -> Iterator[LintFinding]:
    """A service with a cluster IP sends each connection to one of its pods, and knows only the ports that it lists. The
    head has to be the one pod behind it: by the label of its index or name; or it is named below a headless service."""
    services = {
        name.value: manifest
        for manifest in job.manifests
        if manifest.kind == "Service" and (name := by_path(manifest).get("metadata.name")) is not None
    }
    for launch, manifest, head in _several(job):
        service = services.get((head.text or "").split(".")[0])
        values = by_path(service) if service is not None else {}
        ip = values.get("spec.clusterIP")
        if service is None or (ip is not None and ip.value == "None") or "spec.externalName" in values:
            continue
        port = look.port(launch)
        listed = [value for value in service.values if value.path[:2] == ("spec", "ports") and value.path[-1] == "port"]
        own = look.whole(port.text) if port is not None else None
        if own and listed and all(number(value) for value in listed) and own not in map(number, listed):
            yield LintFinding(
                span=listed[0].span,
                summary=f"the service {head.text} forwards {', '.join(value.value for value in listed)}, and the head"
                f" listens on {own}",
                happens="The other nodes get no connection: they wait until the time-out.",
                fix=f"Add port {own} to the service.",
            )
        pods = pods_of(manifest, launch)
        selector = {key: value for key in children(service, "spec", "selector")
                    if (value := values.get(f"spec.selector.{key}")) is not None}  # fmt: skip
        if pods is not None and pods > 1 and _selects_all(manifest, selector):
            first = next(iter(selector.values()))
            yield LintFinding(
                span=first.span,
                summary=f"the service {head.text} selects all {counted(pods, 'pod')} of the {manifest.kind}, and is the"
                " head's address",
                happens="A node that connects comes to any of them, and not to node 0: the rendezvous never ends.",
                fix="Write clusterIP: None and name the head's pod below it, or select its index:"
                " apps.kubernetes.io/pod-index: '0'.",
            )


def _selects_all(manifest: Manifest, selector: dict[str, ManifestValue]) -> bool:
    labels = {
        value.path[-1]: value.value
        for value in manifest.values
        if value.path[-2:-1] == ("labels",) and "template" in value.path and "metadata" in value.path
    }
    if not selector or any("/" in key or key in ("index", "rank", "role") for key in selector):
        return False
    return all(labels.get(key) == value.value for key, value in selector.items())


@rule(
    "K64",
    title="The head is not each pod's own address, and is in the pods' namespace",
    source="Kubernetes' documentation, downward API: status.podIP is the pod's own; DNS: NAME.SERVICE.NAMESPACE.svc",
    leads_to=("master-unreachable",),
    bad=(_set(head="$(POD_IP)"), _set(head="$POD_IP"), _set(head="t-0.t.other.svc.cluster.local")),
    good=(_set(), _set(head="t-0.t.ml.svc.cluster.local"), _set(head="t-0.t")),
)
def head_of_its_own(job: LintJob) -> Iterator[LintFinding]:
    """Every pod of a template gets the same words, and its own podIP: each is then its own head. A name with a
    namespace is of that namespace alone."""
    for launch, manifest, head in _several(job):
        own = next(
            (
                expansion.name
                for expansion in look.origins(head.word, launch.invocation)
                if _is_own(manifest, expansion.name) and not launch.invocation.conditional
            ),
            None,
        )
        pods = pods_of(manifest, launch)
        if own is not None and pods is not None and pods > 1:
            yield LintFinding(
                span=head.span,
                summary=f"{head.written} is {own}, each pod's own address",
                happens="Every pod waits for the others at itself, until the time-out.",
                fix="Name pod 0 below its headless service (NAME-0.SERVICE).",
            )
        namespace = by_path(manifest).get("metadata.namespace")
        of = re.fullmatch(r"[\w-]+\.[\w-]+\.([\w-]+)\.svc(?:\..+)?", head.text or "")
        name = by_path(manifest).get("metadata.name")
        mine = name is not None and (head.text or "").startswith(f"{name.value}-")
        if of is not None and namespace is not None and mine and namespace.value not in (of[1], "default"):
            yield LintFinding(
                span=head.span,
                summary=f"{head.written} is in the namespace {of[1]}, and the {manifest.kind} in {namespace.value}",
                happens="The name is not resolved, or is another job's.",
                fix=f"Write {namespace.value} in place of {of[1]}, or leave the namespace away.",
            )


def _is_own(manifest: Manifest, name: str) -> bool:
    if not name:
        return False
    for value in manifest.values:
        if value.path[-1:] == ("name",) and value.value == name and value.path[-3:-2] == ("env",):
            source = by_path(manifest).get(".".join((*value.path[:-1], "valueFrom", "fieldRef", "fieldPath")))
            return source is not None and source.value in ("status.podIP", "status.podIPs", "metadata.name")
    return False


_LIST = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: t}\nspec:\n  restartPolicy: Never\n  containers:\n    - name: main\n"
    "      image: registry/image:tag\n      command: [COMMAND]\n"
)


@rule(
    "K65",
    title="A list of words is run without a shell",
    source="Kubernetes' documentation, Define a command: the command is not run in a shell unless it starts one",
    leads_to=("program-error",),
    bad=(
        _LIST.replace("COMMAND", "pip, install, -r, requirements.txt, '&&', torchrun, --standalone, train.py"),
        _LIST.replace("COMMAND", "torchrun, --standalone, train.py, '>', log.txt"),
    ),
    good=(
        _LIST.replace("COMMAND", "bash, -c, 'pip install -r r.txt && torchrun --standalone train.py'"),
        _LIST.replace("COMMAND", "python, -c, '&&'"),
    ),
)
def operators_without_a_shell(job: LintJob) -> Iterator[LintFinding]:
    """&&, | and > are a shell's. In a list they are arguments of the first program."""
    for manifest in of_kubernetes(job):
        for container in containers(manifest):
            words = container.command
            first = words[0].value.rpartition("/")[2] if words else ""
            if not words or first in (*look.SHELLS, "env", "python", "python3") or ("image",) not in container.values:
                continue
            if not any(path[0] == "command" for path in container.values):
                continue  # arguments of what the image starts
            word = next((word for word in words[1:] if word.value in ("&&", "||", "|", ";", ">", ">>", "2>&1")), None)
            if word is not None:
                yield LintFinding(
                    span=word.span,
                    summary=f"{word.value} stands in a list that no shell reads",
                    happens=f"{first} gets {word.value} and what follows as arguments: it ends with an error, or the"
                    " second command never runs.",
                    fix="Write command: [bash, -c, '...'] with the whole line.",
                )


@rule(
    "K66",
    title="The memory at /dev/shm is more than a container has without it",
    severity="warning",
    source="Kubernetes' documentation, emptyDir: sizeLimit is the size of the tmpfs; a container has 64 MiB else",
    leads_to=("shm-too-small",),
    bad=(_set(size=", sizeLimit: 64Mi"), _set(size=", sizeLimit: 128M")),
    good=(_set(size=", sizeLimit: 16Gi"), _set()),
)
def little_memory_at_shm(job: LintJob) -> Iterator[LintFinding]:
    """A limit of a few MiB leaves NCCL and loader workers where they were without the volume."""
    for manifest in of_kubernetes(job):
        values = by_path(manifest)
        for container in containers(manifest):
            names = {
                values[f"{'.'.join((*container.path, *path[:2]))}.name"].value
                for path, value in container.values.items()
                if path[0] == "volumeMounts" and path[-1] == "mountPath" and value.value.rstrip("/") == "/dev/shm"
                and f"{'.'.join((*container.path, *path[:2]))}.name" in values
            }  # fmt: skip
            for at in children(manifest, *container.path[:-2], "volumes") if (container.gpus or 0) > 1 else ():
                volume = ".".join((*container.path[:-2], "volumes", at))
                name, limit = values.get(f"{volume}.name"), values.get(f"{volume}.emptyDir.sizeLimit")
                size = quantity(limit.value) if limit is not None else None
                if (
                    name is not None
                    and name.value in names
                    and limit is not None
                    and size is not None
                    and size <= 2**28
                ):
                    yield LintFinding(
                        span=limit.span,
                        summary=f"{limit.value} at /dev/shm for {counted(container.gpus or 0, 'GPU')}",
                        happens="NCCL ends with no space left on device; loader workers with a Bus error.",
                        fix="Write sizeLimit: 16Gi, or leave it away.",
                    )
