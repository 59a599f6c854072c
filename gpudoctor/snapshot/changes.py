"""What differs between an earlier capture and this one, as a report tells it (gpudoctor.compare)."""

from typing import Literal

from gpudoctor.snapshot.section import Section

ChangeKind = Literal["gone", "unread", "worse", "downgrade", "finding", "new", "better", "upgrade", "changed", "mended"]
"""gone, new:           there in one of the two only.
worse, better:       slower, fewer, more errors; and the other way round.
downgrade, upgrade:  another version.
changed:             another value, of which neither is the better one.
unread:              it was read before and could not be read now.
finding, mended:     what a check finds in the later one only, or in the earlier one only.
"""


class Change(Section, frozen=True):
    """One thing that is not the same in two captures."""

    severity: Literal["error", "warning", "info"]
    """Of an error or warning the second capture is the worse one."""
    kind: ChangeKind
    subject: str
    """ "GPU 5 (0000:6b:00.0)", "mlx5_3 port 1", "GPUs 0-7"; empty for the machine as a whole."""
    fact: str
    """ "PCIe lanes", "driver"."""
    before: str = ""
    after: str = ""
    gpus: tuple[int, ...] = ()
    """NVML indices in the later capture; of a GPU that is gone, in the earlier one."""
    checks: tuple[str, ...] = ()
    """The checks that find it in the capture that has it."""

    @property
    def summary(self) -> str:
        """ "GPU 5 (0000:6b:00.0): PCIe lanes 16 -> 8", "gone: RDMA device mlx5_3"."""
        head = f"{self.subject}: " if self.subject else ""
        if self.kind in ("gone", "new"):
            value = self.before if self.kind == "gone" else self.after
            return f"{self.kind}: " + " ".join(filter(None, (self.fact, self.subject, f"({value})" if value else "")))
        if self.kind == "unread":
            return f"{head}{self.fact} cannot be read any more: {self.after}"
        if self.kind in ("finding", "mended"):
            return self.fact
        version = f" ({self.kind})" if self.kind in ("downgrade", "upgrade") else ""
        return f"{head}{self.fact} {self.before} -> {self.after}{version}"
