"""srun, sbatch and salloc: the options of Slurm 22.05 to 25.05 (man pages srun(1), sbatch(1))."""

from collections.abc import Sequence


def options_end(words: Sequence[str]) -> int:
    """The index in `words` (srun first) of the command that it starts; len(words) when there is none."""
    return len(words)
