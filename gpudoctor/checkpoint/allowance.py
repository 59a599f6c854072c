"""What listing a checkpoint may cost, by the bytes that there are to list."""

from gpudoctor import bounded, cost


def begin() -> None:
    """In a child, before anything of the file is looked at."""
    cost.limit_child(bounded.LISTED.seconds, bounded.LISTED.memory)


def for_listing(size: int) -> None:
    """So many bytes of names, shapes and values are about to be followed."""
    memory = min(bounded.LISTED.memory + size * bounded.LISTED_MEMORY, bounded.LISTED_MOST_MEMORY)
    cost.grant(size / bounded.MIB * bounded.LISTED_SECONDS, memory)


def for_numbers(size: int) -> None:
    """So many bytes of numbers were read or written."""
    cost.grant(size / bounded.MIB * bounded.NUMBERS_SECONDS)
