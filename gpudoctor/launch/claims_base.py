"""What was seen of a plan's nodes, and how an answer to one of its claims is made of it."""

from collections.abc import Mapping

from msgspec import Struct, field

from gpudoctor.command import Command, command
from gpudoctor.fleet.clocks import ClockOffset
from gpudoctor.fleet.messages import Touched
from gpudoctor.fleet.names import folded
from gpudoctor.launch.plan import LaunchPlan
from gpudoctor.launch.verified import REFUTED, Check, Verified
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.preflight_nodes import Nodes
from gpudoctor.snapshot import Snapshot

FALSE_BY: dict[Check, tuple[str, ...]] = {
    "address owner": ("master-addr-elsewhere",),
    "same answer": ("master-addr-unresolvable", "master-addr-loopback", "head-resolves-differently"),
    "host name": ("hostname-loopback", "socket-interface-loopback"),
    "route": ("mtu-mismatch",),
    "port free": ("master-port-busy",),
    "reachable": ("master-unreachable",),
    "way back": ("ports-blocked-between-nodes", "only-ssh-gets-through", "large-packets-lost"),
    "interface names": ("socket-interface-missing", "wrong-nic"),
    "settings": ("settings-differ-between-nodes",),
    "clocks": ("clock-skew",),
    "versions": (
        "torch-missing",
        "torch-versions-differ",
        "nccl-versions-differ-between-nodes",
        "cuda-versions-differ",
        "python-versions-differ",
    ),
    "GPUs visible": ("node-without-gpu",),
    "interpreter": ("interpreter-missing-on-node",),
}
"""The preflight's findings that speak against a claim: of severity error they make it false."""
OWN_FIX = {
    "master-port-busy": "End that process if it is a leftover, or leave --master-port out: a free port is found.",
    "master-unreachable": "Open the port on the head, or name one that is open with --master-port.",
    "socket-interface-missing": "Set the variable to an interface that every node has, or leave it unset.",
    "wrong-nic": "Set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the interface of each node that is "
    "in the common network.",
    "hostname-loopback": "Give the own name its real address in /etc/hosts or DNS, or set GLOO_SOCKET_IFNAME.",
}
"""Where the preflight's words are about `gpudoctor nccl-test`."""
NAMES_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
OF_INTERFACES = ("hostname-loopback", "socket-interface-loopback", *FALSE_BY["interface names"])
ANOTHER_COMMAND = ("gpudoctor nccl-test", "unset ", "export ")


class SeenNodes(Struct, frozen=True, kw_only=True):
    """What was found out of the plan's nodes, by name."""

    nodes: Nodes
    """How to reach them, for commands."""
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    clocks: Mapping[str, ClockOffset] = field(default_factory=dict)
    reached: Mapping[str, tuple[Touched, ...]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Nodes that nothing is known of -> why."""
    lost: tuple[Finding, ...] = ()
    """Of those, the ones that could not be reached: what ssh or srun said, and what to do."""
    port_tried: bool = False
    """Whether the head tried to open the port."""


class Answers:
    """Makes answers for one plan."""

    def __init__(self, plan: LaunchPlan, seen: SeenNodes, script: str) -> None:
        self.plan, self.seen, self.script = plan, seen, script
        self.names = tuple(node.name for node in plan.nodes)
        self.head = self.names[0]
        self.workers = self.names[1:]
        self.own = {
            node.name: {
                variable.name: variable.value for variable in node.environment if variable.name in NAMES_INTERFACES
            }
            for node in plan.nodes
            if any(variable.name in NAMES_INTERFACES for variable in node.environment)
        }
        """Interfaces that nodes are told by themselves. The preflight tried the ranks' choice without these."""
        self.findings = tuple(
            finding
            for finding in seen.findings
            if finding.id not in OF_INTERFACES or not set(finding.nodes) & self.own.keys()
        )
        self.at = f"[{plan.master_address}]" if ":" in plan.master_address else plan.master_address

    def on(self, node: str, line: Command) -> Command:
        """A line to paste here that runs `line` there."""
        return self.seen.nodes.on(node, line)

    def against(self, check: Check, claim: str) -> Verified | None:
        """False where a finding of severity error speaks against the claim."""
        findings = [finding for finding in self.findings if finding.id in FALSE_BY.get(check, ())]
        bad = [finding for finding in findings if finding.problem.severity == "error"]
        if not bad:
            return None
        first = bad[0]
        commands = tuple(each for each in first.problem.fix.commands if not each.startswith(ANOTHER_COMMAND))
        more = "".join(f"; {finding.problem.summary}" for finding in bad[1:3])
        return Verified(
            check=check,
            claim=claim,
            outcome="false",
            id=first.id,
            seen=first.problem.summary + more,
            means=first.problem.meaning,
            nodes=tuple(dict.fromkeys(node for finding in bad for node in finding.nodes)),
            fix=OWN_FIX.get(first.id, first.problem.fix.text),
            commands=commands,
        )

    def remarks(self, check: Check) -> str:
        """What findings of a lower severity say."""
        return "; ".join(
            finding.problem.summary
            for finding in self.findings
            if finding.id in FALSE_BY.get(check, ()) and finding.problem.severity == "warning"
        )

    def decided(
        self, check: Check, claim: str, unread: Mapping[str, str], line: Command, *, seen: str = ""
    ) -> Verified:
        """False by a finding; else unknown while a node's part is not known; else true."""
        if (bad := self.against(check, claim)) is not None:
            return bad
        if unread:
            return self.unknown(check, claim, unread, line)
        return Verified(check=check, claim=claim, outcome="true", seen=seen or self.remarks(check), nodes=self.names)

    def unknown(self, check: Check, claim: str, unread: Mapping[str, str], line: Command) -> Verified:
        names = tuple(unread)
        return Verified(
            check=check,
            claim=claim,
            outcome="unknown",
            seen=next(iter(unread.values()))
            if names == self.names
            else f"{folded(names)}: {next(iter(unread.values()))}",
            nodes=names,
            commands=tuple(self.on(name, line) for name in names[:3]),
        )

    def false(
        self,
        check: Check,
        claim: str,
        seen: str,
        means: str,
        nodes: tuple[str, ...],
        fix: str,
        *commands: Command,
        id: str = "",
    ) -> Verified:
        return Verified(
            check=check,
            claim=claim,
            outcome="false",
            id=id or REFUTED[check],
            seen=seen,
            means=means,
            nodes=nodes,
            fix=fix,
            commands=commands,
        )

    def without_snapshot(self, names: tuple[str, ...] | None = None) -> dict[str, str]:
        """Nodes that were not examined -> why."""
        return {
            name: self.seen.unseen.get(name, "it was not examined")
            for name in (self.names if names is None else names)
            if name not in self.seen.snapshots
        }

    def exist(self, check: Check, claim: str, path: str, kinds: Mapping[str, str], means: str, fix: str) -> Verified:
        words = {"missing": "not there", "folder": "a folder", "unreadable": "not readable for this user"}
        bad = {name: words[kind] for name, kind in kinds.items() if kind in words}
        line = command("ls -l {:path}", path)
        if bad:
            wrong_names = "; ".join(
                f"{folded(name for name in bad if bad[name] == why)}: {why}" for why in dict.fromkeys(bad.values())
            )
            return self.false(
                check, claim, wrong_names, means, tuple(bad), fix, *(self.on(name, line) for name in list(bad)[:3])
            )
        unread = {
            name: self.seen.unseen.get(name, "no answer in time") for name, kind in kinds.items() if kind != "file"
        }
        return self.decided(check, claim, unread, line)
