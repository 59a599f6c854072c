"""What comes of a value of CUDA_VISIBLE_DEVICES: the devices a program gets, and notes on what is wrong."""

from typing import Literal, NamedTuple

from gpudoctor.knowledge.visible.order import Enumeration

SelectionKind = Literal[
    "empty",
    "hides-all",
    "out-of-range",
    "negative",
    "not-a-number",
    "blank",
    "wrong-case",
    "missing-prefix",
    "unknown-uuid",
    "ambiguous-uuid",
    "unreachable",
    "mixed-forms",
    "duplicate",
    "ignored-text",
    "number-format",
    "mig-limit",
    "mig-parent",
    "order-guess",
    "order-invalid",
]

CHECK_IDS: dict[SelectionKind, str] = {
    "empty": "cuda-visible-devices-empty",
    "hides-all": "cuda-visible-devices-empty",
    "mixed-forms": "cuda-visible-devices-mixed-forms",
    "duplicate": "cuda-visible-devices-duplicate",
    "mig-limit": "mig-hides-other-gpus",
    "order-guess": "cuda-device-order-ambiguous",
    "order-invalid": "cuda-device-order-invalid",
}
"""What every command calls it; all others are of an entry."""
OF_AN_ENTRY = "cuda-visible-devices-entry-invalid"


class VisibleDevice(NamedTuple):
    """A device as the program sees it. `nvml` is nvidia-smi's index, None where NVML does not list it."""

    cuda: int
    nvml: int | None
    uuid: str
    """Of the GPU; of the parent for a MIG device."""
    pci: str
    name: str
    mig: str | None = None
    """UUID of the MIG device; None for a whole GPU."""

    @property
    def identity(self) -> str:
        """The UUID by which libcuda names it."""
        return self.uuid if self.mig is None else self.mig


class Note(NamedTuple):
    """Something about the value that its author should know."""

    kind: SelectionKind
    entry: str | None
    position: int | None
    """Of the entry, from 0; None where the whole value is meant."""
    problem: str
    """What is wrong, without a final period."""
    lost: tuple[str, ...] = ()
    """Entries that select nothing because of it, this one included."""
    candidates: tuple[str, ...] = ()
    """The UUIDs that an ambiguous prefix fits."""
    certain: bool = True
    """Whether what CUDA does here is documented or was observed; else it is an assumption."""


class Selection(NamedTuple):
    """What a program gets."""

    value: str | None
    """None: the variable is not set."""
    devices: tuple[VisibleDevice, ...]
    notes: tuple[Note, ...]
    enumeration: Enumeration
    suggested: str | None
    """The value that was probably meant, when there is something wrong with this one."""
    certain: bool
    uses_ordinals: bool
    """The GPUs are named by number, so that their order matters."""
