"""Rules of mpirun, mpiexec and horovodrun: M01 to M04."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.edits import insert_options
from gpudoctor.lint.model import LintJob, LintLaunch, Option
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.understood import whole

_MPI = "mpirun -np 8 -H n01:4,n02:4 -bind-to none -map-by slot "
_WRAPPED = (
    "-x MASTER_ADDR=10.20.0.11 -x MASTER_PORT=61234 bash -c 'RANK=$OMPI_COMM_WORLD_RANK"
    " LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec python train.py'\n"
)
_PLAIN = "-x MASTER_ADDR=10.20.0.11 -x MASTER_PORT=61234 python train.py\n"
_ENV_SCRIPT = '#@ file train.py\nimport os\nimport torch.distributed as dist\ndist.init_process_group("nccl")\n'
_ENV_SCRIPT += 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n#@ node 0\n'
_HOROVOD = "horovodrun -np 8 -H n01:4,n02:4 python train.py\n"
_READS_MPI = lazy_re(r"OMPI_COMM_WORLD|PMI_RANK|PMIX_RANK|MPI_LOCALRANKID|mpi4py|horovod|MV2_COMM_WORLD", re.IGNORECASE)
_ENV = lazy_re(r"init_process_group\(|environ(?:\.get)?[\[(]\s*[\"'](?:RANK|LOCAL_RANK|WORLD_SIZE)[\"']")
_DISCOVERS = lazy_re(r"\bdeepspeed\.(?:comm\.)?init_distributed\(|\bdeepspeed\.initialize\(")
_BINDING = (
    *("bind-to", "bind-to-none", "bind-to-core", "bind-to-socket", "cpus-per-proc", "cpus-per-rank"),
    *("rankfile", "cpu-set", "cpu-list"),
)
_HYDRA_OPTIONS = ("genv", "genvlist", "ppn", "hosts", "bootstrap", "rr", "grr")


def _is_open_mpi(launch: LintLaunch) -> bool:
    """Open MPI and not Hydra (Intel MPI, MPICH), as far as the options tell: -genv, -ppn and -hosts are Hydra's."""
    written = {option.written.lstrip("-") for option in launch.every_option}
    if launch.entry in ("mpiexec.hydra", "mpiexec.mpich") or written & set(_HYDRA_OPTIONS):
        return False
    return launch.entry in ("mpirun", "orterun", "mpirun.openmpi", "mpiexec.openmpi", "prterun") or bool(
        written & {"x", "mca", "bind-to", "map-by"}
    )


def _by_mpi(job: LintJob) -> Iterator[LintLaunch]:
    """Every mpirun of the text whose program is the training itself."""
    return (launch for launch in job.launches if launch.launcher == "mpirun")


def _sets_ranks(launch: LintLaunch) -> bool:
    return bool({"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(launch.invocation.settings))


def _discovers(job: LintJob) -> bool:
    """DeepSpeed asks MPI for the ranks and sets RANK, LOCAL_RANK and WORLD_SIZE (comm/comm.py, mpi_discovery)."""
    return _DISCOVERS.search(job.text) is not None and "auto_mpi_discovery=False" not in job.text


@rule(
    "M01",
    title="Under mpirun, RANK, LOCAL_RANK and WORLD_SIZE come from MPI's own variables",
    needs="facts",
    source="measured with Open MPI 4.1.4; torch.distributed's env:// reads RANK, WORLD_SIZE",
    leads_to=("duplicate-gpu",),
    bad=(_ENV_SCRIPT + _MPI + _PLAIN, _ENV_SCRIPT + "mpirun -np 4 --bind-to none python train.py\n"),
    good=(
        _MPI + _WRAPPED,
        _ENV_SCRIPT + _MPI + _WRAPPED,
        "mpirun -np 8 -H n01:4,n02:4 -bind-to none -x NCCL_DEBUG python horovod_train.py\n",
        _MPI + "-x NCCL_DEBUG all_reduce_perf -b 8 -e 1G -g 1\n",
    ),
)
def mpirun_without_rank(job: LintJob) -> Iterator[LintFinding]:
    """MPI tells each process its rank in variables of its own (OMPI_COMM_WORLD_RANK, PMI_RANK). torch does not read
    them: a script with env:// finds no RANK, and one that reads LOCAL_RANK with a default takes GPU 0 always."""
    if not any(_by_mpi(job)) or any(launch.launcher == "deepspeed" for launch in job.launches):
        return
    if _READS_MPI.search(job.text):
        return
    script = any(_ENV.search(section.text) for section in job.sections if section.kind == "file")
    for launch in _by_mpi(job):
        name = launch.script.shown if launch.script is not None else ""
        if _sets_ranks(launch) or _discovers(job) or not (name.endswith(".py") or launch.module):
            continue
        passed = {_variable(option) for option in launch.every_option if option.name in ("x", "genv", "env")}
        if passed & {"RANK", "WORLD_SIZE"} or not (script or "MASTER_ADDR" in passed):
            continue
        yield LintFinding(
            span=launch.script.span if launch.script is not None else look.head_span(launch),
            severity=None if script else "info",
            summary=f"mpirun starts {name}, and nothing sets RANK, LOCAL_RANK and WORLD_SIZE from MPI's variables",
            happens="A script with env:// ends with 'environment variable RANK expected, but not set'; one that reads"
            " LOCAL_RANK with a default puts every process on GPU 0.",
            fix="Start it through a shell: bash -c 'RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK"
            f" WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec python {name}' (PMI_RANK, MPI_LOCALRANKID, PMI_SIZE with Hydra).",
            edits=_wrapped(job, launch),
        )


def _variable(option: Option) -> str:
    return re.split(r"[= ]", option.value.shown)[0] if option.value is not None else ""


def _wrapped(job: LintJob, launch: LintLaunch) -> tuple[Edit, ...]:
    """The program inside bash -c, where it holds no quote that would end there."""
    words = launch.invocation.words
    start, end = words[0].span, words[-1].span
    inner = job.text[start.start : end.end]
    if not (start.exact and end.exact) or "'" in inner or "$" in inner or "\n" in inner or not _is_open_mpi(launch):
        return ()
    ranks = "RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE"
    return (Edit(type(start)(start.start, end.end, start.line), f"bash -c '{ranks} exec {inner}'"),)


def _slots(option: Option) -> tuple[list[tuple[str, int | None]], str] | None:
    """Hosts with their slots, and the text; None when it is not known."""
    text = option.value.text if option.value is not None else None
    if not text or not re.fullmatch(r"[\w.-]+(:\d{1,4})?(,[\w.-]+(:\d{1,4})?)*", text, re.ASCII):
        return None
    parts = [part.partition(":") for part in text.split(",")]
    return [(name, int(slots) if slots else None) for name, _, slots in parts], text


@rule(
    "M02",
    title="-np is the sum of the hosts' slots",
    source="nccl-tests#165, #21; measured with Open MPI 4.1.4: a host without a number has one slot, -N makes none",
    bad=(
        _MPI.replace("-np 8", "-np 4") + _WRAPPED,
        _MPI.replace("n01:4,n02:4", "n01,n02") + _WRAPPED,
        _HOROVOD.replace("-np 8", "-np 16"),
        "mpirun -np 16 -N 8 -H n01,n02 -bind-to none python train_horovod.py\n",
    ),
    good=(
        _MPI + _WRAPPED,
        _HOROVOD,
        "mpirun -np 16 -N 8 -H n01:8,n02:8 -bind-to none python train_horovod.py\n",
        "mpirun -np 2 -H n01,n02 -bind-to none python train_horovod.py\n",
        "mpiexec.hydra -n 8 -ppn 4 -hosts n01,n02 python train_horovod.py\n",
    ),
)
def mpirun_slots(job: LintJob) -> Iterator[LintFinding]:
    """Slots of the first host are filled before the second gets any: with fewer processes than slots some hosts stay
    empty. A host without a number counts as one slot, and more processes than slots are refused."""
    for launch in job.launches:
        hosts = launch.option("host", "hosts") if launch.launcher in ("mpirun", "horovodrun") else None
        total = whole(launch.option("np"))
        named = _slots(hosts) if hosts is not None else None
        if hosts is None or hosts.value is None or named is None or not total or launch.unread:
            continue
        if launch.launcher == "mpirun" and not (_is_open_mpi(launch) or ":" in named[1]):
            continue
        placed = bool(launch.option("npernode", "pernode", "oversubscribe", "map-by")) and not _is_by_slot(launch)
        slots = [1 if each is None else each for _, each in named[0]]
        names = list(dict.fromkeys(name for name, _ in named[0]))
        available = sum(slots)
        if placed and (total <= available or job.is_batch or _oversubscribes(launch)):
            continue  # -N and ppr say where processes go, and make no slots
        if total == available or (total < available and len(names) < 2):
            continue
        bare = all(each is None for _, each in named[0])
        fits_first = total <= slots[0]
        if total < available and not fits_first and launch.launcher == "horovodrun":
            continue
        number = launch.option("np")
        edits: tuple[Edit, ...] = ()
        if bare and total % len(names) == 0 and len(names) == len(slots):
            wanted = ",".join(f"{name}:{total // len(names)}" for name in names)
            edits = (Edit(hosts.value.span, wanted),)
            fix = f"Give each host its slots: {hosts.written} {wanted}."
        else:
            if number is not None and number.value is not None:
                edits = (Edit(number.value.span, str(available)),)
            fix = f"Write -np {available}, or other slots that make {total}."
        if total > available:
            happens = f"mpirun refuses to start: there are {available} slots for {total} processes."
            if launch.launcher == "horovodrun":
                happens = f"horovodrun refuses to start: {available} slots for {total} processes."
        else:
            happens = (
                f"All {total} processes start on {names[0]}, and the other hosts stay idle."
                if fits_first
                else f"The slots of {names[0]} fill up first, and the last host gets fewer processes than it has slots."
            )
        yield LintFinding(
            span=hosts.span,
            severity=None if total > available or fits_first else "warning",
            summary=f"-np {total}, and {hosts.written} {named[1]} makes {counted(available, 'slot')}",
            happens=happens,
            fix=fix,
            edits=edits,
        )


def _oversubscribes(launch: LintLaunch) -> bool:
    return launch.option("oversubscribe") is not None or "oversubscribe" in (launch.text("map-by") or "?").lower()


def _is_by_slot(launch: LintLaunch) -> bool:
    """-map-by slot is the default, and fills hosts in order."""
    return launch.option("npernode", "pernode", "oversubscribe") is None and launch.text("map-by") == "slot"


@rule(
    "M03",
    title="mpirun leaves the ranks all their cores",
    severity="warning",
    source="measured with Open MPI 4.1.4; Horovod's documentation of mpirun",
    bad=("mpirun -np 2 -H n01:1,n02:1 python train_horovod.py\n", (_MPI + _WRAPPED).replace("-bind-to none ", "")),
    good=(_MPI + _WRAPPED, _HOROVOD, "mpiexec.hydra -n 8 -ppn 4 -hosts n01,n02 python train_horovod.py\n"),
)
def mpirun_binds_to_core(job: LintJob) -> Iterator[LintFinding]:
    """Open MPI binds each rank to one core when there are at most two, and to a part of the machine otherwise.
    The workers of a data loader, and NCCL's own threads, then share that."""
    for launch in _by_mpi(job):
        name = launch.script.shown if launch.script is not None else ""
        if not (name.endswith(".py") or launch.module) or not _is_open_mpi(launch) or launch.unread:
            continue
        if launch.option(*_BINDING) is not None or ":pe=" in (launch.text("map-by") or "").lower():
            continue
        total = whole(launch.option("np"))
        few = total is not None and total <= 2
        where = "one core" if few else "one core, or the cores of one socket,"
        yield LintFinding(
            span=look.head_span(launch),
            severity=None if few else "info",  # a socket's cores are enough for many
            summary="mpirun without -bind-to none",
            happens=f"Open MPI binds each rank to {where} and its loader workers with it: the GPUs wait for data.",
            fix="Add -bind-to none.",
            edits=insert_options(launch, "-bind-to none") if launch.every_option else (),
        )


@rule(
    "M04",
    title="Horovod scripts are started by horovodrun or mpirun",
    source="horovod 0.28, common/basics.py; Lightning 1.9 horovod strategy refuses num_nodes and several devices",
    bad=(
        "#@ file train.py\nimport horovod.torch as hvd\nhvd.init()\n#@ node 0\ntorchrun --nproc-per-node=4 train.py\n",
        "#@ file train.py\nfrom horovod import torch as hvd\nhvd.init()\n#@ node 0\naccelerate launch train.py\n",
        "#@ file train.py\nimport horovod.torch as hvd\nhvd.init()\n#@ node 0\npython train.py\n",
        Example(
            "#@ file train.py\nfrom pytorch_lightning import Trainer\n"
            'trainer = Trainer(gpus=4, num_nodes=2, strategy="horovod")\n',
            "lightning=1.9",
        ),
    ),
    good=(
        _HOROVOD,
        "#@ file train.py\nimport horovod.torch as hvd\nhvd.init()\n#@ node 0\n" + _HOROVOD,
        Example(
            "#@ file train.py\ntrainer = Trainer(gpus=1, strategy='horovod')\n#@ node 0\n" + _HOROVOD, "lightning=1.9"
        ),
    ),
)
def horovod_under_another_launcher(job: LintJob) -> Iterator[LintFinding]:
    """Horovod asks MPI or horovodrun who it is, and does not read RANK: under torchrun every process is rank 0 of 1. In
    Lightning the horovod strategy takes one GPU a process and refuses num_nodes."""
    for code, launches in codes_and_starts(job):
        init = next((call for call in code.calls if code.name(call.func) == "horovod.torch.init"), None)
        if init is None:
            continue
        if not launches and not job.launches:
            yield LintFinding(
                span=code.span(init),
                severity="info",
                summary="the program is Horovod's, whose ranks horovodrun or mpirun start",
                happens="Under plain python or torchrun every process is rank 0 of world size 1.",
                fix="Start it by horovodrun -np 4 -H localhost:4 python train.py, with your numbers.",
            )
        for launch in launches:
            by_torch = launch.launcher in (*look.TORCHRUN, "accelerate", "deepspeed")
            is_bare = launch.launcher == "python" and not launch.around and not look.from_platform(job, launch)
            name = launch.script.shown if launch.script is not None else "train.py"
            if by_torch or is_bare:
                yield LintFinding(
                    span=look.head_span(launch),
                    severity=None if by_torch else "warning",
                    summary=f"{launch.entry or launch.launcher} starts {name}, which uses Horovod",
                    happens="Horovod finds neither MPI nor horovodrun: every process is rank 0 of world size 1."
                    if by_torch
                    else "It trains alone, one rank on one GPU: Horovod finds neither MPI nor horovodrun.",
                    fix=f"Start it by horovodrun -np N -H HOST1:G,HOST2:G python {name}.",
                )
    for call in job.trainers:
        strategy = call.arguments.get("strategy", call.arguments.get("accelerator", "")).strip("\"'")
        if strategy != "horovod":
            continue
        several = [
            f"{argument}={call.arguments[argument]}"
            for argument in ("num_nodes", "gpus", "devices")
            if re.fullmatch(r"\d{1,6}", call.arguments.get(argument, ""), re.ASCII)
            and int(call.arguments[argument]) > 1
        ]
        if several:
            yield LintFinding(
                span=call.span,
                summary=f"strategy horovod with {' and '.join(several)}",
                happens="Lightning's horovod strategy refuses it: it takes one GPU a process; horovodrun starts them.",
                fix='Write Trainer(gpus=1, strategy="horovod") and start it by horovodrun; or strategy="ddp".',
            )
