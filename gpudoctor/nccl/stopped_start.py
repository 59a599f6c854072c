"""What keeps a node's ranks from starting: no torchrun, no torch, a busy port, an interface that is not there."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.knowledge.network.gloo_interface import IFNAME
from gpudoctor.knowledge.wording import listed
from gpudoctor.lazy import lazy_re
from gpudoctor.nccl import story
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import Reading, Snapshot, missing, read
from gpudoctor.symptoms.in_text import symptoms


def not_started(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Nodes whose agent could not start torchrun."""
    for end in run.ends:
        if end.how == "not started":
            yield story.blamed(
                "rank-not-started",
                f"no rank was started on {end.node}: {end.error or 'no reason was given'}",
                run,
                [end.node],
                fix=CAUSES["rank-not-started"].remedy("interpreter"),
                evidence=[read(f"agent on {end.node}", end.error)],
            )


def start_errors(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Errors of torchrun and of ranks that say by themselves what is missing on their node."""
    said: set[tuple[str, str]] = set()
    for end in run.ends:
        errors: list[tuple[str, str, tuple[int, ...]]] = [(end.error, f"torchrun on {end.node}", ())]
        errors += [
            (state.error, f"error of rank {state.rank} on {end.node}", (state.rank,))
            for state in end.ranks
            if state.ended == "exit"
        ]
        for text, source, ranks in errors:
            known = _recognised(text, end.node, snapshots.get(end.node))
            if known is not None and (known.cause, end.node) not in said:
                said.add((known.cause, end.node))
                evidence = (read(source, text), *known.evidence)
                yield story.blamed(known.cause, known.summary, run, [end.node], ranks, fix=known.fix, evidence=evidence)


_IMPORT = lazy_re(r"^(ImportError|ModuleNotFoundError|OSError: .*\.so|AttributeError.*torch)", re.MULTILINE)


class _Start(NamedTuple):
    """What an error says of a node."""

    cause: str
    summary: str
    fix: Fix
    evidence: tuple[Reading[object], ...] = ()


def _recognised(text: str, node: str, machine: Snapshot | None) -> _Start | None:
    """By the log lines that are known, with what the node's snapshot adds."""
    known = {shown.symptom.id: shown.values for shown in symptoms(text)}
    if (values := known.get("store-port-in-use")) is not None:
        return _busy(values.get("port", ""), node)
    if (values := known.get("gloo-no-address")) is not None:
        return _no_interface(values["interface"], node, machine)
    cannot = CAUSES["rank-not-started"]
    if known.get("module-missing", {}).get("module") == "torch":
        python = machine.training.python.value_or("") if machine is not None else ""
        where = f"{python} on {node}" if python else f"the training interpreter of {node}"
        install = command("{:python} -m pip install torch", python or "python3")
        return _Start(cannot.id, f"{where} has no torch", cannot.remedy("no torch", install))
    if _IMPORT.search(text):
        line = text.splitlines()[0][:300]
        return _Start(cannot.id, f"torch cannot be imported on {node}: {line}", cannot.remedy("import"))
    return None


def _busy(port: str, node: str) -> _Start:
    which = f"port {port}" if port else "the port of the rendezvous"
    held = command("sudo ss -ltnp {}", f"sport = :{port}") if port else command("sudo ss -ltnp")
    return _Start(
        "master-port-in-use",
        f"{which} on {node} is in use by another process; rank 0's store must listen on it",
        CAUSES["master-port-in-use"].remedy("nccl-test", held),
    )


def _no_interface(name: str, node: str, machine: Snapshot | None) -> _Start:
    interfaces: Reading[object] = missing("interfaces", f"{node} was not examined")
    there: list[str] = []
    if machine is not None:
        known = machine.network.interfaces.value_or(())
        there = [
            interface.name
            for interface in known
            if interface.kind != "loopback" and interface.is_up and interface.addresses
        ]
        names = ", ".join(interface.name for interface in known)
        interfaces = read(machine.network.interfaces.source, names) if known else machine.network.interfaces
    has = f"; it has {listed(there)}" if there else ""
    line = command("export GLOO_SOCKET_IFNAME={:interface}", there[0]) if there else command("unset GLOO_SOCKET_IFNAME")
    return _Start(
        "wrong-nic",
        f"gloo found no address on interface {name} of {node}{has}",
        CAUSES["wrong-nic"].remedy("gloo", line, variable=IFNAME),
        (interfaces,),
    )
