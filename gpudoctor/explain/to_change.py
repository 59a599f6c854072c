"""Whether the line at which a program's own code was left is the one to change.

An exception passes many lines on its way out. Where the message speaks of a setting, a file, a package or a service,
none of them sets it, and a reader who is sent there looks in vain. The summary names the place in any case.
"""

from gpudoctor.explain.own_words import names, refused_path
from gpudoctor.explain.told_by_place import HANDED_ON, IN_PACKAGE, is_of_a_package
from gpudoctor.explain.tracebacks import Raised

AT_HAND = frozenset(
    {
        *("own-line", "shape", "nan", "two-devices", "two-devices-line", "two-devices-of-a-rank", "data-parallel"),
        *("handed", "argument-missing", "argument-refused", "torch-argument", "lost-argument", "superseded", "not-yet"),
        *("trainer-perhaps", "argument-newer", "module-lacks", "of-release", "no-variable", "no-launcher"),
    }
)
"""Fixes of what stands in that line itself: a call, an operation on tensors."""
OF_A_CALL = frozenset({"of-release", "argument-newer", "argument-refused", "argument-missing", "lost-argument"})
"""Those of a call that Python refuses where it stands."""
OF_THE_SOURCE = frozenset({"nothing-given", "nothing-there", "assertion-line", "missing-entry", "missing-number"})
"""Those that quote the innermost line: only where that is the program's own."""
SAME = 24
"""Characters of a message by which it is known in the source line that holds it."""


def sets_it(error: Raised, variant: str) -> bool:
    """The fix may name the place: its line does what is wrong, or names what the message names."""
    if not error.file or IN_PACKAGE.search(error.file):
        return False
    if variant in OF_A_CALL and is_of_a_package(error.innermost) and not HANDED_ON.search(error.code):
        return False
    if variant in AT_HAND:
        return True
    if variant in OF_THE_SOURCE:
        return error.innermost in ("", error.file)
    if error.source.startswith(("raise ", "assert ")) or error.message[:SAME] in error.source:
        return False  # it says so, and sets nothing
    named = (*names(error.all_words), refused_path(error.all_words))
    return any(name.rpartition(".")[2].lstrip("-") in error.source for name in named if len(name) > 2)
