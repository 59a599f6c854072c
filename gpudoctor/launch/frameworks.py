"""What can be said to start the ranks. On its own, for the command line reads it before anything else is imported."""

from typing import Literal

Framework = Literal[
    "torchrun",
    "lightning",
    "accelerate",
    "deepspeed",
    "horovod",
    "mpirun",
    "slurm",
    "kubernetes",
    "ray",
    "skypilot",
    "torchx",
    "spawn",
    "xla",
]
