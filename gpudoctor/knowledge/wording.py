"""Numbers and lists as sentences want them."""

from collections.abc import Iterable, Sequence

MIB = 1024**2
GIB = 1024**3


def size(amount: int) -> str:
    """Bytes for a reader: "64 MiB", "7.5 GiB", "900 GiB", "7.3 TiB"."""
    value, unit = float(amount), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    if unit == "bytes" or value >= 100:
        return f"{value:.0f} {unit}"
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def figure(value: float) -> str:
    """ "5.9", "0.6", "0.021": one digit behind the point, and of a small number as many as tell something."""
    return f"{value:.1f}" if value >= 0.1 or value == 0 else f"{value:.2g}"


def shortened(text: str, most: int = 160) -> str:
    """At most so many characters, with dots where it went on."""
    return text if len(text) <= most else text[: most - 3] + "..."


def counted(number: int, noun: str, plural: str = "") -> str:
    """ "1 GPU", "8 GPUs"; `plural` for nouns that take more than an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def listed(words: Iterable[str], most: int = 4) -> str:
    """ "a, b and c"; beyond `most`, "a, b, c, d and 3 more"."""
    every = list(words)
    if len(every) > most:
        return f"{', '.join(every[:most])} and {len(every) - most} more"
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}" if every else ""


def ranges(numbers: Iterable[int]) -> str:
    """A CPU list in the kernel's form: "0-3,8"."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def gpus(indices: Sequence[int]) -> str:
    """ "GPU 3", "GPUs 0-3,7"."""
    return f"GPU {indices[0]}" if len(indices) == 1 else f"GPUs {ranges(indices)}"


def ago(seconds: float) -> str:
    """ "40 seconds ago", "3 hours ago", "5 days ago"."""
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return f"{counted(max(0, int(seconds)), 'second')} ago"
