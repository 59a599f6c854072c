"""The rules: one family a module, each a generator of `HangCause`s over a `HangJob`; silent where it does not apply.

What a rule is written with is shown here: it comes from the modules that are named below.
"""

from collections.abc import Callable, Iterator

from gpudoctor.causes import CAUSES
from gpudoctor.command import command
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.words import blame
from gpudoctor.sure import HINT, LIKELY, POSSIBLE, PROVED, SEEN

HangRule = Callable[[HangJob], Iterator[HangCause]]

__all__ = ["CAUSES", "HINT", "LIKELY", "POSSIBLE", "PROVED", "SEEN", "HangCause", "HangJob", "HangRule"]
__all__ += ["Rank", "Seen", "blame", "command"]
