"""A disk that training writes to is nearly full.

Why it matters: checkpoints, caches of models and compiled kernels, and temporary files all grow during a run. When
one cannot be written the job dies with "No space left on device", often while it saves the checkpoint.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.file_systems import file_systems
from gpudoctor.knowledge.wording import GIB, MIB, listed, size
from gpudoctor.snapshot import Space, UsedPath

LOW_SHARE = 0.10  # gpud's threshold for the root disk ...
LOW = 50 * GIB  # ... and ours beside it: a tenth of a large disk is plenty; one large model's checkpoint is not
EMPTY = 500 * MIB  # gpud's other threshold


@check("disk-space-low", title="Disks that training writes to have room")
def disk_space_low(machine: Snapshot) -> Problems:
    for users in file_systems(machine):
        yield from _judge(users)


def _judge(users: list[tuple[UsedPath, Space]]) -> Problems:
    space = min((space for _, space in users), key=lambda space: space.free_bytes)
    nearly_full = space.free_bytes < space.total_bytes * LOW_SHARE and space.free_bytes < LOW
    # A file system mounted read-only (an image, a shared model store) is full by nature.
    if not space.writable or not (nearly_full or space.free_bytes < EMPTY):
        return
    paths = dict.fromkeys(used.path for used, _ in users)
    yield Problem(
        severity="error" if nearly_full and space.free_bytes < EMPTY else "warning",
        summary=f"{size(space.free_bytes)} of {size(space.total_bytes)} are free for "
        + listed(f"{used.role} ({used.path})" for used, _ in users),
        meaning='The job dies with "No space left on device" when a checkpoint, cache or temporary file does not fit.',
        evidence=tuple(used.space for used, _ in users),
        fix=Fix(
            "Make room, or point the variable to a larger disk; what takes the room:",
            commands=tuple(command("du -xh --max-depth=2 {:path} | sort -rh | head", path) for path in paths),
        ),
    )
