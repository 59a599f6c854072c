"""What a shell, a launcher or a container's runtime says when it could not run a tool, in any language.

The words differ between languages (bash alone has forty), the shape does not: the tool's name is what a short line
complains of. Nothing of the machine is seen then, and why is told with the line itself.
"""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re

SOURCE = "what a shell says"
TOOLS = ("nvidia-smi", "rocm-smi", "amd-smi", "ibstat", "ibstatus", "ibv_devinfo", "lspci")
NAMED = lazy_re("|".join(TOOLS))
_TOOL = rf"(?:[\w.~-]*/)*(?P<tool>{'|'.join(TOOLS)})(?:\.exe)?"
_WHO = r"(?:[^\s:\uff1a][^:\uff1a]{0,100}: ?)"
SUBJECT = lazy_re(rf"(?P<who>{_WHO}{{0,4}}){_TOOL} ?[:\uff1a] ?(?P<why>.{{3,200}})")
"""bash "bash: line 7: NAME: command not found" (French: "NAME : ", Taiwan: a wide colon), dash "sh: 1: NAME: not
found", busybox, csh, srun "error: execve(): NAME: No such file", PowerShell "NAME : The term ..."."""
OBJECT = lazy_re(
    r"(?:-?(?:ba|z|k|da|a|fi)?sh(?::\d+)?|[\w./~-]+\.sh|FileNotFoundError): "
    rf".{{0,100}}?[^\s$#%>:]:? [\"'`]?{_TOOL}[\"'`]?\.?"
)
"""zsh "command not found: NAME", fish "Unknown command: NAME", bash in Norwegian, Python."""
QUOTED = lazy_re(
    rf"[\"'\u2018\u2019\u201c\u201e\u201d\u00ab\u00bb\u300c]{_TOOL}\\?[\"'\u2018\u2019\u201c\u201d\u00ab\u00bb\u300d]"
)
"""Ubuntu "Command 'NAME' not found", cmd, chroot, runc 'exec: "NAME": executable file not found in $PATH'."""
ENGLISH = lazy_re(
    r"not found|not recognized|no such file|not installed|unknown command|cannot find|permission denied|cannot execute"
    r"|exec format error",
    re.IGNORECASE,
)
IT_RAN = lazy_re(r"exit|status|time|signal|returned|usage", re.IGNORECASE)
FEW = 40
"""Lines of a text that is such a complaint; a log of a job, in which one stands, is more."""
HINT = "no driver is installed, a container has no GPUs or not the capability `utility`, or PATH lacks it"


def complaint(text: str, *, is_alone: bool) -> str | None:
    """The tool that could not be run, and the line that says so; None where no line does.

    `is_alone`: nothing else was read in the text. Beside other output a line in no known language is not believed.
    """
    if NAMED.search(text) is None:
        return None
    lines = [line.strip() for line in text.split("\n")]
    if is_alone and sum(map(bool, lines)) > FEW:
        return None
    for line in lines:
        if NAMED.search(line) is None:
            continue
        tool = next(_tools(line[:600], is_alone=is_alone), None)
        if tool is not None and (is_alone or tool == TOOLS[0]):
            shown = line if len(line) <= 120 else f"... {line[-116:]}"
            return f"no {tool} could be run there ({shown!r})" + (f": {HINT}" if tool == TOOLS[0] else "")
    return None


def _tools(line: str, *, is_alone: bool) -> Iterator[str]:
    is_english = ENGLISH.search(line) is not None
    said = SUBJECT.fullmatch(line)
    if said is not None and (is_english or (":" not in said["why"] and (said["who"] or is_alone))):
        yield said["tool"]
    if said := OBJECT.fullmatch(line):
        yield said["tool"]
    if (said := QUOTED.search(line)) and (is_english or (is_alone and not IT_RAN.search(line))):
        yield said["tool"]
