"""Rules of tasks of services and of workflows: fields, nodes and node ranks that they give: J18 to J20, K57."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge import misspelt
from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import lightning, look, processes
from gpudoctor.lint.known_up_to import KnownUpTo, held_against
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.pods import is_in
from gpudoctor.lint.rule import Example, LintFinding, rule

_SKY = "name: t\nnum_nodes: 1\nresources:\n  accelerators: A100:8\n  {}\nrun: |\n  torchrun --standalone train.py\n"
_DSTACK = "type: task\nname: t\n{}\ncommands:\n  - torchrun --standalone train.py\nresources:\n  gpu: A100:8\n"

_NAMES: dict[tuple[str, str], str] = {
    ("SkyPilot", "resources"): (
        "cloud region zone infra cpus memory accelerators instance_type use_spot job_recovery spot_recovery volumes"
        " disk_size ephemeral_storage disk_tier network_tier local_disk max_hourly_cost ports labels accelerator_args"
        " image_id autostop priority priority_class hooks any_of ordered"
    ),
    ("SkyPilot", "service"): (
        "readiness_probe load_balancer pool replica_policy ports replicas workers load_balancing_policy tls"
    ),
    ("dstack", "resources"): "cpu memory shm_size gpu disk",
    ("dstack", ""): (
        "type name image user privileged entrypoint working_dir home_dir registry_auth python nvcc single_branch env"
        " shell resources priority volumes docker repos files dstack setup ports commands nodes groups ide version init"
        " inactivity_duration port gateway strip_prefix model https auth scaling rate_limits probes replicas backends"
        " regions availability_zones instance_types reservation spot_policy retry max_duration stop_duration max_price"
        " creation_policy idle_duration utilization_policy startup_order stop_criteria schedule fleets instances tags"
        " backend_options termination_policy termination_idle_time pool_name instance_name retry_policy"
    ),
}
"""By the schemas of SkyPilot 0.14 and dstack 0.20, and what earlier releases had; both refuse any other."""
_FIELDS = {place: frozenset(names.split()) for place, names in _NAMES.items()}
_READ = {"SkyPilot": KnownUpTo("skypilot", "0.14"), "dstack": KnownUpTo("dstack", "0.20")}
_ELSEWHERE = {
    ("SkyPilot", "num_nodes"): "num_nodes at the top level", ("SkyPilot", "gpu"): "accelerators",
    ("SkyPilot", "gpus"): "accelerators", ("SkyPilot", "accelerator"): "accelerators",
    ("SkyPilot", "image"): "image_id", ("SkyPilot", "spot"): "use_spot", ("SkyPilot", "disk"): "disk_size",
    ("SkyPilot", "envs"): "envs at the top level", ("dstack", "gpus"): "gpu", ("dstack", "num_nodes"): "nodes",
    ("dstack", "nodes"): "nodes at the top level", ("dstack", "run"): "commands", ("dstack", "envs"): "env",
    ("dstack", "shm"): "shm_size",
}  # fmt: skip


@rule(
    "J18",
    title="What stands below resources is what the service knows",
    source="SkyPilot 0.14, utils/schemas.py (additionalProperties: False); dstack 0.20, core/models (extra=forbid)",
    bad=(
        _SKY.format("num_nodes: 2"),
        _DSTACK.format("num_nodes: 2"),
        _DSTACK.format("nodes: 1").replace("gpu: A100:8", "gpus: 8"),
    ),
    good=(_SKY.format("disk_size: 512"), _DSTACK.format("nodes: 1"), _SKY.format("any_of:\n    - use_spot: true")),
)
def field_that_is_not_known(job: LintJob) -> Iterator[LintFinding]:
    """SkyPilot and dstack refuse a task with a field that they do not know, also one that belongs elsewhere in the
    file."""
    for manifest in job.manifests:
        for (kind, at), known in _FIELDS.items():
            if manifest.kind != kind or manifest.fault or (kind == "dstack" and not _is_task(manifest)):
                continue
            place = (at,) if at else ()
            said: set[str] = set()
            for value in manifest.values:
                path = value.path
                if path[: len(place)] != place or len(path) <= len(place):
                    continue
                name = path[len(place)]
                if name in known or name in said or name.startswith("_") or name.isdecimal() or "{{" in name:
                    continue
                said.add(name)
                instead = _ELSEWHERE.get((kind, name))
                finding = LintFinding(
                    span=value.span,
                    summary=f"{name} is no field {'of ' + at if at else 'of a task'} in {kind}'s file",
                    happens=f"{kind} refuses the file: additional properties are not allowed.",
                    fix=f"Write {instead}."
                    if instead
                    else f"Take it out; there are {', '.join(sorted(known)[:8])} ...",
                )
                sure = instead is not None or bool(misspelt.nearest(name, known))
                yield held_against(job, (_READ[kind],), finding, sure=sure)


def _is_task(manifest: Manifest) -> bool:
    return any(value.path == ("type",) and value.value in ("task", "service") for value in manifest.values)


_FACTORY = "FORCE_TORCHRUN=1 NNODES=2 {}=1 MASTER_ADDR=10.20.0.11 MASTER_PORT=29500 llamafactory-cli train sft.yaml\n"


@rule(
    "J19",
    title="A training that calls torchrun itself is told NODE_RANK",
    severity="warning",
    source="LLaMA-Factory 0.9.1 and later, launcher.py: node_rank is NODE_RANK, 0 unless it is set (RANK before);"
    " ms-swift 3, cli/main.py: NODE_RANK",
    leads_to=("launcher-world-mismatch",),
    bad=(Example(_FACTORY.format("RANK"), "llamafactory=0.9.2"), _FACTORY.format("GLOBAL_RANK")),
    good=(
        Example(_FACTORY.format("NODE_RANK"), "llamafactory=0.9.2"),
        Example(_FACTORY.format("RANK"), "llamafactory=0.8.3"),
    ),
)
def node_rank_by_another_name(job: LintJob) -> Iterator[LintFinding]:
    """LLaMA-Factory and ms-swift make torchrun's options of variables. Without NODE_RANK every node is node 0."""
    version = job.facts.version("llamafactory")
    for launch in job.launches:
        settings = launch.invocation.settings
        nodes = look.nnodes(launch)
        if launch.launcher != "llamafactory" or nodes is None or nodes[1] < 2 or "NODE_RANK" in settings:
            continue
        other = next((settings[name] for name in ("RANK", "GLOBAL_RANK", "MACHINE_RANK") if name in settings), None)
        if other is None or "USE_RAY" in settings:
            continue
        old = version is not None and version < (0, 9, 1) and other.name == "RANK"
        if old:
            continue
        yield LintFinding(
            span=other.word.span,
            severity="error" if version is not None else None,
            summary=f"{other.name} is set for {nodes[1]} nodes, and {launch.entry.split()[0]} reads NODE_RANK",
            happens="NODE_RANK is 0 unless it is set: every node is node 0, and they wait for each other.",
            fix=f"Write NODE_RANK in place of {other.name}.",
        )


_AZURE = (
    "type: command\ncode: .\ncommand: python train.py\nenvironment: azureml:lightning:4\ncompute: azureml:gpus\n{}"
    "distribution:\n  type: pytorch\n  process_count_per_instance: 4\n#@ file train.py\nimport lightning as L\n"
    "trainer = L.Trainer(accelerator='gpu', devices=4, num_nodes={}, strategy='ddp')\ntrainer.fit(net)\n"
)
_COUNTS = {"AzureML": "instance_count", "SkyPilot": "num_nodes", "dstack": "nodes"}


@rule(
    "J20",
    title="A service gives as many nodes as the training waits for",
    source="Azure ML's commandJob schema: resources.instance_count is 1 unless it is given; SkyPilot's num_nodes and"
    " dstack's nodes too",
    leads_to=("rendezvous-incomplete",),
    bad=(_AZURE.format("", 2), _AZURE.format("resources:\n  instance_count: 2\n", 4)),
    good=(_AZURE.format("", 1), _AZURE.format("resources:\n  instance_count: 2\n", 2)),
)
def fewer_nodes_than_waited_for(job: LintJob) -> Iterator[LintFinding]:
    """One node is what a service starts unless its file says more. A Trainer of num_nodes=2, or torchrun with
    --nnodes 2, waits there for a second one."""
    for manifest in job.manifests:
        counts = [value for value in manifest.values if value.path[-1:] == (_COUNTS.get(manifest.kind, "?"),)]
        if manifest.kind not in _COUNTS or any("jobs" in value.path for value in manifest.values) or len(counts) > 1:
            continue
        nodes = look.whole(counts[0].value) if counts else 1
        for launch in job.launches:
            if nodes is None or not is_in(launch, manifest) or launch.invocation.conditional:
                continue
            told = look.nnodes(launch)
            trainer = lightning.num_nodes(job, launch) if launch.launcher == "python" else None
            option = launch.option("nnodes")
            wanted = trainer[0] if trainer is not None else told[0] if told is not None else 1
            if wanted <= nodes or (counts and trainer is None):
                continue  # K34 says it of what is told
            span = trainer[1].span if trainer is not None else option.span if option is not None else None
            yield LintFinding(
                span=span or look.head_span(launch),
                severity=None if manifest.kind == "AzureML" or trainer is not None else "warning",
                summary=f"the training waits for {counted(wanted, 'node')} (num_nodes, --nnodes), and the"
                f" {manifest.kind} file gives {counted(nodes, 'instance')}"
                + ("" if counts else f", as {_COUNTS[manifest.kind]} is not set"),
                happens="It waits for a node that does not come, until the time-out.",
                fix=f"Write {_COUNTS[manifest.kind]}: {wanted}, or wait for {counted(nodes, 'node')}.",
            )


_WORKFLOW = (
    "on: [push]\njobs:\n  gpus:\n    runs-on: [self-hosted, gpu]\n    container:\n"
    "      image: nvcr.io/nvidia/pytorch:25.02-py3\n"
    "      options: {}\n    steps:\n      - run: torchrun --standalone --nproc_per_node={} tests/ddp.py\n"
)


@rule(
    "K57",
    title="A workflow's container of several ranks has enough of /dev/shm",
    severity="warning",
    source="GitHub's documentation, jobs.ID.container.options are those of docker create; docker run:"
    " --shm-size is 64 MB",
    leads_to=("shm-too-small",),
    bad=(_WORKFLOW.format("--gpus all", 4), _WORKFLOW.format("--gpus '\"device=0,1\"' --user root", 2)),
    good=(
        _WORKFLOW.format("--gpus all --shm-size=16g", 4),
        _WORKFLOW.format("--gpus all --ipc=host", 4),
        _WORKFLOW.format("--gpus all", 1),
    ),
)
def workflow_without_shm(job: LintJob) -> Iterator[LintFinding]:
    """The container of a job is docker's, with docker's 64 MiB of shared memory. Several ranks of NCCL, or loader
    workers, need more."""
    for manifest in job.manifests:
        options = {value.path[1]: value for value in manifest.values if _is_options(value)}
        for launch in job.launches:
            path = launch.invocation.manifest_path
            given = options.get(path[1]) if len(path) > 1 and path[0] == "jobs" else None
            ranks = processes.per_node(job, launch)
            if given is None or not is_in(launch, manifest) or ranks is None or ranks < 2:
                continue
            if "--gpus" in given.value and not re.search(r"--(?:shm-size|ipc)\b|/dev/shm", given.value):
                yield LintFinding(
                    span=given.span,
                    summary=f"the container has {given.value}, and {counted(ranks, 'rank')} start in it",
                    happens="/dev/shm has 64 MiB: NCCL ends with no space left on device, loaders with a Bus error.",
                    fix="Add --ipc=host, or --shm-size=16g.",
                )
                break


def _is_options(value: ManifestValue) -> bool:
    return value.path[:1] == ("jobs",) and value.path[2:] == ("container", "options")
