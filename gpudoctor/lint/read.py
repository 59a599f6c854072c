"""A text -> everything that it says (`model.Job`)."""

from gpudoctor.lint.model import Facts, Job
from gpudoctor.lint.sections import split


class Unreadable(ValueError):
    """Nothing can be said of this text; the message is one line for the user."""


def read_job(text: str, facts: Facts, kind: str | None = None) -> Job:
    """Read a shell text, sbatch file, hostfile, manifest or Python text; `kind` is guessed when it is not given."""
    return Job(text=text, kind="shell", sections=split(text), facts=facts)
