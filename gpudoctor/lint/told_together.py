"""What a program is told from all sides, for rows of conditions: its options, the files beside it, what it calls.

A name of a row is an option of the command line, of the program's file or of its TrainingArguments; `accelerate.NAME`
and `ds.NAME` of the files that accelerate and DeepSpeed read; `world` the ranks; `calls.NAME` whether the program calls
NAME. What is told and not decided is UNDECIDED; what is not told is the table's default, or nothing, and UNDECIDED
where words of the start are not known.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.conditions import holds, names_of, value_of_word
from gpudoctor.lint.model import LintJob, LintLaunch, Span, TextSection
from gpudoctor.lint.python_code import PythonCode, codes_and_starts, has_stars
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.python_values import UNDECIDED
from gpudoctor.lint.told_files import ARGUMENTS, everywhere, of_file
from gpudoctor.lint.told_options import ToldOption, is_whole

_ACCELERATE = lazy_re(r"^distributed_type\s*:", re.MULTILINE)
_DEEPSPEED = lazy_re(r"\"(?:zero_optimization|train_micro_batch_size_per_gpu|train_batch_size)\"\s*:")


class ToldTogether(Struct):
    """All that one start's program is told."""

    options: dict[str, ToldOption]
    is_whole: bool
    """Nothing more is told than is seen."""
    facts: dict[str, object] = {}
    """What is no option: "world"."""
    code: PythonCode | None = None
    """The program, for `calls.NAME`."""

    def value(self, name: str, defaults: Mapping[str, object]) -> object:
        if name in self.facts:
            return self.facts[name]
        if name.startswith("calls."):
            return self._calls(name.removeprefix("calls."))
        if name.startswith("mentions."):
            return UNDECIDED if self.code is None else name.removeprefix("mentions.") in self.code.text
        option = self.options.get(name)
        if option is not None:
            return value_of_word(option.value) if option.is_known else UNDECIDED
        return defaults.get(name) if self.is_whole else UNDECIDED

    def is_told(self, name: str) -> bool:
        return name in self.options

    def _calls(self, name: str) -> object:
        if self.code is None:
            return UNDECIDED
        return any(last_name(call.func) == name for call in self.code.calls)

    def holds(self, condition: str, defaults: Mapping[str, object]) -> bool:
        """Only of what is told: a condition that speaks of nothing that stands there accuses nobody."""
        if not any(name in self.options for name in names_of(condition)):
            return False
        return holds(condition, lambda name: self.value(name, defaults), self.is_told)

    def place(self, condition: str) -> Span:
        return self.placed(condition)[0].word.span

    def placed(self, condition: str) -> list[ToldOption]:
        """The options that a condition speaks of and that are told, in its order."""
        return [self.options[name] for name in names_of(condition) if name in self.options]


def of_launch(job: LintJob, launch: LintLaunch, world: int | None) -> ToldTogether:
    code = next((code for code, starts in codes_and_starts(job) if launch in starts), None)
    options = dict(everywhere(job, launch))
    for section in _beside(job, launch):
        prefix = "accelerate." if _ACCELERATE.search(section.text) else "ds." if _DEEPSPEED.search(section.text) else ""
        if prefix:
            options |= {prefix + name: option for name, option in of_file(section).items()}
    calls = code.calls if code is not None else ()
    hidden = any(ARGUMENTS.search(code.name(call.func)) and has_stars(call) for call in calls) if code else False
    return ToldTogether(options, is_whole(launch) and not hidden, {"world": world if world else UNDECIDED}, code)


def _beside(job: LintJob, launch: LintLaunch) -> Iterator[TextSection]:
    """The files that the words of a start, or what it is told, name."""
    words = {word.shown for word in (*launch.invocation.words, *launch.script_words)}
    words |= {option.value for option in everywhere(job, launch).values() if option.value is not None}
    named = {word.rpartition("=")[2].rpartition("/")[2] for word in words}
    yield from (
        section
        for section in job.sections
        if section.kind == "file" and section.name.rpartition("/")[2] in named and not section.name.endswith(".py")
    )
