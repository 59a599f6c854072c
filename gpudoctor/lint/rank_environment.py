"""What those who start a rank set in its environment, as far as the text says it: SLURM_*, WORLD_SIZE."""

from gpudoctor.lint import allocation, look
from gpudoctor.lint.model import LintJob, LintLaunch


def of_starter(job: LintJob, launch: LintLaunch) -> dict[str, str]:
    """By name; what is not known is left out."""
    if launch.launcher in look.TORCHRUN:
        nodes, each = look.nnodes(launch), look.whole(launch.text("nproc-per-node"))
        if nodes is None or each is None or nodes[0] != nodes[1]:
            return {}
        return {"WORLD_SIZE": str(nodes[1] * each), "LOCAL_WORLD_SIZE": str(each)}
    if not look.sruns(launch):
        return {}
    counts = {
        "SLURM_NNODES": allocation.nodes(job, launch),
        "SLURM_NTASKS": allocation.tasks(job, launch),
        "SLURM_NTASKS_PER_NODE": look.whole(allocation.asked(job, launch, "ntasks-per-node")),
    }
    same = {"SLURM_JOB_NUM_NODES": "SLURM_NNODES", "SLURM_NPROCS": "SLURM_NTASKS"}
    counts |= {name: counts[other] for name, other in same.items()}
    return {name: str(count) for name, count in counts.items() if count is not None}
