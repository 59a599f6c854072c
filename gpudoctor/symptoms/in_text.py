"""Which known symptoms a rank's own log shows, the most decisive first. Logs of whole jobs: `gpudoctor.explain`."""

from functools import cache

from msgspec import Struct

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.symptom import ROLES, Symptom
from gpudoctor.symptoms import TABLE
from gpudoctor.symptoms.match import Matcher


class Shown(Struct, kw_only=True):
    """An entry of the table, as a log shows it."""

    symptom: Symptom
    values: dict[str, str]
    """Of the first line."""
    line: str
    """The first record, without what NCCL puts before it: host, process and file."""
    count: int = 1
    """How many lines say it."""

    @property
    def seen(self) -> str:
        return self.symptom.said(self.values)

    @property
    def meaning(self) -> str:
        return CAUSES[self.symptom.cause].meaning

    @property
    def fix(self) -> Fix:
        return CAUSES[self.symptom.cause].remedy(self.symptom.variant, **self.values)


@cache
def _matcher() -> Matcher:
    return Matcher(TABLE)


def symptoms(text: str) -> tuple[Shown, ...]:
    """Every entry of the table that the text shows, once each: causes first, consequences behind them.

    Within a role, what stands earlier in the log comes first. Never raises; linear in the length of the text.
    """
    shown: dict[str, Shown] = {}
    for line, symptom, values in _matcher().in_text(text):
        if symptom.id in shown:
            shown[symptom.id].count += 1
        else:
            shown[symptom.id] = Shown(symptom=symptom, values=values, line=_message(line))
    return tuple(sorted(shown.values(), key=lambda each: ROLES.index(each.symptom.role)))


def _message(line: str) -> str:
    """The record without host, process and file."""
    for mark in (" NCCL WARN ", " NCCL INFO "):
        _, mark_found, message = line.rpartition(mark)
        if mark_found:
            return message.strip()
    return line.strip()
