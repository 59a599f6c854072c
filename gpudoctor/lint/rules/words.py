"""Rules of what is one word and what is two, for a shell, a list of words and a container: Q20 to Q23, Q41, Q42,
K23 to K26."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.look import SHELLS
from gpudoctor.lint.model import Invocation, LintJob, Span, Word
from gpudoctor.lint.quotes import without_documents
from gpudoctor.lint.rule import LintFinding, rule

_START = "torchrun --standalone --nproc-per-node=4 train.py\n"
_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: train}}\nspec:\n  containers:\n    - name: main\n"
    "      image: registry/i:1\n"
    "      command: {}\n      resources: {{limits: {{nvidia.com/gpu: 4}}}}\n"
    "      volumeMounts: [{{mountPath: /dev/shm, name: s}}]\n  volumes: [{{name: s, emptyDir: {{medium: Memory}}}}]\n"
)
_FLOW = (
    "on: push\njobs:\n  test:\n    runs-on: gpu\n    steps:\n    - run: {}\n"
    "        torchrun --standalone --nproc-per-node=2 \\\n        train.py\n"
)
_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_DOCKERS = ("docker", "podman", "nerdctl", "nvidia-docker")


@cache
def _programs() -> frozenset[str]:
    """What starts something, by its first word."""
    return frozenset(
        {name.split()[0] for launcher in registry.every() for form in launcher.forms for name in form.programs}
        | {"python", "python3", "srun", "bash", "sh", "mpirun", "mpiexec", "uv", "conda", "apptainer", "singularity"}
    )


@rule(
    "Q20",
    title="A program and its options are words of their own",
    source="execve(2): the first word is the program's name; Python's argparse takes a word with a blank for no option",
    bad=(
        '#!/bin/bash\n#SBATCH --nodes=1\nL="torchrun --standalone --nproc-per-node=4"\nsrun "$L" train.py\n',
        'torchrun "--nproc-per-node 4" train.py\n',
        _POD.format('["torchrun --standalone --nproc-per-node=4 train.py"]'),
        _POD.format('["torchrun", "--nproc-per-node 4", "train.py"]'),
        _POD.format('["bash", "torchrun --standalone --nproc-per-node=4 train.py"]'),
    ),
    good=(
        '#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\nL="torchrun --standalone --nproc-per-node=4"\n'
        "srun --cpus-per-task=4 $L train.py\n",
        'torchrun "--nproc-per-node=4" "train me.py"\n',
        _POD.format('["torchrun", "--standalone", "--nproc-per-node=4", "train.py"]'),
    ),
)
def words_in_one_word(job: LintJob) -> Iterator[LintFinding]:
    """Quotes, and an element of a list, keep blanks: what stands in them is one word. As a program's name it is looked
    for as a whole; as an option it is none."""
    for invocation in job.invocations:
        first = invocation.words[0] if invocation.words else None
        parts = (first.text or "").split() if first is not None else []
        if first is not None and len(parts) > 1 and parts[0].rpartition("/")[2] in _programs():
            yield LintFinding(
                span=first.span,
                summary=f'"{" ".join(parts)[:60]}" is one word, and stands where a program\'s name is wanted',
                happens=f"No such file or directory: no program is called {parts[0]!r} and its options together.",
                fix="Make each word an element of its own."
                if invocation.manifest_path or job.kind == "python"
                else "Leave the quotes out, or make it an array: L=(torchrun ...) and " + '"${L[@]}".',
            )
        text = invocation.words[1].text or "" if invocation.program in SHELLS and len(invocation.words) > 1 else ""
        if " " in text.strip() and text.split()[0].rpartition("/")[2] in _programs():
            yield LintFinding(
                span=invocation.words[1].span,
                summary=f'{invocation.program} takes "{" ".join(text.split())[:60]}" for the name of a script',
                happens=f"{invocation.program}: No such file or directory.",
                fix=f"Write -c behind {invocation.program}.",
            )
    for launch in job.launches:
        script = launch.script
        text = (script.text or "") if script is not None else ""
        if script is not None and text.startswith("-") and " " in text.strip():
            yield LintFinding(
                span=script.span,
                summary=f'"{text[:60]}" is one word: an option and its value are two',
                happens=f"{launch.launcher} takes a word with a blank for the program: can't open file.",
                fix=f"Write {'='.join(text.split(None, 1))[:60]}, or make two words of it.",
            )


_BEFORE_A_SIGN = lazy_re(r"[ \t]+\\[ \t]+(?:\d?>|&|\||;)")


@rule(
    "Q21",
    title="A backslash stands at the end of a line, not before a blank",
    source="bash(1): a backslash keeps the next character as it is; YAML 1.2, folded style: lines become one",
    bad=(
        "torchrun --standalone --nproc-per-node=4 \\ train.py --lr 0.1\n",
        "torchrun --standalone --nproc-per-node=4 train.py \\ > log.txt 2>&1\n",
        _FLOW.format(">"),
    ),
    good=(
        "torchrun --standalone --nproc-per-node=4 \\\n  train.py --lr 0.1\n",
        _FLOW.format("|"),
    ),
)
def escaped_blank(job: LintJob) -> Iterator[LintFinding]:
    """A backslash before a blank makes the blank a letter of the word behind it."""
    for launch in job.launches:
        words = launch.invocation.words
        for before, word in pairwise(words if launch.invocation.span.exact else ()):
            gap = job.text[before.span.end : word.span.start]
            if before.span.exact and word.span.exact and re.fullmatch(r"\s+\\[ \t]+", gap):
                yield _escaped(word, "Take the backslash out, or let the line end behind it.")
                break
        last = words[-1]
        if last.span.exact and _BEFORE_A_SIGN.match(job.text, last.span.end):
            yield _escaped(last, "Take the backslash out: the program gets a blank as one more argument.")
    for value in (value for manifest in job.manifests for value in manifest.values):
        lines = job.text[value.span.start : value.span.end]
        if lines.startswith(">") and "\\ " in value.value and "\\\n" in lines:
            inside = (
                launch for launch in job.launches if value.span.start <= launch.invocation.span.start < value.span.end
            )
            launch_in = next(inside, None)
            if launch_in is not None:
                yield _escaped(
                    launch_in.invocation.words[0], "YAML folds the lines of > into one: leave them out, or write |."
                )


def _escaped(word: Word, fix: str) -> LintFinding:
    return LintFinding(
        span=word.span,
        summary="a backslash stands before a blank, which makes the blank a letter of the word behind it",
        happens="No option and no file begins with a blank: unrecognized arguments, or can't open file.",
        fix=fix,
    )


@rule(
    "Q22",
    title="The command of bash -c is one word",
    source="bash(1): -c takes its command from the next word; those behind it are $0, $1 ...; measured with bash 5.2",
    bad=(
        "bash -c torchrun --standalone --nproc-per-node=4 train.py\n",
        "ssh n1 hostname\nsh -c torchrun train.py\n",
        "srun bash -c \\\n  && torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(
        "bash -c 'torchrun --standalone --nproc-per-node=4 train.py'\n",
        "bash -c 'torchrun $0 $@' --standalone train.py\n",
        "tasks:\n  - name: tune\n    command: ['/bin/sh', '-c']\n    arguments: ['torchrun --standalone train.py']\n",
    ),
)
def bash_c_takes_one_word(job: LintJob) -> Iterator[LintFinding]:
    """Only the word behind -c is the command. What follows becomes its positional parameters, which nothing reads."""
    for invocation in job.invocations:
        words = invocation.words
        if (
            invocation.program in _SHELLS
            and len(words) == 2
            and re.fullmatch(r"-[a-z]*c", words[1].shown)
            and re.fullmatch(r"(?:[ \t]|\\\r?\n)+", job.text[words[0].span.end : words[1].span.start])  # no YAML list
            and re.match(r"[ \t]*(?:\\\r?\n[ \t]*)?(?:&&|\|\||[;|&\n]|\Z)", job.text[words[1].span.end :])
        ):
            yield LintFinding(
                span=words[1].span,
                summary=f"{invocation.program} -c has no command behind it: the quote that should begin it is missing",
                happens=f"{invocation.program} ends: -c: option requires an argument; what follows runs outside of it.",
                fix="Write a quote in front of the command that is meant, and one behind it.",
            )
        if invocation.program not in _SHELLS or len(words) < 4 or re.fullmatch(r"-[a-z]*c", words[1].shown) is None:
            continue
        command, rest = words[2], words[3:]
        text = command.text
        if text is None or text != text.strip() or " " in text or "\n" in text or "$" in text:
            continue
        if text.rpartition("/")[2] in _programs():
            yield LintFinding(
                span=command.span,
                summary=f"{invocation.program} -c runs {text} alone;"
                f" {rest[0].shown[:40]} and what follows is not its own",
                happens=f"{text} starts without arguments: it ends with its usage, or does something else.",
                fix=f"Quote the whole command: {invocation.program} -c '{text} ...',"
                f" or leave {invocation.program} -c out.",
            )


@rule(
    "Q24",
    title="A command begins with the name of a program",
    source="bash(1): ; and & end a command; what follows is another one, whose first word is its name",
    bad=(
        "CUDA_VISIBLE_DEVICES=0;1;2;3 torchrun --standalone --nproc-per-node=4 train.py\n",
        "torchrun --standalone --nproc-per-node=4 train.py --url http://x/y?a=1&b=2 --lr 3\n",
    ),
    good=(
        "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --standalone --nproc-per-node=4 train.py\n",
        "torchrun --standalone --nproc-per-node=4 train.py --url 'http://x/y?a=1&b=2' --lr 3\n",
    ),
)
def command_without_program(job: LintJob) -> Iterator[LintFinding]:
    """A number or an option where a program's name is wanted was meant to be a part of the command before it."""
    if job.kind not in ("shell", "sbatch"):
        return
    for invocation in job.invocations:
        first = invocation.words[0] if invocation.words and not invocation.within else None
        before = job.text[max(0, first.span.start - 40) : first.span.start] if first is not None else ""
        if (
            first is None
            or not first.span.exact
            or not re.search(r"[;&]\s*(?:\w+=\S*\s+)*$", before)
            or "\n" in before[-1:]
        ):
            continue
        if re.fullmatch(r"\d{1,3}|--?[A-Za-z][\w-]*(?:=\S*)?", first.text or ""):
            yield LintFinding(
                span=first.span,
                summary=f"{(first.text or '')[:40]} stands where a program's name is wanted: ; or & ended the command"
                " before it",
                happens=f"{(first.text or '')[:40]}: command not found, and the command before it ran without it.",
                fix="Write commas between GPUs; put a value with & or ; in quotes.",
            )


_COUNTS = frozenset(
    ("nproc-per-node", "nnodes", "num-processes", "num-machines", "num-gpus", "master-port", "main-process-port", "np")
)
_CUT = lazy_re(r"\$\{(\w+):(\d+)\}")


@rule(
    "Q23",
    title="A default is written with :-",
    source="bash(1): ${name:8} is the value from its eighth character on; ${name:-8} is 8 where it is empty or unset",
    bad=(
        "N=${1:8}\ntorchrun --standalone --nproc-per-node=$N train.py\n",
        "torchrun --nproc-per-node=${GPUS:4} train.py\n",
    ),
    good=(
        "N=${1:-8}\ntorchrun --standalone --nproc-per-node=$N train.py\n",
        "torchrun --nproc-per-node=4 ${2:4} train.py\n",
    ),
)
def substring_for_default(job: LintJob) -> Iterator[LintFinding]:
    """`${2:8}` cuts eight characters off: of a short value nothing is left."""
    for launch in job.launches[: look.SIBLINGS]:
        for option in launch.every_option:
            value = option.value
            if value is None or option.name not in _COUNTS:
                continue
            match = next((cut for expansion in value.expansions if (cut := _CUT.fullmatch(expansion.raw))), None)
            if match is not None:
                yield LintFinding(
                    span=option.span,
                    summary=f"{match[0]} is what is left of ${match[1]} behind its first {match[2]} characters, and no"
                    " default",
                    happens=f"{option.written} is empty, and the launcher ends.",
                    fix=f"Write ${{{match[1]}:-{match[2]}}}.",
                )


def _containers(job: LintJob) -> Iterator[Invocation]:
    seen: set[int] = set()
    for invocation in job.invocations:
        for one in (invocation, *invocation.within):
            if (
                one.program in _DOCKERS
                and "run" in [word.shown for word in one.words[1:3]]
                and one.span.start not in seen
            ):
                seen.add(one.span.start)
                yield one


@rule(
    "K23",
    title="Options of docker run stand before the image",
    source="docker run --help: docker run [OPTIONS] IMAGE [COMMAND] [ARG...]",
    bad=("docker run --rm train:1 --gpus all --ipc=host " + _START, "docker run train:1 --shm-size 8g " + _START),
    good=(
        "docker run --rm --gpus all --ipc=host train:1 " + _START,
        "docker run --gpus all --ipc=host train:1 --epochs 3\n",
    ),
)
def docker_option_behind_image(job: LintJob) -> Iterator[LintFinding]:
    """What stands behind the image's name is the container's command: docker reads no option there."""
    for invocation in job.invocations:
        if not invocation.within or invocation.within[-1].program not in _DOCKERS or not invocation.words:
            continue
        option = invocation.words[0].shown.partition("=")[0]
        if option in _OF_RUN:
            yield LintFinding(
                span=invocation.words[0].span,
                summary=f"{option} stands behind the image's name, so it is the first word of the container's command",
                happens="The container does not start: exec of that word: executable file not found; or its ENTRYPOINT"
                " refuses the option.",
                fix=f"Put {option} and the other options of docker run before the image.",
            )


_OF_RUN = frozenset(
    ("--gpus", "--shm-size", "--ipc", "--rm", "-it", "-ti", "-d", "-v", "--volume", "--runtime", "--network", "--net",
     "--name",
     "--privileged", "--ulimit", "--mount", "-e", "--env", "--env-file", "-w", "--workdir", "--cap-add", "--device")
)  # fmt: skip


@rule(
    "K24",
    title="docker is told a list of GPUs in quotes of its own",
    source="docker run's documentation: --gpus '\"device=0,2\"'; docker/cli opts/gpus.go: the value is read as CSV",
    bad=(
        'docker run --rm --ipc=host --gpus "device=0,1" train:1 ' + _START,
        "docker run --rm --ipc=host --gpus=device=0,1 train:1 " + _START,
    ),
    good=(
        "docker run --rm --ipc=host --gpus '\"device=0,1,2,3\"' train:1 " + _START,
        "docker run --rm --ipc=host --gpus device=0 train:1 torchrun --standalone train.py\n",
    ),
)
def gpu_list_without_quotes(job: LintJob) -> Iterator[LintFinding]:
    """docker splits the value at its commas: device=0 and a count of 1. The list must keep a pair of quotes."""
    for outer in _containers(job):
        word = gpus_option(outer)
        text = word.text if word is not None else None
        if word is not None and text is not None and re.fullmatch(r"device=[^\",]+,[^\"]+", text):
            yield LintFinding(
                span=word.span,
                summary=f"--gpus {text} is split at its commas; the list wants quotes that reach docker",
                happens="docker: Error response from daemon: cannot set both Count and DeviceIDs on device request.",
                fix=f"Write --gpus '\"{text}\"'.",
            )


def gpus_option(outer: Invocation) -> Word | None:
    """The value of docker's --gpus, as a word."""
    for index, word in enumerate(outer.words):
        text = word.text if word.text is not None else word.shown
        if text == "--gpus" and index + 1 < len(outer.words):
            return outer.words[index + 1]
        if text.startswith("--gpus="):
            cut = len("--gpus=")
            return Word(word.raw, word.text[cut:] if word.text is not None else None, word.shown[cut:], word.span)
    return None


@rule(
    "Q41",
    title="What stands before a command is for the command, and not for its own words",
    source="bash(1), Simple Command Expansion: words are expanded before the assignments take effect; tried",
    bad=(
        "N=4 torchrun --standalone --nproc-per-node=$N train.py\n",
        "PORT=29501 accelerate launch --num_processes 2 --main_process_port $PORT train.py\n",
    ),
    good=(
        "N=4; torchrun --standalone --nproc-per-node=$N train.py\n",
        "N=4\nN=$N torchrun --standalone --nproc-per-node=$N train.py\n",
        "N=4 bash -c 'torchrun --standalone --nproc-per-node=$N train.py'\n",
    ),
)
def value_before_its_own_command(job: LintJob) -> Iterator[LintFinding]:
    """`N=4 command $N`: the shell fills in $N before it sets N for the command."""
    for launch in job.launches:
        invocation = launch.invocation
        for word in invocation.words:
            for expansion in word.expansions:
                setting = invocation.settings.get(expansion.name)
                if setting is None or setting.how not in ("prefix", "env") or expansion.is_set is not False:
                    continue
                if invocation.within or expansion.default is not None or word.span.start <= setting.word.span.end:
                    continue
                between = job.text[setting.word.span.end : invocation.words[0].span.start]
                if "\n" in between.replace("\\\n", "") or "=<" in job.text[setting.word.span.start - 2 :][:4]:
                    continue  # `DATA=<path of it>`: what bash refuses there is another rule's
                yield LintFinding(
                    span=word.span,
                    summary=f"{expansion.raw} is filled in before {expansion.name}= in front of the command is set",
                    happens="It is empty there: the option gets no value, or takes the next word for it.",
                    fix=f"Set {expansion.name} on a line of its own.",
                )
                return


_COMPARED = lazy_re(r"(?:^|[\s;&|])\[ [^\[\]\n>]*[^\\\s>&\d]\s+(>)\s*[\w\"$][^\[\]\n]*\s\]", re.MULTILINE)


@rule(
    "Q42",
    title="Numbers are compared by -gt, and not by a redirection",
    severity="warning",
    source="bash(1): [ is a command, and > behind it a redirection; tried: the test holds, and a file is made",
    bad=(
        "N=1\nif [ $N > 1 ]; then M=8; fi\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        'if [ "$SLURM_NNODES" > 1 ]; then M=8; fi\ntorchrun --standalone --nproc-per-node=4 train.py\n',
    ),
    good=(
        "N=1\nif [ $N -gt 1 ]; then M=8; fi\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        "N=1\nif [[ $N > 1 ]] || [ $N \\> 1 ]; then M=8; fi\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def compared_by_a_redirection(job: LintJob) -> Iterator[LintFinding]:
    """`[ $N > 1 ]` writes a file called 1, and is true for every N that is not empty."""
    for match in _COMPARED.finditer(without_documents(job.text)) if job.kind in ("shell", "sbatch") else ():
        if not job.text[job.text.rfind("\n", 0, match.start(1)) + 1 :].lstrip().startswith("#"):
            yield LintFinding(
                span=Span(match.start(1), match.end(1), job.text.count("\n", 0, match.start(1)) + 1),
                summary="> in [ ] is a redirection, and no comparison",
                happens="The test holds whatever the number is, and a file is written.",
                fix="Write -gt, or (( ... > ... )).",
            )
