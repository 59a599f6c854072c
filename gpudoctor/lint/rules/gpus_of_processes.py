"""Rules of programs whose processes take several GPUs each: G20."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look, processes, rank_counts
from gpudoctor.lint.model import LintJob, LintLaunch, Word
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.understood import nodes_of, processes_of, whole

_JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n"
_TESTS = lazy_re(
    r"(?:\S*/)?(?:all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv|gather|scatter|hypercube)"
    r"_perf(?:_mpi)?"
)


@rule(
    "G20",
    title="nccl-tests' processes share the GPUs of a node",
    source="nccl-tests 2.17, src/common.cu: a process takes -t times -g GPUs; nccl-tests#54, nccl-tests#263",
    leads_to=("duplicate-gpu",),
    bad=(
        _JOB + "srun --mpi=pmix all_reduce_perf -b 8 -e 4G -f 2 -g 8\n",
        Example("mpirun -np 24 ./build/all_gather_perf -b 16 -e 256M -f 2 -g 4\n", "nodes=1,gpus_per_node=4"),
        Example("mpirun -np 16 -H a:8,b:8 -x PATH build/all_reduce_perf -e 1G -t 2 -g 1\n", "gpus_per_node=8"),
    ),
    good=(
        _JOB + "srun --mpi=pmix all_reduce_perf -b 8 -e 4G -f 2 -g 1\n",
        _JOB + "srun --ntasks=2 --ntasks-per-node=1 all_reduce_perf -b 8 -e 4G -f 2 -g 8\n",
        Example("mpirun -np 4 ./build/all_gather_perf -b 16 -e 256M -f 2 -g 1\n", "nodes=1,gpus_per_node=4"),
    ),
)
def tests_take_more_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Each process of nccl-tests takes as many GPUs as -t times -g says, and the next one on the node those behind
    them: with a process for each GPU both are 1."""
    for launch in job.launches[: look.SIBLINGS]:
        script = launch.script
        if script is None or launch.launcher not in ("srun", "mpirun") or not _TESTS.fullmatch(script.shown):
            continue
        given = {name: _number(launch.script_words, *names) for name, names in _NAMES.items()}
        each = given["threads"][0] * given["gpus"][0]
        here, limit = _here(job, launch), processes.gpus(job, launch)
        word = given["gpus"][1] or given["threads"][1]
        if not each or not here or not limit or here * each <= limit or word is None:
            continue
        yield LintFinding(
            span=word.span,
            summary=f"{counted(here, 'process', 'processes')} on a node take {counted(each, 'GPU')} each,"
            f" and it has {limit}",
            happens="Test CUDA failure: invalid device ordinal, in all processes but the first ones.",
            fix=f"Write -g 1 with {counted(limit, 'process', 'processes')} on a node, or -g {limit} with one.",
        )


_NAMES = {"threads": ("-t", "--nthreads"), "gpus": ("-g", "--ngpus")}


def _number(words: tuple[Word, ...], short: str, long: str) -> tuple[int, Word | None]:
    """What an option says, and where: 1 unless it is given, 0 where it is not known."""
    for word, following in zip(words, (*words[1:], None), strict=False):
        match = re.fullmatch(rf"(?:{short}|{long}=)(\d{{1,3}})", word.text or "", re.ASCII)
        if match is not None:
            return int(match[1]), word
        if word.shown in (short, long):
            text = following.text if following is not None else None
            return int(text) if text is not None and re.fullmatch(r"\d{1,3}", text, re.ASCII) else 0, word
    return 1, None


def _here(job: LintJob, launch: LintLaunch) -> int | None:
    """Processes on each node."""
    here = processes_of(job, launch) or rank_counts.counts(job, launch).each
    total, nodes = whole(launch.option("np")), nodes_of(job, launch)
    hosts = launch.option("host")
    slots = re.findall(r":(\d{1,3})(?=,|$)", hosts.value.shown, re.ASCII) if hosts is not None and hosts.value else []
    if here is None and slots:
        return min(max(map(int, slots)), total or 999)
    return here or (-(-total // nodes) if total and nodes else None)
