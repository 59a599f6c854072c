"""The rules: one family a module, each a generator of `HangCause`s over a `HangJob`; silent where it does not apply."""

from collections.abc import Callable, Iterator

from gpudoctor.hang.job import HangJob
from gpudoctor.hang.report import HangCause

HangRule = Callable[[HangJob], Iterator[HangCause]]
