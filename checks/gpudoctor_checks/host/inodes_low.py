"""A disk that training writes to can hold few more files.

Why it matters: a file system with free bytes but no free inodes refuses every new file with "No space left on
device". Data sets and caches of many small files use them up, and `df -h` shows nothing of it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.file_systems import file_systems
from gpudoctor.knowledge.wording import listed

LOW_SHARE = 0.05  # imbue fails a disk at 95 % of its bytes; the same for inodes
FEW = 1_000_000  # a large file system has millions left at 5 %
EMPTY = 1_000


@check("inodes-low", title="Disks that training writes to can hold more files")
def inodes_low(machine: Snapshot) -> Problems:
    for users in file_systems(machine):
        space = min((space for _, space in users), key=lambda space: space.free_inodes)
        # total_inodes is 0 where inodes are made on demand (btrfs, many network file systems).
        if space.writable and space.free_inodes < min(FEW, space.total_inodes * LOW_SHARE):
            roles = listed(f"{used.role} ({used.path})" for used, _ in users)
            yield Problem(
                severity="error" if space.free_inodes < EMPTY else "warning",
                summary=f"{space.free_inodes} of {space.total_inodes} inodes are free for {roles}",
                meaning='New files fail with "No space left on device" although `df -h` shows free space.',
                evidence=tuple(used.space for used, _ in users),
                fix=Fix(
                    "Remove folders of many small files; where they are:",
                    commands=(command("du -x --inodes --max-depth=3 {:path} | sort -rn | head", users[0][0].path),),
                ),
            )
