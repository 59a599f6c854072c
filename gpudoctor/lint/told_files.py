"""What a program is told beside its command line: in the files that the start names, and by its own TrainingArguments.

A file is read where its text is given. Keys are joined by dots; a key that holds a list or a mapping is told too, with
a value that is nothing but on.
"""

import re
from collections.abc import Iterator
from itertools import islice

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, LintLaunch, TextSection, Word, file_named
from gpudoctor.lint.once import once_a_job
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.told_options import ToldOption, told

NAMES = lazy_re(r"(?:^|[/=])([\w.-]+\.(?:ya?ml|json|toml))$", re.ASCII)
OPTIONS = frozenset(
    ("config", "config_file", "config_path", "cfg", "conf", "params", "yaml", "config_name", "c", "job.config_file")
)
"""What programs call the option that names their file."""
OFF = frozenset(("", "null", "~", "none"))
ARGUMENTS = lazy_re(r"(?:TrainingArguments|(?:SFT|DPO|GRPO|PPO|KTO|ORPO|RLOO|Reward|CPO)Config)$")
"""Calls whose keywords are transformers' and trl's options."""
MOST_VALUES = 2_000


def files_of(job: LintJob, launch: LintLaunch) -> Iterator[TextSection]:
    """The files in the text that tell a start's program its options."""
    named: list[str] = []
    script = (launch.script,) if launch.script is not None else ()
    options = told(launch)
    words = [word.shown for word in (*script, *launch.script_words)]
    positional = [word for index, word in enumerate(words) if index == 0 or not words[index - 1].startswith("-")]
    named += [word for word in positional if NAMES.search(word) and not word.startswith("-")][:1]
    named += [option.value for name, option in options.items() if name in OPTIONS and option.value is not None]
    for name in dict.fromkeys(named):
        short = name.rpartition("/")[2]
        short = short if "." in short else f"{short}.yaml"
        found = file_named(job.sections, short)
        if found is not None and NAMES.search(found.name):
            yield found


def of_file(section: TextSection) -> dict[str, ToldOption]:
    """Its values by their keys; nothing of a file that is no YAML, JSON or TOML."""
    if section.name.endswith(".toml"):
        return _of_toml(section)
    documents = read_manifests(section.text, section.start, section.line)
    if len(documents) != 1 or documents[0].fault:
        return {}
    found: dict[str, ToldOption] = {}
    for value in documents[0].values[:MOST_VALUES]:
        if value.value.lower() in OFF:
            continue
        keys = value.path
        word = Word(raw=value.value, text=value.value, shown=value.value, span=value.span)
        for length in range(1, len(keys)):
            found.setdefault(".".join(keys[:length]), ToldOption(keys[length - 1], "...", word))
        # A shell, or whoever fills a template in, puts another value there.
        decided = "$" not in value.value and "{{" not in value.value
        found[".".join(keys)] = ToldOption(".".join(keys), value.value if decided else None, word, decided)
    return found


_TOML = lazy_re(
    r"^[ \t]*(?:\[([\w.-]+)\]|([\w.-]+)[ \t]*=[ \t]*(\"[^\"\n]*\"|'[^'\n]*'|[^#\n]*))", re.MULTILINE | re.ASCII
)


def _of_toml(section: TextSection) -> dict[str, ToldOption]:
    """`[group]` and `key = value` on lines of their own, which is all that launchers' files have."""
    found: dict[str, ToldOption] = {}
    group = ""
    for match in islice(_TOML.finditer(section.text), MOST_VALUES):
        if match[1]:
            group = match[1] + "."
            continue
        value = match[3].strip().strip("\"'")
        span = section.span(match.start(2), match.end())
        name = group + match[2]
        found[name] = ToldOption(name, value, Word(raw=value, text=value, shown=value, span=span))
    return found


def of_program(job: LintJob, launch: LintLaunch) -> dict[str, ToldOption]:
    """The keywords of transformers' TrainingArguments in the program of a start, as far as they are decided."""
    found: dict[str, ToldOption] = {}
    for code, starts in codes_and_starts(job):
        if launch not in starts:
            continue
        values = PythonValues(code, launch)
        for call in code.calls:
            if not ARGUMENTS.search(code.name(call.func)):
                continue
            place = Word(raw="", text=None, shown="", span=code.span(call))
            found.setdefault("output_dir", ToldOption("output_dir", None, place))
            for keyword in call.keywords:
                if keyword.arg is None:
                    continue
                value = values.value(keyword.value)
                is_known = isinstance(value, (str, int, float))
                text = str(value) if is_known else None
                word = Word(raw="", text=text, shown=text or "", span=code.span(keyword))
                if is_known or value is not None:
                    found[keyword.arg] = ToldOption(keyword.arg, text, word, is_known)
    return found


def everywhere(job: LintJob, launch: LintLaunch) -> dict[str, ToldOption]:
    """All that a program is told; the command line counts before a file, and that before the program's own words."""
    kept = _kept(job)
    key = id(launch)
    if key not in kept:
        found = of_program(job, launch)
        for section in files_of(job, launch):
            found |= of_file(section)
        kept[key] = found | told(launch)
    return kept[key]


@once_a_job
def _kept(job: LintJob) -> dict[int, dict[str, ToldOption]]:
    """By launch."""
    return {}


def with_options(job: LintJob) -> Iterator[tuple[LintLaunch, dict[str, ToldOption]]]:
    """The starts whose program is told anything."""
    for launch in job.launches[: look.SIBLINGS]:
        if found := everywhere(job, launch):
            yield launch, found
