"""Rules of GPUs, memory, ranks and nodes of containers that files describe: K30 to K36."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import dockerfile, look, processes
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest, ManifestValue, Span
from gpudoctor.lint.pods import container_of, is_in, is_template, manifest_of, pods_of
from gpudoctor.lint.rule import LintFinding, rule

_COMPOSE = (
    "services:\n  train:\n    image: train:1\n    {}\n    command: torchrun --standalone --nproc_per_node=4 train.py\n"
)
_RESERVED = "ipc: host\n    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, {}}}]}}}}}}"
_TORCH = (*look.TORCHRUN, "accelerate", "deepspeed", "horovodrun", "mpirun", "vllm", "sglang")


def _services(job: LintJob) -> Iterator[tuple[LintLaunch, str, dict[tuple[str, ...], ManifestValue]]]:
    """Starts of several ranks in services of a compose file: the service's name, and what it says by its keys."""
    told: set[tuple[int, str]] = set()
    for manifest in job.manifests:
        if manifest.kind != "Compose":
            continue
        for launch in job.launches:
            if launch.launcher not in _TORCH or not is_in(launch, manifest) or processes.on_cpu(launch):
                continue
            start = launch.invocation.span.start
            inner = next((v for v in manifest.values if v.span.start <= start <= v.span.end and len(v.path) > 2), None)
            if inner is None or inner.path[0] != "services" or (id(manifest), inner.path[1]) in told:
                continue
            told.add((id(manifest), inner.path[1]))
            yield launch, inner.path[1], {v.path[2:]: v for v in manifest.values if v.path[:2] == inner.path[:2]}


@rule(
    "K30",
    title="A compose service that trains is given GPUs",
    severity="warning",
    source="Compose specification, deploy: devices; Docker's documentation, Enable GPU access with Docker Compose",
    leads_to=("no-gpu-visible",),
    bad=(_COMPOSE.format("ipc: host"), _COMPOSE.format("shm_size: 16gb")),
    good=(
        _COMPOSE.format(_RESERVED.format("count: 4, capabilities: [gpu]")),
        _COMPOSE.format("ipc: host\n    gpus: all"),
        _COMPOSE.format("ipc: host\n    runtime: nvidia"),
        _COMPOSE.format("ipc: host").replace("train.py", "train.py --backend gloo"),
    ),
)
def service_without_gpus(job: LintJob) -> Iterator[LintFinding]:
    """A service sees the GPUs that it reserves, or all by gpus: or the nvidia runtime; without them none."""
    if re.search(r"\bgloo\b|use_cpu|--cpu\b|no_cuda", job.text):
        return
    for launch, name, values in _services(job):
        keys = {key[0] for key in values}
        given = any("devices" in key for key in values) or keys & {"gpus", "runtime", "extends", "privileged"}
        if not given and (processes.per_node(job, launch) or 2) > 0:
            first = min(values.values(), key=lambda value: value.span.start)
            yield LintFinding(
                span=first.span,
                summary=f"service {name} reserves no GPU: neither deploy's devices, nor gpus, nor runtime",
                happens="torch.cuda.is_available() is False in the container, unless the nvidia runtime is docker's"
                " default.",
                fix="Add gpus: all, or below deploy.resources.reservations.devices: driver nvidia, count, and"
                " capabilities [gpu].",
            )


@rule(
    "K31",
    title="Devices of a compose service are reserved with their capabilities, by number or by name",
    source="Compose specification, deploy: capabilities must be set; count and device_ids are mutually exclusive",
    bad=(
        _COMPOSE.format(_RESERVED.format("count: 4")),
        _COMPOSE.format(_RESERVED.format("count: 4, device_ids: ['0'], capabilities: [gpu]")),
    ),
    good=(
        _COMPOSE.format(_RESERVED.format("count: 4, capabilities: [gpu]")),
        _COMPOSE.format("ipc: host\n    gpus: all"),
    ),
)
def reservation_refused(job: LintJob) -> Iterator[LintFinding]:
    """compose refuses a reservation without capabilities, and one that counts GPUs and names them."""
    for manifest in job.manifests:
        by_path = {value.path: value for value in manifest.values} if manifest.kind == "Compose" else {}
        places = {path[: path.index("devices") + 2]: value for path, value in by_path.items()
                  if "devices" in path[:-2] and "reservations" in path}  # fmt: skip
        for path, value in places.items():
            keys = {other[len(path)] for other in by_path if other[: len(path)] == path and len(other) > len(path)}
            if "capabilities" not in keys:
                what = "names no capabilities"
            elif {"count", "device_ids"} <= keys:
                what = "has count and device_ids, which exclude each other"
            else:
                continue
            yield LintFinding(
                span=value.span,
                summary=f"the reserved device of service {path[1]} {what}",
                happens="compose refuses the file, or the container gets no GPU.",
                fix="Write driver: nvidia, count or device_ids, and capabilities: [gpu].",
            )


@rule(
    "K32",
    title="A compose service of several ranks has enough of /dev/shm",
    severity="warning",
    source="docker run: --shm-size is 64 MiB unless it is given; Compose specification: shm_size, ipc",
    leads_to=("shm-too-small",),
    bad=(_COMPOSE.format("gpus: all"), _COMPOSE.format("runtime: nvidia")),
    good=(_COMPOSE.format("gpus: all\n    ipc: host"), _COMPOSE.format("gpus: all\n    shm_size: 32gb")),
)
def service_without_shm(job: LintJob) -> Iterator[LintFinding]:
    """Loader workers and NCCL hand data over through shared memory; a container has 64 MiB of it."""
    for launch, name, values in _services(job):
        keys = {key[0] for key in values}
        mounted = any("/dev/shm" in value.value for value in values.values())
        if keys & {"shm_size", "ipc", "extends"} or mounted or (processes.per_node(job, launch) or 2) < 2:
            continue
        first = min(values.values(), key=lambda value: value.span.start)
        yield LintFinding(
            span=first.span,
            summary=f"service {name} has neither shm_size nor ipc: its container has 64 MiB of shared memory",
            happens="With loader workers: 'Bus error', or a worker is killed; NCCL: no space left on device.",
            fix="Add shm_size: 32gb, or ipc: host.",
        )


_DOCKERFILE = "FROM train:1\nENV NPROC=8\nENTRYPOINT {}\n"
_WORDS = lazy_re(r"^[ \t]*(?:ENTRYPOINT|CMD)[ \t]*\[[^\]\n]*", re.IGNORECASE | re.MULTILINE)
_NAME = lazy_re(r"\$\{?([A-Za-z_]\w*)\}?")


@rule(
    "K33",
    title="Words of a list in a Dockerfile hold no variables",
    source="Dockerfile reference: the exec form does not invoke a command shell, so no variable substitution",
    bad=(
        _DOCKERFILE.format('["torchrun", "--standalone", "--nproc_per_node=$NPROC", "train.py"]'),
        _DOCKERFILE.format('["torchrun", "--standalone", "train.py", "--out", "${OUT}"]'),
    ),
    good=(
        _DOCKERFILE.format('["sh", "-c", "exec torchrun --standalone --nproc_per_node=$NPROC train.py"]'),
        _DOCKERFILE.format("torchrun --standalone --nproc_per_node=$NPROC train.py"),
    ),
)
def variable_in_a_list(job: LintJob) -> Iterator[LintFinding]:
    """No shell reads the words of a list: $NAME reaches the program as these letters."""
    for section in job.sections:
        if not dockerfile.looks_like_dockerfile(section.text):
            continue
        for match in _WORDS.finditer(section.text):
            name = _NAME.search(match[0])
            if name is None or re.search(r"\"(?:/\S*/)?(?:ba|da|z)?sh\"", match[0]):
                continue
            at = match.start() + name.start()
            yield LintFinding(
                span=section.span(at, at + len(name[0])),
                summary=f"{name[0]} stands in a list, which no shell reads: nothing expands it",
                happens=f"The program gets the letters {name[0]}.",
                fix='Write ["sh", "-c", "exec ..."], or the line without brackets.',
            )


_TASK = (
    "name: t\nnum_nodes: 2\nresources:\n  accelerators: A100:8\nrun: |\n  torchrun --nnodes={} --nproc_per_node=8"
    " --node_rank={} --master_addr=$HEAD --master_port=8008 train.py\n"
)


def _nodes_of(manifest: Manifest) -> tuple[int, Span] | None:
    kind = registry.manifest_kinds().get(manifest.kind)
    for value in manifest.values:
        if kind is not None and ".".join(value.path) == kind.nodes and re.fullmatch(r"[0-9]{1,4}", value.value):
            return int(value.value), value.span
    pools = [v for v in manifest.values if v.path[-1:] == ("replicaCount",) and "workerPoolSpecs" in v.path]
    if manifest.kind == "Vertex" and pools and all(re.fullmatch(r"[0-9]{1,4}", pool.value) for pool in pools):
        return sum(int(pool.value) for pool in pools), pools[-1].span
    return None


@rule(
    "K34",
    title="torchrun on the nodes of a task waits for as many as there are, each with a rank of its own",
    source="torch/distributed/run.py; SkyPilot's, dstack's, Azure ML's and Vertex AI's documentation: the command runs"
    " on each node",
    leads_to=("rendezvous-incomplete", "launcher-world-mismatch"),
    bad=(
        _TASK.format(4, "$SKYPILOT_NODE_RANK"),
        _TASK.format(2, 0),
        _TASK.format(1, "$SKYPILOT_NODE_RANK"),
        _TASK.format(2, 0).replace("--node_rank=0", ""),
    ),
    good=(_TASK.format(2, "$SKYPILOT_NODE_RANK"), _TASK.format("$SKYPILOT_NUM_NODES", "$SKYPILOT_NODE_RANK")),
)
def task_of_other_nodes(job: LintJob) -> Iterator[LintFinding]:
    """torchrun waits for --nnodes nodes. The one command of a task runs on all of its nodes: a node rank that is a
    number is the same on each."""
    for manifest in job.manifests:
        nodes = _nodes_of(manifest)
        inner = [launch for launch in job.launches if launch.launcher in look.TORCHRUN and is_in(launch, manifest)]
        if nodes is None or not inner:
            continue
        for launch in inner:
            told = look.nnodes(launch)
            option = launch.option("nnodes")
            fixed = told is not None and told[0] == told[1] > 1 and not launch.invocation.conditional
            if fixed and told is not None and option is not None and option.value is not None and told[1] != nodes[0]:
                yield LintFinding(
                    span=option.value.span,
                    summary=f"--nnodes is {told[1]}, and the task has {counted(nodes[0], 'node')}"
                    f" (line {nodes[1].line})",
                    happens="torchrun waits for nodes that do not come."
                    if told[1] > nodes[0]
                    else "The nodes beyond are not let in, or make a training of their own.",
                    fix=f"Write --nnodes={nodes[0]}, or the variable that the service sets.",
                )
            rank = look.value(launch, "node-rank")
            yield from _without_numbers(launch, nodes[0], len(inner), manifest.kind)
            alone = manifest.kind != "Vertex" and not launch.invocation.conditional and look.is_static(launch)
            if rank is not None and look.number(rank) is not None and nodes[0] > 1 and alone and len(inner) == 1:
                yield LintFinding(
                    span=rank.span,
                    summary=f"{rank.written} is {rank.text} on each of the {nodes[0]} nodes of the task",
                    happens="All nodes take the same ranks: EADDRINUSE, or they wait for the missing ones.",
                    fix="Write the variable by which the service numbers the nodes (SKYPILOT_NODE_RANK,"
                    " DSTACK_NODE_RANK, NODE_RANK).",
                )


def _without_numbers(launch: LintLaunch, nodes: int, starts: int, kind: str) -> Iterator[LintFinding]:
    """A command that runs on each node, and tells torchrun neither how many nodes there are nor which this one is."""
    told, where = look.nnodes(launch), launch.option("nnodes")
    is_whole = starts == 1 and not launch.invocation.conditional and not launch.unread and nodes > 1
    if not is_whole or kind == "Vertex" or any(name.startswith("PET_") for name in launch.invocation.settings):
        return
    single = look.standalone(launch) or (where is None and told is None) or told == (1, 1)
    if single:
        place = where or launch.option("standalone")
        yield LintFinding(
            span=place.span if place is not None else launch.invocation.span,
            severity="warning",
            summary=f"each of the task's {counted(nodes, 'node')} starts a torchrun of one node",
            happens=f"{counted(nodes, 'training')} beside each other, each with a world of its own.",
            fix="Tell torchrun --nnodes, --node-rank and the head's address by the service's variables.",
        )
    elif told is not None and told[0] > 1 and launch.option("node-rank") is None and look.is_static(launch):
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"torchrun on each of the task's {counted(nodes, 'node')} is told no --node-rank",
            happens="It is 0 on each: all nodes take the same ranks, EADDRINUSE, or they wait for the missing ones.",
            fix="Write --node-rank with the variable by which the service numbers the nodes.",
        )


_LWS = (
    "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {{name: a}}\nspec:\n  replicas: 1\n"
    "  leaderWorkerTemplate:\n    size: 4\n    workerTemplate:\n      spec:\n        volumes: [{{name: s, emptyDir:"
    " {{medium: Memory}}}}]\n        containers:\n        - name: w\n          image: x:1\n          command:"
    " [torchrun, --nnodes=4, --nproc_per_node=8, --node_rank={}, --master_addr=$(LWS_LEADER_ADDRESS),"
    " --master_port=29500, train.py]\n          resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
    "          volumeMounts: [{{name: s, mountPath: /dev/shm}}]\n"
)
_TWO = (
    "services:\n  a:\n    image: t:1\n    gpus: all\n    ipc: host\n    command: torchrun --nnodes=2 --nproc_per_node=1"
    " --node_rank=0 --master_addr=a --master_port=29500 train.py\n  b:\n    image: t:1\n    gpus: all\n    ipc: host\n"
    "    command: torchrun --nnodes={} --nproc_per_node=1 --node_rank={} --master_addr=a --master_port=29500 train.py\n"
)


@rule(
    "K35",
    title="Containers of one training have a node rank each, and are as many as --nnodes",
    source="torch/distributed/run.py: node ranks go from 0 to nnodes - 1, each once",
    leads_to=("launcher-world-mismatch",),
    bad=(_LWS.format(1), _TWO.format(2, 0), _TWO.format(3, 1).replace("nnodes=2", "nnodes=3")),
    good=(_LWS.format("$(LWS_WORKER_INDEX)"), _TWO.format(2, 1)),
)
def node_rank_of_containers(job: LintJob) -> Iterator[LintFinding]:
    """Several pods of one template, or services beside each other, that have the same node rank both take its ranks."""
    single: dict[tuple[str, ...], tuple[LintLaunch, look.Value, int]] = {}
    for manifest in job.manifests:
        roles: dict[tuple[str, ...], tuple[LintLaunch, look.Value, int]] = {}
        for launch in job.launches:
            counts = launch.launcher in look.TORCHRUN or look.traits(launch).serves
            rank = look.value(launch, "node-rank") if counts else None
            number = look.number(rank)
            if rank is None or number is None or not is_in(launch, manifest) or not look.is_static(launch):
                continue
            if launch.invocation.conditional or launch.invocation.node_guard is not None:
                continue
            role = _role(manifest, launch)
            pods = _pods_of_role(manifest, role) or (pods_of(manifest, launch) if manifest.kind in _NUMBERED else None)
            if pods is not None and pods > 1 and not is_template(job, launch):
                yield _same_rank(rank, f"in each of {counted(pods, 'pod')} of one template")
            roles.setdefault(role, (launch, rank, number))
            if manifest.kind in _SINGLE:
                name = next((value.value for value in manifest.values if value.path == ("metadata", "name")), "?")
                single.setdefault((name,), (launch, rank, number))
        yield from _between(manifest, roles)
    if len(single) > 1:
        yield from _between(job.manifests[0], single)


_NUMBERED = ("Job", "StatefulSet", "JobSet")
"""Kinds whose pods run one command and have an index each."""
_SINGLE = ("Pod", "Job", "StatefulSet", "Deployment", "ReplicationController")
"""Kinds of which several documents make one training, a node each."""


def _between(
    manifest: Manifest, roles: dict[tuple[str, ...], tuple[LintLaunch, look.Value, int]]
) -> Iterator[LintFinding]:
    told = [look.nnodes(launch) for launch, _, _ in roles.values()]
    nodes = {each[1] for each in told if each is not None and each[0] == each[1]}
    heads = {head.shown for launch, _, _ in roles.values() if (head := look.master(launch)) is not None}
    by_operator = manifest.kind == "PyTorchJob" and not heads  # it tells all pods the same one
    if len(roles) < 2 or len(nodes) != 1 or (len(heads) != 1 and not by_operator) or len(told) != len(roles):
        return
    seen: dict[int, str] = {}
    for role, (_launch, rank, number) in roles.items():
        if number in seen:
            yield _same_rank(rank, f"in {role[-1]} as in {seen[number]}")
        seen.setdefault(number, role[-1])
    wanted = nodes.pop()
    if manifest.kind == "Compose" and len(seen) == len(roles) != wanted:
        launch, rank, _ = next(reversed(roles.values()))
        option = launch.option("nnodes")
        yield LintFinding(
            span=option.span if option is not None else rank.span,
            summary=f"--nnodes is {wanted}, and {counted(len(roles), 'service')} of the file start torchrun",
            happens="torchrun waits for nodes that do not come."
            if wanted > len(roles)
            else "A node rank beyond --nnodes is refused.",
            fix=f"Write --nnodes={len(roles)} in all of them.",
        )


def _same_rank(rank: look.Value, where: str) -> LintFinding:
    return LintFinding(
        span=rank.span,
        summary=f"{rank.written} is {rank.text} {where}; each node needs a node rank of its own",
        happens="Both start the same global ranks: EADDRINUSE, or all wait for the missing ones.",
        fix="Take the pod's own number (LWS_WORKER_INDEX, JOB_COMPLETION_INDEX), or write 0, 1, 2 ... by hand.",
    )


def _role(manifest: Manifest, launch: LintLaunch) -> tuple[str, ...]:
    """What the container is a copy of: the service, the template, the replica type."""
    start = launch.invocation.span.start
    inner = next((v for v in manifest.values if v.span.start <= start <= v.span.end), None)
    path = launch.invocation.manifest_path or (inner.path if inner is not None else ())
    if manifest.kind == "Compose":
        return path[:2]
    cut = next((index for index, key in enumerate(path) if key in ("template", "spec") and index > 1), len(path))
    return path[:cut]


def _pods_of_role(manifest: Manifest, role: tuple[str, ...]) -> int | None:
    values = {value.path: value.value for value in manifest.values}
    if manifest.kind == "LeaderWorkerSet" and role[-1:] == ("workerTemplate",):
        size = values.get((*role[:-1], "size"), "")
        has_leader = any(path[: len(role)] == (*role[:-1], "leaderTemplate") for path in values)
        return int(size) - (1 if has_leader else 0) if re.fullmatch(r"[0-9]{1,4}", size) else None
    text = values.get((*role, "replicas"), values.get((*role, "completions"), ""))
    return int(text) if manifest.kind == "PyTorchJob" and re.fullmatch(r"[0-9]{1,4}", text) else None


_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n      volumes: [{{name: s, emptyDir: {{medium: Memory}}}}]\n      containers:\n"
    "      - name: a\n        image: t:1\n        volumeMounts: [{{name: s, mountPath: /dev/shm}}]\n        {}\n"
    "        command: [torchrun, --standalone, --nproc_per_node=8, train.py]\n"
)


@rule(
    "K36",
    title="A container that starts ranks asks for GPUs",
    severity="info",
    source="Kubernetes' documentation, Schedule GPUs: a container without nvidia.com/gpu in its limits gets none",
    leads_to=("no-gpu-visible",),
    bad=(_JOB.format("resources: {limits: {cpu: 32, memory: 200Gi}}"), _JOB.format("workingDir: /app")),
    good=(
        _JOB.format("resources: {limits: {nvidia.com/gpu: 8}}"),
        _JOB.format("resources: {claims: [{name: gpus}]}"),
        _JOB.format("resources: {limits: {cpu: 8}}").replace("train.py", "train.py, --backend, gloo"),
    ),
)
def container_asks_for_no_gpu(job: LintJob) -> Iterator[LintFinding]:
    """The device plugin gives a container the GPUs that stand in its limits."""
    if re.search(
        r"\bgloo\b|\bcpu\b(?!:)|runtimeClassName|privileged|NVIDIA_VISIBLE_DEVICES|tpu|neuron|habana|amd\.com", job.text
    ):
        return  # fmt: skip
    for launch in job.launches:
        container, manifest = container_of(job, launch), manifest_of(job, launch)
        if container is None or manifest is None or launch.launcher not in (*look.TORCHRUN, "accelerate"):
            continue
        if (
            processes.on_cpu(launch)
            or manifest.kind in ("TrainJob", "ClusterTrainingRuntime", "TrainingRuntime")
            or is_template(job, launch)
        ):
            continue
        asked = " ".join(".".join(key) for key in container.values if key[0] == "resources")
        if re.search(r"gpu|claims|/", asked) or (pods_of(manifest, launch) or 1) < 1:
            continue
        if (processes.per_node(job, launch) or 2) < 2:
            continue
        name = container.name
        yield LintFinding(
            span=name.span if name is not None else look.head_span(launch),
            summary=f"container {name.value if name is not None else '?'} starts several ranks, and its limits name no"
            " GPU",
            happens="The container sees no GPU, unless the cluster shows all GPUs to every container.",
            fix="Add resources.limits: nvidia.com/gpu: N.",
        )
