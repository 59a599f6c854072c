"""A file for `docker run --env-file FILE` (podman reads it alike).

A file and not `-e NAME=VALUE` words, because it has room for the reasons and because docker takes each line literally:
nothing is quoted, so nothing can be quoted wrongly. A line cannot hold a line break (docker/cli, kvfile: lines that
begin with # are comments, the first = ends the name, the rest of the line is the value).
"""

from gpudoctor.emit.comments import document, sayable
from gpudoctor.knowledge.suggest.advice import Advice, Suggestion


def docker(advice: Advice) -> str:
    """`NAME=VALUE` lines, unquoted."""
    return document(advice, "Give it to docker: docker run --env-file FILE ...", literal)


def literal(suggestion: Suggestion) -> str:
    """One line. Raises `CannotExpress`."""
    return f"{suggestion.name}={sayable(suggestion)}"
