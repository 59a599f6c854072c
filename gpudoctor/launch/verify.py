"""`gpudoctor launch --check`: what a plan takes for true, looked at on the nodes that can be reached."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from gpudoctor.command import command
from gpudoctor.fleet.fleet import Fleet, Node
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import may_set
from gpudoctor.fleet.reach import reach
from gpudoctor.launch.claims import judge
from gpudoctor.launch.claims_base import SeenNodes
from gpudoctor.launch.plan import LaunchPlan
from gpudoctor.launch.verified import Check, Outcome, Verified, has_false, unverified
from gpudoctor.launcher import registry
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.lost import lost_findings
from gpudoctor.nccl.preflight import Preflight, PreflightWish, preflight
from gpudoctor.nccl.preflight_nodes import Nodes
from gpudoctor.snapshot import Snapshot

SECONDS = 20.0
"""An examination may take this long: a busy node, a slow name server."""
NOTHING_LEADS_THERE = "nothing leads there from here: name the nodes with --hosts"


def verify(
    plan: LaunchPlan,
    fleet: Fleet | None,
    snapshots: Mapping[str, Snapshot],
    *,
    script_folder: str = "",
    on_step: Callable[[str], None] | None = None,
) -> tuple[Verified, ...]:
    """Every claim of the plan, one by one; takes seconds and never raises for what a node does.

    `fleet`: the plan's nodes in its order, or the first of them. Its agents must have said Hello (`reach`), or be
    lost. None: only this machine is looked at, where it is the head, for its snapshot is given then. `snapshots`: by
    the nodes' names, for nodes that the fleet does not reach. `script_folder`: where a relative script lies; "" is the
    folder of this shell.
    """
    if registry.frameworks()[plan.framework].scheduler in ("kubernetes", "cloud"):
        return (_of_a_scheduler(plan),)  # the machines are chosen when it starts
    if fleet is None and plan.nodes[0].name in snapshots:
        with LocalFleet([plan.nodes[0].name]) as head:
            reach(head, timeout=head.patience)
            return _verify(plan, head, snapshots, _script(plan, script_folder), on_step)
    return _verify(plan, fleet, snapshots, _script(plan, script_folder), on_step)


def _verify(
    plan: LaunchPlan,
    fleet: Fleet | None,
    snapshots: Mapping[str, Snapshot],
    script: str,
    on_step: Callable[[str], None] | None,
) -> tuple[Verified, ...]:
    files = tuple(path for path in (plan.python, script) if path and "\0" not in path)
    before = preflight(fleet, _wish(plan, files), on_step=on_step) if fleet is not None and fleet.present else None
    return judge(plan, _seen(plan, fleet, before, snapshots), script)


def _wish(plan: LaunchPlan, files: tuple[str, ...]) -> PreflightWish:
    """The same address, port, interpreter and variables as the launch."""
    return PreflightWish(
        backend="nccl" if plan.accelerator == "cuda" else "gloo",
        master_address=plan.master_address,
        master_port=plan.master_port,
        python=plan.python,
        settings={variable.name: variable.value for variable in plan.environment if may_set(variable.name)},
        timeout=SECONDS,
        files=files,
    )


def _script(plan: LaunchPlan, folder: str) -> str:
    """The script's absolute path; "" where a module is started."""
    if plan.program[0] == "-m":
        return ""
    return str((Path(folder) if folder else Path.cwd()) / Path(plan.program[0]).expanduser())


def _seen(
    plan: LaunchPlan, fleet: Fleet | None, before: Preflight | None, snapshots: Mapping[str, Snapshot]
) -> SeenNodes:
    """By the plan's names: the fleet's first nodes are the plan's."""
    names = {number: node.name for number, node in enumerate(plan.nodes)}
    there = {number: names[number] for number in range(len(fleet.nodes)) if number in names} if fleet else {}
    own = {name: snapshot for name, snapshot in snapshots.items() if name in names.values()}
    lost = {names[number]: lost.words for number, lost in fleet.lost.items() if number in names} if fleet else {}
    ways: dict[str, Node] = {names[number]: fleet.nodes[number] for number in there} if fleet else {}
    nodes = Nodes(own, "nccl" if plan.accelerator == "cuda" else "gloo", fleet.how if fleet else "none", ways)
    if before is None:
        unseen = {name: NOTHING_LEADS_THERE for name in names.values() if name not in own and name not in lost}
        return SeenNodes(nodes=nodes, snapshots=own, unseen={**lost, **unseen}, lost=_lost(fleet, names))
    examined = {there[number]: snapshot for number, snapshot in before.snapshots.items() if number in there}
    own |= examined
    not_examined = _evidence(before.findings, "node-not-examined")
    unseen = {
        name: lost.get(name) or not_examined.get(name, NOTHING_LEADS_THERE)
        for name in names.values()
        if name not in own
    }
    busy = any(finding.id == "master-port-busy" for finding in before.findings)
    opened = any(
        attempt.target.purpose == "rendezvous" and attempt.outcome != "failed"
        for touched in before.reached.values()
        for attempt in touched
    )
    return SeenNodes(
        nodes=nodes,
        snapshots=own,
        findings=before.findings,
        clocks={there[number]: clock for number, clock in before.clocks.items() if number in there},
        reached={there[number]: touched for number, touched in before.reached.items() if number in there},
        files={there[number]: kinds for number, kinds in before.files.items() if number in there},
        unseen=unseen,
        lost=_lost(fleet, names),
        port_tried=busy or opened,
    )


def _lost(fleet: Fleet | None, names: Mapping[int, str]) -> tuple[Finding, ...]:
    """Of the plan's nodes those that could not be reached, under the plan's names."""
    if fleet is None:
        return ()
    findings = lost_findings(fleet, meaning="No rank starts there, and the others wait for it until their time-out.")
    called = {fleet.nodes[number].name: name for number, name in names.items() if number < len(fleet.nodes)}
    planned = (
        msgspec.structs.replace(finding, nodes=tuple(called[name] for name in finding.nodes if name in called))
        for finding in findings
    )
    return tuple(finding for finding in planned if finding.nodes)


def _evidence(findings: tuple[Finding, ...], id: str) -> dict[str, str]:
    return {node: finding.problem.summary for finding in findings if finding.id == id for node in finding.nodes}


def _of_a_scheduler(plan: LaunchPlan) -> Verified:
    in_pods = registry.frameworks()[plan.framework].scheduler == "kubernetes"
    return Verified(
        check="nodes reached",
        claim="The machines that the job gets are as planned",
        outcome="unknown",
        seen="they are chosen when it starts",
        commands=(command("gpudoctor nccl-test --nodes {:number} --emit kubernetes", len(plan.nodes)),)
        if in_pods
        else (command("gpudoctor check"),),
    )


__all__ = ["Check", "Outcome", "Verified", "has_false", "unverified", "verify"]
