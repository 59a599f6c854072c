"""Rules of the headers of PBS, LSF, PJM and Grid Engine: H01 to H03."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.misspelt import nearest
from gpudoctor.knowledge.schedulers.directives import LSF, PBS, SGE, excluded, wanted_instead
from gpudoctor.lint import headers
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule

_PBS = (
    "#!/bin/bash\n#PBS -N train\n#PBS -l select=2:ncpus=32:ngpus=4:mpiprocs=4\n#PBS -l walltime=12:00:00\n#PBS -j oe\n"
    "cd $PBS_O_WORKDIR\nmpirun -np 8 python train.py\n"
)
_LSF = (
    '#!/bin/bash\n#BSUB -n 8\n#BSUB -W 12:00\n#BSUB -gpu "num=4:mode=exclusive_process"\nmpirun -np 8 python train.py\n'
)
_SGE = "#!/bin/bash\n#$ -cwd\n#$ -l h_rt=12:00:00\n#$ -pe mpi 8\nmpirun -np 8 python train.py\n"
_PJM = '#!/bin/sh\n#PJM -L "node=2,elapse=12:00:00"\n#PJM --mpi proc=8\n#PJM -j\nmpirun -np 8 python train.py\n'


@rule(
    "H01",
    title="The scheduler knows the options of the header",
    source="qsub(1B) of OpenPBS and Torque, bsub of LSF 10.1, pjsub(1), qsub(1) of Grid Engine; sbatch(1)",
    bad=(
        _PBS.replace("-j oe", "--nodes=2"),
        _PBS.replace("-j oe", "-Y oe"),
        _LSF.replace("-n 8", "--ntasks=8"),
        _SGE.replace("-cwd", "-cwdd"),
    ),
    good=(_PBS, _LSF, _SGE, _PJM),
)
def header_option_unknown(job: LintJob) -> Iterator[LintFinding]:
    """What submits a job refuses an option that it does not have; often it is the one of another scheduler."""
    for option in headers.options(job):
        kind = option.kind
        if option.known or option.late:
            continue
        foreign = option.name.startswith("--") and kind in (PBS, LSF, SGE)
        letter = kind.letters and not option.name.startswith("--")
        near = nearest(option.name, sorted(kind.known)) if len(option.name) > 3 else ""
        if (
            foreign
            and kind is PBS
            and not re.match(r"--(?:nodes|ntasks|gres|gpus|cpus|time|partition|mem|job)", option.name)
        ):
            continue  # NEC's qsub has long options
        if not foreign and not letter and not near:
            continue
        yield LintFinding(
            span=option.span,
            summary=f"{kind.submit} of {kind.name} has no option {option.name}" + (f"; {near} is" if near else ""),
            happens=f"{kind.submit} refuses the script with its usage: the job is not submitted.",
            fix=f"Write {near}, if that is meant."
            if near
            else f"{option.name} is sbatch's; write what it says in {kind.name}'s words."
            if foreign
            else f"{kind.submit}'s manual page lists them.",
        )


@rule(
    "H02",
    title="Values of the header have the form that the scheduler takes",
    source="OpenPBS: pbs_resources(7B), attr_fn_time.c, attr_fn_size.c; LSF: bsub -W, -n, -gpu; sge_types(1); pjsub(1)",
    bad=(
        _PBS.replace("12:00:00", "12h"),
        _PBS.replace("12:00:00", "1-00:00:00"),
        _PBS.replace("ngpus=4", "ngpus:4"),
        _PBS.replace("-j oe", "-l nodes=2"),
        _LSF.replace("12:00", "12:00:00"),
        _SGE.replace("12:00:00", "12h"),
        _PJM.replace("12:00:00", "12h"),
    ),
    good=(_PBS, _LSF, _SGE, _PJM, _PBS.replace("walltime=12:00:00", "walltime=43200,mem=64gb")),
)
def header_value_malformed(job: LintJob) -> Iterator[LintFinding]:
    """Each scheduler has its own form of times, sizes and places; a variable is expanded by none of them."""
    given: dict[str, list[tuple[str, str]]] = {}
    for option in headers.options(job):
        if option.value is None or option.late:
            continue
        given.setdefault(option.kind.name, []).append((option.name, option.value))
        shown, wanted = wanted_instead(option.kind, option.name, option.value)
        pair = ("", "")
        if not wanted:
            pair = excluded(option.kind, given[option.kind.name])
            if not pair[0] or excluded(option.kind, given[option.kind.name][:-1])[0]:
                continue
        yield LintFinding(
            span=option.span,
            summary=f"{shown[:70]} is none of {option.kind.name}'s forms; it takes {wanted}"
            if wanted
            else f"{pair[0]} exclude each other",
            happens=f"{option.kind.submit} refuses it ({pair[1] or 'an illegal value'}): the job is not submitted."
            + (" No variable is expanded there." if "$" in shown else ""),
            fix=f"Write {wanted}." if wanted else "Say it all in select=.",
        )


@rule(
    "H03",
    title="The lines for PBS stand before the first command",
    severity="warning",
    source="POSIX qsub(1): directives behind the first other line are ignored; OpenPBS: the same",
    bad=(
        _PBS.replace("cd $PBS_O_WORKDIR\n", "cd $PBS_O_WORKDIR\n#PBS -q gpu\n"),
        "#!/bin/bash\nmodule load cuda\n" + _PBS.removeprefix("#!/bin/bash\n"),
    ),
    good=(_PBS, _SGE.replace("mpirun", "date\n#$ -j y\nmpirun")),
)
def header_line_ignored(job: LintJob) -> Iterator[LintFinding]:
    """qsub reads the header up to the first line that is neither a comment nor empty; the rest is a comment."""
    for option in headers.options(job):
        if option.late and option.kind.ends and option.known:
            yield LintFinding(
                span=option.span,
                severity="error" if option.name == "-l" else None,
                summary=f"{option.kind.submit} does not read {option.kind.marker} {option.name}"
                f" {(option.value or '')[:60]}: a command stands before it",
                happens="The job runs without it, by the queue's default.",
                fix="Move it up, before the first command.",
            )
