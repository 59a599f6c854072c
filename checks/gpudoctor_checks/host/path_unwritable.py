"""A folder that training writes to cannot be written.

Why it matters: torch compiles kernels into its caches and exchanges sockets in TMPDIR. Where it may not write, the
job dies at its first compile, download or data-loader start.
"""

import shlex
from collections.abc import Iterator

from gpudoctor.check import Fix, Problem, check
from gpudoctor.knowledge.presence import if_present, read_first
from gpudoctor.snapshot import Snapshot


@check("path-unwritable", title="Folders that training writes to are writable")
def path_unwritable(machine: Snapshot) -> Iterator[Problem]:
    for used in read_first(machine.host.paths.value, lambda used: used.space):
        space = if_present(used.space)
        if space is not None and not space.writable:
            # Multiprocessing cannot work without a temporary folder; a read-only cache of models can be intended.
            is_temporary = used.role == "TMPDIR" or used.path == "/tmp"
            yield Problem(
                severity="error" if is_temporary else "warning",
                summary=f"{used.path} ({used.role}) cannot be written by this user",
                meaning="Data loaders with workers and compiled kernels fail to start."
                if is_temporary
                else "Downloads and compiled kernels cannot be stored there, and the job dies where it needs one.",
                evidence=(used.space,),
                fix=Fix(
                    "Point the variable to a folder of your own, or see who owns this one and how it is mounted.",
                    commands=(f"ls -ld {shlex.quote(used.path)}", f"findmnt -T {shlex.quote(used.path)}"),
                ),
            )
