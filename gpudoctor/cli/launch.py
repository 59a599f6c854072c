"""`gpudoctor launch`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, List, Literal, Optional  # noqa: UP035 - typer on Python 3.10 reads them

import typer

from gpudoctor import programs
from gpudoctor.cli.options import GpusPerNode, MasterAddress, MasterPort, NoColor, Python, Timeout
from gpudoctor.errors import BadInput
from gpudoctor.launcher import registry

if TYPE_CHECKING:
    Framework = str
else:
    Framework = Literal[tuple(registry.frameworks())]
Precision = Literal["fp32", "fp16", "bf16"]
SHELLS = ("bash", "sh", "dash", "zsh", "env", "sudo", "nohup", "time")
PYTHON = re.compile(r"python[0-9.]*")
VERSION = re.compile(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}([a-z+.][a-z0-9.+]{0,30})?", re.ASCII)


def launch(
    program: Annotated[
        Optional[List[str]],  # noqa: UP006, UP045
        typer.Argument(
            metavar="-- SCRIPT [ARGUMENTS]", help="As after `python`; default: train.py.", show_default=False
        ),
    ] = None,
    nodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--nodes", metavar="N", min=1, help="How many nodes train together.", show_default=False),
    ] = None,
    gpus_per_node: GpusPerNode = None,
    hosts: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--hosts", metavar="LIST", help="The nodes, head first: 'n[01-16]', 'a,b'.", show_default=False),
    ] = None,
    hostfile: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--hostfile", metavar="FILE", help="Lines of NAME [slots=N], head first.", show_default=False),
    ] = None,
    master_addr: MasterAddress = None,
    master_port: MasterPort = None,
    framework: Annotated[Framework, typer.Option("--framework", help="What starts the ranks.")] = "torchrun",
    framework_version: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--framework-version", metavar="V", help="As if V were installed.", show_default=False),
    ] = None,
    strategy: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--strategy", metavar="NAME", help="ddp, fsdp, ...", show_default=False),
    ] = None,
    precision: Annotated[
        Optional[Precision],  # noqa: UP045
        typer.Option("--precision", help="What the ranks compute in.", show_default=False),
    ] = None,
    elastic: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--elastic", metavar="MIN:MAX", help="Nodes may come and go (torchrun).", show_default=False),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Verify every claim on the nodes first.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The plan and the text as JSON.")] = False,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("-o", "--output", metavar="DIR", help="Write files, a script a node.", show_default=False),
    ] = None,
    remote_gpudoctor: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--remote-gpudoctor", metavar="PATH", help="For --check: gpudoctor there.", show_default=False),
    ] = None,
    python: Python = None,
    timeout: Timeout = 10.0,
    no_color: NoColor = False,
) -> None:
    """What to paste on every node to start a training, with this cluster's addresses, ports and counts."""
    from gpudoctor.cli import launch_run
    from gpudoctor.cli.fleets import Where
    from gpudoctor.launch.plan import LaunchWish

    if output is not None:
        _refuse_file(output)
    words, own_python = split_program(program or [])
    wish = LaunchWish(
        framework=framework,
        nodes=nodes or 0,
        gpus_per_node=gpus_per_node or 0,
        master_address=master_addr or "",
        master_port=master_port or 0,
        strategy=_plain("--strategy", strategy),
        precision=precision or "",
        python=python or own_python,
        elastic=elastic_range(elastic),
        program=words,
        framework_version=_version(framework_version),
    )
    if master_addr is not None and not master_addr.strip():
        raise BadInput("--master-addr: no address is given")
    status = launch_run.run(
        wish,
        Where(nodes=nodes, hosts=hosts, hostfile=hostfile, remote_gpudoctor=remote_gpudoctor or ""),
        launch_run.How(check=check, json=json, output=output, timeout=timeout, no_color=no_color, given=bool(program)),
    )
    raise typer.Exit(status)


def split_program(given: list[str]) -> tuple[tuple[str, ...], str]:
    """The script with its arguments, and the interpreter where the words begin with one. Raises `BadInput`."""
    words, python = list(given), ""
    if words and PYTHON.fullmatch(Path(words[0]).name):
        python = words[0]
        if python in ("python", "python3"):  # whatever the training interpreter is found to be
            python = ""
        elif "/" not in python:
            python = programs.find(python) or ""
            if not python:
                raise BadInput(f"-- {words[0]}: no such interpreter on PATH; name it by its path")
        words = words[1:]
        while words and words[0] == "-u":
            words = words[1:]
        if not words:
            raise BadInput(f"-- {given[0]}: which script? gpudoctor launch ... -- train.py --lr 0.1")
    if not words:
        return ("train.py",), python
    if not words[0].strip():
        raise BadInput("the script's name after -- is empty")
    if Path(words[0]).name in (*registry.first_words(module=False), "sbatch"):
        raise BadInput(
            f"-- {words[0]}: name the script and its arguments only; `gpudoctor launch` writes the launcher "
            "(`gpudoctor lint -- COMMAND` judges a command that is there already)"
        )
    if Path(words[0]).name in SHELLS or words[0].endswith((".sh", ".bash")):
        raise BadInput(
            f"-- {words[0]}: python cannot run it, and every rank starts python; name the Python script that it starts"
        )
    if words[0] == "-m" and len(words) < 2:
        raise BadInput("-- -m: which module?")
    if words[0].startswith("-") and words[0] != "-m":
        raise BadInput(f"-- {words[0][:40]}: the script comes first, then its arguments")
    return tuple(words), python


def elastic_range(text: str | None) -> tuple[int, int] | None:
    """MIN:MAX. Raises `BadInput`."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,4}):([0-9]{1,4})", text.strip(), re.ASCII)
    if found is None:
        raise BadInput(f"--elastic {text[:40]!r}: MIN:MAX, as in 2:4 (at least 2 nodes, at most 4)")
    fewest, most = int(found[1]), int(found[2])
    if not 1 <= fewest <= most:
        raise BadInput(f"--elastic {text}: from 1 on, and MIN not above MAX")
    return fewest, most


def _version(text: str | None) -> str:
    if text is not None and VERSION.fullmatch(text) is None:
        raise BadInput(f"--framework-version {text[:40]!r}: a version is like 2.4 or 1.9.5")
    return text or ""


def _plain(option: str, text: str | None) -> str:
    if text is not None and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text) is None:
        raise BadInput(f"{option} {text[:64]!r}: a name is letters, digits, '_', '-' and '.'")
    return text or ""


def _refuse_file(output: str) -> None:
    if not output.strip():
        raise BadInput("-o: no folder is named")
    if Path(output).exists() and not Path(output).is_dir():
        raise BadInput(f"-o {output}: is a file; name a folder")
