"""A file with settings of NCCL is there, and the installed NCCL does not read it.

Why it matters: from 2.23.4 on, NCCL_CONF_FILE takes the place of ~/.nccl.conf, which is then not read at all; before,
NCCL_CONF_FILE itself is unknown. Either way the settings of one file are silently without effect.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.settings import (
    CONF_FILE_SINCE,
    dotted,
    evidence,
    home_file,
    is_there,
    knows_named_files,
    named_file,
    nccl_version,
    version_seen,
)


@check("nccl-file-ignored", title="NCCL reads the settings files that are there")
def nccl_file_ignored(machine: Snapshot) -> Problems:
    named, home = named_file(machine), home_file(machine)
    if named is None or not any(is_there(file) for file in (named, home) if file is not None):
        return
    if not knows_named_files(machine):
        since = dotted(CONF_FILE_SINCE)
        summary = (
            f"NCCL_CONF_FILE names {named.path}; NCCL reads it from {since} on, this one is "
            f"{dotted(nccl_version(machine))}"
        )
        advice = "Put the settings into ~/.nccl.conf, which this NCCL reads, or into the environment."
    elif home is not None and is_there(home) and home.settings.value:
        summary = f"{home.path} is not read: NCCL_CONF_FILE names {named.path} in its place"
        advice = "Put all settings into one of the two files."
    else:
        return
    yield Problem(
        severity="warning",
        summary=summary,
        meaning="The settings of that file have no effect.",
        fix=Fix(advice),
        evidence=evidence(machine, version_seen(machine)),
    )
