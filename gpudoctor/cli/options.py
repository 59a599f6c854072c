"""How an option is written, those that several commands share, and what becomes of their answers."""

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

if TYPE_CHECKING:
    from gpudoctor.envelope import Answer
    from gpudoctor.snapshot import Snapshot


A = TypeVar("A", bound="Answer")


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
Expect = Annotated[
    str | None, option("--expect WHAT", "What must be there: 8xH100, gpus=8, or cpu (no accelerator is meant).")
]
Baseline = Annotated[
    str | None, option("--baseline FILE", "An earlier capture: what is gone, slower, older or changed since.")
]
NoTorch = Annotated[bool, option("--no-torch", "Do not import torch in the training interpreter.")]
Deep = Annotated[bool, option("--deep", "Run the active tests too: each GPU computes, fp16 and bf16, DDP.")]
WAITED = "How long to wait for one thing: a reading, a device, a rank that stands still."
Timeout = Annotated[float, seconds("--timeout SECONDS", WAITED, least=0.1)]
TestTimeout = Annotated[float, option("--timeout SECONDS", WAITED, least=1, most=3600)]
FromFile = Annotated[
    str | None,
    option(
        "--from FILE",
        "Read FILE (- is standard input) instead of looking: what --json or `capture` has written or, of a machine, a "
        "tool such as nvidia-smi.",
    ),
]
Json = Annotated[bool, option("--json", "The answer as JSON.")]
Paste = Annotated[bool, option("--paste", "For an issue: markdown, private names hidden.")]
Html = Annotated[str | None, option("--html FILE", "One page too, to send on: FILE.html, with everything inside.")]
Redact = Annotated[bool, option("--redact", "Hide hostnames, users, addresses, UUIDs, serials and home paths.")]
_MORE = "Reasons, evidence, whom to blame; -vv for everything."
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, show_default=False, help=_MORE)]
NoColor = Annotated[bool, option("--no-color", "No colour; NO_COLOR in the environment does the same.")]
Nodes = Annotated[
    int | None, option("--nodes N", "How many nodes: of the Slurm allocation, or that join or train together.", least=1)
]
Hosts = Annotated[str | None, option("--hosts LIST", "Nodes by ssh, the head first: 'n[01-16]', 'a,user@b:2222'.")]
Hostfile = Annotated[str | None, option("--hostfile FILE", "Nodes by ssh, the head first: lines of NAME [slots=N].")]
Exclude = Annotated[str | None, option("--exclude LIST", "Leave these nodes out.")]
RemoteGpudoctor = Annotated[str | None, option("--remote-gpudoctor PATH", "gpudoctor on the other nodes.")]
GpusPerNode = Annotated[int | None, option("--gpus-per-node G", "Ranks a node.", least=1, most=1024)]
MasterAddress = Annotated[str | None, option("--master-addr A", "The head's address.")]
MasterPort = Annotated[int | None, option("--master-port P", "The rendezvous port.", least=1, most=65535)]
Backend = Annotated[Literal["auto", "nccl", "gloo"], option("--backend", "nccl, or gloo over CPU.")]
Interface = Annotated[str | None, option("--interface IF", "The interface that all nodes use.")]
Wait = Annotated[float, option("--wait SECONDS", "How long nodes have to join.", least=1, most=86400)]
RanksShareGpu = Annotated[bool, option("--ranks-share-gpu", "Several ranks on GPU 0, to try NCCL out; never graded.")]
Facts = Annotated[
    str | None,
    option("--facts LIST", "What the text does not tell: nodes=2,gpus_per_node=4,torch=2.4,lightning=1.9."),
]
FrameworkVersion = Annotated[str | None, option("--framework-version V", "As if V were installed.")]
Pid = Annotated[int | None, option("--pid P", "The job of this process.", least=1)]
Job = Annotated[str | None, option("--job ID", "A Slurm job, or a job's id as `hang` shows it.")]
OUTPUT = "Where to write it: a file, or for several files a folder."
FORM = "The form to write it in."
FORCED = "Do it although it is advised against: a copy eight times as large, a job that has an error."
FIXED = "What was given, corrected: a text is printed, a checkpoint is written to OUT."
COMPUTED_IN = "What the ranks compute in."
SHARED_BY = "How the ranks share the work."
OF_NUMBERS = "Types of the numbers."
VERIFIED = "Also verify on the machines what would be taken for true."
Plot = Annotated[str | None, option("--plot FILE", "A picture too: FILE.svg or FILE.png.")]


# ---------------------------------------------------------------- what a command does with them


def machine_from(
    path: str | None, *forms: type[A], python: str | None = None, torch: bool = True, timeout: float
) -> "Snapshot | A":
    """The machine in a file, or this one, with what is waited for on a terminal; or a saved answer in that file."""
    if path is not None:
        from gpudoctor.cli.files import snapshot_or

        return snapshot_or(path, *forms)
    from gpudoctor.library import examine
    from gpudoctor.render.progress import Progress

    with Progress(sys.stderr) as progress:
        return examine(python=python, torch=torch, timeout=timeout, waiting=progress.waiting)


def of_machine(what: A, machine: "Snapshot") -> A:
    """The answer, with the machine named that it is about."""
    from msgspec.structs import replace

    from gpudoctor.render.words import machine_line

    return replace(what, machine=machine_line(machine))


def answer(
    what: A,
    show: Callable[[A, Any], None],
    *,
    json: bool,
    no_color: bool,
    status: int | None = None,
    saved: bool = False,
) -> None:
    """Print an answer: as JSON where that was asked for, else shown on the terminal.

    `status`: the command's, where an option makes it another than the answer's own. `saved`: it comes from a file.
    """
    if json:
        from gpudoctor.envelope import encode
        from gpudoctor.render.words import shown_json

        print(shown_json(encode(what, status)))
    else:
        from gpudoctor.render.prose import console, show_lines_left_out

        screen = console(no_color=no_color)
        if saved and any(what.stated()):  # before it: the verdict is the last line
            show_lines_left_out(screen)
        show(what, screen)
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


def check_html_of(path: str | None, *, redact: bool = False) -> None:
    """Say before anything slow what would fail after it."""
    from gpudoctor.errors import BadInput

    if redact and path is None:
        raise BadInput("--redact goes with --html FILE")
    if path is not None:
        from gpudoctor.cli.files import check_writable

        if not path.endswith((".html", ".htm")):
            raise BadInput(f"--html {path}: the name must end in .html")
        check_writable(path, "--html")
