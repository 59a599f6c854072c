"""What a plan takes for true, judged by what was seen of the nodes. Pure: `verify` does the looking.

Most of the list is what a preflight looks for.
"""

from collections.abc import Iterator

import msgspec

from gpudoctor.command import command
from gpudoctor.fleet.names import folded
from gpudoctor.launch.claims_base import SeenNodes
from gpudoctor.launch.claims_network import NetworkClaims
from gpudoctor.launch.claims_software import SoftwareClaims
from gpudoctor.launch.plan import LaunchPlan
from gpudoctor.launch.verified import Verified
from gpudoctor.nccl.preflight_names import is_address


def judge(plan: LaunchPlan, seen: SeenNodes, script: str) -> tuple[Verified, ...]:
    """All claims in the order of a launch. `script`: the absolute path to look at; "" where there is none."""
    return tuple(_Judge(plan, seen, script).all())


class _Judge(NetworkClaims, SoftwareClaims):
    def all(self) -> Iterator[Verified]:
        several = len(self.names) > 1
        if self.seen.unseen:
            yield from self.nodes_reached()
        yield self.address_form()
        if several:
            yield self.address_owner()
            if not is_address(self.plan.master_address):
                yield self.same_answer()
            yield self.host_names()
            yield self.routes()
        yield self.port_free()
        if several:
            yield self.reachable()
            yield self.way_back()
            yield self.interface_names()
            yield self.settings()
            yield self.clocks()
        yield self.versions()
        if self.plan.accelerator == "cuda":
            yield self.gpus_visible()
        yield self.interpreter()
        yield self.script_exists()

    def nodes_reached(self) -> Iterator[Verified]:
        for finding in self.seen.lost:
            yield self.false(
                "nodes reached",
                f"{folded(finding.nodes)} can be reached",
                finding.problem.summary,
                finding.problem.meaning,
                finding.nodes,
                finding.problem.fix.text,
                *finding.problem.fix.commands,
                id=finding.id,
            )
        lost = {name for finding in self.seen.lost for name in finding.nodes}
        by_reason: dict[str, list[str]] = {}
        for name, why in self.seen.unseen.items():
            if name not in lost:
                by_reason.setdefault(why, []).append(name)
        for why, names in by_reason.items():
            claim = f"{folded(names)} {'is' if len(names) == 1 else 'are'} as planned"
            verified = self.unknown("nodes reached", claim, dict.fromkeys(names, why), command("gpudoctor check"))
            yield msgspec.structs.replace(verified, seen=why)
