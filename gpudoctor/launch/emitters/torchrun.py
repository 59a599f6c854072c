"""torchrun: static rendezvous for a fixed set of nodes, --standalone on one, c10d where nodes may come and go.

Static hands MASTER_ADDR and MASTER_PORT on as they are written; c10d replaces them by rank 0's host name and a random
port, so that it needs names that resolve everywhere (measured with torch 2.14 and 1.12; facts of issue 5, 1.1).
Options have hyphens since torch 2.0, and underscores work in every release (run.py of the wheels).
"""

import re
from collections.abc import Iterator
from pathlib import PurePath

from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.wording import counted
from gpudoctor.launch import words
from gpudoctor.launch.plan import Block, CannotEmit, Emission, LaunchPlan, NodePlan

FIRST = (1, 9)
SCRIPT_SINCE = (1, 10)
HYPHENS_SINCE = (2, 0)
LOCAL_ADDRESS_SINCE = (2, 0)
MAX_RESTARTS = 3


def version(plan: LaunchPlan) -> tuple[int, ...] | None:
    """torch's version; None when it is not known."""
    return parsed(plan.versions.get("torch", "")) or None


def option(plan: LaunchPlan, name: str, value: str | int = "") -> str:
    """ "--node-rank=1", or "--node_rank=1" where this torch knows no hyphens, or its version is not known."""
    installed = version(plan)
    if installed is None or installed < HYPHENS_SINCE:
        name = name.replace("-", "_")
    return f"--{name}={value}" if value != "" else f"--{name}"


def launcher(plan: LaunchPlan) -> list[str]:
    """torchrun, or its module where the interpreter is named by a path. Raises `CannotEmit`."""
    installed = version(plan)
    if installed is not None and installed < FIRST:
        raise CannotEmit(
            f"torch {plan.versions['torch']} has no torchrun, which came with 1.9; --framework spawn works without it"
        )
    if plan.python in ("python", "python3") and (installed is None or installed >= SCRIPT_SINCE):
        return ["torchrun"]
    return [plan.python, "-m", "torch.distributed.run"]


def emit(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    if plan.strategy and plan.strategy not in ("ddp", "fsdp", "fsdp2"):
        raise CannotEmit(
            f"--strategy {plan.strategy}: torchrun starts processes; the script itself chooses its strategy"
        )
    notes = _notes(plan)
    if plan.elastic:
        return Emission(blocks=tuple(_elastic(plan)), notes=notes)
    return Emission(blocks=tuple(_block(plan, node, static_words(plan, node)) for node in plan.nodes), notes=notes)


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
    return [*launcher(plan), *place, *plan.program]


def _block(plan: LaunchPlan, node: NodePlan, command: list[str], *more: str) -> Block:
    variables = words.of_node(plan, node)
    comments = [*_comments(plan, node), *words.reasons_for(plan, node), *(words.comment(each) for each in more)]
    text = words.prefixed(variables, words.without_leftovers(plan, command, variables))
    return Block(words.title(plan, node), "\n".join([*comments, text]), node.rank)


def _comments(plan: LaunchPlan, node: NodePlan) -> Iterator[str]:
    if len(plan.nodes) == 1:
        yield words.comment(
            f"{counted(node.processes, 'process', 'processes')}: {plan.why.get('processes', 'as planned')}."
        )
        yield words.comment("--standalone: torchrun takes a free port of this node by itself.")
        return
    yield words.comment(f"Node rank {node.rank} of {len(plan.nodes)}, world size {plan.world_size}.")
    if node.rank == 0:
        for name, label in (("processes", "Processes"), ("master_address", "Address"), ("master_port", "Port")):
            if reason := plan.why.get(name):
                yield words.comment(f"{label}: {reason}.")


def _elastic(plan: LaunchPlan) -> Iterator[Block]:
    """c10d: any node may come or go, between the fewest and the most; who is the host of the store is said to each."""
    assert plan.elastic is not None
    fewest, most = plan.elastic
    installed = version(plan)
    has_local_address = installed is not None and installed >= LOCAL_ADDRESS_SINCE
    for node in plan.nodes:
        here = [option(plan, "local-addr", node.address)] if has_local_address and node.known else []
        command = [
            *launcher(plan),
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
        said = (
            "is_host: the head opens the store, and the others do not try; without it torchrun compares host names and "
            "addresses, and nobody opens it where the head's own name leads to 127.0.1.1."
        )
        if here:
            yield _block(plan, node, command, said, "--local-addr: what the other nodes are told of this one.")
        elif has_local_address:
            hint = (
                f"This node's own host name has to resolve on the others; else add {option(plan, 'local-addr')}= with "
                "its address before the script."
            )
            yield _block(plan, node, command, said, hint)
        else:
            yield _block(plan, node, command, said)


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
    if plan.precision:
        notes.append(
            f"torchrun knows no precision; {plan.precision} is for the script: "
            + ("torch.autocast is off." if plan.precision == "fp32" else _autocast(plan))
        )
    return tuple(notes)


def _autocast(plan: LaunchPlan) -> str:
    dtype = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}[plan.precision]
    scaler = " and a torch.amp.GradScaler" if plan.precision == "fp16" else ""
    return f'torch.autocast("{plan.accelerator}", dtype={dtype}){scaler}.'
