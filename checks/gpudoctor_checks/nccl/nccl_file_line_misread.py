"""A line of a settings file of NCCL sets something else than it seems to.

Why it matters: NCCL takes a line apart at the first "=" and keeps everything else. "NCCL_DEBUG = INFO" sets a variable
whose name ends in a space, "export NCCL_DEBUG=INFO" one that begins with "export", and quotes become part of the value.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.settings import evidence, files_in_use


@check("nccl-file-line-misread", title="The lines of NCCL's files are NAME=VALUE")
def nccl_file_line_misread(machine: Snapshot) -> Problems:
    for file in files_in_use(machine):
        for name, value in file.settings.value.items():
            plain = name.strip().removeprefix("export").strip()
            bare = value.strip()
            quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'"
            if not plain.startswith("NCCL_") or (plain == name and not quoted):
                continue
            meant = bare[1:-1] if quoted else bare
            yield Problem(
                severity="warning",
                summary=f"{file.path} holds the line {f'{name}={value}'[:80]!r}; NCCL takes "
                + ("the quotes as part of the value" if plain == name else f"{name!r} as the name"),
                meaning=f"{plain} is not set to {meant} by it.",
                fix=Fix(
                    f"Write {plain}={meant} there, without spaces, quotes or export.",
                    commands=(command("grep -n {} {:path}", plain, file.path),),
                ),
                evidence=evidence(machine),
            )
