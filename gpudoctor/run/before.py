"""A child that looks before the start: the command and what it names by `lint`, this machine by `check`."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import structs

from gpudoctor import cost, crowded, programs
from gpudoctor.bounded import GIB
from gpudoctor.diagnose import diagnose
from gpudoctor.errors import Error
from gpudoctor.examination import examine_machine, no_show
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.asked import asked_facts
from gpudoctor.lint.beside import typed
from gpudoctor.lint.config import config_for
from gpudoctor.lint.report import LintReport, Understood
from gpudoctor.lint.several import judged
from gpudoctor.lint.starts import COMMAND_LINE
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run.preflight import BeforeTask, BeforeTold, in_few_lines

PROCESSOR_SECONDS = 40.0
MEMORY = 2 * GIB
OF_A_JOB = lazy_re(
    r"(?:(?:LOCAL_|NODE_|GROUP_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)|CUDA_VISIBLE_DEVICES)$|"
    r"(?:SLURM|OMPI|PMIX?|PET|NCCL|GLOO)_"
)
"""Variables that the command finds set, by hand or by srun, and that rules ask for."""
READ_SECONDS = 4.0
"""For each reader; more where others have the processors (`crowded`): who is slow then is not at fault."""


def main(arguments: list[str]) -> None:
    """The child: a task as JSON in, what was found as a line of JSON for each look."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the doctor takes its signals one by one; a child of it need not
    end_with_the_doctor()
    cost.limit_child(PROCESSOR_SECONDS, MEMORY)
    programs.go_back()  # names in the command are the user's
    for told in looked(msgspec.json.decode(arguments[0], type=BeforeTask)):
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        sys.stdout.buffer.flush()


def looked(task: BeforeTask) -> Iterator[BeforeTold]:
    """Nothing is said of a command that starts no training, as far as that is understood."""
    try:
        report = _linted(task.command)
    except Error:
        return
    if report.understood == Understood():
        return
    yield in_few_lines([*_of_lint(report)])
    yield in_few_lines([*_of_check(task.torch)])


def _linted(words: Sequence[str]) -> LintReport:
    place = config_for(os.path.join(programs.folder() or "/", "x"))  # noqa: PTH118 - a name, not a file
    facts = asked_facts(None, None, None, None)
    told = {name: value for name, value in os.environ.items() if OF_A_JOB.match(name)}
    facts = structs.replace(facts, given=structs.replace(facts.given, variables=told))
    return judged(typed(words), facts, config=place, corrections=False).report


def _of_lint(report: LintReport) -> Iterator[str]:
    for problem in report.problems:
        if problem.severity == "error":
            where = f"{problem.file} line {problem.line}: " if problem.file not in (None, COMMAND_LINE) else ""
            yield f"error {where}{problem.summary}  [{problem.rule} {problem.code}]; {problem.fix.text}"


def _of_check(torch: bool) -> Iterator[str]:
    checks, broken = chosen_checks(())
    seconds = READ_SECONDS * crowded.slowdown()
    machine = examine_machine(python=None, torch=torch, deep=False, timeout=seconds, waiting=no_show)
    for result in diagnose(machine, checks, broken).results:
        for problem in result.problems:
            if problem.severity == "error":
                yield f"error {problem.summary}  [{result.check}]; gpudoctor check tells what to do"
