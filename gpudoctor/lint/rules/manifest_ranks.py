"""Rules of who a pod is and how many there are, by the variables that its controller sets: K19 to K22, K74."""

import re
from collections.abc import Iterator

from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest
from gpudoctor.lint.pods import container_of, containers, is_template, manifest_of
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import by_path, number, of_kubernetes

_INDEX = "JOB_COMPLETION_INDEX"
_TORCHRUN = (
    '              command: ["torchrun", "--nnodes=NODES", "--nproc-per-node=8", "--node-rank=RANK",'
    ' "--master-addr=ADDRESS", "--master-port=61234", "train.py"]\n'
)
_LIST = _TORCHRUN.replace("RANK", "$(RANK)").replace("ADDRESS", "$(MASTER_ADDR)").partition("command: ")[2]
_PYTORCHJOB = (
    'apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  nprocPerNode: "8"\n'
    "  pytorchReplicaSpecs:\n"
    + "".join(
        f"    {name}:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
        "            - name: pytorch\n              image: registry/image:tag\n"
        + _TORCHRUN.replace("RANK", "$(RANK)").replace("ADDRESS", "$(MASTER_ADDR)")
        for name in ("Master", "Worker")
    )
)
_JOBSET = (
    "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: train}\nspec:\n  replicatedJobs:\n"
    "    - name: node\n      replicas: 4\n      template:\n        spec:\n          parallelism: PODS\n"
    "          completions: PODS\n          template:\n            spec:\n              containers:\n"
    "                - name: main\n                  image: registry/image:tag\n    "
    + _TORCHRUN.replace("ADDRESS", "train-node-0-0.train")
)
_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec:\n  completionMode: Indexed\n  parallelism: 2\n"
    "  completions: 2\n  template:\n    spec:\n      restartPolicy: Never\n      subdomain: head\n      containers:\n"
    "            - name: main\n              image: registry/image:tag\n"
    + _TORCHRUN.replace("RANK", f"$({_INDEX})").replace("NODES", "2")
)
_OTHER_JOB = _JOB.replace("ADDRESS", "train-0.head")
_SUSPENDED = _OTHER_JOB.replace("  completionMode", "  suspend: true\n  completionMode")


@rule(
    "K19",
    title="torchrun's nodes are pods, and not the operator's WORLD_SIZE",
    source="training-operator 1.7 to 1.9, pkg/controller.v1/pytorch/envvar.go: WORLD_SIZE is pods times nprocPerNode",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _PYTORCHJOB.replace("NODES", "$(WORLD_SIZE)"),
        _PYTORCHJOB.replace(_LIST, '["sh", "-c", "torchrun --nnodes=$WORLD_SIZE --nproc-per-node=8 train.py"]\n'),
    ),
    good=(
        _PYTORCHJOB.replace("NODES", "$(PET_NNODES)"),
        _PYTORCHJOB.replace("NODES", "$(WORLD_SIZE)").replace('  nprocPerNode: "8"\n', ""),
    ),
)  # fmt: skip
def nodes_from_world_size(job: LintJob) -> Iterator[LintFinding]:
    """The operator's WORLD_SIZE is the number of pods only as long as nprocPerNode is not a number: with nprocPerNode 8
    it is eight times as many, and torchrun waits for nodes that do not exist."""
    for launch in job.launches:
        manifest = manifest_of(job, launch)
        if manifest is None or manifest.kind != "PyTorchJob" or launch.launcher not in look.TORCHRUN:
            continue
        each = number(by_path(manifest).get("spec.nprocPerNode"))
        nodes = launch.option("nnodes")
        if each is None or each < 2 or nodes is None or nodes.value is None:
            continue
        if [expansion.name for expansion in nodes.value.expansions] == ["WORLD_SIZE"]:
            yield LintFinding(
                span=nodes.value.span,
                summary=f"--nnodes is WORLD_SIZE, which with nprocPerNode {each} counts processes: {each} for each pod",
                happens=f"torchrun waits for {each} times as many nodes as there are pods, until the time-out.",
                fix="Leave --nnodes, --node-rank, --master-addr and --master-port out: the operator sets PET_NNODES and"
                " the others, which torchrun reads. Or write --nnodes=$(PET_NNODES).",
            )


@rule(
    "K20",
    title="JOB_COMPLETION_INDEX counts the pods of one indexed Job",
    source="Kubernetes' documentation, Indexed Job; jobset, api/v1alpha2: job-index counts the jobs",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _JOBSET.replace("RANK", f"$({_INDEX})").replace("NODES", "4").replace("PODS", "1"),
        _OTHER_JOB.replace("  completionMode: Indexed\n", ""),
    ),
    good=(
        _JOBSET.replace("RANK", f"$({_INDEX})").replace("NODES", "4").replace("PODS", "4").replace(
            "replicas: 4", "replicas: 1"
        ),
        _JOBSET.replace("RANK", "$(JOB_INDEX)").replace("NODES", "4").replace("PODS", "1"),
        _OTHER_JOB,
    ),
)  # fmt: skip
def index_of_another_count(job: LintJob) -> Iterator[LintFinding]:
    """JOB_COMPLETION_INDEX is the number of a pod within its Job. In a JobSet of several jobs with one pod each it is 0
    everywhere; in a Job that is not indexed it is not set at all."""
    for launch in job.launches:
        manifest = manifest_of(job, launch)
        rank = look.value(launch, "node-rank")
        if manifest is None or rank is None or not _is_index(manifest, launch, rank.word.expansions):
            continue
        values = by_path(manifest)
        if manifest.kind == "JobSet":
            path = launch.invocation.manifest_path
            at = ".".join(path[:3])
            replicas = number(values.get(f"{at}.replicas")) or 1
            pods = [number(values.get(f"{at}.template.spec.{name}")) for name in ("parallelism", "completions")]
            if replicas > 1 and all(pod in (None, 1) for pod in pods):
                yield LintFinding(
                    span=rank.span,
                    summary=f"{rank.written} is {_INDEX}, which is 0 in each of the {replicas} jobs of one pod",
                    happens="Every pod is node 0: they take each other's place, or each waits for the others.",
                    fix="Write replicas: 1 with parallelism and completions"
                    f" {replicas}; or take the node rank from the label jobset.sigs.k8s.io/job-index by a fieldRef.",
                )
        elif manifest.kind == "Job" and manifest.api_version.startswith("batch/"):
            mode = values.get("spec.completionMode")
            if mode is None or mode.value != "Indexed":
                yield LintFinding(
                    span=rank.span,
                    summary=f"{rank.written} is {_INDEX}, and the Job is not indexed",
                    happens=f"{_INDEX} is not set: torchrun gets no node rank.",
                    fix="Add completionMode: Indexed, and completions as many as parallelism, to the Job's spec.",
                )


def _is_index(manifest: Manifest, launch: LintLaunch, expansions: tuple[object, ...]) -> bool:
    names = [getattr(expansion, "name", "") for expansion in expansions]
    if len(names) != 1:
        return False
    own = launch.invocation.settings.get(names[0])
    if own is None or own.how != "manifest":
        return names[0] == _INDEX and own is None
    # `valueFrom: fieldRef: fieldPath: metadata.annotations[...]`, under whatever name
    for value in manifest.values:
        if value.path[-1:] == ("name",) and value.value == names[0] and value.path[-3:-2] == ("env",):
            manifest_value = by_path(manifest).get(".".join((*value.path[:-1], "valueFrom", "fieldRef", "fieldPath")))
            return manifest_value is not None and "job-completion-index" in manifest_value.value
    return False


@rule(
    "K21",
    title="The head's name is one that Kubernetes gives to a pod",
    source="Kubernetes' documentation, DNS for pods; jobset, pkg/util/placement: NAME-JOB-INDEX-POD.SUBDOMAIN",
    leads_to=("master-unreachable",),
    bad=(
        _OTHER_JOB.replace("      subdomain: head\n", ""),
        _OTHER_JOB.replace("subdomain: head", "subdomain: tail"),
        _JOBSET.replace("RANK", "$(RANK_OF_POD)").replace("NODES", "4").replace("PODS", "1").replace(
            "train-node-0-0.train", "train-worker-0-0.train"
        ),
    ),
    good=(
        _OTHER_JOB,
        _OTHER_JOB.replace("train-0.head", "train-0.head.lab.svc.cluster.local"),
        _OTHER_JOB.replace("train-0.head", "train-head.lab"),
        _JOBSET.replace("RANK", "$(RANK_OF_POD)").replace("NODES", "4").replace("PODS", "1"),
    ),
)  # fmt: skip
def name_of_no_pod(job: LintJob) -> Iterator[LintFinding]:
    """A pod has a name in the cluster's DNS when its spec has a subdomain that is the name of a headless Service: the
    pods of an indexed Job are JOB-0.SUBDOMAIN, those of a JobSet SET-REPLICATEDJOB-0-0.SUBDOMAIN (SET's own name where
    none is given)."""
    for launch in job.launches:
        manifest, address = manifest_of(job, launch), look.master(launch)
        if manifest is None or address is None or address.text is None:
            continue
        values = by_path(manifest)
        name = values.get("metadata.name")
        host, _, domain = address.text.partition(".")
        match = re.fullmatch(rf"{re.escape(name.value)}-(?P<rest>.+)", host) if name is not None else None
        first = domain.split(".")[0]
        bare = re.fullmatch(r"(?P<job>.+)-\d+-\d+", host, re.ASCII)
        if name is not None and match is None and bare is not None and manifest.kind == "JobSet":
            names = {value.value for value in manifest.values if value.path[1:2] == ("replicatedJobs",)}
            network = values.get("spec.network.subdomain")
            if bare["job"] in names:
                yield LintFinding(
                    span=address.span,
                    summary=f"the head is {address.text}, which lacks the JobSet's own name",
                    happens="The name does not resolve: the other pods wait for the head until the time-out.",
                    fix=f"Write {name.value}-{host}.{network.value if network is not None else name.value}.",
                )
        if name is None or match is None:
            continue
        if manifest.kind == "Job" and manifest.api_version.startswith("batch/") and match["rest"].isdecimal():
            own = values.get("spec.template.spec.subdomain")
            if own is None or (first and own.value != first):
                have = "no subdomain" if own is None else f"the subdomain {own.value}"
                yield LintFinding(
                    span=address.span,
                    summary=f"the head is {address.text}, and the pods of the Job have {have}",
                    happens="The name does not resolve: the other pods wait for the head until the time-out.",
                    fix=f"Write subdomain: {first or 'NAME'} in the pod's spec, and make a Service of that name with"
                    " clusterIP: None that selects the pods.",
                )
        elif manifest.kind == "JobSet":
            jobs = [
                value.value
                for value in manifest.values
                if len(value.path) == 4 and value.path[1] == "replicatedJobs" and value.path[3] == "name"
            ]
            parts = re.fullmatch(r"(?P<job>.+)-(?P<index>\d+)-(?P<pod>\d+)", match["rest"])
            if parts is None or not jobs:
                continue
            network = values.get("spec.network.subdomain")
            wanted = network.value if network is not None else name.value
            if parts["job"] not in jobs or (first and first != wanted):
                yield LintFinding(
                    span=address.span,
                    summary=f"the head is {address.text}; the pods of this JobSet are"
                    f" {name.value}-{jobs[0]}-INDEX-POD.{wanted}",
                    happens="The name does not resolve: the pods wait for the head until the time-out.",
                    fix=f"Write {name.value}-{jobs[0]}-0-0.{wanted}.",
                )


@rule(
    "K22",
    title="A suspended job has a queue that starts it",
    severity="warning",
    source="Kueue's documentation: jobs with the label kueue.x-k8s.io/queue-name are started by their queue",
    bad=(_SUSPENDED, _SUSPENDED.replace("{name: train}", "{name: train, labels: {app: train}}")),
    good=(_SUSPENDED.replace("{name: train}", "{name: train, labels: {kueue.x-k8s.io/queue-name: lab}}"), _OTHER_JOB),
)
def suspended_for_ever(job: LintJob) -> Iterator[LintFinding]:
    """`suspend: true` is for a queue to take away. Where no label names one, Kueue leaves the job alone unless it was
    told to manage jobs without a queue's name."""
    for manifest in of_kubernetes(job):
        values = by_path(manifest)
        held = values.get("spec.suspend") or values.get("spec.runPolicy.suspend")
        if held is None or held.value != "true" or manifest.kind == "CronJob" or not containers(manifest):
            continue
        if not any("queue" in key for value in manifest.values for key in value.path):
            yield LintFinding(
                span=held.span,
                summary=f"the {manifest.kind} is suspended, and no label names a queue that would start it",
                happens="It stays suspended: no pod starts, and no event says why.",
                fix="Add the label kueue.x-k8s.io/queue-name: QUEUE to its metadata, or take suspend out.",
            )


_OF_RANKS = ("NODE_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NUM_NODES", "MACHINE_RANK")
_BY_SHELL = '["sh", "-c", "torchrun --nnodes=2 --nproc-per-node=8 --node-rank={} train.py"]\n'
_SET_BY = {
    "PyTorchJob": frozenset(["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"]),
    **dict.fromkeys(("Job", "JobSet", "StatefulSet", "Deployment", "Pod", "LeaderWorkerSet"), frozenset()),
}
_ASKED = ("nnodes", "node-rank", "machine-rank", "num-machines", "master-addr", "main-process-ip", "master-port")


@rule(
    "K74",
    title="A pod's variables of ranks are set by somebody",
    severity="warning",
    source="Kubernetes sets JOB_COMPLETION_INDEX, LeaderWorkerSet LWS_*; training-operator 1.9, pytorch/envvar.go:"
    " MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and PET_*",
    bad=(
        _OTHER_JOB.replace(_LIST.replace("RANK", "x"), "").replace(f"$({_INDEX})", "$(NODE_RANK)"),
        _PYTORCHJOB.replace(_LIST, _BY_SHELL.format("$NODE_RANK")),
    ),
    good=(
        _OTHER_JOB,
        _PYTORCHJOB.replace(_LIST, _BY_SHELL.format("$RANK")),
        _PYTORCHJOB.replace(_LIST, _BY_SHELL.format("${NODE_RANK:-$RANK}")),
    ),
)  # fmt: skip
def variable_that_no_controller_sets(job: LintJob) -> Iterator[LintFinding]:
    """No controller sets NODE_RANK, and a plain Job none of torch's names: what the pod's env: does not set is empty
    there, and $(NAME) stays as it stands."""
    for launch in job.launches[: look.SIBLINGS]:
        manifest, container = manifest_of(job, launch), container_of(job, launch)
        known = _SET_BY.get(manifest.kind) if manifest is not None else None
        if manifest is None or container is None or known is None or "volcano" in manifest.api_version:
            continue
        own = {value.value for key, value in container.values.items() if key[:1] == ("env",) and key[-1] == "name"}
        if (
            any(key[:1] == ("envFrom",) for key in container.values)
            or is_template(job, launch)
            or job.has_unread_source
        ):
            continue
        for name in _ASKED:
            option = launch.option(name)
            word = option.value if option is not None else None
            unset = next(
                (each for each in word.expansions if each.name in _OF_RANKS) if word is not None else iter(()), None
            )
            plain = re.fullmatch(r".*\$\((\w+)\).*", word.shown) if word is not None and unset is None else None
            read = unset.name if unset is not None else plain[1] if plain is not None else ""
            if read not in _OF_RANKS or read in known | own or read in launch.invocation.settings or word is None:
                continue
            if unset is not None and (unset.default is not None or unset.value is not None or ":" in unset.raw):
                continue
            yield LintFinding(
                span=word.span,
                summary=f"{option.written if option else name} is {read}, set by neither env: nor a {manifest.kind}",
                happens="It is empty in the pod, unless the image brings it: the launcher ends, or all take one rank.",
                fix="Set it under env:"
                + (
                    ", or write $RANK."
                    if "RANK" in known and "RANK" in read
                    else ", from metadata.annotations['batch.kubernetes.io/job-completion-index'] for a rank."
                ),
            )
            break
