"""Rules of where mpirun puts its processes, and of whose mpirun it is: M09 to M12."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Hostfile, HostLine, LintJob, LintLaunch, Option
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.understood import whole

_TORCHRUN = (
    "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint=n01:29400 train.py\n"
)
_FILE = "#@ file hosts\nn01 slots=4\nn02 slots=4\n#@ node 0\n"
_PROGRAM = "--bind-to none python train_horovod.py\n"
_PLACES = ("map-by", "rank-by", "npernode", "pernode", "bynode", "rankfile", "ppr", "npersocket", "app", "configfile")
_OPEN_MPI = ("x", "mca", "gmca", "allow-run-as-root", "map-by", "oversubscribe", "hnp", "tune", "report-bindings")
_HYDRA = ("genv", "genvlist", "genvall", "genvnone", "env", "envlist", "envall", "envnone", "bootstrap", "iface")
"""Options that the one knows and the other does not (mpirun(1) of Open MPI 4.1 and 5.0, mpiexec.hydra -help)."""
_NOT_IN_HYDRA = ("x", "mca", "gmca", "allow-run-as-root", "oversubscribe", "nooversubscribe")
"""Of Open MPI, and not in the table of MPICH's src/pm/hydra/mpiexec/options.c."""
_LOADED = lazy_re(
    r"^[ \t]*(?:module|ml)\s+(?:load\s+|add\s+)?[^#\n]*?\b"
    r"(?P<name>openmpi|OpenMPI|ompi|intel-?mpi|impi|mpich|mvapich2?|cray-mpich|cray-pals)\b",
    re.MULTILINE,
)


def _runs(job: LintJob) -> Iterator[LintLaunch]:
    """Every mpirun of the text, around a launcher too."""
    for launch in job.launches[: look.SIBLINGS]:
        for mpirun in (launch, *launch.around):
            if mpirun.launcher == "mpirun":
                yield mpirun


def family(job: LintJob, launch: LintLaunch) -> str:
    """ "open" or "hydra", as far as the call, its options and the loaded modules tell; empty where they do not."""
    names = {option.name for option in launch.every_option}
    written = {option.written.lstrip("-") for option in launch.every_option}
    if launch.entry in ("orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi") or names & {*_OPEN_MPI}:
        return "open"
    if launch.entry in ("mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich") or names & {*_HYDRA} or "ppn" in written:
        return "hydra"
    loaded = {match["name"].lower() for match in _LOADED.finditer(job.text)}
    if loaded & {"openmpi", "ompi"} and len(loaded) == 1:
        return "open"
    return "hydra" if loaded and not loaded & {"openmpi", "ompi"} else ""


def _hosts(job: LintJob, launch: LintLaunch) -> tuple[Option, list[tuple[str, int]]] | None:
    """The option that names the hosts, and each with its slots, where the text tells them."""
    option = launch.option("host")
    text = option.value.text if option is not None and option.value is not None else None
    if option is not None and text and re.fullmatch(r"[\w.-]+(:\d{1,4})?(,[\w.-]+(:\d{1,4})?)*", text, re.ASCII):
        parts = [part.partition(":") for part in text.split(",")]
        return option, [(name, int(slots or 1)) for name, _, slots in parts]
    option = launch.option("hostfile")
    file = _file(job, option)
    if option is None or file is None or not all(line.slots for line in file.lines):
        return None
    return option, [(line.name, line.slots or 1) for line in file.lines]


def _file(job: LintJob, option: Option | None) -> Hostfile | None:
    name = option.value.text if option is not None and option.value is not None else None
    if not name:
        return None
    last = name.rpartition("/")[2]
    return next((file for file in job.hostfiles if file.name.rpartition("/")[2] == last), None)


@rule(
    "M09",
    title="mpirun that starts a launcher on each host says one on each host",
    source="mpirun(1) of Open MPI 4.1 and 5.0: processes are mapped by slot, all slots of a host before the next one's",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "mpirun -np 2 -H n01:8,n02:8 -x PATH " + _TORCHRUN,
        _FILE.replace("slots=4", "slots=8") + "mpirun -np 2 --hostfile hosts -x PATH " + _TORCHRUN,
        "mpirun -np 2 -H n01:8,n02:8 -x PATH bash -c '" + _TORCHRUN.strip() + "'\n",
    ),
    good=(
        "mpirun -np 2 -H n01:8,n02:8 --map-by ppr:1:node -x PATH " + _TORCHRUN,
        "mpirun -np 2 -H n01,n02 -x PATH " + _TORCHRUN,
        "mpirun -np 2 --npernode 1 -H n01:8,n02:8 -x PATH " + _TORCHRUN,
    ),
)
def launchers_on_one_host(job: LintJob) -> Iterator[LintFinding]:
    """mpirun -np 2 over two hosts with eight slots each starts both processes on the first host. A launcher that is
    wanted once a host needs --map-by ppr:1:node, or hosts of one slot."""
    for launch in job.launches[: look.SIBLINGS]:
        outer = next((around for around in launch.around if around.launcher == "mpirun"), None)
        if outer is None or not look.traits(launch).a_node or outer.unread or family(job, outer) == "hydra":
            continue
        hosts, total = _hosts(job, outer), whole(outer.option("np"))
        if hosts is None or total is None or any(outer.option(name) is not None for name in _PLACES):
            continue
        first, slots = hosts[1][0]
        if 2 <= total <= slots and len(hosts[1]) > 1:
            yield LintFinding(
                span=hosts[0].span,
                summary=f"-np {total} fits into the {counted(slots, 'slot')} of {first}, where all of them start",
                happens=f"{first} gets {total} times {launch.entry or launch.launcher}, the other hosts none: they"
                " fight for the same GPUs and port, or wait for each other.",
                fix="Add --map-by ppr:1:node (or --npernode 1).",
            )


@rule(
    "M10",
    title="The hostfile has a slot for each process",
    source="mpirun(1) of Open MPI 4.1; open-mpi/ompi#3133: There are not enough slots available in the system",
    bad=(
        _FILE + "mpirun -np 16 --hostfile hosts " + _PROGRAM,
        _FILE + "mpirun -np 4 --hostfile hosts " + _PROGRAM,
        "mpirun -np 8 -npernode 2 -H n01:4,n02:4 " + _PROGRAM,
        _FILE + "mpiexec.hydra -n 8 -f hosts python train_horovod.py\n",
    ),
    good=(
        _FILE + "mpirun -np 8 --hostfile hosts " + _PROGRAM,
        _FILE + "mpirun -np 16 --oversubscribe --hostfile hosts " + _PROGRAM,
        _FILE + "mpirun -np 4 --map-by node --hostfile hosts " + _PROGRAM,
    ),
)
def hostfile_and_processes(job: LintJob) -> Iterator[LintFinding]:
    """More processes than the file has slots are refused; fewer than the first host has leave the other hosts idle."""
    for launch in _runs(job):
        yield from _more_than_each_takes(job, launch)
        option = launch.option("hostfile")
        file = _file(job, option)
        if option is not None and file is not None and family(job, launch) == "hydra":
            told = next((line for line in file.lines if "slots" in _raw(job, line)), None)
            if told is not None:
                yield LintFinding(
                    span=told.span,
                    summary=f"{file.name} says {_raw(job, told)!a}, and {launch.entry or 'this mpirun'} is Hydra's,"
                    " which reads NAME:N",
                    happens="Hydra ends: token slots not supported at this time, unable to parse hostfile.",
                    fix=f"Write {told.name}:{told.slots or 'N'}.",
                )
        if option is None or launch.option("host") is not None or launch.unread or family(job, launch) == "hydra":
            continue
        hosts, total = _hosts(job, launch), whole(launch.option("np"))
        if hosts is None or total is None or launch.option("oversubscribe", "app") is not None:
            continue
        slots = sum(slots for _, slots in hosts[1])
        if total > slots and "oversubscribe" not in (launch.text("map-by") or "").lower():
            yield LintFinding(
                span=option.span,
                summary=f"-np {total}, and the hosts of {option.value.shown if option.value else ''} have"
                f" {counted(slots, 'slot')}",
                happens="mpirun refuses to start: There are not enough slots available in the system.",
                fix=f"Write -np {slots}, or more slots=N in the file.",
            )
            continue
        placed = any(launch.option(name) is not None for name in _PLACES) and launch.text("map-by") != "slot"
        first, most = hosts[1][0]
        if launch in job.launches and len(hosts[1]) > 1 and 1 < total <= most and not placed:
            yield LintFinding(
                span=option.span,
                summary=f"-np {total} fits into the slots of {first}; the hosts have {slots} in all",
                happens=f"All {total} processes start on {first}, and the other hosts stay idle.",
                fix=f"Write -np {slots}.",
            )


def _raw(job: LintJob, line: HostLine) -> str:
    return job.text[line.span.start : line.span.end] if line.span.exact else ""


def _more_than_each_takes(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """--npernode N holds for each host, so that -np is no more than N times the hosts."""
    each, total, hosts = whole(launch.option("npernode")), whole(launch.option("np")), _hosts(job, launch)
    if not each or not total or hosts is None or launch.unread or family(job, launch) == "hydra":
        return
    names = {name for name, _ in hosts[1]}
    own = launch.option("npernode")
    if own is not None and total > each * len(names) and launch.option("app") is None:
        yield LintFinding(
            span=own.span,
            summary=f"-np {total}, and {own.written} {each} on {counted(len(names), 'host')} takes {each * len(names)}",
            happens="mpirun refuses to start: more processes are asked for than the mapping (ppr) takes.",
            fix=f"Write {own.written} {-(-total // len(names))}, or -np {each * len(names)}.",
        )


@rule(
    "M11",
    title="mpirun's options are of one MPI",
    source="mpirun(1) of Open MPI 4.1 and 5.0; mpiexec.hydra -help of Intel MPI 2021 and MPICH 4",
    bad=(
        "module load openmpi/4.1.5\nmpirun -np 8 -ppn 4 " + _PROGRAM,
        "mpirun -np 8 -H n01:4,n02:4 -x PATH -genv NCCL_DEBUG INFO " + _PROGRAM,
        "module load openmpi\nmpirun -np 8 -genv NCCL_DEBUG=INFO python train_horovod.py\n",
        "mpiexec.hydra -n 8 -ppn 4 -x NCCL_DEBUG=INFO python train_horovod.py\n",
        "module load impi/2021.9\nmpirun -np 8 --mca btl tcp,self python train_horovod.py\n",
    ),
    good=(
        "module load openmpi/4.1.5\nmpirun -np 8 --npernode 4 " + _PROGRAM,
        "mpiexec.hydra -n 8 -ppn 4 -genv NCCL_DEBUG INFO python train_horovod.py\n",
        "mpirun -np 8 -ppn 4 python train_horovod.py\n",
    ),
)
def options_of_another_mpi(job: LintJob) -> Iterator[LintFinding]:
    """Open MPI's mpirun knows -x, --mca, --map-by and -npernode; Intel MPI's and MPICH's (Hydra) -genv, -env and -ppn.
    Each ends at an option of the other."""
    loaded = {match["name"].lower() for match in _LOADED.finditer(job.text)}
    by_module = "open" if loaded & {"openmpi", "ompi"} and len(loaded) == 1 else ""
    by_hydra = "hydra" if loaded and not loaded & {"openmpi", "ompi"} else ""
    for launch in _runs(job):
        foreign = next((option for option in launch.every_option if option.name in _NOT_IN_HYDRA), None)
        if foreign is not None and (by_hydra or launch.entry in ("mpiexec.hydra", "mpiexec.mpich")):
            yield LintFinding(
                span=foreign.span,
                summary=f"{foreign.written} is an option of Open MPI, and {launch.entry} here is Hydra's",
                happens="mpiexec ends with its usage: unrecognized argument.",
                fix="Write -genv NAME VALUE for -x NAME=VALUE, and -ppn N for -npernode N; leave --mca out.",
            )
            continue
        hydra = [option for option in launch.every_option if option.name in _HYDRA or
                 option.written.lstrip("-") in ("ppn", "perhost")]  # fmt: skip
        own = next((option for option in launch.every_option if option.name in _OPEN_MPI), None)
        if not hydra or (own is None and not by_module) or launch.entry.startswith("mpiexec."):
            continue
        other = hydra[0]
        why = f"{own.written} is Open MPI's" if own is not None else "the module openmpi is loaded"
        yield LintFinding(
            span=other.span,
            summary=f"{other.written} is an option of Intel MPI and MPICH, and {why}",
            happens="mpirun ends at the option that it does not know, or takes it for the program.",
            fix="Write --npernode N (or --map-by ppr:N:node) for -ppn N, -x NAME=VALUE for -genv NAME VALUE.",
        )


@rule(
    "M12",
    title="Open MPI's hostfile gives slots by slots=N",
    source="Open MPI's documentation, Scheduling processes across hosts: the hostfile's format",
    bad=(
        _FILE.replace(" slots=4", ":4") + "mpirun -np 8 --hostfile hosts -x PATH " + _PROGRAM,
        _FILE.replace(" slots=4", ":4") + "mpirun --allow-run-as-root -np 8 --hostfile ./hosts " + _PROGRAM,
    ),
    good=(
        _FILE + "mpirun -np 8 --hostfile hosts -x PATH " + _PROGRAM,
        _FILE.replace(" slots=4", ":4") + "mpiexec.hydra -n 8 -f hosts python train_horovod.py\n",
    ),
)
def hostfile_of_another_mpi(job: LintJob) -> Iterator[LintFinding]:
    """`n01:4` is how Hydra's hosts are written (and Open MPI's -H); in Open MPI's hostfile a line is `n01 slots=4`."""
    for launch in _runs(job):
        option = launch.option("hostfile")
        name = option.value.text if option is not None and option.value is not None else None
        if not name or family(job, launch) != "open":
            continue
        last = name.rpartition("/")[2]
        for section in job.sections:
            if section.kind != "file" or section.name.rpartition("/")[2] != last:
                continue
            match = re.search(r"^[ \t]*[A-Za-z][\w.-]*:(\d{1,3})[ \t]*$", section.text, re.MULTILINE | re.ASCII)
            if match is not None:
                start = section.start + match.start()
                assert option is not None
                yield LintFinding(
                    span=type(option.span)(
                        start, section.start + match.end(), job.text.count("\n", 0, start) + 1, exact=False
                    ),
                    summary=f"{match[0].strip()} is no line of Open MPI's hostfile",
                    happens="mpirun ends: Open RTE detected a parse error in the hostfile.",
                    fix=f"Write {match[0].strip().partition(':')[0]} slots={match[1]}.",
                )


_FIFTH = lazy_re(r"^[ \t]*(?:module|ml)\s[^#\n]*\b(?:openmpi|OpenMPI|ompi)/(\d{1,2})\b", re.MULTILINE)
_MAPS = ("npernode", "pernode", "npersocket", "ppr", "bynode", "byslot", "bycore")
"""What Open MPI 5 turns into a --map-by of its own."""


@rule(
    "M14",
    title="Open MPI 5 is told once where its processes go",
    source="openpmix/prrte, schizo/ompi/schizo_ompi.c and schizo_base_stubs.c: too-many-directives; ompi#10669; 4.1"
    " takes both (measured)",
    bad=(
        "module load openmpi/5.0.5\nmpirun -np 8 -N 4 --map-by node " + _PROGRAM,
        Example("mpirun -np 8 --npernode 4 --map-by slot " + _PROGRAM, "openmpi=5.0"),
    ),
    good=(
        "module load openmpi/4.1.6\nmpirun -np 8 -N 4 --map-by node " + _PROGRAM,
        "module load openmpi/5.0.5\nmpirun -np 8 -N 4 --map-by :PE=4 " + _PROGRAM,
        "module load openmpi/5.0.5\nmpirun -np 8 --map-by ppr:4:node " + _PROGRAM,
    ),
)
def mapped_twice(job: LintJob) -> Iterator[LintFinding]:
    """-N, --npernode and the like are older words of --map-by ppr:N:node: beside a --map-by there are two."""
    loaded = _FIFTH.search(job.text)
    release = job.facts.version("openmpi") or ((int(loaded[1]),) if loaded is not None else (0,))
    for launch in _runs(job) if release[0] >= 5 else ():
        second = next((option for option in launch.every_option if option.name in _MAPS), None)
        if second is None or (launch.text("map-by") or ":").startswith(":"):
            continue
        yield LintFinding(
            span=second.span,
            summary=f"{second.written} is a --map-by to Open MPI 5, and --map-by {launch.text('map-by')} is one more",
            happens="mpirun ends: resolving deprecated command line options generated too many directives for map-by.",
            fix="Say it in one: --map-by ppr:N:node.",
        )
