"""torchrun and its elder forms: static rendezvous for a fixed set of nodes, --standalone on one, c10d where nodes may
come and go.

Static hands MASTER_ADDR and MASTER_PORT on as they are written; c10d replaces them by rank 0's host name and a random
port, so that it needs names that resolve everywhere (measured with torch 2.14 and 1.12).
Options: torch/distributed/run.py and launch.py of torch 1.9 to 2.14. torch 2.0 takes hyphens too and knows
--local-addr; before, only underscores, which work in every release. Every option may come from PET_<NAME> as well.
`@` stands where it was read in the wheels; without it, it is not known since when.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.wording import counted
from gpudoctor.launch import words
from gpudoctor.launch.plan import CannotEmit, Emission, LaunchPlan, NodePlan, PasteBlock
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.told import ToldStart, address_and_port, node_counts, number
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lint.model import LintLaunch, Option, SetVariable

OPTIONS = """
    nnodes= nproc_per_node= rdzv_backend= rdzv_endpoint= rdzv_id= rdzv_conf= standalone max_restarts=
    monitor_interval= start_method= event_log_handler= role= module,-m no_python run_path log_dir= redirects,-r=
    tee,-t= local_ranks_filter= duplicate_stdout_filters= duplicate_stderr_filters= node_rank= master_addr=
    master_port= local_addr=@torch:2.0 logs_specs= numa_binding=@torch:2.9 signals_to_handle=@torch:2.10
    shutdown_timeout=@torch:2.12 virtual_local_rank@torch:2.10 log_line_prefix_template=@torch:2.14
    print_completion@torch:2.14 help,-h
"""
FAULT_TOLERANCE = """
    ft-cfg-path= ft-workload-check-interval= ft-initial-rank-heartbeat-timeout= ft-rank-heartbeat-timeout=
    ft-node-health-check-interval= ft-node-health-check-endpoint= ft-safety-factor= ft-rank-termination-signal=
    ft-log-level= ft-rank-out-of-section-timeout= ft-rank-section-timeouts= ft-restart-check-interval=
    ft-restart-policy= ft-enable-nic-monitor= ft-enable-nic-healthcheck= ft-rdzv-impl= ft-max-no-progress-cycles=
    ft-min-progress-iterations= ft-checkpoint-iteration-file= ft-ignore-missing-cfg term-timeout= workers-stop-timeout=
"""
"""Of ft_launcher beside torchrun's own (nvidia-resiliency-ext, fault_tolerance/launcher.py); each release differs."""
GRAMMAR = Grammar(OPTIONS, both_dashes=True, hyphens_since="torch 2.0")

FIRST = (1, 9)
SCRIPT_SINCE = (1, 10)
HYPHENS_SINCE = (2, 0)
LOCAL_ADDRESS_SINCE = (2, 0)
MAX_RESTARTS = 3
STATIC_PORT = 29500
C10D_PORT = 29400


def version(plan: LaunchPlan) -> tuple[int, ...] | None:
    """torch's version; None when it is not known."""
    return parsed(plan.versions.get("torch", "")) or None


def option(plan: LaunchPlan, name: str, value: str | int = "") -> str:
    """ "--node-rank=1", or "--node_rank=1" where this torch knows no hyphens, or its version is not known."""
    installed = version(plan)
    if installed is None or installed < HYPHENS_SINCE:
        name = name.replace("-", "_")
    return f"--{name}={value}" if value != "" else f"--{name}"


def program(plan: LaunchPlan) -> list[str]:
    """torchrun, or its module where the interpreter is named by a path. Raises `CannotEmit`."""
    installed = version(plan)
    if installed is not None and installed < FIRST:
        raise CannotEmit(
            f"torch {plan.versions['torch']} has no torchrun, which came with 1.9; --framework spawn works without it"
        )
    if plan.python in ("python", "python3") and (installed is None or installed >= SCRIPT_SINCE):
        return ["torchrun"]
    return [plan.python, "-m", "torch.distributed.run"]


def write(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    notes = _notes(plan)
    if plan.elastic:
        return Emission(blocks=tuple(_elastic(plan)), notes=notes)
    return Emission(
        blocks=tuple(
            words.node_block(plan, node, static_words(plan, node), _comments(plan, node)) for node in plan.nodes
        ),
        notes=notes,
    )


def static_words(plan: LaunchPlan, node: NodePlan) -> list[str]:
    """The command of one node for a fixed set of nodes, or of the only one."""
    if len(plan.nodes) == 1:
        place = [option(plan, "standalone"), option(plan, "nproc-per-node", node.processes)]
    else:
        place = [
            option(plan, "nnodes", len(plan.nodes)),
            option(plan, "nproc-per-node", node.processes),
            option(plan, "node-rank", node.rank),
            option(plan, "master-addr", plan.master_address),
            option(plan, "master-port", plan.master_port),
        ]
    return [*program(plan), *place, *plan.program]


def _comments(plan: LaunchPlan, node: NodePlan) -> Iterator[str]:
    if len(plan.nodes) == 1:
        yield words.comment(
            f"{counted(node.processes, 'process', 'processes')}: {plan.why.get('processes', 'as planned')}."
        )
        yield words.comment("--standalone: torchrun takes a free port of this node by itself.")
        return
    yield words.comment(f"Node rank {node.rank} of {len(plan.nodes)}, world size {plan.world_size}.")
    if node.rank == 0:
        yield from words.head_reasons(plan)


def _elastic(plan: LaunchPlan) -> Iterator[PasteBlock]:
    """c10d: any node may come or go, between the fewest and the most; who is the host of the store is said to each."""
    assert plan.elastic is not None
    fewest, most = plan.elastic
    installed = version(plan)
    has_local_address = installed is not None and installed >= LOCAL_ADDRESS_SINCE
    for node in plan.nodes:
        here = [option(plan, "local-addr", node.address)] if has_local_address and node.known else []
        command = [
            *program(plan),
            option(plan, "nnodes", f"{fewest}:{most}"),
            option(plan, "nproc-per-node", node.processes),
            option(plan, "max-restarts", MAX_RESTARTS),
            option(plan, "rdzv-id", job_name(plan)),
            option(plan, "rdzv-backend", "c10d"),
            option(plan, "rdzv-endpoint", endpoint(plan)),
            option(plan, "rdzv-conf", f"is_host={1 if node.rank == 0 else 0}"),
            *here,
            *plan.program,
        ]
        comments = [
            *_comments(plan, node),
            words.comment(
                "is_host: the head opens the store, and the others do not try; without it torchrun compares host names "
                "and addresses, and nobody opens it where the head's own name leads to 127.0.1.1."
            ),
        ]
        if here:
            comments.append(words.comment("--local-addr: what the other nodes are told of this one."))
        elif has_local_address:
            hint = (
                f"This node's own host name has to resolve on the others; else add {option(plan, 'local-addr')}= with "
                "its address before the script."
            )
            comments.append(words.comment(hint))
        yield words.node_block(plan, node, command, comments)


def endpoint(plan: LaunchPlan) -> str:
    """Address and port in one word; an IPv6 address has brackets there."""
    host = f"[{plan.master_address}]" if ":" in plan.master_address else plan.master_address
    return f"{host}:{plan.master_port}"


def job_name(plan: LaunchPlan) -> str:
    """A rendezvous id that is the same on all nodes and another one for each job: the script's name and the port."""
    named = next((word for word in plan.program if not word.startswith("-")), "job")
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", PurePath(named).stem).strip("-") or "job"
    return f"{stem[:40]}-{plan.master_port}"


def _notes(plan: LaunchPlan) -> tuple[str, ...]:
    notes = []
    if plan.elastic:
        notes.append(
            f"With {plan.elastic[0]}:{plan.elastic[1]} the job starts 30 s after {plan.elastic[0]} nodes have come, "
            "and starts anew from the script's own checkpoint when a node comes or goes."
            if plan.elastic[0] > 1
            else f"With 1:{plan.elastic[1]} the first node trains alone after 30 s when no other has come by then."
        )
        notes.append(
            "c10d gives the workers rank 0's address and a random port: the nodes must reach one another on all ports."
        )
    return tuple(notes)


def told(launch: LintLaunch) -> ToldStart:
    """What is not given has torchrun's own default (torch/distributed/run.py of torch 2.0 to 2.13)."""

    def text(option: str, default: str = "") -> str:
        value = launch.text(option)
        return default if value is None else value

    standalone = launch.option("standalone") is not None
    fewest, most = node_counts(text("nnodes", "1:1"))
    backend = "c10d" if standalone else text("rdzv-backend", "static")
    if named := text("rdzv-endpoint"):
        address, port = address_and_port(named, STATIC_PORT if backend == "static" else C10D_PORT)
    elif backend == "static":
        address, port = text("master-addr", "127.0.0.1"), number(text("master-port")) or STATIC_PORT
    else:
        address, port = "localhost", 0 if standalone else C10D_PORT
    configured = dict(part.partition("=")[::2] for part in text("rdzv-conf").split(",") if "=" in part)
    is_host = configured.get("is_host", "").strip().lower()
    return ToldStart(
        fewest_nodes=fewest,
        most_nodes=most,
        ranks_here=number(text("nproc-per-node", "1")),
        node_rank=number(text("node-rank", "0")) if backend == "static" else None,
        address=address.strip(),
        port=port,
        backend=backend,
        run_id=text("rdzv-id", "none"),
        is_host=is_host in ("1", "true", "t", "yes", "y") if is_host else None,
        standalone=standalone,
    )


def of_environment(settings: Mapping[str, SetVariable]) -> dict[str, Option]:
    """PET_* variables as options, by the options' names; those that the program does not get are left out."""
    options = {}
    for spec in GRAMMAR.options:
        setting = settings.get("PET_" + spec.name.replace("-", "_").upper())
        if setting is not None and setting.exported:
            options[spec.name] = Option(spec.name, setting.name, setting.word, setting.word.span, since=spec.since)
    return options


LAUNCHER = LauncherTraits(
    name="torchrun",
    forms=(
        Form(
            launcher="torchrun",
            programs=(
                "torchrun",
                "torchrun.exe",
                "torchrun_main",
                "hyperpodrun",  # SageMaker HyperPod's elastic agent takes torchrun's options
                "tune run",
            ),  # torchtune's takes a recipe for a script
            modules=(
                *("torch.distributed.run", "torch.distributed.elastic_launch", "torchelastic.distributed.launch"),
                "torch.distributed.launcher.api",
            ),
            grammar=GRAMMAR,
            all_known=True,
            newest="torch 2.14",
            environment=of_environment,
        ),
        Form(
            launcher="ft_launcher",
            programs=("ft_launcher",),
            modules=("nvidia_resiliency_ext.fault_tolerance.launcher",),
            grammar=Grammar(OPTIONS + FAULT_TOLERANCE, both_dashes=True),
            environment=of_environment,
        ),
        Form(
            launcher="torch.distributed.launch",
            modules=("torch.distributed.launch", "torch.distributed.launcher"),
            grammar=Grammar(OPTIONS + "use_env", both_dashes=True, hyphens_since="torch 2.0"),
            all_known=True,
            newest="torch 2.14",
            environment=of_environment,
        ),
    ),
    a_node=True,
    sets_ranks=True,
    trains="torch",
    ranks_option="nproc-per-node",
    ranks_default=1,
    decisive=("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "rdzv-endpoint", "rdzv-id"),
    unmistakable=(
        *("nnodes", "nproc-per-node", "node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "standalone"),
        *("max-restarts", "nnode", "nproc"),
    ),
    ambiguous=("master-addr", "master-port"),
    runs_as="torchrun",
    told=told,
    more_modules=("torch.distributed.elastic.multiprocessing",),
    process_names=("pt_elastic",),
    kept_numbers="nnodes nproc-per-node node-rank rdzv-backend rdzv-conf master-port max-restarts monitor-interval "
    "start-method redirects r tee t local-ranks-filter",
    kept_hosts="rdzv-endpoint master-addr local-addr",
    kept_ids="rdzv-id",
    # --tee; the role's name may be another than "default".
    line_prefixes=(r"\[(?P<role>[A-Za-z_]\w{0,40}?)(?P<local>\d{1,4})\]:\s?",),
    log_file=r"attempt_\d{1,4}[/\\](?P<local>\d{1,5})[/\\]std(?:out|err)\.log",
    package="torch",
    write=write,
)
