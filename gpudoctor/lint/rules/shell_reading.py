"""Rules of what bash makes of words that people meant otherwise: Q12 to Q17."""

import re
from collections.abc import Iterator
from itertools import islice

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, LintLaunch, Span, Word
from gpudoctor.lint.quotes import without_documents
from gpudoctor.lint.rule import Edit, LintFinding, rule

_ONE = "torchrun --standalone --nproc-per-node=4 train.py\n"
_CONTAINERS = ("docker", "podman", "nerdctl")
_INNER = ("bash", "sh", "ssh")
_OF_JOB = lazy_re(r"\$\{?SLURM_|(?:\$\(|`)[ \t]*(?:hostname|scontrol)\b")
"""What is not known where a job is submitted."""
_WITH_TEXT = (*_INNER, "eval", "sbatch", *_CONTAINERS)
"""What is given a text that a shell of its own reads, or an environment for one."""
_TWO = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr=n0 --master-port=61234 train.py"
_WRAPPERS = ("nohup", "srun", "mpirun", "mpiexec", "timeout", "setsid", "nice", "numactl", "taskset", "stdbuf", "exec")
"""Programs that run their next word as it stands: an assignment is no word for them."""
_DOLLAR = lazy_re(r"(?:export )?(\$(\w+))=[\w\"'$/.]")
_SET = lazy_re(r"^[ \t]*(set[ \t]+([A-Za-z_]\w*)=\S+|export[ \t]+\$([A-Za-z_]\w*)=\S*)[ \t]*$", re.MULTILINE)
_ASSIGNMENT = lazy_re(r"[A-Za-z_]\w*=", re.ASCII)


@rule(
    "Q12",
    title="All elements of an array are used, each as a word of its own",
    source='bash(1), Arrays: $NAME is ${NAME[0]}; "${NAME[*]}" is one word',
    bad=(
        "ARGS=(--standalone --nproc-per-node=4)\ntorchrun $ARGS train.py\n",
        'ARGS=(--standalone --nproc-per-node=4)\ntorchrun "${ARGS[*]}" train.py\n',
        'ARGS="--standalone --nproc-per-node=4"\ntorchrun "$ARGS" train.py\n',
        'LIST=$(scontrol show hostnames "$SLURM_JOB_NODELIST")\nHOSTS=("$LIST")\n'
        + _TWO.format("$NODE_RANK").replace("=n0", "=${HOSTS[0]}")
        + "\n",
    ),
    good=(
        'ARGS=(--standalone --nproc-per-node=4)\ntorchrun "${ARGS[@]}" train.py\n',
        'ARGS="--standalone --nproc-per-node=4"\ntorchrun $ARGS train.py\n',
        "HOSTS=(n0 n1)\n" + _TWO.format("0").replace("=n0", "=$HOSTS") + "\n",
    ),
)
def words_run_together(job: LintJob) -> Iterator[LintFinding]:
    """`$ARGS` of an array is its first element alone, and what stands in quotes is one word, however many options are
    in it."""
    yield from _one_of_lines(job)
    known: dict[str, int] = {}
    for launch in job.launches:
        for word in launch.invocation.words[1:]:
            raw = word.raw.strip()
            length = re.search(r"\$\{#(\w+)\}", raw, re.ASCII)
            if length is not None and _elements(job, length[1]) > 0:
                yield LintFinding(
                    span=word.span,
                    summary=f"{length[0]} is the length of the first element of the array {length[1]}, in characters",
                    happens="Another number of processes starts than the array has elements.",
                    fix=f"Write ${{#{length[1]}[@]}}.",
                )
            name = re.fullmatch(r"\$(?:\{(\w+)\}|(\w+))", raw, re.ASCII)
            array = (name[1] or name[2]) if name is not None else ""
            if array and array not in known and len(known) < 100:
                known[array] = _elements(job, array)
            elements = known.get(array, 0)
            if name is not None and elements > 1 and (word.shown.startswith("-") or _is_script(launch, word)):
                given = name[1] or name[2]
                yield LintFinding(
                    span=word.span,
                    summary=f"{raw} is the first of {elements} elements of the array {given}, and the others are lost",
                    happens="The launcher starts without these options, or takes one for the script.",
                    fix=f'Write "${{{given}[@]}}", with the quotes.',
                )
        script = launch.script
        together = script is not None and re.match(r"--?\w[\w-]*[= ]\S*\s+\S|--?\w[\w-]*\s+--?\w", script.shown)
        if script is not None and together and script.quoted:
            yield LintFinding(
                span=script.span,
                summary=f"{script.shown[:60]!r} is one word, for it stands in quotes: no options",
                happens="The launcher takes it for the script, and ends: can't open file, or unrecognized arguments.",
                fix='Leave the quotes out, or take an array: ARGS=(...) and "${ARGS[@]}".',
            )


_LINES = lazy_re(
    r"^[ \t]*(?:declare -a |local (?:-a )?|readonly )?(\w+)=\([ \t]*"
    r"(\"\$(?:\{?(\w+)\}?|\((?:scontrol show hostnames?|cat|sort|uniq)\b[^\"\n]*(?:\"[^\"\n]*\"[^\"\n]*)*\))\")"
    r"[ \t]*\)",
    re.MULTILINE | re.ASCII,
)
_OF_LINES = r"^[ \t]*(?:export |local )?{}=\"?(?:\$\(|`)(?:scontrol show hostnames?|cat|sort|uniq|nodeset -e)\b"


def _one_of_lines(job: LintJob) -> Iterator[LintFinding]:
    """`NODES=("$LIST")` of a list with a line for each host: the quotes keep it one word."""
    for match in islice(_LINES.finditer(job.text), 20):
        listed = match[3] is None or re.search(_OF_LINES.format(match[3]), job.text, re.MULTILINE) is not None
        used = re.search(rf"\$\{{#?{match[1]}\[", job.text[match.end() :])
        if not listed or used is None or _first_taken(job.text[match.end() :], match[1]):
            continue
        bare = match[2].strip('"')
        line = job.text.count("\n", 0, match.start(2)) + 1
        yield LintFinding(
            span=Span(match.start(2), match.end(2), line),
            summary=f"{match[1]}=({match[2]}) has one element, all lines of it in one word, for it stands in quotes",
            happens=f"${{{match[1]}[0]}} is the names of all nodes at once, and ${{{match[1]}[1]}} is empty: srun -w"
            " takes several nodes for one, or none.",
            fix=f"Write {match[1]}=({bare}), or mapfile -t {match[1]} <<< {match[2]}.",
            edits=(Edit(Span(match.start(2), match.end(2), line), bare),),
        )


def _first_taken(text: str, array: str) -> bool:
    """`HEAD=${NODES[0]}; HEAD=$(echo $HEAD | awk '{print $1}')`: the first word of it all, and nothing else is used."""
    uses = re.findall(rf"\$\{{#?{array}\[", text)
    taken = re.findall(rf"\b(\w+)=\"?\$\{{{array}\[0\]\}}", text)
    again = (
        re.search(rf"\b{name}=\"?(?:\$\(|`)echo \"?\$\{{?{name}\}}?\"? *\| *(?:awk|cut|head|sed)\b", text)
        for name in taken
    )
    return len(taken) == len(uses) and all(again)


def _elements(job: LintJob, name: str) -> int:
    """Words of the array of this name; 0 where it is none."""
    match = re.search(rf"^[ \t]*(?:declare -a |local (?:-a )?|readonly )?{name}=\(([^()$`]*)\)", job.text, re.MULTILINE)
    return len(match[1].split()) if match is not None else 0


def _is_script(launch: LintLaunch, word: Word) -> bool:
    return launch.script is word


@rule(
    "Q13",
    title="An assignment has no blanks and no dollar",
    source="bash(1): NAME=VALUE; measured with bash 5.2: NPROC: command not found, 4=4: command not found",
    bad=(
        "NPROC = 4\ntorchrun --standalone --nproc-per-node=$NPROC train.py\n",
        "$NPROC=4\ntorchrun --standalone --nproc-per-node=$NPROC train.py\n",
        "CUDA_VISIBLE_DEVICES=0, 1 torchrun --standalone --nproc-per-node=2 train.py\n",
        "CUDA_VISIBLE_DEVICES= 0,1 " + _ONE,
        "nohup CUDA_VISIBLE_DEVICES=0,1 " + _ONE,
    ),
    good=(
        "NPROC=4\ntorchrun --standalone --nproc-per-node=$NPROC train.py\n",
        "cat > ~/.vimrc <<- END\nset tabstop=4\nEND\n" + _ONE,
        "CUDA_VISIBLE_DEVICES=0,1,2,3 nohup " + _ONE,
        "env NCCL_DEBUG=INFO " + _ONE,
    ),
)
def assignment_that_is_none(job: LintJob) -> Iterator[LintFinding]:
    """With a blank at the equals sign the name is a command; with a dollar before it the value is; and programs such as
    nohup or srun look for a file of that name."""
    for invocation in job.invocations:
        shown = [word.shown for word in invocation.words[:3]]
        outer = invocation.within[-1].program if invocation.within else ""
        line = _line(job, invocation.words[0].span)
        # Of text in quotes that was taken for a command it is not the first word; an unfinished quote is no word.
        begins = line.rpartition(shown[0])[0] if shown[0] else line
        first = not begins.strip() or re.search(r"(?:[;&|({]|\b(?:then|do|else|export))\s*$", begins) is not None
        named = first and re.fullmatch(r"[A-Z_][A-Z0-9_]*", shown[0])
        if named and len(shown) > 1 and shown[1][:1] == "=" and shown[1] != "==":
            what, fix = f"{shown[0]} {shown[1]} is a command named {shown[0]}", f"Write {shown[0]}=..., without blanks."
        elif re.fullmatch(r"\d{1,6}[\d,]*", shown[0]) and re.match(r"\s*(?:export\s+)?\w+=\S*\s+\d", line):
            what, fix = (
                f"{shown[0]} is taken for a command: the value before it ends at the blank",
                "Take the blank out.",
            )
        elif outer in _WRAPPERS and _ASSIGNMENT.match(shown[0]) and not invocation.words[0].raw.startswith("$"):
            what = f"{outer} takes {shown[0][:60]} for the program that it is to start"
            fix = f"Write it before {outer}, or {outer} env {shown[0][:60]} ..."
        elif dollar := _DOLLAR.match(" ".join(word.raw for word in invocation.words[:2])):
            what, fix = f"{dollar[1]}= is no assignment: the value stands there", f"Write {dollar[2]}=..."
        else:
            continue
        yield _no_assignment(invocation.words[0].span, what, fix)
    for section in job.sections if job.kind in ("shell", "sbatch") else ():
        if section.kind == "file" and not section.name.endswith((".sh", ".bash")):
            continue
        for match in islice(_SET.finditer(without_documents(section.text)), 20):
            span = section.span(match.start(1), match.end(1))
            name = match[2] or match[3]
            what = (
                f"`{match[1][:40]}` sets $1 of the shell"
                if match[2]
                else f"${name} is filled in before export reads it"
            )
            yield _no_assignment(span, f"{what}, and not the variable {name}", f"Write export {name}=...")


def _no_assignment(span: Span, what: str, fix: str) -> LintFinding:
    return LintFinding(
        span=span,
        summary=what,
        happens="bash: command not found (srun and nohup: No such file or directory), and nothing is set.",
        fix=fix,
    )


def _line(job: LintJob, span: Span) -> str:
    start = job.text.rfind("\n", 0, span.start) + 1
    return job.text[start : span.end]


@rule(
    "Q14",
    title="What an inner shell uses is exported, and not filled in too early",
    source="bash(1): a child gets what is exported; in double quotes and plain here-documents the outer shell expands",
    bad=(
        "G=4\nbash -c 'torchrun --standalone --nproc-per-node=$G train.py'\n",
        'docker run --gpus all --ipc=host -e G=4 img sh -c "torchrun --standalone --nproc-per-node=$G train.py"\n',
        'ssh n1 "export NODE_RANK=1; ' + _TWO.format("$NODE_RANK") + '"\n',
        "ssh n1 <<EOF\nexport RANKS=4\ntorchrun --standalone --nproc-per-node=$RANKS train.py\nEOF\n",
    ),
    good=(
        "export G=4\nbash -c 'torchrun --standalone --nproc-per-node=$G train.py'\n",
        "ssh n1 'export NODE_RANK=1; " + _TWO.format("$NODE_RANK") + "'\n",
        'R=1\nssh n1 "' + _TWO.format("$R") + '"\n',
    ),
)
def expanded_by_the_wrong_shell(job: LintJob) -> Iterator[LintFinding]:
    """A variable of the outer shell is not there in single quotes unless it is exported; one of the inner shell is
    empty in double quotes, for the outer shell fills it in."""
    for launch in job.launches:
        invocation = launch.invocation
        outer = next((around for around in invocation.within if around.program in _WITH_TEXT), None)
        if outer is None:
            continue
        for option in launch.every_option:
            starts_it = option.span.start < outer.words[0].span.start and outer.program != "sbatch"
            if starts_it or any(outer.words[0].span.start < each.start <= option.span.start for each in job.sections):
                continue  # of what starts the shell, or of another file, which the shell reads itself
            for expansion in option.value.expansions if option.value is not None else ():
                of_job = outer.program == "sbatch" and expansion.where == "node" and _OF_JOB.match(expansion.raw)
                if not (of_job or expansion.name.isidentifier()) or expansion.default is not None:
                    continue
                if expansion.is_set is not False and not of_job:
                    continue
                inside, before = invocation.settings.get(expansion.name), outer.settings.get(expansion.name)
                if of_job or (inside is not None and before is None):
                    why = f"is filled in by the outer shell, before the text for {outer.program} sets it"
                    fix = f"Put the text in single quotes (<<'EOF'), or write \\{expansion.raw}."
                elif inside is None and before is not None and not before.exported and outer.program in _INNER:
                    why = "is read by an inner shell, and it is not exported"
                    fix = f"Write export {expansion.name}=..., or put the text in double quotes."
                else:
                    continue
                yield LintFinding(
                    span=option.span,
                    summary=f"{expansion.raw} of {option.written} {why}",
                    happens=f"It is empty there: {option.written} gets no value."
                    if expansion.name
                    else "It is answered on the machine that submits, which is no node of the job.",
                    fix=fix,
                )


@rule(
    "Q15",
    title="A start stands where the script gets to",
    source="bash(1): exec replaces the shell, exit ends it; set -e, and (( )) of 0 has status 1",
    bad=("exec python prepare.py\n" + _ONE, "echo begin\nexit 0\n" + _ONE, "set -e\ni=0\n((i++))\n" + _ONE),
    good=(
        "exec " + _ONE,
        "if [ ! -d data ]; then exit 1; fi\n" + _ONE,
        "exec > log.txt\n" + _ONE,
        "set -e\ni=0\n((i++)) || true\n((++i))\n" + _ONE,
        'A="<ACCOUNT>"\nif [ "$A" = "<ACCOUNT>" ]; then\n  echo fill it in\n  exit 1\nfi\n' + _ONE,
    ),
)
def start_never_reached(job: LintJob) -> Iterator[LintFinding]:
    """exec puts a program in the place of the shell, and exit ends it: behind them nothing of the script is run."""
    for launch in job.launches:
        behind = launch.invocation
        if behind.reached or behind.conditional:
            continue
        enders = [
            invocation
            for invocation in job.invocations
            if invocation.program in ("exit", "exec")
            and invocation.reached
            and invocation.section == behind.section
            and invocation.span.start < behind.span.start
        ]
        how = enders[-1].program if enders else "set -e"
        place = f"Line {enders[-1].span.line}" if enders else "A command before it"
        yield LintFinding(
            span=behind.span,
            summary=f"{place} ends the script by {how}: this is never run",
            happens="The training does not start.",
            fix=f"Take {how} in line {enders[-1].span.line} away, or put it behind the start."
            if enders
            else "Give what fails before it `|| true`: under set -e the first status that is not 0 ends the script, "
            "and ((i++)) from 0 has status 1.",
        )
        return


@rule(
    "Q16",
    title="ssh in a loop over lines does not read them",
    source="ssh(1), -n; BashFAQ 089; measured: the first ssh reads the rest of the list",
    bad=(
        'while read -r h; do\n  ssh $h nvidia-smi\n  ssh $h "' + _TWO.format("0") + ' > log 2>&1"\ndone < hosts.txt\n',
        'cat hosts | while read h; do ssh $h "' + _TWO.format("0") + '"; done\n',
    ),
    good=(
        'while read -r h i; do\n  ssh -n $h "' + _TWO.format("$i") + '" &\ndone < hosts.txt\nwait\n',
        'for h in n0; do ssh $h "' + _TWO.format("0").replace("nnodes=2", "nnodes=1") + '"; done\n',
    ),
)
def ssh_reads_the_list(job: LintJob) -> Iterator[LintFinding]:
    """Standard input of the loop is the list of hosts, and ssh hands it on: the loop ends after its first turn."""
    if not re.search(r"\bwhile\b[^\n;]*\bread\b", job.text):
        return
    for invocation in job.invocations:
        if invocation.program != "ssh" or invocation.in_loop != "while" or invocation.background or invocation.within:
            continue
        options = [word.shown for word in invocation.words[1:6]]
        end = job.text.find("\n", invocation.span.end)
        line = job.text[invocation.span.start : end if end > 0 else len(job.text)]
        if any(re.fullmatch(r"-\w*[nf]\w*", option) for option in options) or "<" in line.split('"')[-1]:
            continue
        yield LintFinding(
            span=invocation.words[0].span,
            summary="ssh reads the loop's list: the loop ends after the first host",
            happens="One node starts, and waits for the others until its time-out.",
            fix="Write ssh -n, or </dev/null behind the command.",
        )
        return


@rule(
    "Q17",
    title="A script is given the arguments that it reads",
    source="bash(1), Positional Parameters; argparse: expected one argument, invalid int value: ''",
    bad=(
        "bash run.sh\n#@ file run.sh\ntorchrun --standalone --nproc-per-node=$1 train.py\n",
        "start() { torchrun --standalone --nproc-per-node=$2 train.py; }\nstart 4\n",
    ),
    good=(
        "bash run.sh 4\n#@ file run.sh\ntorchrun --standalone --nproc-per-node=$1 train.py\n",
        "bash run.sh\n#@ file run.sh\ntorchrun --standalone --nproc-per-node=${1:-4} train.py\n",
    ),
)
def argument_not_given(job: LintJob) -> Iterator[LintFinding]:
    """`$1` of a script or function that is called without one is empty."""
    for launch in job.launches:
        for option in launch.every_option:
            value = option.value
            inner = (
                [expansion for expansion in value.expansions if re.fullmatch(r"[1-9]", expansion.name)]
                if value is not None
                else []
            )
            only = inner[0] if len(inner) == 1 else None
            if value is None or only is None or not re.fullmatch(r"[1-9]", only.name) or only.is_set is not False:
                continue
            if value.shown.strip("\"'") == only.raw and only.default is None:
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} is {only.raw}, and no argument {only.name} is given",
                    happens=f"It is empty: {option.written} has no value, and the launcher ends with a usage error.",
                    fix=f"Give the argument where the script is called, or write ${{{only.name}:-4}}.",
                )
