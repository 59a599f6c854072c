"""How an option is written, those that several commands share, and what becomes of their answers."""

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

if TYPE_CHECKING:
    from gpudoctor.snapshot import Snapshot


T = TypeVar("T")


def option(
    words: str,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    check: Callable[[float], float] | None = None,
) -> Any:
    """ "-o --output FILE": its names, then what it takes; and the bounds of a number."""
    names = [word for word in words.split() if word.startswith("-")]
    metavar = " ".join(words.split()[len(names) :]) or None
    return typer.Option(*names, metavar=metavar, help=help, min=least, max=most, callback=check)


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, help=help)


def finite(seconds: float) -> float:
    """Of an option in seconds: what is no number is refused."""
    if not math.isfinite(seconds):  # NaN passes every comparison with a bound
        raise typer.BadParameter(f"{seconds} is not a number of seconds")
    return seconds


def seconds(words: str, help: str, *, least: float) -> Any:
    return option(words, help, least=least, most=3600, check=finite)


Python = Annotated[str | None, option("--python PATH", "The training interpreter to examine.")]
NoTorch = Annotated[bool, option("--no-torch", "Do not import torch in the training interpreter.")]
Deep = Annotated[bool, option("--deep", "Run the active tests too: each GPU computes, fp16 and bf16, DDP.")]
Timeout = Annotated[float, seconds("--timeout SECONDS", "Deadline of each thing that is read.", least=0.1)]
FromFile = Annotated[
    str | None,
    option(
        "--from FILE",
        "A captured snapshot, or the output of `nvidia-smi -q` or `nvidia-smi -q -x`; - is standard input.",
    ),
]
Saved = Annotated[str | None, option("--from FILE", "Show a saved answer (--json) again.")]
Json = Annotated[bool, option("--json", "The answer as JSON.")]
Paste = Annotated[bool, option("--paste", "For an issue: markdown, private names hidden.")]
NoColor = Annotated[bool, option("--no-color", "No colour; NO_COLOR in the environment does the same.")]
Nodes = Annotated[int | None, option("--nodes N", "So many nodes: SLURM's, or those that join.", least=1)]
SlurmNodes = Annotated[int | None, option("--nodes N", "So many nodes of the Slurm allocation.", least=1)]
Hosts = Annotated[str | None, option("--hosts LIST", "Nodes by ssh: 'n[01-16]', 'a,user@b:2222'.")]
Hostfile = Annotated[str | None, option("--hostfile FILE", "Nodes by ssh: lines of NAME [slots=N].")]
NamesFile = Annotated[str | None, option("--hostfile FILE", "The nodes that a file names, one a line.")]
Exclude = Annotated[str | None, option("--exclude LIST", "Leave these nodes out.")]
RemoteGpudoctor = Annotated[str | None, option("--remote-gpudoctor PATH", "gpudoctor on the other nodes.")]
GpusPerNode = Annotated[int | None, option("--gpus-per-node G", "Ranks a node.", least=1, most=1024)]
MasterAddress = Annotated[str | None, option("--master-addr A", "The head's address.")]
MasterPort = Annotated[int | None, option("--master-port P", "The rendezvous port.", least=1, most=65535)]
Backend = Annotated[Literal["auto", "nccl", "gloo"], option("--backend", "nccl, or gloo over CPU.")]
Stall = Annotated[
    float, option("--timeout SECONDS", "End the test when it stands still this long.", least=1, most=3600)
]
Interface = Annotated[str | None, option("--interface IF", "The interface that all nodes use.")]
Wait = Annotated[float, option("--wait SECONDS", "How long nodes have to join.", least=1, most=86400)]
RanksShareGpu = Annotated[bool, option("--ranks-share-gpu", "Several ranks on GPU 0, to try NCCL out; never graded.")]
FrameworkVersion = Annotated[str | None, option("--framework-version V", "As if V were installed.")]
Plot = Annotated[str | None, option("--plot FILE", "A picture too: FILE.svg or FILE.png.")]


# ---------------------------------------------------------------- what a command does with them


def machine_from(path: str | None, *, python: str | None = None, torch: bool = True, timeout: float) -> "Snapshot":
    """The machine in a file, or this one, with what is waited for on a terminal."""
    if path is not None:
        from gpudoctor.cli.files import snapshot_from

        return snapshot_from(path)
    from gpudoctor.library import examine
    from gpudoctor.render.progress import Progress

    with Progress(sys.stderr) as progress:
        return examine(python=python, torch=torch, timeout=timeout, waiting=progress.waiting)


def answer(what: T, json: Callable[[T], bytes] | None, show: Callable[[T, Any], None], *, no_color: bool) -> None:
    """Print an answer: as JSON by `json` where that was asked for, else shown on the terminal."""
    if json is not None:
        from gpudoctor.render.words import shown_json

        print(shown_json(json(what)))
    else:
        from gpudoctor.render.prose import console

        show(what, console(no_color=no_color))
    sys.stdout.flush()


def exclusive(**given: object) -> None:
    """Refuse options that exclude each other."""
    from gpudoctor.errors import BadInput

    names = ["--" + name.replace("_", "-") for name, value in given.items() if value]
    if len(names) > 1:
        every = ["--" + name.replace("_", "-") for name in given]
        raise BadInput(f"{', '.join(every[:-1])} and {every[-1]} exclude each other")


def check_plot_of(path: str | None) -> None:
    """Say before a test what would fail after it."""
    if path is not None:
        from gpudoctor.render.plot import check_plot

        check_plot(path)
