"""What `gpudoctor sbatch` says before it submits: a few lines, on standard error, for standard output is sbatch's."""

from rich.console import Console

from gpudoctor.lint.several import JudgedStart
from gpudoctor.lint.submission import asks_for
from gpudoctor.render.lint import show_problem_lines, understood_line
from gpudoctor.render.prose import show

MOST_PROBLEMS = 3
"""`gpudoctor lint` shows all."""


def show_submission(done: JudgedStart, screen: Console) -> None:
    report = done.report
    problems = [problem for problem in report.problems if problem.severity != "info"]
    for problem in problems[:MOST_PROBLEMS]:
        show_problem_lines(problem, screen)
    if len(problems) > MOST_PROBLEMS:
        show(f"and {len(problems) - MOST_PROBLEMS} more; gpudoctor lint shows all", screen)
    asked = asks_for(done)
    show(f"Asks for: {asked}" if asked else "Asks for nothing: one task on one node, as the partition has it", screen)
    line = understood_line(report.understood)
    show(f"Starts: {line}" if line else "Starts: no training that is understood here; nothing is said of it", screen)
