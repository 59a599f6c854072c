"""A batch script for Slurm that runs `gpudoctor nccl-test` on an allocation of its own: `nccl-test --emit slurm`."""

from collections.abc import Iterator, Sequence

from gpudoctor.command import word as quoted
from gpudoctor.emit.comments import comment

USUAL_GPUS = 8
"""GPUs of most nodes that train; marked in the script where the user did not say a number."""
JOB_NAME = "gpudoctor-nccl-test"
MINUTES = 30
"""Far more than a test takes; less than a job that stands still may cost."""


def script(nodes: int, ranks_per_node: int | None, arguments: Sequence[str]) -> str:
    """The whole file. `arguments`: options of `gpudoctor nccl-test` besides --nodes and --emit.

    The command runs in the batch shell, which is on the first node, and reaches the others by srun.
    """
    return "\n".join(_lines(nodes, ranks_per_node, arguments)) + "\n"


def _lines(nodes: int, ranks_per_node: int | None, arguments: Sequence[str]) -> Iterator[str]:
    yield "#!/bin/bash"
    yield from comment("gpudoctor nccl-test in an allocation of its own. Submit it with: sbatch FILE")
    yield f"#SBATCH --job-name={JOB_NAME}"
    yield f"#SBATCH --output={JOB_NAME}-%j.out"
    yield f"#SBATCH --nodes={nodes}"
    yield "#SBATCH --ntasks-per-node=1"
    yield "#SBATCH --exclusive"
    yield f"#SBATCH --time={MINUTES}"
    if not on_gloo(arguments):
        if ranks_per_node is None:
            yield from comment("CHANGE where a node has another number of GPUs:")
        yield f"#SBATCH --gpus-per-node={ranks_per_node or USUAL_GPUS}"
    yield ""
    yield from comment("Where gpudoctor is not on the PATH of the shell that submits: activate its environment here.")
    words = ["gpudoctor", "nccl-test", "--nodes", str(nodes), *arguments]
    yield "exec " + " ".join(quoted(word) for word in words)


def on_gloo(arguments: Sequence[str]) -> bool:
    """Whether the options ask for gloo, which needs no GPU. The last one counts, as for the command itself."""
    backend = ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == "--backend":
            backend = following
        elif word.startswith("--backend="):
            backend = word.partition("=")[2]
    return backend == "gloo"
