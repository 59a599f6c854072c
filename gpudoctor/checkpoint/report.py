"""What `gpudoctor checkpoint` answers, and its JSON."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import Struct, field, structs

from gpudoctor.check import Fix, Severity, without_lines
from gpudoctor.envelope import Answer, Stated

LARGEST = (1 << 63) - 1
"""The largest number of a report: what a file claims may be larger than JSON readers hold."""
MOST_LISTED = 100_000
"""Tensors in the answer; the rest is counted."""


class TensorEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor of the state dict."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    kind: str = "dense"
    """dense, sparse, quantized, shard (a part of a distributed tensor), meta (without numbers), subclass, nested."""
    device: str = "cpu"
    """From which it was saved."""
    shared_with: str = ""
    """The first tensor that looks at the same numbers."""
    nan: int | None = None
    """Elements; None: not read, or a type that has none."""
    infinite: int | None = None


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What lies under one key of the file."""

    key: str
    """As code reaches it: `["model"]`; empty: the whole file."""
    what: str
    """ "state dict", "optimizer", "tensors", "module object", "value"."""
    tensors: int = 0
    size_bytes: int = 0
    value: str = ""
    """Of a number or text."""


class CheckpointFinding(Struct, frozen=True, kw_only=True):
    """Something to know before the file is used."""

    id: str
    severity: Severity
    summary: str
    meaning: str
    fix: Fix
    tensors: tuple[str, ...] = ()
    """The first of those that it concerns."""


class Loading(Struct, frozen=True, kw_only=True):
    """What `model.load_state_dict` says, and the lines that load it right."""

    model: str
    """Which model: "a plain model", or the file of --like."""
    error: str = ""
    """torch's own words when the state dict is given as it is; empty: it fits."""
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    error_after: str = ""
    """torch's words after those lines."""
    wrapper: str = ""
    """Which of the two was saved in a wrapper that the other has not, as a clause; of --like only."""


class Fixed(Struct, frozen=True, kw_only=True):
    """The clean copy."""

    path: str
    size_bytes: int
    tensors: int
    renamed: int
    dropped: tuple[str, ...] = ()
    """Names that were left out."""
    compared: str = ""
    """By what its contents were compared with the original."""
    reloaded: str = ""
    """ "torch 2.13.0, weights_only=True", or why it was not asked."""
    remarks: tuple[str, ...] = ()


class CheckpointReport(Answer, frozen=True, kw_only=True):
    """The answer."""

    command: ClassVar[str] = "checkpoint"
    signs: ClassVar[tuple[str, ...]] = ("file", "format")
    file: str
    size_bytes: int
    format: Literal["torch zip", "torch legacy", "safetensors", "safetensors index", "torch index"]
    written_by: tuple[str, ...] = ()
    """ "PyTorch Lightning 2.6.6", "DistributedDataParallel or DataParallel", "torch.compile"."""
    chosen: str = ""
    """The key of the state dict below."""
    parts: tuple[Part, ...] = ()
    tensors: tuple[TensorEntry, ...] = ()
    tensor_count: int = 0
    parameters: int = 0
    """Elements of all tensors, shared ones counted once."""
    tensor_bytes: int = 0
    dtypes: dict[str, int] = field(default_factory=dict)
    """Type -> number of tensors."""
    prefixes: dict[str, int] = field(default_factory=dict)
    """First part of the names -> number of tensors."""
    wrappers: tuple[str, ...] = ()
    """Prefixes that a wrapper put there: "module.", "_orig_mod."."""
    shared: tuple[tuple[str, ...], ...] = ()
    """Names that look at the same numbers."""
    refused: tuple[str, ...] = ()
    """What its pickle names and torch.load(weights_only=True) does not import."""
    values_read: bool = False
    """Whether every number was looked at for NaN, infinity and damage."""
    loading: tuple[Loading, ...] = ()
    problems: tuple[CheckpointFinding, ...] = ()
    fixed: Fixed | None = None
    seconds: float = 0.0

    def about(self) -> str:
        return self.file

    def stated(self) -> Iterator[Stated]:
        for problem in self.problems:
            yield Stated(
                id=problem.id,
                severity=problem.severity,
                subject=", ".join(problem.tensors) or None,
                summary=problem.summary,
                meaning=problem.meaning or None,
                fix=problem.fix,
            )

    def without_lines(self) -> "CheckpointReport":
        loading = (structs.replace(loading, lines=()) for loading in self.loading)
        return structs.replace(without_lines(self), loading=tuple(loading))
