"""Random bytes against the reading of shell texts: `python -m tests.bench.fuzz_lint -runs=10000`, with atheris.

atheris is no dependency of the tests; `python -m pip install atheris` in an environment of its own.
"""

import sys
import time

import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

with atheris.instrument_imports(include=["gpudoctor.lint"]):
    from gpudoctor.lint.model import LintFacts
    from gpudoctor.lint.read import UnreadableText, read_job

SECONDS = 1.0


def one(data: bytes) -> None:
    """No exception but Unreadable, and within a second of CPU time."""
    text = data.decode("utf-8", "replace").replace("\0", " ")
    begin = time.process_time()
    try:
        read_job(text, LintFacts())
    except UnreadableText:
        return
    assert time.process_time() - begin < SECONDS


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
