"""What a log shows of where and by what it was written, so that a fix speaks of that and of nothing else: no line for a
scheduler and no word of torch where neither ran, pip of the Python that the log names, the interface that it lists.
"""

import re
from collections.abc import Sequence

from msgspec import structs

from gpudoctor.cause import Fix
from gpudoctor.causes import CAUSES
from gpudoctor.command import Command, command
from gpudoctor.explain.platforms import on_platforms, platforms_of
from gpudoctor.explain.report import LogCause
from gpudoctor.lazy import lazy_re

LINES: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (lazy_re(ours), lazy_re(theirs))
    for ours, theirs in (
        (r"\bSLURM_NTASKS\b", r"(?i)slurm|\bs(?:run|batch|alloc)\b|torch|world.?size|lightning|accelerate|master_addr"),
        (r"^python -m pip\b", r"(?i)python|\.py\b|\bpip\b|\w(?:Error|Exception)\b|torch"),
        (r"^nvidia-smi$",
         r"(?is)^(?!.*(?:\bNPU\b|\bHIP\b|ROCm|Gaudi|\bHPU\b|\bTPU\b|\bXPU\b))|cuda|nvidia"),
        (r"\bgpudoctor check pytorch|\bimport torch\b",
         r"(?i)torch|python|\.py\b|transformers|deepspeed|lightning|vllm"),
    )
)  # fmt: skip
"""Lines to paste that are of one program, and what shows that the log is of it."""
OF_TRAINING = lazy_re(
    r"(?i)torch|tensorflow|keras|\bjax|flax|paddle|mxnet|deepspeed|vllm|epoch|batch|\bloss\b|\btrain|transformers|token"
)
OF_PLATFORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_re(r"\bkubectl\b"), "Kubernetes"),
    (lazy_re(r"^(?:sudo )?(?:sinfo|squeue|sacct\w*|scontrol)\b"), "SLURM"),
)
"""Lines to paste that are of one platform."""
OF_ANY_PROGRAM = {"driver-mismatch": "program", "gpu-out-of-memory": "program"}
"""Causes whose own fix speaks of torch or of a training, and the variant for other programs."""
SETTINGS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("max_length with truncation=True", "cutoff_len", lazy_re(r"(?i)llama-?factory|llmtuner")),
    ("max_length with truncation=True", "sequence_len", lazy_re(r"(?i)\baxolotl\b")),
)
"""How a fix calls a setting, and how a framework of its own calls it (LLaMA-Factory src/llamafactory/hparams/
data_args.py, axolotl utils/schemas/config.py)."""
PYTHON = lazy_re(
    r"(?P<env>/(?!home/[^/\s]{1,64}/\.local/|root/\.local/)[\w./+-]{1,200}?)/"
    r"(?:lib/python3\.\d{1,2}/site-packages/|bin/python[\d.]{0,5}: (?:No module|Error while finding))"
)
BUILDS = lazy_re(r"/pip-build-env-|/uv/builds-v\d")
"""A build's own environment, which is made for it and then removed."""
PIP = lazy_re(r"^python -m pip install (?P<package>[\w.\[\]<>=!-]{1,80})$")
USING = lazy_re(r"\bUsing (?=\[0\])(?P<list>(?:\[\d{1,2}\][\w.-]{1,15}:\S{2,80}\s?){2,16})")
INTERFACE = lazy_re(r"\[\d{1,2}\](?P<name>[\w.-]{1,15}):(?P<address>\S{2,80}?)<")
LEADS_NOWHERE = lazy_re(r"^(?:lo$|docker|virbr|lxc|veth|br-|cni|flannel|cali|tun|kube)")
LINK_LOCAL = ("fe80:", "169.254.", "127.")


def of_what_ran(cause: LogCause, texts: Sequence[str]) -> LogCause:
    """`texts`: the last lines of all logs."""
    log = "\n".join((*texts, *(line.text for line in cause.evidence)))
    fix, known = cause.fix, CAUSES[cause.cause]
    if (other := OF_ANY_PROGRAM.get(cause.cause)) and fix.text == known.fix.text and not OF_TRAINING.search(log):
        fix = known.fix_for(other)
    if cause.cause == "library-missing" and BUILDS.search(log) and (built := _built_without(fix.commands)):
        fix = known.remedy("build-isolation", module=built)
    shown = platforms_of(log)
    if (text := on_platforms(fix.text, shown)) != fix.text:
        fix = Fix(text, fix.commands, otherwise=fix.otherwise)
    for ours, theirs, words in SETTINGS:
        if ours in fix.text and words.search(log):
            fix = Fix(fix.text.replace(ours, theirs), fix.commands, otherwise=fix.otherwise)
    if cause.cause == "wrong-nic" and (leads := _interface(log)):
        fix = Fix(
            f"{fix.text} Of those that NCCL lists there, {leads} is the only one that may lead to another node.",
            (command("export NCCL_SOCKET_IFNAME={:interface}", leads), command("ip -brief address")),
        )
    commands = tuple(
        _of_its_python(line, log)
        for line in fix.commands
        if all(theirs.search(log) for ours, theirs in LINES if ours.search(line))
        and all(name in shown for ours, name in OF_PLATFORMS if ours.search(line))
    )
    if commands != fix.commands:
        fix = Fix(fix.text, commands, otherwise=fix.otherwise)
    return cause if fix is cause.fix else structs.replace(cause, fix=fix)


def _built_without(lines: Sequence[Command]) -> str:
    """The package that a line installs, which a build in an environment of its own does not see."""
    return next((match["package"] for line in lines if (match := PIP.match(line))), "")


def _of_its_python(line: Command, log: str) -> Command:
    """pip of the one environment that the log names: what is called python in another shell may be another."""
    match = PIP.match(line)
    found = {at["env"] for at in PYTHON.finditer(log) if not BUILDS.search(at["env"])} if match else set()
    if match is None or len(found) != 1:
        return line
    return command("{:python} -m pip install {:name}", f"{found.pop()}/bin/python", match["package"]) or line


def _interface(log: str) -> str:
    """The one interface of NCCL's list that may lead to another node; empty: none, or several."""
    names = {
        at["name"]
        for listed in USING.finditer(log)
        for at in INTERFACE.finditer(listed["list"])
        if not LEADS_NOWHERE.match(at["name"]) and not at["address"].startswith(LINK_LOCAL)
    }
    return names.pop() if len(names) == 1 else ""


__all__ = ["of_what_ran"]
