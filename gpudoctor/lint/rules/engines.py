"""Rules of servers that start a rank for each GPU themselves (vLLM, SGLang, TensorRT-LLM): G18, J17, K55, P12, W16."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.launchers import engines
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look, processes
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest, Span, Word
from gpudoctor.lint.pods import container_of, containers, manifest_of
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.rules.devices import limit_of
from gpudoctor.lint.rules.manifest_values import by_path, number
from gpudoctor.lint.rules.training_files import of_rows
from gpudoctor.lint.told_options import ToldOption, is_whole, told
from gpudoctor.lint.told_together import ToldTogether

_RAY = lazy_re(r"\bray (?:start|symmetric-run)\b|multi-node-serving\.sh|ray_init\.sh|run_cluster\.sh|RAY_ADDRESS")
_LWS = (
    "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: big}\nspec:\n"
    "  leaderWorkerTemplate:\n    size: 2\n"
    + "".join(
        f"    {name}Template:\n      spec:\n        containers:\n          - name: {name}\n"
        f"            image: vllm/vllm-openai:v0.9.2\n            command: [bash, -c, '{command}']\n"
        f"            resources: {{limits: {limits}}}\n"
        "            volumeMounts: [{name: shm, mountPath: /dev/shm}]\n"
        "        volumes: [{name: shm, emptyDir: {medium: Memory}}]\n"
        for name, command, limits in (
            ("leader", "ray start --head; vllm serve /m -tp 8 -pp STAGES", "LEADER"),
            ("worker", "ray start --address=$LWS_LEADER_ADDRESS:6379 --block", "{nvidia.com/gpu: 8}"),
        )
    )
)
_EIGHT = "{nvidia.com/gpu: 8}"


@rule(
    "G18",
    title="A server is given a GPU for each of its ranks",
    source="vLLM 0.12, config/parallel.py: World size is larger than the number of available GPUs;"
    " v1/executor/ray_utils.py: the driver's node needs a GPU; SGLang 0.5: tp_size times pp_size ranks over nnodes",
    leads_to=("duplicate-gpu",),
    bad=(
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve /m --tensor-parallel-size 4\n",
        Example("python -m sglang.launch_server --model-path /m --tp 16 --nnodes 1\n", "gpus_per_node=8"),
        "docker run --gpus 2 --ipc=host vllm/vllm-openai:v0.9.2 vllm serve /m -tp 4\n",
        _LWS.replace("STAGES", "4").replace("LEADER", _EIGHT),
        _LWS.replace("STAGES", "2").replace("LEADER", "{cpu: 8}"),
    ),
    good=(
        "CUDA_VISIBLE_DEVICES=0,1,2,3 vllm serve /m --tensor-parallel-size 4\n",
        Example(
            "python -m sglang.launch_server --model-path /m --tp 16 --nnodes 2 --node-rank 0"
            " --dist-init-addr n0:5000\n",
            "gpus_per_node=8,nodes=2",
        ),
        _LWS.replace("STAGES", "2").replace("LEADER", _EIGHT),
    ),
)
def server_without_its_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Tensor times pipeline parallel ranks take a GPU each: on the one node, on each of --nnodes, or, for vLLM over
    Ray, anywhere in the cluster; the node of vLLM itself must have one of them."""
    for launch in job.launches[: look.SIBLINGS]:
        if not look.traits(launch).serves or launch.launcher == "trtllm" or processes.on_cpu(launch):
            continue
        total, nodes = engines.ranks(launch), engines.size(launch, "nnodes")
        if total is None or not nodes:
            continue
        limit = limit_of(job, launch)
        if limit is None and (asked := processes.gpus(job, launch)):
            limit = asked, f"the job asks for {counted(asked, 'GPU')} on a node"
        spread = launch.launcher == "vllm" and nodes == 1
        if spread and (engines.over_ray(launch) or _RAY.search(job.text)):
            yield from _over_ray(job, launch, total)
        elif limit is not None and 0 < limit[0] < total // nodes:
            yield LintFinding(
                span=_span(launch),
                summary=f"{launch.launcher} starts {counted(total // nodes, 'rank')} on a node ({_sizes(launch)}), and"
                f" {limit[1]}",
                happens="It ends before the model is loaded: World size is larger than the number of available GPUs, or"
                " invalid device ordinal.",
                fix=f"Take sizes whose product is at most {limit[0]}, give it more GPUs, or say over how many nodes"
                " (--nnodes and --node-rank, or a Ray cluster).",
            )


def _over_ray(job: LintJob, launch: LintLaunch, total: int) -> Iterator[LintFinding]:
    manifest, container = manifest_of(job, launch), container_of(job, launch)
    there = _of_group(manifest) if manifest is not None else _of_ray(job)
    if there is not None and total > there:
        yield LintFinding(
            span=_span(launch),
            summary=f"vLLM takes {total} GPUs ({_sizes(launch)}), and the cluster has {there}",
            happens="Ray's placement group waits for GPUs that never come.",
            fix="Take sizes whose product is the number of GPUs: tensor parallel within a node, pipeline over nodes.",
        )
    elif (
        manifest is not None and container is not None and not container.gpus
        and not any("nvidia.com/gpu" in path[-1] for path in container.values)
        and any(other.gpus for other in containers(manifest))
    ):  # fmt: skip
        yield LintFinding(
            span=_span(launch),
            summary=f"vLLM runs in a container that asks for no GPU, and {counted(total, 'rank')} are to start",
            happens="It ends: the driver's node needs a GPU of its own in the placement group.",
            fix="Give this container nvidia.com/gpu too, as many as the workers have.",
        )


def _span(launch: LintLaunch) -> Span:
    option = launch.options.get("tensor-parallel-size") or launch.options.get("pipeline-parallel-size")
    return option.span if option is not None else look.head_span(launch)


def _sizes(launch: LintLaunch) -> str:
    names = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size-local", "data-parallel-size")
    return " x ".join(
        f"{option.written.lstrip('-')} {option.value.shown}"
        for name in names
        if (option := launch.options.get(name)) is not None and option.value is not None
    )


def _of_group(manifest: Manifest) -> int | None:
    """GPUs of a LeaderWorkerSet's group."""
    size = number(by_path(manifest).get("spec.leaderWorkerTemplate.size"))
    if manifest.kind != "LeaderWorkerSet" or not size:
        return None
    of = {
        kind: [container.gpus for container in containers(manifest) if kind in container.path]
        for kind in ("leaderTemplate", "workerTemplate")
    }
    worker = of["workerTemplate"]
    leader = of["leaderTemplate"] or worker
    if len(worker) != 1 or len(leader) != 1 or not worker[0] or not leader[0]:
        return None
    return leader[0] + (size - 1) * worker[0]


def _of_ray(job: LintJob) -> int | None:
    """GPUs that the `ray start` lines of the text say, each node's once."""
    starts = [
        invocation for invocation in job.invocations
        if invocation.program == "ray" and len(invocation.words) > 1 and invocation.words[1].shown == "start"
    ]  # fmt: skip
    told_ones = [re.search(r"--num-gpus[= ](\d{1,3})(?= |$)", _line(start.words)) for start in starts]
    sections = {start.section for start in starts}
    apart = len(sections) == len(starts) and len(job.node_sections) == len(starts)
    if not starts or not apart or not all(told_ones) or any(start.in_loop for start in starts):
        return None
    return sum(int(match[1]) for match in told_ones if match is not None)


def _line(words: tuple[Word, ...]) -> str:
    return " ".join(word.shown for word in words)


_TASKS = (
    "#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\nsrun --mpi=pmix trtllm-llmapi-launch trtllm-serve /m --tp_size {}\n"
)


@rule(
    "J17",
    title="TensorRT-LLM has a task for each of its ranks",
    source="TensorRT-LLM 1.0, llmapi/trtllm-llmapi-launch and examples/llm-api/llm_mgmn_trtllm_serve.sh: srun's tasks"
    " are tp_size times pp_size",
    leads_to=("launcher-world-mismatch",),
    bad=(_TASKS.format(16), "mpirun -n 2 trtllm-llmapi-launch trtllm-serve /m --tp_size 4\n"),
    good=(_TASKS.format(8), "trtllm-serve /m --tp_size 4\n"),
)
def tasks_for_ranks(job: LintJob) -> Iterator[LintFinding]:
    """Under trtllm-llmapi-launch the first task serves and the others are the ranks: there have to be as many as
    tp_size times pp_size."""
    for launch in job.launches:
        total = engines.ranks(launch) if launch.launcher == "trtllm" else None
        if total is None or not launch.around:
            continue
        outer = launch.around[-1]
        option = outer.option("np", "n") if outer.launcher == "mpirun" else None
        text = option.value.text if option is not None and option.value is not None else ""
        tasks = (
            allocation.tasks(job, launch) if outer.launcher == "srun" else int(text) if text and text.isdigit() else 0
        )
        if tasks and tasks < total:
            yield LintFinding(
                span=_span(launch),
                summary=f"{counted(total, 'rank')} are to serve ({_sizes(launch)}), and {counted(tasks, 'task')} start",
                happens="It ends: the world of MPI is smaller than tp_size times pp_size.",
                fix=f"Start {total} tasks, one for each GPU, or take sizes whose product is {tasks}.",
            )


_SET = (
    "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: big}\nspec:\n  replicas: 2\n  serviceName: big\nPOLICY"
    "  selector: {matchLabels: {app: big}}\n  template:\n    metadata: {labels: {app: big}}\n    spec:\n"
    "      containers:\n        - name: main\n          image: lmsysorg/sglang:v0.5\n"
    "          command: [python3, -m, sglang.launch_server, --model-path, /m, --tp, '16', --nnodes, '2', --node-rank,"
    " $(RANK), --dist-init-addr, 'big-0.big:5000']\n"
    "          resources: {limits: {nvidia.com/gpu: 8}}\n"
    "          volumeMounts: [{name: shm, mountPath: /dev/shm}]\nPROBE"
    "      volumes: [{name: shm, emptyDir: {medium: Memory}}]\n"
)
_PROBE = "          readinessProbe: {httpGet: {path: /health, port: 30000}}\n"


@rule(
    "K55",
    title="Pods of a StatefulSet that wait for each other are made at the same time",
    source="Kubernetes' documentation, StatefulSets: with OrderedReady a pod is made when the one before it is ready",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _SET.replace("POLICY", "").replace("PROBE", _PROBE),
        _SET.replace("POLICY", "  podManagementPolicy: OrderedReady\n").replace("PROBE", _PROBE),
    ),
    good=(
        _SET.replace("POLICY", "  podManagementPolicy: Parallel\n").replace("PROBE", _PROBE),
        _SET.replace("POLICY", "").replace("PROBE", ""),
    ),
)
def pods_in_order(job: LintJob) -> Iterator[LintFinding]:
    """OrderedReady is the default: the second pod is made when the first is ready. With a probe that answers only when
    all nodes have met, the first is never ready."""
    for launch in job.launches:
        manifest, container = manifest_of(job, launch), container_of(job, launch)
        nodes = look.nnodes(launch)
        if manifest is None or container is None or manifest.kind != "StatefulSet" or nodes is None or nodes[0] < 2:
            continue
        values = by_path(manifest)
        policy, replicas = values.get("spec.podManagementPolicy"), values.get("spec.replicas")
        probed = any(path[0] in ("readinessProbe", "startupProbe") for path in container.values)
        if not probed or (policy is not None and policy.value != "OrderedReady") or (number(replicas) or 0) < 2:
            continue
        place = policy or replicas
        assert place is not None
        yield LintFinding(
            span=place.span,
            summary=f"podManagementPolicy is OrderedReady{'' if policy is not None else ' unless it is given'}, and the"
            f" first of {nodes[0]} nodes is ready only with the others",
            happens="The second pod is never made: the first waits for it, and is killed by its probe or the time-out.",
            fix="Write podManagementPolicy: Parallel beside replicas.",
        )


@rule(
    "P12",
    title="A server answers on another port than its ranks meet on",
    source="SGLang 0.5 and vLLM 0.12: the HTTP server and the store of rank 0 each bind a port",
    leads_to=("master-port-in-use",),
    bad=(
        "python -m sglang.launch_server --model-path /m --tp 16 --nnodes 2 --node-rank 0 --port 5000"
        " --dist-init-addr n0:5000\n",
        "vllm serve /m -tp 16 --nnodes 2 --node-rank 0 --master-addr n0 --master-port 8000 --port 8000\n",
    ),
    good=(
        "python -m sglang.launch_server --model-path /m --tp 16 --nnodes 2 --node-rank 0 --port 30000"
        " --dist-init-addr n0:5000\n",
        "vllm serve /m -tp 16 --nnodes 2 --node-rank 0 --master-addr n0 --master-port 29501 --port 8000\n",
    ),
)
def one_port_for_two(job: LintJob) -> Iterator[LintFinding]:
    """Node 0 binds the port of the server and that of the ranks' store: with one number for both the second fails."""
    for launch in job.launches:
        port, other = launch.options.get("port"), look.port(launch)
        own = port.value.text if look.traits(launch).serves and port is not None and port.value is not None else None
        if own and own.isdigit() and other is not None and other.text == own and port is not None:
            yield LintFinding(
                span=port.span,
                summary=f"{port.written} {own} is the port of {other.written} too",
                happens="Node 0 ends: address already in use.",
                fix="Take another port for the server.",
            )


@rule(
    "W16",
    title="A server is told no options that it refuses together",
    source="vLLM 0.12 and SGLang 0.5: a row for each check in knowledge/refused_engines.py",
    leads_to=("program-error",),
    bad=(
        "python -m sglang.launch_server --model-path /m --tp 8 --nnodes 3 --node-rank 0 --dist-init-addr n0:5000\n",
        "vllm serve /m --tensor-parallel-size 8 --nnodes 2 --node-rank 0 --master-addr n0"
        " --distributed-executor-backend ray\n",
        "vllm serve /m --max-num-seqs 512 --max-num-batched-tokens 256\n",
    ),
    good=(
        "python -m sglang.launch_server --model-path /m --tp 8 --nnodes 2 --node-rank 0 --dist-init-addr n0:5000\n",
        "vllm serve /m --tensor-parallel-size 8 --nnodes 2 --node-rank 0 --master-addr n0\n",
        "vllm serve /m --max-num-seqs 256 --max-num-batched-tokens 8192\n",
    ),
)
def engine_refuses(job: LintJob) -> Iterator[LintFinding]:
    """A server checks what it is told before it loads the model, and ends where two options exclude each other."""
    for launch in job.launches[: look.SIBLINGS]:
        if launch.launcher not in ("vllm", "sglang"):
            continue
        options = {name: option for name, option in told(launch).items() if option.written.startswith("--")}
        for name, option in launch.options.items():
            value = option.value.text if option.value is not None else None
            known = option.value is None or option.value.text is not None
            word = option.value if option.value is not None else launch.invocation.words[0]
            options[name.replace("-", "_")] = ToldOption(option.written, value, word, known)
        yield from of_rows(launch.launcher, ToldTogether(options, is_whole(launch)), is_silent=False)
