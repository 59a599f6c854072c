"""Remedies: each is found by its samples before any other, by no counter; what `explain` says of it can be done."""

import re
import string

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.remedies import OF_OTHER_CAUSES, REMEDIES, remedy_for, remedy_of_line
from gpudoctor.remedy import Remedy

every = pytest.mark.parametrize("remedy", REMEDIES, ids=lambda remedy: remedy.id)
TYPED = re.compile(r"(?P<type>(?:\w+\.)*[A-Z]\w*): (?P<message>.*)", re.DOTALL)


def parts(text: str) -> tuple[str, str]:
    """An exception's type and message; of a line that none wrote the line."""
    found = TYPED.fullmatch(text)
    return (found["type"], found["message"]) if found else ("", text)


@every
def test_it_is_found_by_its_samples_and_by_no_counter(remedy: Remedy) -> None:
    for sample in remedy.samples:
        known = remedy_for(*parts(sample))
        assert known is not None and known[0] is remedy, sample
        if not parts(sample)[0]:
            line = remedy_of_line(sample)
            assert line is not None and line[0] is remedy, sample
    for counter in remedy.counters:
        assert remedy.match(*parts(counter)) is None, counter


def test_a_text_names_only_values_that_its_words_tell() -> None:
    """Besides `told`, what the message proposes."""
    for remedy in REMEDIES:
        told = {name for words in remedy.words for name in words.groupindex}
        wanted = {name for _, name, _, _ in string.Formatter().parse(remedy.fix.text) if name} - {"told"}
        assert wanted <= told, remedy.id


def test_ids_are_variants_of_one_cause() -> None:
    ids = [remedy.id for remedy in REMEDIES]
    assert len(ids) == len(set(ids))
    for remedy in REMEDIES:
        elsewhere = remedy.judged is not None and remedy.judged.kind in OF_OTHER_CAUSES
        assert (remedy.id in CAUSES["program-error"].variants) is not elsewhere
        assert remedy.source and not remedy.source.endswith(".")
