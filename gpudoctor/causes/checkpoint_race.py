"""Ranks write, move or delete the same checkpoint files."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix

CAUSE = Cause(
    id="checkpoint-race",
    title="ranks write, move or delete the same checkpoint files",
    stages=("training",),
    blame="program",
    hangs_by="elsewhere",
    meaning=(
        "Several ranks create or rename the same path on a shared file system. One finds it gone or already "
        "there and fails, and the others wait for it."
    ),
    fix=Fix("Write on one rank, and let the others wait in a barrier; create folders with exist_ok=True."),
    confirm=("The one traceback names a path that another rank handles in the same second."),
    source=("reports in several public threads"),
)
