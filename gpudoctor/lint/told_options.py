"""The options that a start hands to its program, in the two spellings that such programs read: `--name value` of
argparse and `group.name=value` of hydra. Names have underscores here, as the programs' own attributes have."""

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look, rank_counts, understood
from gpudoctor.lint.model import LintJob, LintLaunch, Word

NAME = lazy_re(r"(?:--|\+{1,2})?([A-Za-z_][\w.@/-]*)(?:=(.*))?", re.ASCII | re.DOTALL)


class ToldOption(Struct, frozen=True):
    """An option as the program gets it; the last of a name counts."""

    written: str
    value: str | None
    """None: a flag, or not known."""
    word: Word
    """Where its name stands."""
    is_known: bool = True
    """False: something is told, and the text does not say what."""

    @property
    def number(self) -> int | None:
        text = self.value
        return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else None


def told(launch: LintLaunch) -> dict[str, ToldOption]:
    """By name. A word whose value nobody knows may hold others: `is_whole` says so."""
    options: dict[str, ToldOption] = {}
    words = launch.script_words
    for index, word in enumerate(words):
        text = word.text if word.text is not None else word.shown
        parts = NAME.fullmatch(text)
        if parts is None or (not text.startswith("--") and parts[2] is None):
            continue
        value, is_known = parts[2], word.text is not None
        if value is None and index + 1 < len(words):
            following = words[index + 1]
            is_known = is_known and following.text is not None
            value = following.text if following.text is None or not following.text.startswith("--") else None
        elif word.text is None:
            value = None
        options[parts[1].replace("-", "_")] = ToldOption(text.partition("=")[0], value, word, is_known)
    return options


def is_whole(launch: LintLaunch) -> bool:
    """Whether every word that the program gets is known."""
    return all(word.text is not None for word in launch.script_words)


def world_of(job: LintJob, launch: LintLaunch) -> int | None:
    """Ranks in all of one start; None where the text does not tell."""
    if launch is understood.main_launch(job) or len(job.launches) == 1:
        return understood.understood(job).world_size
    counted = rank_counts.counts(job, launch)
    nodes = understood.nodes_of(job, launch) or counted.nodes
    per_node = understood.processes_of(job, launch) or counted.each
    return nodes * per_node if nodes and per_node else counted.total


def with_options(job: LintJob) -> Iterator[tuple[LintLaunch, dict[str, ToldOption]]]:
    """The starts whose program gets options."""
    for launch in job.launches[: look.SIBLINGS]:
        if launch.script_words:
            yield launch, told(launch)
