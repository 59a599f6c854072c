"""Rule of a status that a pipe loses: Q47."""

from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.shell.pipes import asked_pipes

_PIPED = "torchrun --standalone --nproc-per-node=4 train.py 2>&1 | tee log.txt"
_SETS = lazy_re(r"pipefail|PIPESTATUS|pipestatus")
_NOT_SHELL = (".py", ".yaml", ".yml", ".json", ".toml", ".ipynb")


@rule(
    "Q47",
    title="The status of a start that is asked for is its own, not that of the last program of a pipe",
    severity="warning",
    source="bash(1), Pipelines: the status is that of the last command, unless pipefail is set",
    bad=(
        f"set -e\n{_PIPED}\npython convert.py out/last\n",
        f"{_PIPED}\nif [ $? -ne 0 ]; then exit 1; fi\n",
        f"if {_PIPED}; then\n  python evaluate.py\nfi\n",
        f"{_PIPED} && python evaluate.py\n",
    ),
    good=(
        f"set -eo pipefail\n{_PIPED}\npython convert.py out/last\n",
        f"{_PIPED}\nif [ ${{PIPESTATUS[0]}} -ne 0 ]; then exit 1; fi\n",
        f"{_PIPED}\npython convert.py out/last\n",
        f"set -e\n{_PIPED}\necho done\n",
    ),
)
def status_lost_in_a_pipe(job: LintJob) -> Iterator[LintFinding]:
    """tee and grep end well when the training has failed: `$?`, `if`, `&&` and set -e ask them. Told where something
    depends on it: what follows would not be done after a failure."""
    starts = [launch.invocation.span.start for launch in job.launches]
    for section in job.sections:
        if "|" not in section.text or section.name.endswith(_NOT_SHELL) or _SETS.search(section.text):
            continue
        inside = [at - section.start for at in starts if 0 <= at - section.start < len(section.text)]
        for pipe in asked_pipes(section.text, inside):
            yield LintFinding(
                span=section.span(pipe.start, pipe.end),
                summary=f"the status of this pipe is that of {pipe.last}, without pipefail, and {pipe.asked}",
                happens="A training that has failed counts as one that ended well.",
                fix="Write set -o pipefail before it, or ask ${PIPESTATUS[0]}.",
            )
