"""A line of a settings file of NCCL sets something else than it seems to.

Why it matters: NCCL takes a line apart at the first "=" and keeps everything else. "NCCL_DEBUG = INFO" sets a variable
whose name ends in a space, "export NCCL_DEBUG=INFO" one that begins with "export", and quotes become part of the value.
Before 2.30.3 so does the carriage return of a file that was written on Windows: no interface is called "eth0\\r".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.settings import dotted, evidence, files_in_use, nccl_version, number, returns_kept
from gpudoctor.knowledge.wording import listed


@check("nccl-file-line-misread", title="The lines of NCCL's files are NAME=VALUE")
def nccl_file_line_misread(machine: Snapshot) -> Problems:
    for file in files_in_use(machine):
        texts = [name for name in returns_kept(machine, file) if _is_text(file.settings.value[name])]
        if texts:
            yield Problem(
                severity="warning",
                summary=f"{file.path} has the line ends of Windows, and NCCL {dotted(nccl_version(machine))} takes the "
                f"carriage return as part of {listed(texts, 4)}",
                meaning="No interface, device or word has such a name: NCCL fails, or passes the setting over.",
                fix=Fix(
                    "Write the file with plain line ends.", commands=(command("sed -i 's/\\r$//' {:path}", file.path),)
                ),
                evidence=evidence(machine),
            )
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


def _is_text(value: str) -> bool:
    """A number's end is not looked at, so that a carriage return behind it does no harm."""
    integer = number(value)
    return bool(value) and (not integer.is_number or bool(integer.rest))
