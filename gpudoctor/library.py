"""`import gpudoctor`: what the commands do, as functions. They print nothing; on purpose they raise `gpudoctor.Error`.

Each may be called from any thread. What it starts has ended when it returns, or raises. `waiting` is called several
times a second with the names of what is still awaited; it must not raise. Times are seconds, sizes bytes.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from gpudoctor import defaults
from gpudoctor.active import Waiting, ending
from gpudoctor.errors import BadInput, CannotTell
from gpudoctor.examination import examine_machine, no_show

if TYPE_CHECKING:
    from gpudoctor.devices import DevicesAnswer
    from gpudoctor.explain.report import Explanation
    from gpudoctor.fleet.survey import Survey
    from gpudoctor.hang.report import HangReport
    from gpudoctor.launch.plan import LaunchPlan, Precision
    from gpudoctor.lint.report import LintReport
    from gpudoctor.nccl.result import TestResult
    from gpudoctor.plugins import BrokenPlugin
    from gpudoctor.report import Report
    from gpudoctor.snapshot import CudaAnswer, Reading, Snapshot
    from gpudoctor.topology import TopologyAnswer

VARIABLE = "CUDA_VISIBLE_DEVICES"


def examine(
    *,
    python: str | None = None,
    torch: bool = True,
    deep: bool = False,
    timeout: float = defaults.READ_SECONDS,
    waiting: Waiting = no_show,
) -> "Snapshot":
    """Read this machine, as `gpudoctor capture`. What cannot be read is in the snapshot, with the reason.

    python: the training interpreter; None: found as the commands find it. torch: import torch there. deep: run the
    active tests too (minutes; each GPU computes). timeout: deadline of each thing that is read. Raises `BadInput`
    when that interpreter cannot be run.
    """
    with ending():
        return examine_machine(python=python, torch=torch, deep=deep, timeout=timeout, waiting=waiting)


def load(path: "str | os.PathLike[str]", *, timeout: float = defaults.EXPLAIN_SECONDS) -> "Snapshot":
    """The snapshot in a file: one that `gpudoctor capture` or `nvidia-smi -q [-x]` wrote.

    timeout: of reading it. Raises `BadInput` for anything else, with what the file seems to be.
    """
    from gpudoctor.foreign import FileToLoad, answer_to
    from gpudoctor.snapshot import Snapshot

    try:
        with ending():
            return answer_to(FileToLoad(os.fspath(path)), Snapshot, timeout)
    except BadInput as error:
        raise BadInput(f"{os.fspath(path)}: {error}") from None


def diagnose(
    snapshot: "Snapshot",
    checks: Sequence[str] = (),
    *,
    expect: str | None = None,
    baseline: "Snapshot | None" = None,
) -> "Report":
    """Ask checks about a machine: those of these ids or groups, by default all that are installed.

    `Report.verdict` and `Report.exit_status` say what `gpudoctor check` would; `expect` is its --expect ("8xH100",
    "cpu"), `baseline` its --baseline, an earlier capture. A check that crashes is a result in it. Raises `BadInput` for
    a name that no check or group has, and for an expectation that is none.
    """
    from gpudoctor.diagnose import diagnose as asked
    from gpudoctor.expecting import expecting
    from gpudoctor.plugins import chosen_checks

    machine, (every, broken) = expecting(snapshot, expect), chosen_checks(checks)
    if baseline is not None:
        from gpudoctor.compare.baseline import with_baseline

        machine, more = with_baseline(machine, baseline, "earlier capture")
        every = [*more, *every]
    return asked(machine, every, broken, names=checks)


def survey(
    hosts: str | None = None,
    checks: Sequence[str] = (),
    *,
    hostfile: str | None = None,
    nodes: int | None = None,
    exclude: str | None = None,
    remote_gpudoctor: str | None = None,
    python: str | None = None,
    torch: bool = True,
    timeout: float = defaults.READ_SECONDS,
    expect: str | None = None,
    waiting: Waiting = no_show,
) -> "Survey":
    """Several nodes, examined and diagnosed: those of `hosts` ("n[01-16]") or `hostfile` by ssh, or the SLURM
    allocation's. expect: what each must have ("8xH100"). Raises `BadInput`; a node without an answer is in the survey.
    """
    from gpudoctor.expecting import expectation
    from gpudoctor.fleet.where import Where
    from gpudoctor.several import surveyed

    with ending():
        where = Where(nodes, hosts, hostfile, exclude, remote_gpudoctor)
        wanted = expectation(expect) if expect is not None else None
        return surveyed(where, checks, waiting, python=python, torch=torch, timeout=timeout, expect=wanted)[0]


def devices(
    value: str | None = None,
    *,
    snapshot: "Snapshot | None" = None,
    timeout: float = defaults.READ_SECONDS,
    waiting: Waiting = no_show,
) -> "DevicesAnswer":
    """Which GPUs a CUDA program gets under a value of CUDA_VISIBLE_DEVICES, in its own numbering.

    value: None is the one of this process, or of the snapshot. snapshot: the machine to answer for, instead of this.
    timeout: deadline of each thing that is read. Raises `CannotTell` where there are no GPUs to select from, or the
    snapshot does not say what the variable was.
    """
    from gpudoctor.devices import what_if

    with ending():
        machine, asked, driver = _of_snapshot(snapshot, value) if snapshot else _of_here(value, timeout, waiting)
        return what_if(machine, asked, driver)


def _of_here(value: str | None, timeout: float, waiting: Waiting) -> "tuple[Snapshot, str | None, Reading[CudaAnswer]]":
    """This machine, the value to answer for, and the driver's own answer for it."""
    if value is None:
        machine = examine_machine(torch=False, timeout=timeout, waiting=waiting)
        return machine, os.environ.get(VARIABLE), machine.cuda.visible
    from gpudoctor.active import gather, own_module, start
    from gpudoctor.read.cuda import assemble

    environment = {**os.environ, VARIABLE: value}
    try:
        child = start("cuda", own_module("gpudoctor.read.libcuda"), environment=environment, timeout=timeout)
    except ValueError as error:  # a value that no environment can hold
        raise BadInput(f"--cuda-visible-devices: {error}") from None
    machine = examine_machine(torch=False, timeout=timeout, waiting=waiting)
    return machine, value, assemble(gather([child])["cuda"])


def _of_snapshot(machine: "Snapshot", value: str | None) -> "tuple[Snapshot, str | None, Reading[CudaAnswer]]":
    """A machine that is elsewhere: its own driver's answer holds for its own value only."""
    from gpudoctor.devices import recorded_value
    from gpudoctor.snapshot import NotRead, missing

    try:
        own = recorded_value(machine)
    except NotRead:
        if value is None:
            raise CannotTell(f"it does not say what {VARIABLE} was; give --cuda-visible-devices VALUE") from None
    else:
        if value is None or value == own:
            return machine, own, machine.cuda.visible
    return machine, value, missing("libcuda", "the machine is in a file and cannot be asked", "not-asked")


def topology(
    snapshot: "Snapshot | None" = None, *, timeout: float = defaults.READ_SECONDS, waiting: Waiting = no_show
) -> "TopologyAnswer":
    """GPUs and RDMA devices, and what connects each two, in NCCL's path classes; of this machine or the snapshot's."""
    from gpudoctor.topology import topology as answer

    with ending():
        return answer(snapshot or examine_machine(torch=False, timeout=timeout, waiting=waiting))


def explain(
    lines: Iterable[str] = (),
    *,
    paths: "Iterable[str | os.PathLike[str]]" = (),
    timeout: float = defaults.EXPLAIN_SECONDS,
) -> "Explanation":
    """Why a job failed, of its log: lines (called "standard input" in the answer), files or folders of them.

    timeout: of all of it. A file that cannot be read is in `Explanation.unreadable`. Raises `BadInput` where there is
    nothing to read, or reading takes too much time or memory.
    """
    from gpudoctor.explain.report import Explanation
    from gpudoctor.foreign import LogsToExplain, answer_to

    if isinstance(lines, str):
        lines = lines.splitlines()
    text = "\n".join(line.rstrip("\n") for line in lines).encode("utf-8", "surrogateescape")
    files = tuple(os.fspath(path) for path in paths)
    if not text and not files:
        raise BadInput("there is nothing to explain: neither lines nor paths")
    with ending():
        return answer_to(LogsToExplain(files, text), Explanation, timeout)


def lint(
    text: str,
    *,
    kind: Literal["shell", "sbatch", "manifest", "hostfile", "python"] | None = None,
    facts: str | None = None,
    framework_version: str | None = None,
    environment: Mapping[str, str] | None = None,
    python: str | None = None,
    timeout: float = defaults.STALL_SECONDS,
) -> "LintReport":
    """What a launch command, script, sbatch file, hostfile or manifest will do, and what to write instead.

    kind: None is what it looks like. facts: "nodes=2,gpus_per_node=4,torch=2.4", what the text does not tell.
    environment: variables that are set before. python: whose installed versions count. timeout: of reading it.
    `LintReport.verdict` is "bad" when there are errors. Raises `BadInput` for what is no text of these.
    """
    from gpudoctor.foreign import TextToLint, answer_to
    from gpudoctor.lint.report import LintReport

    task = TextToLint(text, kind, facts, framework_version, dict(environment or {}), python)
    with ending():
        return answer_to(task, LintReport, timeout)


def launch_plan(
    program: Sequence[str] = (defaults.PROGRAM,),
    *,
    framework: str = "torchrun",
    nodes: int | None = None,
    gpus_per_node: int = 0,
    hosts: str | None = None,
    hostfile: str | None = None,
    master_address: str = "",
    master_port: int = 0,
    strategy: str = "",
    precision: "Precision" = "",
    elastic: tuple[int, int] | None = None,
    framework_version: str = "",
    python: str = "",
    timeout: float = defaults.READ_SECONDS,
    waiting: Waiting = no_show,
) -> "LaunchPlan":
    """How a training is started on this cluster: addresses, port, ranks and variables, each with its reason.

    program: the script and its arguments. 0, "" and None: decided here. `launch_text` writes it out. Raises `BadInput`
    for what cannot be started.
    """
    from gpudoctor.fleet.where import Where
    from gpudoctor.launch.plan import LaunchWish
    from gpudoctor.launch.planned import planned

    wish = LaunchWish(
        framework=framework,
        nodes=nodes or 0,
        gpus_per_node=gpus_per_node,
        master_address=master_address,
        master_port=master_port,
        strategy=strategy,
        precision=precision,
        python=python,
        elastic=elastic,
        program=tuple(program),
        framework_version=framework_version,
    )
    with ending():
        return planned(wish, Where(nodes, hosts, hostfile), waiting, timeout=timeout).plan


def launch_text(plan: "LaunchPlan") -> str:
    """The plan in its framework's words, to paste or to hand on; its parts stand under lines that begin with "#@".

    Raises `BadInput` where the framework cannot say it.
    """
    from gpudoctor.launch.text import text
    from gpudoctor.launch.write import emission

    return text(emission(plan))


def bandwidth(
    hosts: str | None = None,
    *,
    hostfile: str | None = None,
    nodes: int | None = None,
    exclude: str | None = None,
    gpus_per_node: int = 0,
    collective: str = defaults.COLLECTIVE,
    min_bytes: str | int = defaults.SMALLEST_SIZE,
    max_bytes: str | int | None = None,
    factor: int = defaults.SIZE_FACTOR,
    dtype: Literal["float32", "float16", "bfloat16"] = "float32",
    warmup: int | None = None,
    iterations: int | None = None,
    check: bool = True,
    backend: Literal["auto", "nccl", "gloo"] = "auto",
    interface: str = "",
    master_address: str = "",
    master_port: int = 0,
    find_slow: bool = False,
    settings: Mapping[str, str] | None = None,
    remote_gpudoctor: str | None = None,
    python: str | None = None,
    timeout: float = defaults.STALL_SECONDS,
) -> "TestResult":
    """Bandwidth of collectives across GPUs and nodes, graded, as `gpudoctor nccl-test`; minutes on many nodes.

    hosts, hostfile: nodes by ssh; without, the SLURM allocation's or this machine. min_bytes, max_bytes: "8G" or a
    number. settings: NCCL_* and the like for every rank, besides those of this process. timeout: how long the test may
    stand still. `TestResult.outcome` says how it ended. Raises `BadInput`.
    """
    from gpudoctor.fleet.where import Where, is_symmetric
    from gpudoctor.nccl import live
    from gpudoctor.nccl.show import Show
    from gpudoctor.nccl.wish import Wish

    where = Where(nodes, hosts, hostfile, exclude, remote_gpudoctor)
    if is_symmetric(os.environ, where):
        raise BadInput("the test starts its ranks itself, which a job that srun or torchrun has started cannot do")
    if not where.is_named and (nodes or 1) > 1 and "SLURM_JOB_ID" not in os.environ:
        raise BadInput(f"nodes={nodes}: which ones? Name them with hosts or hostfile")
    smallest, largest = live.sizes(min_bytes, max_bytes)
    wish = Wish(
        collectives=live.collectives(collective),
        minimum_bytes=smallest,
        maximum_bytes=largest,
        factor=factor,
        dtype=dtype,
        warmup=warmup,
        iterations=iterations,
        check=check,
        backend=backend,
        ranks_per_node=gpus_per_node,
        timeout=timeout,
        interface=interface,
        master_address=master_address,
        master_port=master_port,
        settings=dict(settings or {}),
    )
    with ending():
        return live.bandwidth(live.completed(wish, python), where, Show(), find_slow=find_slow)


def hang(
    *,
    pid: int | None = None,
    job: str | None = None,
    user: str | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    nodes: int | None = None,
    exclude: str | None = None,
    remote_gpudoctor: str | None = None,
    dumps: "str | os.PathLike[str] | None" = None,
    native: bool = False,
    waiting: Waiting = no_show,
) -> "HangReport":
    """Why jobs are stuck. Looks at live processes of others without stopping or ending them; takes some seconds.

    pid: the job of this process. job: a SLURM job, or an id as a report shows it. user: the jobs of this user. hosts,
    hostfile: the job's nodes by ssh. dumps: a folder of flight-recorder dumps. native: native frames too, for which
    each process is stopped for an instant. Raises `BadInput` where there is no such job, and `CannotTell` where that
    cannot be told.
    """
    from gpudoctor.fleet.where import Where
    from gpudoctor.hang.live import JobsWanted, hang as looked_at

    wanted = JobsWanted(pid, job, user, os.fspath(dumps) if dumps is not None else None, native)
    with ending():
        return looked_at(Where(nodes, hosts, hostfile, exclude, remote_gpudoctor), wanted, waiting)[0]


def broken_plugins() -> "tuple[BrokenPlugin, ...]":
    """What other distributions bring that could not be used, as far as it was looked for, and why."""
    from gpudoctor.plugins import broken

    return broken()
