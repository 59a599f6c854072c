"""A .env file, as python-dotenv, `docker compose` and `set -a; . ./.env` read it alike.

Values that nothing interprets stand bare, all others in single quotes. What the three would read differently is
refused: a quote, a backslash, a line break, and a dollar sign, for python-dotenv expands ${NAME} in single quotes too.
"""

from gpudoctor.emit.comments import CannotExpress, document, sayable
from gpudoctor.emit.shell import PLAIN
from gpudoctor.knowledge.suggest.advice import Advice, Suggestion

REFUSED = frozenset("'\\$\n\r\0")


def dotenv(advice: Advice) -> str:
    """`NAME=VALUE` lines."""
    return document(advice, "A .env file.", assignment)


def assignment(suggestion: Suggestion) -> str:
    """One line. Raises `CannotExpress`."""
    if not REFUSED.isdisjoint(suggestion.value):
        raise CannotExpress(
            f"{suggestion.name}={suggestion.value!r} holds a quote, backslash, dollar sign or line break, "
            "which readers of .env files do not agree on; use --format shell"
        )
    value = sayable(suggestion)
    value = value if PLAIN.fullmatch(suggestion.value) else f"'{value}'"
    return f"{suggestion.name}={value}"
