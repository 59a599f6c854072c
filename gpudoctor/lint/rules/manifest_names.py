"""Rules of the names by which pods find each other, and of what a container is given: K40 to K44."""

import re
from collections.abc import Iterator, Mapping

from gpudoctor.lint import look
from gpudoctor.lint.conditions import value_of_word
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.pods import containers, manifest_of
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_ranks import name_of_no_pod
from gpudoctor.lint.rules.manifest_values import by_path, children, of_kubernetes

_JOB = """\
apiVersion: v1
kind: Service
metadata: {name: head}
spec:
  clusterIP: None
  selector: {SELECTOR}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    metadata: {labels: {app: train}}
    spec:
      subdomain: head
      restartPolicy: Never
      containers:
        - name: main
          image: registry/image:tag
          env:
            - {name: MASTER_ADDR, value: ADDRESS}
          command: [bash, -c, "torchrun --nnodes=2 --nproc-per-node=1 --node-rank=$JOB_COMPLETION_INDEX\
 --master-addr=$MASTER_ADDR --master-port=29500 train.py"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


def _job(selector: str = "job-name: train", address: str = "train-0.head") -> str:
    return _JOB.replace("SELECTOR", selector).replace("value: ADDRESS", f'value: "{address}"')


_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train}
spec:
  serviceName: SERVICE
  replicas: 2
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers:
        - name: main
          image: registry/image:tag
          command: [bash, -c, "torchrun --nnodes=2 --nproc-per-node=1 --node-rank=${HOSTNAME##*-}\
 --master-addr=train-0.head --master-port=29500 train.py"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


def _heads(job: LintJob) -> Iterator[tuple[Manifest, look.Value]]:
    """The head's address as it is told in a manifest of Kubernetes, where the text tells it."""
    for launch in job.launches:
        manifest, address = manifest_of(job, launch), look.master(launch)
        if manifest is not None and address is not None and address.text:
            yield manifest, address


def labels_of(manifest: Manifest) -> list[dict[str, str]]:
    """The labels of each of its pod templates, with those that the controllers add."""
    name = next((value.value for value in manifest.values if value.path == ("metadata", "name")), "")
    added: dict[str, str] = {}
    if manifest.kind == "Job" and manifest.api_version.startswith("batch/"):
        added = {"job-name": name, "batch.kubernetes.io/job-name": name}
    elif manifest.kind == "JobSet":
        added = {"jobset.sigs.k8s.io/jobset-name": name}
    elif manifest.kind == "LeaderWorkerSet":
        added = {"leaderworkerset.sigs.k8s.io/name": name}
    elif manifest.kind == "Job":
        added = {"volcano.sh/job-name": name}
    templates = []
    for pod in dict.fromkeys(container.path[:-2] for container in containers(manifest)):
        above = pod[:-1]  # of a Pod the object itself
        own = {
            value.path[-1]: value.value
            for value in manifest.values
            if value.path[:-1] == (*above, "metadata", "labels")
        }
        templates.append(added | own)
    return templates


@rule(
    "K40",
    title="The Service that names the pods selects them, and is headless",
    source="Kubernetes' documentation, DNS for Services and Pods: a pod's own name is resolved below a headless Service"
    " that selects it",
    leads_to=("master-unreachable",),
    bad=(_job("app: trainer"), _job().replace("  clusterIP: None\n", "")),
    good=(_job(), _job("app: train")),
)
def service_that_selects_nobody(job: LintJob) -> Iterator[LintFinding]:
    """A name like train-0.head is that of a pod whose subdomain is head, and is there only when the Service head has no
    address of its own (clusterIP: None) and its selector fits the pod's labels."""
    for manifest, address in _heads(job):
        domain = address.text.partition(".")[2].split(".")[0] if address.text else ""
        for service in job.manifests:
            values = by_path(service)
            name, address_of = values.get("metadata.name"), values.get("spec.clusterIP")
            if service.kind != "Service" or service.fault or name is None or name.value != domain:
                continue
            if values.get("spec.type") is None and (address_of is None or address_of.value != "None"):
                yield LintFinding(
                    span=name.span,
                    summary=f"the Service {domain} has no clusterIP: None, and the head is named below it"
                    f" ({address.text})",
                    happens="Only a headless Service gives pods names: the head's is not resolved, the others wait.",
                    fix="Write clusterIP: None in the Service's spec.",
                )
            selector = {key: values[f"spec.selector.{key}"] for key in children(service, "spec", "selector")
                        if f"spec.selector.{key}" in values}  # fmt: skip
            pods = labels_of(manifest)
            known = {key for labels in pods for key in labels}
            controllers = [key for key in selector if "/" in key and key not in known]
            if not selector or controllers or not pods:
                continue
            if not any(all(labels.get(key) == value.value for key, value in selector.items()) for labels in pods):
                wrong = next(iter(selector.values()))
                yield LintFinding(
                    span=wrong.span,
                    summary=f"the Service {domain} selects {_told(selector)}; the pods of {manifest.kind} are labelled"
                    f" {_pairs(pods[0])}",
                    happens="The Service has no pods, so their names are not resolved: the others wait for the head"
                    " until the time-out.",
                    fix="Give the selector a label that the pods have.",
                )


def _told(selector: Mapping[str, ManifestValue]) -> str:
    return ", ".join(f"{key}: {value.value}" for key, value in selector.items())


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in labels.items()) or "not at all"


@rule(
    "K41",
    title="A pod is named together with its service",
    source="Kubernetes' documentation, DNS for Services and Pods; StatefulSet, serviceName; volcano 1.12, plugins/svc",
    leads_to=("master-unreachable",),
    bad=(_job(address="train-0"), _SET.replace("SERVICE", "other")),
    good=(_job(), _SET.replace("SERVICE", "head")),
)
def pod_without_its_service(job: LintJob) -> Iterator[LintFinding]:
    """In the cluster's DNS a pod has a name only below its service: train-0 alone is known to that pod itself, and to
    nobody else. The pods of a StatefulSet are below its serviceName, those of a Volcano job below the job's name (by
    the plugin svc), those of a LeaderWorkerSet below its own."""
    told = {finding.span for finding in name_of_no_pod.judge(job)}  # K21
    for manifest, address in _heads(job):
        if address.span in told:
            continue
        values = by_path(manifest)
        name = values.get("metadata.name")
        host, _, domain = (address.text or "").partition(".")
        first = domain.split(".")[0]
        if name is None or not host.startswith(f"{name.value}-") or "$" in host:
            continue
        is_batch = manifest.kind == "Job" and manifest.api_version.startswith("batch/")
        below = ""
        if manifest.kind == "StatefulSet":
            service = values.get("spec.serviceName")
            below = service.value if service is not None else ""
        elif manifest.kind in ("LeaderWorkerSet", "JobSet") or (manifest.kind == "Job" and not is_batch):
            network = values.get("spec.network.subdomain")
            below = network.value if network is not None else name.value
        elif is_batch:
            service = values.get("spec.template.spec.subdomain")
            below = service.value if service is not None else ""
        else:
            continue
        numbered = re.fullmatch(r"(?:.+-)?\d+", host.removeprefix(f"{name.value}-"), re.ASCII)
        if numbered is None or (first and (is_batch or manifest.kind == "JobSet")):
            continue  # K21
        svc = any(value.path[:3] == ("spec", "plugins", "svc") for value in manifest.values) or bool(
            re.search(r"\bsvc:\s*\[\s*\]", job.text)  # an empty list has no value
        )
        if first == below and first and (manifest.kind != "Job" or is_batch or svc):
            continue
        missing = "the plugin svc: []" if manifest.kind == "Job" and not is_batch else "serviceName"
        yield LintFinding(
            span=address.span,
            summary=f"the head is {address.text}"
            + (
                f", and the pods of the {manifest.kind} are named below {below}"
                if below and first != below
                else ", and nothing gives the pods names below a service"
            ),
            happens="The name is not resolved by the other pods: they wait for the head until the time-out.",
            fix=f"Write {host}.{below}." if below and first != below else f"Name the service: {missing}.",
        )


@rule(
    "K42",
    title="A variable is filled in from those that stand before it",
    source="Kubernetes' documentation, Define dependent environment variables: the order of the list matters",
    bad=(
        _job(address="train-0.$(SVC)").replace(
            "          command", "            - {name: SVC, value: head}\n          command"
        ),
        _job(address="$(JOB)-0.head").replace(
            "          command", "            - {name: JOB, value: train}\n          command"
        ),
    ),
    good=(
        _job(),
        _job(address="train-0.$(SVC)").replace(
            "            - {name: MASTER", "            - {name: SVC, value: head}\n            - {name: MASTER"
        ),
    ),
)
def variable_before_it_is_set(job: LintJob) -> Iterator[LintFinding]:
    """Kubernetes fills $(NAME) in while it goes through the list: what stands further below is not there yet, and the
    text $(NAME) stays."""
    for manifest in of_kubernetes(job):
        for container in containers(manifest):
            order = {
                value.value: int(path[1])
                for path, value in container.values.items()
                if path[0] == "env" and path[-1] == "name" and len(path) == 3 and path[1].isdecimal()
            }
            for path, value in container.values.items():
                if path[0] != "env" or path[-1] != "value" or len(path) != 3 or not path[1].isdecimal():
                    continue
                late = next(
                    (
                        name
                        for name in re.findall(r"(?<!\$)\$\((\w+)\)", value.value)
                        if order.get(name, -1) > int(path[1])
                    ),
                    None,
                )
                if late is not None:
                    yield LintFinding(
                        span=value.span,
                        summary=f"$({late}) is used before {late} is set, which stands further below",
                        happens=f"The text $({late}) stays as it is: no host, number or path has that name.",
                        fix=f"Put {late} before it in the list.",
                    )


@rule(
    "K43",
    title="Pods on the host's network ask the cluster for names",
    severity="warning",
    source="Kubernetes' documentation, Pod's DNS policy: with hostNetwork ClusterFirst falls back to Default",
    leads_to=("master-unreachable",),
    bad=(
        _job().replace("      subdomain", "      hostNetwork: true\n      subdomain"),
        _job().replace("      subdomain", "      hostNetwork: true\n      dnsPolicy: ClusterFirst\n      subdomain"),
    ),
    good=(
        _job(),
        _job().replace(
            "      subdomain", "      hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet\n      subdomain"
        ),
    ),
)
def names_on_the_hosts_network(job: LintJob) -> Iterator[LintFinding]:
    """A pod with hostNetwork: true asks the node's own name server unless dnsPolicy is ClusterFirstWithHostNet, and
    that one does not know the cluster's services."""
    for manifest, address in _heads(job):
        if not re.fullmatch(r"(?=.*[a-z])[a-z0-9.-]+", address.text or "") or look.is_loopback(address.text or ""):
            continue
        for host in manifest.values:
            if host.path[-1:] != ("hostNetwork",) or value_of_word(host.value) is not True:
                continue
            policy = next((value for value in manifest.values if value.path == (*host.path[:-1], "dnsPolicy")), None)
            if policy is None or policy.value == "ClusterFirst":
                yield LintFinding(
                    span=(policy or host).span,
                    summary=f"hostNetwork is true, and dnsPolicy is not ClusterFirstWithHostNet; the head is"
                    f" {address.text}",
                    happens="The pods ask the node's name server, which does not know names of the cluster: the head is"
                    " not found.",
                    fix="Write dnsPolicy: ClusterFirstWithHostNet beside hostNetwork.",
                )
                break


_SCRIPT = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  restartPolicy: Never
  containers:
    - name: main
      image: registry/image:tag
      command: [COMMAND]
      volumeMounts: [{name: scripts, mountPath: /scripts}]
  volumes: [{name: scripts, configMap: {name: scriptsMODE}}]
"""


@rule(
    "K44",
    title="A script of a ConfigMap may be executed",
    source="Kubernetes' documentation, Volumes: defaultMode of a ConfigMap's and a Secret's files is 0644",
    bad=(
        _SCRIPT.replace("COMMAND", "/scripts/run.sh").replace("MODE", ""),
        _SCRIPT.replace("COMMAND", "/scripts/run.sh, --epochs, '3'").replace("MODE", ", optional: false"),
    ),
    good=(
        _SCRIPT.replace("COMMAND", "/scripts/run.sh").replace("MODE", ", defaultMode: 0755"),
        _SCRIPT.replace("COMMAND", "bash, /scripts/run.sh").replace("MODE", ""),
    ),
)
def script_that_may_not_run(job: LintJob) -> Iterator[LintFinding]:
    """Files of a ConfigMap are for reading: a container that starts one by its path ends with permission denied."""
    for manifest in of_kubernetes(job):
        values = {value.path: value for value in manifest.values}
        for container in containers(manifest):
            pod = container.path[:-2]
            first = next(iter(sorted(path for path in container.values if path[0] == "command")), None)
            word = container.values[first].value.split()[:1] if first is not None else []
            for index in children(manifest, *container.path, "volumeMounts"):
                where, name = (
                    values.get((*container.path, "volumeMounts", index, key)) for key in ("mountPath", "name")
                )
                if where is None or name is None or first is None or not word:
                    continue
                if not word[0].startswith(where.value.rstrip("/") + "/"):
                    continue
                volume = next(
                    (
                        at
                        for at in children(manifest, *pod, "volumes")
                        if (own := values.get((*pod, "volumes", at, "name"))) is not None and own.value == name.value
                    ),
                    None,
                )
                place = (*pod, "volumes", volume or "")
                source = {path[len(place) :] for path in values if path[: len(place)] == place}
                is_map = any(path[0] in ("configMap", "secret") for path in source)
                if is_map and not any(path[-1] in ("defaultMode", "mode") for path in source):
                    yield LintFinding(
                        span=container.values[first].span,
                        summary=f"{word[0]} is a file of a ConfigMap, which may be read and not executed",
                        happens="The container does not start: permission denied.",
                        fix=f"Write defaultMode: 0755 at the volume, or start it by bash {word[0]}.",
                    )
