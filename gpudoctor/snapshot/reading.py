"""`Reading[T]`: one fact about a machine, or the reason there is none.

A fact that was not read is never mistaken for a healthy one: `Reading.value` raises `NotRead`, which
`diagnose` turns into *skipped*, and `NotApplicable` where there is nothing of the kind on this machine.
"""

from typing import Any, Final, Generic, Literal, NoReturn, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")
T = TypeVar("T")

MissingKind = Literal["absent", "denied", "timeout", "lost", "failed", "not-asked"]
"""Why there is no value.

absent:    the machine has no such thing (NVML says NotSupported; no GPU): nothing to judge.
denied:    the user may not read it.
timeout:   the read did not return before its deadline.
lost:      the device no longer answers (NVML_ERROR_GPU_IS_LOST).
failed:    any other error; also a fact that a pasted file does not contain.
not-asked: nobody asked for it (an active test without `--deep`, torch with `--no-torch`).
"""


class Missing(Struct, frozen=True):
    """Why a reading has no value; `reason` is a phrase a user can act on, without a final period."""

    reason: str
    kind: MissingKind = "failed"


class Reading(Struct, Generic[T_co], frozen=True, omit_defaults=True):
    """A fact, with where it was read and either its value or the reason there is none.

    `source` names the call or file: "nvmlDeviceGetMemoryInfo GPU 3", "/sys/kernel/iommu_groups".
    Make one with `read`, `missing` or `absent`; take its value with `.value` (raises `NotRead`).
    """

    source: str
    found: T_co | UnsetType = field(default=UNSET, name="value")
    missing: Missing | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.found is UNSET) == (self.missing is UNSET):
            raise ValueError("a reading has either `value` or `missing`")

    @property
    def is_read(self) -> bool:
        return self.missing is UNSET

    @property
    def value(self) -> T_co:
        """The fact. Raises `NotRead` (or `NotApplicable`) when it was not read."""
        if self.missing is not UNSET:
            raise (NotApplicable if self.missing.kind == "absent" else NotRead)(self)
        assert self.found is not UNSET
        return self.found

    @property
    def reason(self) -> str:
        """Why there is no value; empty when there is one."""
        return "" if self.missing is UNSET else self.missing.reason

    @property
    def missing_kind(self) -> MissingKind | None:
        """The kind of absence; None when there is a value."""
        return None if self.missing is UNSET else self.missing.kind

    def value_or(self, default: D) -> T_co | D:
        """The value, or `default`: for showing and sorting. A verdict never rests on the default."""
        return default if self.found is UNSET else self.found


class NotRead(Exception):
    """A fact was wanted that could not be read; carries the reading."""

    def __init__(self, reading: Reading[Any]) -> None:
        super().__init__(f"{reading.source}: {reading.reason}")
        self.reading = reading


class NotApplicable(NotRead):
    """A fact was wanted of something that this machine does not have."""


def read(source: str, value: T) -> Reading[T]:
    """A reading that has its value."""
    return Reading(source, found=value)


def missing(source: str, reason: str, kind: MissingKind = "failed") -> Reading[NoReturn]:
    """A reading without a value, because it could not be had."""
    return Reading(source, missing=Missing(reason, kind))


def absent(source: str, reason: str) -> Reading[NoReturn]:
    """A reading without a value, because this machine has no such thing."""
    return Reading(source, missing=Missing(reason, "absent"))


def require(*readings: Reading[Any]) -> None:
    """Raise `NotRead` for the first that has no value: a rule's verdict needs it, though not its content."""
    for reading in readings:
        reading.value  # noqa: B018 - it raises


NOT_IN_OUTPUT: Final = "not in this output"
"""Of what its kind usually has: it is cut, or a part."""
NEVER_IN_OUTPUT: Final = "never in output of this kind"
INCOMPLETE: Final = "is incomplete or of an unknown form"


def is_left_out(reading: Reading[Any]) -> bool:
    """Whether nobody tried to read it, or a file was cut in it: a partial snapshot and pasted output lack facts."""
    return reading == NOT_IN_SNAPSHOT or reading.reason == NEVER_IN_OUTPUT or is_cut_off(reading)


def is_cut_off(reading: Reading[Any]) -> bool:
    """Whether output of its kind holds it, and this one does not."""
    return reading.reason == NOT_IN_OUTPUT or reading.reason.endswith(INCOMPLETE)


NOT_IN_SNAPSHOT: Final[Reading[NoReturn]] = missing("snapshot", "not in this snapshot")
"""The default of every fact, so that a partial snapshot says so instead of pretending."""
