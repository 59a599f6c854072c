"""What an exception tells by where it was raised, and by the source line there: fixes of a program's error.

Python raises a TypeError of a wrong call where the call stands. A call that stands in an installed package, of what is
not there or takes other arguments, was written for another release of what it calls.
"""

import re

IN_PACKAGE = re.compile(r"(?:site|dist)-packages[/\\](?P<package>[A-Za-z]\w{0,60})")
CALLED = re.compile(
    r"got an unexpected keyword argument|takes (?:from )?\d+ (?:to \d+ )?positional arguments? but|"
    r"missing \d+ required (?:positional|keyword-only) arguments?|has no attribute '|^_?[a-z]\w{2,60}$"
)
"""Python's words for a call that does not fit (Python/ceval.c), and of what is not there (Objects/object.c)."""
OF_DATA = re.compile(r"'(?:NoneType|str|bytes|dict|list|tuple|int|float|bool|set)' object|^'?(?:forward|__getitem__)\b")
"""Of a value that is of no class of a package: what was handed in."""
OWN_WORDS = frozenset({"torch", "functorch"})
"""Packages through which programs call themselves: a module's forward, an attribute of a module."""
NOTHING = re.compile(
    r"'NoneType' object (?:is not|has no attribute)|\bNoneType\b[^\n]{0,40}\bfound$|not NoneType$|and 'NoneType'$|"
    r"for \S{1,4}: 'NoneType'"
)
"""Python's words where a value is None that should be something."""


def caller(type_name: str, message: str, raised_in: str) -> str:
    """The package that calls what does not fit; empty where it is not that."""
    if type_name.rpartition(".")[2] not in ("TypeError", "AttributeError"):
        return ""
    first = message.partition("\n")[0]
    found = IN_PACKAGE.search(raised_in)
    if found is None or found["package"] in OWN_WORDS or not CALLED.search(first) or OF_DATA.search(first):
        return ""
    return found["package"]


def by_code(type_name: str, message: str, code: str) -> tuple[str, dict[str, str]] | None:
    """The variant of the cause program-error that shows the source line, and its values."""
    name, first = type_name.rpartition(".")[2], message.partition("\n")[0].strip()
    if not code:
        return None
    if name == "AssertionError" and not first and code.startswith("assert"):
        return "assertion-line", {"code": code}
    if name in ("TypeError", "AttributeError") and NOTHING.search(first):
        return "nothing-there", {"code": code}
    return None
