"""The rules: one family a module, each rule a generator of `Cause`s over a `Job`; silent where it does not apply."""

from collections.abc import Callable, Iterator

from gpudoctor.hang.job import Job
from gpudoctor.hang.report import HangCause

Rule = Callable[[Job], Iterator[HangCause]]
