"""Rules of commands that a program starts, and of what its own parser says to a start: T21, T22, V08, E22."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.program_arguments import refused
from gpudoctor.lint.python_code import argument, codes, codes_and_starts, constant
from gpudoctor.lint.python_starts import commands
from gpudoctor.lint.python_text import walked
from gpudoctor.lint.rule import LintFinding, rule

_RUN = "import subprocess\n"
_LIST = 'subprocess.run(["torchrun", "--standalone", "--nproc_per_node", {}, "train.py"], check=True)\n'
_TWICE = (
    'def {}(env):\n    words = ["torchrun", "--standalone", "train.py"]\n'
    '    subprocess.{}(words, env={{**env, "CUDA_VISIBLE_DEVICES": "0"}})\n'
)
_PARSER = (
    "#@ file train.py\nimport argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
    "p.add_argument('--gpus', type=int{})\na = p.parse_args()\n#@ every node\n"
    "torchrun --standalone --nproc-per-node=4 train.py {}\n"
)


@rule(
    "T21",
    title="The words of a command are strings",
    source="Python's subprocess: expected str, bytes or os.PathLike object, not int; tried with Python 3.11",
    bad=(_RUN + _LIST.format("8"), _RUN + "n = 8\n" + _LIST.format("n")),
    good=(_RUN + _LIST.format('"8"'), _RUN + "n = 8\n" + _LIST.format("str(n)")),
)
def number_among_words(job: LintJob) -> Iterator[LintFinding]:
    """subprocess hands a list to the operating system, which takes strings alone: a number is a TypeError."""
    for code in codes(job):
        for command in commands(code):
            for word in command.words:
                value = constant(word)
                if value is None and isinstance(word, ast.Name):
                    value = _number_of(code.tree, word.id)
                if type(value) in (int, float) or (isinstance(value, list) and value):
                    shown = code.words(word)
                    yield LintFinding(
                        span=code.span(word),
                        summary=f"{shown[:60]} is no string; the words of a command are strings",
                        happens=f"TypeError: expected str, bytes or os.PathLike object, not {type(value).__name__}.",
                        fix=f"Write str({shown})." if type(value) is not list else "Put its elements in with *.",
                    )


def _number_of(tree: ast.Module, name: str) -> object:
    """What the module alone binds the name to."""
    stores = [node for node in walked(tree) if isinstance(node, ast.Name) and node.id == name]
    bound = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0] in stores]
    once = sum(isinstance(store.ctx, ast.Store) for store in stores) == 1 == len(bound)
    return (
        constant(bound[0]) if once and not any(isinstance(e, ast.arg) and e.arg == name for e in walked(tree)) else None
    )


@rule(
    "T22",
    title="A command in one string is given to a shell, or is split",
    source="Python's subprocess: on POSIX a string is the name of a program where shell is not True; tried",
    bad=(
        _RUN + 'subprocess.run("torchrun --nproc_per_node=4 train.py", check=True)\n',
        _RUN + 'subprocess.check_call(f"torchrun --nproc_per_node={gpus} train.py")\n',
    ),
    good=(
        _RUN + 'subprocess.run("torchrun --nproc_per_node=4 train.py", shell=True, check=True)\n',
        _RUN + 'subprocess.run("torchrun --nproc_per_node=4 train.py".split(), check=True)\n',
        _RUN + _TWICE.format("a", "run") + _TWICE.format("b", "Popen"),
    ),
)
def command_in_one_string(job: LintJob) -> Iterator[LintFinding]:
    """Without a shell the whole string is taken for the name of one program."""
    for code in codes(job):
        for command in commands(code):
            node = command.call.args[0] if command.call.args else None
            is_text = isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Name)) and not command.words
            first = command.line.split()
            if (
                command.is_shell
                or not is_text
                or len(first) < 2
                or any(keyword.arg is None for keyword in command.call.keywords)
            ):
                continue
            if isinstance(node, ast.Name) and (_UNKNOWN.match(command.line) or _is_split(code.text, node.id)):
                continue
            if any(keyword.arg == "shell" for keyword in command.call.keywords):
                continue
            yield LintFinding(
                span=command.span,
                summary=f"the command is one string ({first[0][:40]} ...) and shell=True is not given",
                happens="FileNotFoundError: no program has that whole line for a name.",
                fix="Give a list of words, or shlex.split(the string); shell=True where a shell is wanted.",
            )


_UNKNOWN = lazy_re(r"(?:\w+=\S* )*\$\(")
"""What a name stands for is not known: it may be a list."""


def _is_split(text: str, name: str) -> bool:
    return re.search(rf"^\s*{re.escape(name)}\s*=.*split\(", text, re.MULTILINE) is not None


@rule(
    "V08",
    title="A program is given options that its own parser takes",
    source="Python's argparse, asked: a parser with the program's own options reads the words of the start",
    bad=(
        _PARSER.format("", "--lr 0.1 --epochs 3"),
        _PARSER.format(", required=True", "--lr 0.1"),
        _PARSER.format("", "--gpus all"),
        _PARSER.format("", "--lr 0.1").replace("torchrun", "python -m torch.distributed.launch"),
    ),
    good=(
        _PARSER.format(", required=True", "--lr 0.1 --gpus 4"),
        _PARSER.format("", "--lr 0.1 --epochs 3").replace("p.parse_args()", "p.parse_known_args()[0]"),
        _PARSER.format("", "--lr 0.1 $MORE"),
        _PARSER.format("", "--lr 0.1 ..."),
        _PARSER.format("", "--lr 0.1").replace(
            "torchrun --standalone --nproc-per-node=4", "deepspeed --launcher slurm"
        ),
        _PARSER.format("", "--lr ${{ inputs.lr }} --gpus ${{ matrix.gpus }}"),
    ),
)
def program_refuses_options(job: LintJob) -> Iterator[LintFinding]:
    """argparse ends a program with status 2 where an option is unknown or missing, or a value is of another type; under
    a launcher every rank ends so."""
    for code, starts in codes_and_starts(job):
        for launch in starts:
            refusal = refused(code, launch)
            if refusal is None:
                continue
            said, word = refusal
            name = launch.script.shown if launch.script is not None else "the program"
            by_launcher = word is None and "local_rank" in said
            if by_launcher and launch.launcher != "deepspeed" and job.facts.version("torch") is not None:
                continue  # the release decides the spelling: V05
            instead = "--no_local_rank" if launch.launcher == "deepspeed" else "--use_env, or by torchrun"
            yield LintFinding(
                span=word.span if word is not None else (launch.script or launch.invocation.words[0]).span,
                summary=f"{name}'s own parser says: {said}",
                happens=f"{launch.launcher} hands it over to each rank, and each ends with status 2."
                if by_launcher
                else "Each rank ends with status 2 while it reads its options.",
                fix=f"Let the program take --local_rank, or start it with {instead}."
                if by_launcher
                else "Give the options that the program defines; python FILE --help lists them.",
            )


_RANKS = (
    "import subprocess\nimport sys\nranks = []\nfor rank in range(4):\n    env = {}\n"
    "    ranks.append(subprocess.Popen([sys.executable, 't.py'], env=env))\n"
)
_OWN = "{'RANK': str(rank), 'WORLD_SIZE': '4', 'MASTER_ADDR': 'localhost', 'MASTER_PORT': '29511'}"
_PLACE = frozenset(("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"))


@rule(
    "E22",
    title="A program that is started keeps the environment beside what it is given",
    severity="warning",
    source="Python's subprocess, env: these are used instead of the current process' environment",
    bad=(_RANKS.format(_OWN), _RANKS.format(_OWN.replace(", 'MASTER_PORT': '29511'", ""))),
    good=(
        _RANKS.format(_OWN.replace("{", "{**os.environ, ")).replace("import sys", "import os\nimport sys"),
        _RANKS.format(f"dict(os.environ, **{_OWN})").replace("import sys", "import os\nimport sys"),
        _RANKS.format(_OWN)
        .replace("    ranks", "    env.update(os.environ)\n    ranks")
        .replace("import sys", "import os\nimport sys"),
    ),
)
def environment_is_replaced(job: LintJob) -> Iterator[LintFinding]:
    """env= is all that the program gets: PATH, HOME, LD_LIBRARY_PATH and what the launcher has set are gone."""
    for code in codes(job):
        for command in commands(code):
            node = argument(command.call, "env")
            if isinstance(node, ast.Name):
                name = node.id
                bound = [
                    each.value
                    for each in code.nodes
                    if isinstance(each, ast.Assign)
                    and isinstance(each.targets[0], ast.Name)
                    and each.targets[0].id == name
                ]
                grows = re.search(
                    rf"\b{re.escape(name)}(?:\.(?:update|setdefault)\(|\[[^\]\n]+\]\s*=|\s*\|=)", code.text
                )
                node = bound[0] if len(bound) == 1 and not grows else None
            if not isinstance(node, ast.Dict) or None in node.keys:
                continue
            names = {constant(key) for key in node.keys}
            if "PATH" in names or not names & (_PLACE | {"LOCAL_RANK", "CUDA_VISIBLE_DEVICES"}):
                continue
            lacking = sorted(_PLACE - names) if names & {"RANK", "MASTER_ADDR"} else []
            yield LintFinding(
                span=code.span(command.call),
                summary="env= is all that this program gets: PATH, HOME and LD_LIBRARY_PATH are not in it"
                + (f", nor {' and '.join(lacking)}" if lacking else ""),
                happens=f"init_process_group ends: environment variable {lacking[0]} expected, but not set."
                if lacking
                else "It does not find its libraries, its home folder or its GPUs.",
                fix="Write env={**os.environ, ...}.",
                severity="error" if lacking else None,
            )
