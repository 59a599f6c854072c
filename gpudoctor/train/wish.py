"""What the user asked of `gpudoctor train-test`."""

from msgspec import Struct, field

from gpudoctor.nccl.wish import Wish
from gpudoctor.train.ways import DEFAULT, Precision

DEFAULT_PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")


class TrainWish(Struct, frozen=True, kw_only=True):
    """Options of the test, checked."""

    ways: tuple[str, ...] = DEFAULT
    answered: dict[str, str] = field(default_factory=dict)
    """Names that were asked for and nothing is run for, and why (`ways.Asked`)."""
    precisions: tuple[Precision, ...] = DEFAULT_PRECISIONS
    steps: int = 20
    test: Wish = field(default_factory=Wish)
    """What it has in common with nccl-test: backend, ranks, addresses, deadline, settings, interpreter."""
