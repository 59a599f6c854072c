"""NCCL_CONF_FILE names a file that is not there.

Why it matters: NCCL passes a missing file over without a word, and because the variable is set it does not read
~/.nccl.conf either. All settings that were meant to hold are gone. "~" is not expanded.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.settings import evidence, is_there, knows_named_files, named_file


@check("nccl-conf-file-missing", title="The file that NCCL_CONF_FILE names is there")
def nccl_conf_file_missing(machine: Snapshot) -> Problems:
    named = named_file(machine)
    if named is None or is_there(named) or not knows_named_files(machine):
        return
    written = machine.environment.value["NCCL_CONF_FILE"]
    yield Problem(
        severity="warning",
        summary=f"NCCL_CONF_FILE is {written}; there is no " + ("such file" if written == named.path else named.path),
        meaning="None of its settings hold, and ~/.nccl.conf is not read either.",
        fix=Fix(
            'Write the whole path: NCCL expands no "~".'
            if written.startswith("~")
            else "Correct the path, or unset it.",
            commands=(command("ls -l {:path}", named.path), command("unset NCCL_CONF_FILE")),
        ),
        evidence=evidence(machine),
    )
