"""Lines for a Slurm batch script.

Not `#SBATCH --export=NAME=VALUE`: Slurm splits that at commas, which NCCL_IB_HCA is full of. Variables that the
script exports reach every task, because srun hands its whole environment on by default (--export=ALL).
"""

from gpudoctor.emit.comments import document
from gpudoctor.emit.shell import export
from gpudoctor.knowledge.suggest.advice import Advice


def slurm(advice: Advice) -> str:
    """`export` lines for a batch script."""
    return document(
        advice,
        "For a batch script: after the #SBATCH lines, before srun; srun must not be given --export=NONE. Ask on a "
        "compute node (srun -N1 gpudoctor env --format slurm), for the login node's network is another one.",
        export,
    )
