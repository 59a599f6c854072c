"""Whether a command is the rest of the one in the line above, which lost its backslash: what indentation says of it.

A command that opens nothing is followed by commands as deep as itself; what stands deeper below a start was written as
its next line.
"""

import re

from gpudoctor.lazy import lazy_re

STARTERS = (
    r"srun|mpirun|mpiexec|torchrun|accelerate|deepspeed|horovodrun|jsrun|aprun|flux|python[\d.]*|singularity|apptainer"
    r"|docker|podman|shifter|enroot|numactl|nsys|uv|poetry|conda|composer|colossalai|fabric"
)
_SET = r"(?:[A-Za-z_]\w*=[^\s\"'`]*(?:[ \t]|\\\n)+)*"
START = lazy_re(rf"{_SET}(?:[\w./~${{}}-]*/)?(?:{STARTERS})(?=\s)")
ONLY_STARTS = lazy_re(
    r"(?:srun|mpirun|mpiexec|jsrun|aprun|uv[ \t]+run|poetry[ \t]+run|numactl|nsys[ \t]+profile|shifter"
    r"|(?:singularity|apptainer)[ \t]+(?:exec|run)|(?:docker|podman)[ \t]+run|conda[ \t]+run)(?=\s)"
)
"""What does nothing without a command behind its options."""
PROGRAM = lazy_re(rf"(?:[\w./~${{}}-]*/)?(?:{STARTERS}|bash|sh|env|xargs)(?=\s|$)|\$\w+|\$\{{\w+\}}")
ASKED = lazy_re(
    r"(?<=\s)(?:[\w./-]*/)?(?:torchrun|accelerate|deepspeed|horovodrun|python[\d.]*|composer|colossalai|fabric|bash|sh)"
    r"(?=\s|$)|\.(?:py|sh)\b|(?<=\s)(?:'[^']*\s[^']*'|\"[^\"]*\s[^\"]*\")"
)
"""A program stands among the words above already, or a text that holds one."""
EXPANSION = lazy_re(r"\"?\$(?:[@*]|\{[@*]\}|\{\w+\[[@*]\]\})\"?|\"\$(?:\w+|\{\w+\})\"|\$\([^\n]*|\$\{\w+:?[-+][\"']?-")
"""Arguments, and no command: `"$@"`, `"${ARGS[@]}"`, `"$DATA"`, `$(dirname x)/train.py`."""
VARIABLE = lazy_re(r"\$(?:(\w+)|\{(\w+)\})")
REDIRECTION = lazy_re(r"\d?>|&>|\d>&\d")
_DATA = r"(?:ya?ml|json|jsonl|toml|cfg|ini|txt|csv|tsv|parquet|pth?|ckpt|safetensors|sif|sqsh|simg)"
OVERRIDE = lazy_re(
    r"(?:[+~]{0,2}[A-Za-z_]\w{0,60}(?:[./@]\w{1,60}){1,9}|\+{1,2}[A-Za-z_]\w{0,60})=\S"
    rf"|[\"']?[\w$./{{}}-]*[\w}}]\.{_DATA}[\"']?(?=\s|$)",
    re.ASCII,
)
"""`model.depth=12` and `+depth=12` of hydra are no assignments, for their names have dots or a plus, and a file of data
is no program."""
SETS = lazy_re(
    r"(?:[a-z_]\w*=[^\s;&|]*(?:(?:[ \t]|\\\n)+|$))+$|(?:[a-z_]\w*=[^\s;&|]*(?:[ \t]|\\\n)+)+[a-z_]\w*\.[\w.]+="
)
SCRIPT = lazy_re(r"[\w./${}-]+\.py(?=\s|$)")
TOLD_ALIKE = lazy_re(r"(?<=\s)[+~]{0,2}[a-z_][\w./@]*=")
"""Words of the same form among those above: what looks like an assignment is one more of them."""


def belongs_above(text: str, above: tuple[int, int], here: tuple[int, int]) -> bool:
    """Whether the command at `here` is a line of the one at `above`. Both are stretches of `text`."""
    begin, end = text.rfind("\n", 0, above[0]) + 1, text.find("\n", above[1])
    line = text.rfind("\n", 0, here[0]) + 1
    if line != end + 1 or text[line : here[0]].strip(" \t") or text[begin : above[0]].strip(" \t"):
        return False  # another line stands between, or something in front
    if text[above[1] : end].strip():
        return False  # an operator, or a comment, ended it
    if _width(text[line : here[0]]) <= _width(text[begin : above[0]]):
        return False
    before, rest = text[above[0] : above[1]], text[here[0] : here[1]]
    if "<<" in before or START.match(before) is None:
        return False
    if EXPANSION.match(rest) or REDIRECTION.match(rest) or OVERRIDE.match(rest):
        return True
    if SETS.match(rest) is not None:
        return len(TOLD_ALIKE.findall(before)) > 1
    if SCRIPT.match(rest) is not None and ".py" not in before:
        return True
    own = [_width(line[: len(line) - len(line.lstrip())]) for line in before.split("\n")[1:]]
    if own and _width(text[begin : above[0]]) < min(own) <= max(own) < _width(text[line : here[0]]):
        return True  # deeper than the lines that belong to it
    if ONLY_STARTS.match(before) is not None and not ASKED.search(before) and PROGRAM.match(rest) is not None:
        return not _is_command(text, rest)
    return False


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(8))


def _is_command(text: str, rest: str) -> bool:
    """Whether the line begins with a variable that the text sets to a command: that runs by itself."""
    name = VARIABLE.match(rest)
    if name is None:
        return False
    told = re.findall(rf"(?:^|[\s;]){name[1] or name[2]}=[\"']?([A-Za-z][\w.]*)[ \t]", text)
    return bool(told)
