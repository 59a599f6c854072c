"""A folder that training writes to cannot be written, or does not exist.

Why it matters: torch compiles kernels into its caches and exchanges sockets in TMPDIR. Where it may not write, the
job dies at its first compile, download or data-loader start.
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.presence import if_present, read_first
from gpudoctor.snapshot import UsedPath

NO_FOLDER = "no such folder"  # read/storage.py, of TMPDIR, the one folder that nobody makes
TEMPORARY, HERE = "TMPDIR", "working folder"


@check("path-unwritable", title="Folders that training writes to are writable")
def path_unwritable(machine: Snapshot) -> Problems:
    paths = read_first(machine.host.paths.value, lambda used: used.space)
    for used in paths:
        if used.role == TEMPORARY and used.space.reason == NO_FOLDER:
            yield Problem(
                severity="warning",
                summary=f"{used.path} ({TEMPORARY}) does not exist",
                meaning="Python quietly uses /tmp instead, and other programs fail.",
                evidence=(machine.host.paths, used.space),
                fix=Fix("Make it, or unset the variable.", commands=(command("mkdir -p {:path}", used.path),)),
            )
    for used in paths:
        space = if_present(used.space)
        if space is not None and not space.writable:
            yield _closed(used)


def _closed(used: UsedPath) -> Problem:
    # Multiprocessing cannot work without a temporary folder; a read-only cache can be meant so; and the doctor may
    # have been started in any folder.
    severity: Severity = "error" if used.role == TEMPORARY else "info" if used.role == HERE else "warning"
    return Problem(
        severity=severity,
        summary=f"{used.path} ({used.role}) cannot be written by this user",
        meaning="Data loaders with workers and compiled kernels fail to start."
        if used.role == TEMPORARY
        else "What a job stores there by default (checkpoints, logs, downloads, kernels) fails.",
        evidence=(used.space,),
        fix=Fix(
            (
                "Start the job in a folder of your own"
                if used.role == HERE
                else f"Point {used.role} to a folder of your own"
            )
            + ", or see who owns this one and how it is mounted.",
            commands=(command("ls -ld {:path}", used.path), command("findmnt -T {:path}", used.path)),
        ),
    )
