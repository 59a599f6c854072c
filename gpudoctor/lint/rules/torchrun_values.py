"""Rules of values that torchrun takes by their form and then refuses, or waits by: R15."""

import re
from collections.abc import Callable, Iterator

from gpudoctor.lint import look
from gpudoctor.lint.look import TORCHRUN, value
from gpudoctor.lint.model import LintJob, LintLaunch, Span
from gpudoctor.lint.rule import LintFinding, rule

_ONE = "torchrun --nproc-per-node=4 {} train.py\n"
Told = tuple[Span, str, str, str]
"""Where, what stands there, what happens, what to write."""


@rule(
    "R15",
    title="torchrun's values fit each other",
    source="torch 2.13, distributed/run.py (config_from_args), launcher/api.py and elastic/rendezvous; pytorch#130656",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _ONE.format("--rdzv-endpoint=localhost:0"),
        _ONE.format("--master-port=0"),
        _ONE.format("--nnodes=4:2 --rdzv-backend=c10d --rdzv-id=7 --rdzv-endpoint=head01:29400"),
        _ONE.format("--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-conf=timeout=900,"),
        _ONE.format("--standalone --no-python -m"),
        _ONE.format("--standalone --local-ranks-filter=0-1"),
        _ONE.format("--standalone --local-ranks-filter=4"),
        _ONE.format("--rdzv-backend=c10d --rdzv-id= --rdzv-endpoint=localhost:0"),
    ),
    good=(
        _ONE.format("--rdzv-backend=c10d --rdzv-endpoint=localhost:0"),
        _ONE.format("--standalone --local-ranks-filter=0,3"),
        _ONE.format("--nnodes=2:4 --rdzv-backend=c10d --rdzv-id=7 --rdzv-endpoint=head01:29400"),
        _ONE.format("--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-conf=timeout=900,read_timeout=60"),
    ),
)
def values_of_torchrun(job: LintJob) -> Iterator[LintFinding]:
    """Without --rdzv-backend=c10d the rendezvous is static: it takes the port as it is told, and 0 is none at which the
    workers could meet. A range of nodes goes up, a filter names local ranks that there are, --rdzv-conf is KEY=VALUE
    pairs with commas between, a rendezvous has an id."""
    for launch in job.launches[: look.SIBLINGS]:
        if launch.launcher not in TORCHRUN or look.may_hide_options(launch):
            continue
        for check in _CHECKS:
            for span, what, happens, instead in check(job, launch):
                yield LintFinding(span=span, summary=what, happens=happens, fix=instead)


def _port_zero(job: LintJob, launch: LintLaunch) -> Iterator[Told]:
    port, nodes = look.port(launch), look.nnodes(launch)
    if port is None or port.sure != "0" or not look.is_static(launch) or look.standalone(launch):
        return
    if look.from_platform(job, launch) or (nodes is not None and nodes[1] > 1):
        return  # P09
    yield (
        port.span,
        f"{port.written} has port 0, and the rendezvous is static (no --rdzv-backend=c10d)",
        "The store takes a free port that the workers are not told: they wait for port 0 until they time out.",
        "Add --rdzv-backend=c10d, or write --standalone alone: both find a free port.",
    )


def _nodes(job: LintJob, launch: LintLaunch) -> Iterator[Told]:
    nodes, given = look.nnodes(launch), value(launch, "nnodes")
    if nodes is None or given is None or nodes[0] <= nodes[1] or nodes[0] == 0:
        return
    yield (
        given.span,
        f"{given.written} is {given.text}: the smallest number is above the largest",
        "torchrun ends at once: min_nodes must be > 0 and <= max_nodes.",
        f"Write {given.written}={nodes[1]}:{nodes[0]}.",
    )


def _settings(job: LintJob, launch: LintLaunch) -> Iterator[Told]:
    given = value(launch, "rdzv-conf")
    if given is None or not given.text:
        return
    wrong = next((part for part in given.text.split(",") if not re.fullmatch(r"\s*[^=]+=[^=]+", part)), None)
    if wrong is not None:
        yield (
            given.span,
            f"{given.written} is {given.text}, of which {wrong.strip() or 'the part behind the comma'} is no KEY=VALUE",
            "torchrun ends at once (The rendezvous configuration string is not in format KEY=VALUE), or takes the next"
            " word for its script.",
            "Write KEY=VALUE pairs with commas and no blanks between.",
        )


def _program(job: LintJob, launch: LintLaunch) -> Iterator[Told]:
    bare, module = launch.option("no-python"), launch.option("module")
    if bare is not None and (module is not None or launch.module):
        yield (
            bare.span,
            f"{bare.written} and -m exclude each other",
            "torchrun ends at once: Don't use both the '--no-python' flag and the '--module' flag at the same time.",
            f"Take {bare.written} away: python starts the module.",
        )


def _filter(job: LintJob, launch: LintLaunch) -> Iterator[Told]:
    given, ranks = value(launch, "local-ranks-filter"), value(launch, "nproc-per-node")
    if given is None or not given.text:
        return
    if not re.fullmatch(r"\s*\d+\s*(?:,\s*\d+\s*)*", given.text, re.ASCII):
        yield (
            given.span,
            f"{given.written} is {given.text}, which is no list of numbers",
            "torchrun ends at once: --local_ranks_filter must be a comma-separated list of integers.",
            f"Write {given.written}=0,1 with the local ranks whose output is wanted.",
        )
        return
    count = look.whole(ranks.sure) if ranks is not None else None
    if count and all(int(part) >= count for part in given.text.split(",")):
        yield (
            given.span,
            f"{given.written} is {given.text}, and the local ranks are 0 to {count - 1}",
            "Nobody's output is shown, an error's neither.",
            f"Write {given.written}=0.",
        )


def _id(job: LintJob, launch: LintLaunch) -> Iterator[Told]:
    given = value(launch, "rdzv-id")
    if given is not None and given.text == "" and look.is_dynamic(launch) and not look.standalone(launch):
        yield (
            given.span,
            f"{given.written} is empty",
            "torchrun ends at once: The run id must be a non-empty string.",
            "Write an id that is the same on every node and another one for each training.",
        )


_CHECKS: tuple[Callable[[LintJob, LintLaunch], Iterator[Told]], ...] = (
    _port_zero, _nodes, _settings, _program, _filter, _id,
)  # fmt: skip
