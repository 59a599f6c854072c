"""What keeps a node's ranks from starting: no torchrun, no torch, a busy port, an interface that is not there."""

import re
from collections.abc import Iterator, Mapping

from gpudoctor.check import Fix, Problem
from gpudoctor.command import command
from gpudoctor.knowledge.network.gloo_interface import IFNAME
from gpudoctor.knowledge.wording import listed
from gpudoctor.nccl import story
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import Reading, Snapshot, missing, read

_BUSY = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
_PORT = re.compile(r"port: (\d+)")
_NO_INTERFACE = re.compile(r"Unable to find address for: (\S+)")
_NO_TORCH = re.compile(r"No module named '?torch'?(?![\w.])")
_IMPORT = re.compile(r"^(ImportError|ModuleNotFoundError|OSError: .*\.so|AttributeError.*torch)", re.MULTILINE)


def not_started(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Nodes whose agent could not start torchrun."""
    for end in run.ends:
        if end.how == "not started":
            yield Finding(
                id="ranks-not-started",
                nodes=(end.node,),
                problem=Problem(
                    severity="error",
                    summary=f"no rank was started on {end.node}: {end.error or 'no reason was given'}",
                    meaning="The other nodes wait for its ranks at the rendezvous.",
                    fix=Fix(
                        "Name an interpreter with torch that exists on every node with --python.",
                        (story.on(end.node, command("gpudoctor check"), run),),
                    ),
                    evidence=(read(f"agent on {end.node}", end.error),),
                ),
            )


def start_errors(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Errors of torchrun and of ranks that say by themselves what is missing on their node."""
    told: set[tuple[str, str]] = set()
    for end in run.ends:
        errors: list[tuple[str, str, tuple[int, ...]]] = [(end.error, f"torchrun on {end.node}", ())]
        errors += [
            (state.error, f"error of rank {state.rank} on {end.node}", (state.rank,))
            for state in end.ranks
            if state.ended == "exit"
        ]
        for text, source, ranks in errors:
            finding = _recognised(text, source, ranks, end.node, run, snapshots.get(end.node))
            if finding is not None and (finding.id, end.node) not in told:
                told.add((finding.id, end.node))
                yield finding


def _recognised(
    text: str, source: str, ranks: tuple[int, ...], node: str, run: RunResult, machine: Snapshot | None
) -> Finding | None:
    said = read(source, text)
    if _BUSY.search(text):
        return Finding(id="rendezvous-port-busy", nodes=(node,), ranks=ranks, problem=_busy(text, said, node, run))
    if found := _NO_INTERFACE.search(text):
        problem = _no_interface(found[1], said, node, run, machine)
        return Finding(id="interface-missing-on-node", nodes=(node,), ranks=ranks, problem=problem)
    if _NO_TORCH.search(text):
        return Finding(
            id="torch-missing-on-node", nodes=(node,), ranks=ranks, problem=_no_torch(said, node, run, machine)
        )
    if _IMPORT.search(text):
        line = text.splitlines()[0][:300]
        problem = Problem(
            severity="error",
            summary=f"torch cannot be imported on {node}: {line}",
            meaning="No rank of a training job starts there, and those of the other nodes wait at the rendezvous.",
            fix=Fix("Repair the environment of that node.", (story.on(node, command("gpudoctor check pytorch"), run),)),
            evidence=(said,),
        )
        return Finding(id="torch-import-failed-on-node", nodes=(node,), ranks=ranks, problem=problem)
    return None


def _busy(text: str, said: Reading[str], node: str, run: RunResult) -> Problem:
    port = found[1] if (found := _PORT.search(text)) else ""
    which = f"port {port}" if port else "the port of the rendezvous"
    return Problem(
        severity="error",
        summary=f"{which} on {node} is in use by another process; rank 0's store must listen on it",
        meaning="torchrun ends at once on this node; the others would join the stranger, or wait for it in vain.",
        fix=Fix(
            "End what listens there, often a job that was left behind, or take another port with --master-port.",
            (
                story.on(
                    node, command("sudo ss -ltnp {}", f"sport = :{port}") if port else command("sudo ss -ltnp"), run
                ),
            ),
        ),
        evidence=(said,),
    )


def _no_interface(name: str, said: Reading[str], node: str, run: RunResult, machine: Snapshot | None) -> Problem:
    interfaces: Reading[object] = missing("interfaces", f"{node} was not examined")
    there: list[str] = []
    if machine is not None:
        interfaces = read(machine.network.interfaces.source, "read")
        known = machine.network.interfaces.value_or(())
        there = [each.name for each in known if each.kind != "loopback" and each.is_up and each.addresses]
        interfaces = (
            read(machine.network.interfaces.source, ", ".join(each.name for each in known))
            if known
            else machine.network.interfaces
        )
    has = f"; it has {listed(there)}" if there else ""
    line = command("export GLOO_SOCKET_IFNAME={:interface}", there[0]) if there else command("unset GLOO_SOCKET_IFNAME")
    return Problem(
        severity="error",
        summary=f"gloo found no address on interface {name} of {node}{has}",
        meaning=f"{IFNAME} names an interface that this node does not have, or that has no address; every process "
        "that opens a gloo group there fails.",
        fix=Fix(
            f"Name an interface that every node has, or take {IFNAME} out: gloo then takes the hostname's address.",
            tuple(story.on(node, each, run) for each in (line, command("ip -brief address"))),
        ),
        evidence=(said, interfaces),
    )


def _no_torch(said: Reading[str], node: str, run: RunResult, machine: Snapshot | None) -> Problem:
    python = machine.training.python.value_or("") if machine is not None else ""
    where = f"{python} on {node}" if python else f"the training interpreter of {node}"
    return Problem(
        severity="error",
        summary=f"{where} has no torch",
        meaning="No rank can start there, and those of the other nodes wait at the rendezvous.",
        fix=Fix(
            "Install the torch of the other nodes, or name the interpreter that has it with --python.",
            (story.on(node, command("{:python} -m pip install torch", python or "python3"), run),),
        ),
        evidence=(said,),
    )
