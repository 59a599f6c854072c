"""Rules of names: which shell reads a script, and variables that are nearly what was meant: Q11, E14."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from gpudoctor.knowledge.nccl.variables import is_known
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import makefile
from gpudoctor.lint.model import LintJob, Span, file_named
from gpudoctor.lint.rule import LintFinding, rule

_ONE = "torchrun --standalone --nproc-per-node=4 train.py\n"
_BASHISMS = lazy_re(
    r"(?P<test>^[^#\n]*\[\[ )|(?P<slice>^[^#\n]*\$\{@:\d)|(?P<function>^[ \t]*function \w+)|(?P<array>^[ \t]*\w+\+?=\()"
    r"|(?P<process>^[^#\n]*[^$]<\()",
    re.MULTILINE,
)
_OF_SH = lazy_re(r"\A#![ \t]*(?:/usr)?/bin/(?:env[ \t]+)?(?:da)?sh[ \t]*\n")
_FATAL = lazy_re(r"^[ \t]*(?:export |local |readonly )?\w+\+?=\(.*$|^[^#\n'\"]*[^$]<\(.*$", re.MULTILINE)
"""Measured with dash 0.5.12: Syntax error."""
_SOURCES = lazy_re(r"(?:^|[;&|\n({])\s*source\s+\S")
_SOURCES_IN_MAKE = lazy_re(r"^\t[@+-]*(?:[^\n#]*[;&|(][ \t]*)?(source)[ \t]+\S", re.MULTILINE)
_SHELL_OF_MAKE = lazy_re(r"^[ \t]*(?:export[ \t]+)?SHELL[ \t]*[:?]?=", re.MULTILINE)
_BUSY = lazy_re(r"alpine|busybox|centos|rockylinux|ubi\d|fedora|amazonlinux")
"""Images whose sh has `source`."""
_KNOWN = ("CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS",
          "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_IB_HCA", "GLOO_SOCKET_IFNAME", "NCCL_DEBUG",
          "NCCL_DEBUG_SUBSYS", "NCCL_IB_GID_INDEX", "NCCL_NET_GDR_LEVEL", "NCCL_SHM_DISABLE", "NCCL_PROTO", "NCCL_ALGO",
          "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_DISTRIBUTED_DEBUG", "CUDA_DEVICE_ORDER",
          "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_CUDA_ALLOC_CONF", "TOKENIZERS_PARALLELISM",
          "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "LD_LIBRARY_PATH", "PYTHONUNBUFFERED", "TF_CONFIG",
          "SLURM_CPU_BIND", "ACCELERATE_MIXED_PRECISION", "FI_PROVIDER", "NCCL_ASYNC_ERROR_HANDLING")  # fmt: skip


@rule(
    "Q11",
    title="A script of bash is started by bash",
    severity="warning",
    source="dash(1), POSIX sh: no [[ ]], no arrays, no ${@:3}, no function; sh is dash on Debian and Ubuntu",
    bad=(
        "sh run.sh 4\n#@ file run.sh\nARGS=${@:2}\n" + _ONE,
        "sh run.sh\n#@ file run.sh\nif [[ -d x ]]; then cd x; fi\n" + _ONE,
        "train: a\n\tsource .venv/bin/activate && torchrun --standalone --nproc-per-node=4 train.py\n",
        "docker run --gpus all --ipc=host a sh -c 'source v/bin/activate && " + _ONE.strip() + "'\n",
        "#!/bin/sh\nARGS=(--lr 0.1)\ntorchrun --standalone --nproc-per-node=4 train.py ${ARGS[@]}\n",
    ),
    good=(
        "SHELL := /bin/bash\ntrain: a\n\tsource v/bin/activate && torchrun --standalone --nproc-per-node=4 t.py\n",
        "train: a\n\t. v/bin/activate && torchrun --standalone --nproc-per-node=4 t.py\n",
        "bash run.sh\n#@ file run.sh\n#!/bin/sh\nARGS=(--lr 0.1)\n" + _ONE,
        "#!/bin/sh\nA=$(pwd)\n" + _ONE,
        "bash run.sh 4\n#@ file run.sh\nARGS=${@:2}\n" + _ONE,
        "sh run.sh\n#@ file run.sh\nARGS=$1\n" + _ONE,
    ),
)
def bash_script_under_sh(job: LintJob) -> Iterator[LintFinding]:
    """`sh FILE` reads it with whatever sh is, and takes no notice of #!/bin/bash in it. dash knows none of bash's own
    words."""
    for invocation in job.invocations:
        if invocation.program not in ("sh", "dash") or len(invocation.words) < 2:
            continue
        file = next((word for word in invocation.words[1:] if not word.shown.startswith("-")), None)
        section = file_named(job.sections, file.shown) if file is not None else None
        match = _BASHISMS.search(section.text) if section is not None else None
        if match is None or section is None or file is None:
            continue
        what = {
            "test": "[[ ]]", "slice": "${@:N}", "function": "function NAME", "array": "an array", "process": "<( )",
        }[match.lastgroup or "test"]  # fmt: skip
        yield LintFinding(
            span=invocation.span,
            summary=f"{invocation.program} reads {section.name.rpartition('/')[2]}, which has {what}: a word of bash",
            happens="Where sh is dash (Debian, Ubuntu) the script ends with Bad substitution, or a syntax error.",
            fix=f"Write bash {file.shown}.",
        )
    yield from _source_of_sh(job)
    by_bash = {
        word.shown.rpartition("/")[2] for each in job.invocations if each.program == "bash" for word in each.words
    }
    for section in job.sections:
        if not _OF_SH.match(section.text) or (section.name and section.name.rpartition("/")[2] in by_bash):
            continue
        match = _FATAL.search(section.text)
        if match is not None:
            yield LintFinding(
                span=section.span(match.start(), match.end()),
                summary="#!/bin/sh in the first line, and an array or <( ) here: words of bash",
                happens='Where sh is dash (Debian, Ubuntu) the script ends there: Syntax error: "(" unexpected.',
                fix="Write #!/bin/bash in the first line.",
            )


def _source_of_sh(job: LintJob) -> Iterator[LintFinding]:
    """`source` in what /bin/sh reads: the text of `sh -c`, a recipe of make."""
    places: list[tuple[Span, str]] = []
    for section, text in makefile.makefiles(job):
        match = _SOURCES_IN_MAKE.search(text) if not _SHELL_OF_MAKE.search(text) else None
        if match is not None:
            places.append((section.span(match.start(1), match.end(1)), "make's shell"))
    for shell in job.invocations:
        words = shell.words
        is_text = shell.program in ("sh", "dash") and len(words) > 2 and words[1].shown == "-c"
        if is_text and _SOURCES.search(words[2].shown) and not _BUSY.search(job.text):
            places.append((words[2].span, "sh"))
    for span, who in places:
        yield LintFinding(
            span=span,
            summary=f"{who} is /bin/sh, and `source` is a word of bash",
            happens="Where sh is dash (Debian, Ubuntu): source: not found, and what stands behind && is not run.",
            fix="Write `. FILE` instead of `source FILE`; or SHELL := /bin/bash in a Makefile, bash -c elsewhere.",
        )


@rule(
    "E14",
    title="Variables are spelled as those who read them spell them",
    severity="warning",
    source="CUDA's programming guide; torch's env://; NCCL's list of variables",
    bad=("export CUDA_VISIBLE_DEVICE=0,1\n" + _ONE, "NCCL_SOCKET_IFNAMES=eth0 " + _ONE),
    good=(
        "export CUDA_VISIBLE_DEVICES=0,1,2,3\n" + _ONE,
        "CUDA_DEVICES=0,1,2,3\nCUDA_VISIBLE_DEVICES=$CUDA_DEVICES " + _ONE,
        "export NCCL_PXN_DISABLE=0\n" + _ONE,
    ),
)
def variable_nearly_right(job: LintJob) -> Iterator[LintFinding]:
    """Nobody complains of a variable that nobody reads: the setting has no effect."""
    said: set[str] = set()
    for launch in job.launches:
        for name, setting in launch.invocation.settings.items():
            if name in said or name in _KNOWN or is_known(name) or len(name) < 9:
                continue
            near = next((each for each in _KNOWN if _typing_error(name, each)), None)
            if near is None or near in launch.invocation.settings:
                continue
            if re.search(rf"\$\{{?{re.escape(name)}\b", job.text):
                continue
            said.add(name)
            yield LintFinding(
                span=setting.word.span,
                summary=f"{name} is set, and {near} is what is read",
                happens="The setting has no effect, without a message.",
                fix=f"Write {near}.",
            )


def _typing_error(name: str, wanted: str) -> bool:
    """One or two letters too few, too many, or others."""
    if abs(len(name) - len(wanted)) > 2 or name[:3] != wanted[:3]:
        return False
    same = sum(block.size for block in SequenceMatcher(None, name, wanted, autojunk=False).get_matching_blocks())
    return max(len(name), len(wanted)) - same <= 2
