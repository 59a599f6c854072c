"""What a node that could not be reached, or was lost, means, and what to do."""

from gpudoctor.fleet.fleet import Fleet
from gpudoctor.nccl.finding import Finding


def lost_findings(fleet: Fleet) -> tuple[Finding, ...]:
    """One finding for each kind of loss, with its nodes."""
    return ()
