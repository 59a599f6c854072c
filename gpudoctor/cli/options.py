"""Options that several commands share."""

import math
from typing import Annotated, Literal, Optional

import typer


def finite(seconds: float) -> float:
    """Of an option in seconds: what is no number is refused."""
    if not math.isfinite(seconds):  # NaN passes every comparison with a bound
        raise typer.BadParameter(f"{seconds} is not a number of seconds")
    return seconds


Python = Annotated[
    Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
    typer.Option("--python", metavar="PATH", help="The training interpreter to examine.", show_default=False),
]
NoTorch = Annotated[bool, typer.Option("--no-torch", help="Do not import torch in the training interpreter.")]
Deep = Annotated[bool, typer.Option("--deep", help="Run the active tests too: each GPU computes, fp16 and bf16, DDP.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=3600,
        callback=finite,
        help="Deadline of each thing that is read.",
    ),
]
FromFile = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option(
        "--from",
        metavar="FILE",
        help="A captured snapshot, or the output of `nvidia-smi -q` or `nvidia-smi -q -x`; - is standard input.",
        show_default=False,
    ),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour; NO_COLOR in the environment does the same.")]
Exclude = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option("--exclude", metavar="LIST", help="Leave these nodes out.", show_default=False),
]
RemoteGpudoctor = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option("--remote-gpudoctor", metavar="PATH", help="gpudoctor on the other nodes.", show_default=False),
]
GpusPerNode = Annotated[
    Optional[int],  # noqa: UP045 - as above
    typer.Option("--gpus-per-node", metavar="G", min=1, max=1024, help="Ranks a node.", show_default=False),
]
MasterAddress = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option("--master-addr", metavar="A", help="The head's address.", show_default=False),
]
MasterPort = Annotated[
    Optional[int],  # noqa: UP045 - as above
    typer.Option("--master-port", metavar="P", min=1, max=65535, help="The rendezvous port.", show_default=False),
]
Nodes = Annotated[
    Optional[int],  # noqa: UP045 - as above
    typer.Option("--nodes", metavar="N", min=1, help="So many nodes: SLURM's, or those that join.", show_default=False),
]
Hosts = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option("--hosts", metavar="LIST", help="Nodes by ssh: 'n[01-16]', 'a,user@b:2222'.", show_default=False),
]
Hostfile = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option("--hostfile", metavar="FILE", help="Nodes by ssh: lines of NAME [slots=N].", show_default=False),
]
Backend = Annotated[Literal["auto", "nccl", "gloo"], typer.Option("--backend", help="nccl, or gloo over CPU.")]
Stall = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=1, max=3600, help="End the test when it stands still this long."),
]
Interface = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option("--interface", metavar="IF", help="The interface that all nodes use.", show_default=False),
]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=1, max=86400, help="How long nodes have to join.")
]
RanksShareGpu = Annotated[
    bool, typer.Option("--ranks-share-gpu", help="Several ranks on GPU 0, to try NCCL out; never graded.")
]
