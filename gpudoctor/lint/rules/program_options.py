"""Rule of options of a program's own parser that mean something else than they seem to: V19."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.program_arguments import options_given
from gpudoctor.lint.python_code import argument, codes_and_starts
from gpudoctor.lint.rule import LintFinding, rule

_PROGRAM = (
    "#@ file t.py\nimport argparse\np = argparse.ArgumentParser()\np.add_argument('--compile', type={}, default=True)\n"
    "a = p.parse_args()\n#@ every node\ntorchrun --standalone --nproc-per-node=4 t.py --compile {}\n"
)
_FALSE = frozenset(("false", "no", "0", "off", "none", "f", "n"))


@rule(
    "V19",
    title="An option that is told False is false",
    severity="warning",
    source="Python's argparse, type: bool is not recommended; bool() is False of the empty text alone (asked)",
    bad=(_PROGRAM.format("bool", "False"), _PROGRAM.format("bool", "0")),
    good=(_PROGRAM.format("bool", "True"), _PROGRAM.format("lambda x: x == 'True'", "False")),
)
def false_that_is_true(job: LintJob) -> Iterator[LintFinding]:
    """argparse hands the text to type: bool("False") is True, for the text is not empty."""
    for code, starts in codes_and_starts(job):
        for launch in starts:
            for call, word, value in options_given(code, launch):
                kind = argument(call, "type")
                if isinstance(kind, ast.Name) and kind.id == "bool" and value.lower() in _FALSE:
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{word.shown.partition('=')[0]} {value} is True: type=bool is True of every text, and"
                        ' bool("False") too',
                        happens="What was to be off is on.",
                        fix="Write action=argparse.BooleanOptionalAction (then --no-...) or a function that reads the"
                        " word; or leave the option out where its default is False.",
                    )
