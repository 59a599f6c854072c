"""What a user says that a machine must have (`--expect`), put into its snapshot for the checks."""

from msgspec.structs import replace

from gpudoctor.errors import BadInput
from gpudoctor.snapshot import Expectation, Snapshot, read


def expecting(machine: Snapshot, text: str | None) -> Snapshot:
    """The machine, with what `--expect` says of it. Raises `BadInput`."""
    return machine if text is None else replace(machine, expected=read("--expect", expectation(text)))


def expectation(text: str) -> Expectation:
    """What `--expect` says. Raises `BadInput`."""
    try:
        return Expectation.of(text)
    except ValueError as error:
        raise BadInput(f"--expect: {error}") from None
