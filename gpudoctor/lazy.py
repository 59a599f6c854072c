"""Patterns that are compiled when they are first asked: a command knows a thousand of them and asks a few."""

import re
from typing import Any, AnyStr, cast


class _Lazy:
    """Stands for a pattern; keeps each of its methods once it was asked for, so that no later call passes by here."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags_asked = flags

    def __reduce__(self) -> tuple[Any, tuple[str | bytes, int]]:
        return lazy_re, (self.pattern, self._flags_asked)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags_asked), name)
        self.__dict__[name] = value
        return value


def lazy_re(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, put off. What is no pattern is told when it is first asked; tests ask every one of them
    (tests/test_lazy.py). `re`'s own functions do not take it: ask its methods."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
