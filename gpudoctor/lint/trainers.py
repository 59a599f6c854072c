"""`Trainer(...)`, `Fabric(...)`, `DataParallel(...)`, `init_process_group(...)` in Python texts, and the same as
arguments of a script (`--devices 4 --num_nodes 3 --strategy ddp`).

Python texts are read by Python's own parser and never run. Where the whole is no Python (a snippet in a shell script,
a half-pasted file), each call is cut out by its brackets and read alone.
"""

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintLaunch, Manifest, Span, TrainerCall, Word
from gpudoctor.lint.python_code import read_code
from gpudoctor.lint.python_text import last_name, parsed, walked
from gpudoctor.lint.python_values import PythonValues

NAMES = ("Trainer", "Fabric", "LightningLite", "DataParallel", "DistributedDataParallel", "init_process_group",
         "Accelerator", "spawn", "start_processes", "notebook_launcher", "TorchTrainer", "TorchDistributedEnvironment",
         "AutoExecutor", "SlurmExecutor", "PyTorch", "elastic_launch", "TorchDistributor", "HorovodTrainer",
         "LightningTrainer", "TransformersTrainer", "HuggingFace", "Estimator", "ModelTrainer", "JobSubmissionClient",
         "command", "CustomJob", "CustomPythonPackageTrainingJob", "CustomContainerTrainingJob", "CustomTrainingJob",
         "TrainerClient", "TrainingClient", "init_distributed", "HorovodRunner", "LocalExecutor", "DGXCloudExecutor",
         "SkypilotExecutor", "DeepspeedTorchDistributor", "debug_launcher", "MpiDistribution",
         "PyTorchDistribution")  # fmt: skip
STARTERS = ("spawn", "start_processes", "notebook_launcher", "TorchTrainer", "AutoExecutor", "SlurmExecutor", "PyTorch",
            "elastic_launch", "TorchDistributor", "HorovodTrainer", "LightningTrainer", "HuggingFace", "Estimator",
            "ModelTrainer", "JobSubmissionClient", "CustomJob", "TrainerClient", "TrainingClient", "HorovodRunner",
            "SkypilotExecutor", "DGXCloudExecutor", "LocalExecutor", "debug_launcher",
            "CustomContainerTrainingJob", "CustomTrainingJob", "CustomPythonPackageTrainingJob")  # fmt: skip
"""Those that start ranks by themselves, or hand a training to a service that does: of torch, accelerate, Ray, submitit,
NeMo-Run, Spark, SageMaker, Vertex AI, Kubeflow."""
RANKS = ("nprocs", "num_processes", "nproc_per_node")
CALL = lazy_re(rf"(?<![\w#])(?:\w+\.){{0,8}}(?P<name>{'|'.join(NAMES)})\s*\(")
POSITIONAL = {
    "init_process_group": ("backend", "init_method"),
    "DataParallel": ("module", "device_ids"),
    "DistributedDataParallel": ("module", "device_ids"),
    "Fabric": ("accelerator", "strategy", "devices", "num_nodes", "precision"),
    "spawn": ("fn", "args", "nprocs", "join"),
    "notebook_launcher": ("function", "args", "num_processes"),
}
"""The names of arguments that come without one (signatures of torch 2.13, lightning 2.6)."""
STARS = lazy_re(r"\*\*\s*[\w{(]")
LONGEST_CALL = 4_000
MOST_CALLS = 200
LONGEST_TEXT = 1 << 20

Place = Callable[[int, int], int]
"""Row (from 1) and column in bytes -> character offset."""

ARGUMENTS = {
    "gpus", "devices", "num_nodes", "nodes", "strategy", "accelerator", "precision", "distributed_backend", "plugins",
    "num_processes", "tpu_cores", "ipus", "auto_select_gpus", "amp_level", "amp_backend", "use_amp", "sync_batchnorm",
    "replace_sampler_ddp", "use_distributed_sampler", "nb_gpu_nodes", "num_gpus", "deterministic", "benchmark",
}  # fmt: skip
"""Trainer's arguments that matter to a launch, of all versions."""
FLAGS = {"auto_select_gpus", "sync_batchnorm", "use_amp", "deterministic", "benchmark"}


def calls(text: str, start: int = 0, line: int = 1) -> tuple[TrainerCall, ...]:
    """The calls of a Python text, or of a text with Python in it. Never raises."""
    if not CALL.search(text[:LONGEST_TEXT]):
        return ()
    text = text[:LONGEST_TEXT]
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    tree = parsed(text)
    if tree is not None:
        lines = [] if text.isascii() else [part.encode("utf-8", "surrogatepass") for part in text.split("\n")]

        def place(row: int, column: int) -> int:
            """ast counts bytes of UTF-8; spans are characters."""
            if lines and row <= len(lines):
                column = len(lines[row - 1][:column].decode("utf-8", "replace"))
            return starts[row - 1] + column

        if "\r" not in text and "\f" not in text:  # Python counts other lines then
            values = None
            if STARS.search(text):
                code = read_code(text, start, line)
                if code is not None:
                    tree, values = code.tree, PythonValues(code)
            trainer_calls = [_call(node, text, place, start, line, values) for node in _nodes(tree)]
            return tuple(call for call in trainer_calls if call is not None)[:MOST_CALLS]
    return tuple(_cut_out(text, starts, start, line))


def _nodes(tree: ast.AST) -> Iterator[ast.Call]:
    try:
        nodes = sorted(
            (node for node in walked(tree) if isinstance(node, ast.Call)),
            key=lambda node: (node.lineno, node.col_offset),
        )
    except RecursionError:
        return
    yield from (node for node in nodes if last_name(node.func) in NAMES)


def _call(
    node: ast.Call,
    text: str,
    place: Place,
    start: int,
    line: int,
    values: PythonValues | None = None,
) -> TrainerCall | None:
    arguments: dict[str, str] = {}
    spans: dict[str, Span] = {}
    name = last_name(node.func)
    positional = POSITIONAL.get(name, ())
    named = [(positional[index], value) for index, value in enumerate(node.args[: len(positional)])
             if not isinstance(value, ast.Starred)]  # fmt: skip
    pieces: list[tuple[str, ast.expr, ast.expr | ast.keyword]] = [
        *((argument, value, value) for argument, value in named),
        *((keyword.arg, keyword.value, keyword) for keyword in node.keywords if keyword.arg is not None),
    ]
    mapped: set[str] = set()
    hides = any(isinstance(each, ast.Starred) for each in node.args)
    for keyword in node.keywords:
        if keyword.arg is None:
            told = values.mapping(keyword.value) if values is not None else None
            hides = hides or told is None
            pieces += [(argument, value, value) for argument, value in (told or {}).items()]
            mapped |= (told or {}).keys()
    for argument, value, first in pieces:
        begin = place(first.lineno, first.col_offset)
        middle = place(value.lineno, value.col_offset)
        end = place(value.end_lineno or value.lineno, value.end_col_offset or value.col_offset)
        arguments[argument] = text[middle:end]
        exact = argument not in mapped  # of a mapping no edit can be made
        spans[argument] = Span(start + begin, start + end, line + first.lineno - 1, exact)
    end = place(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    span = Span(start + place(node.lineno, node.col_offset), start + end, line + node.lineno - 1)
    return TrainerCall(arguments, spans, span, name, hides)


def _cut_out(text: str, starts: Sequence[int], start: int, line: int) -> Iterator[TrainerCall]:
    """The calls of a text that is no Python as a whole."""
    count = 0
    done = 0
    for match in CALL.finditer(text):
        if match.start() < done:
            continue
        row = bisect_right(starts, match.start()) - 1
        before = text[starts[row] : match.start()].lstrip()
        if before.startswith("#") or before.endswith(("def ", "class ")):
            continue
        count += 1
        if count > MOST_CALLS:
            return
        end = _closing(text, match.end() - 1)
        if end is None:
            continue
        done = match.end()
        inner = text[match.start() : end]
        tree = parsed(inner)
        body = getattr(tree, "body", None)
        if not body or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call):
            continue
        rows = [0, *(hit.end() for hit in re.finditer("\n", inner))]
        encoded = [part.encode("utf-8", "surrogatepass") for part in inner.split("\n")]

        def place(
            number: int, column: int, rows: list[int] = rows, encoded: list[bytes] = encoded, begin: int = match.start()
        ) -> int:
            at = min(number, len(rows)) - 1
            return begin + rows[at] + len(encoded[at][:column].decode("utf-8", "replace"))

        call = _call(body[0].value, text, place, start, line + row)
        if call is not None:
            yield call


def _closing(text: str, opening: int) -> int | None:
    """Behind the bracket that closes the one at `opening`; None when none does."""
    depth = 0
    index = opening
    limit = min(len(text), opening + LONGEST_CALL)
    while index < limit:
        letter = text[index]
        if letter in "\"'":
            quote = text[index : index + 3] if text.startswith(letter * 3, index) else letter
            index += len(quote)
            while index < limit and not text.startswith(quote, index):
                if text[index] == "\n" and len(quote) == 1:
                    return None
                index += 2 if text[index] == "\\" else 1
            index += len(quote)
            continue
        if letter == "#":
            index = text.find("\n", index, limit)
            if index < 0:
                return None
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                return index + 1
        index += 1
    return None


def of_yaml(documents: Sequence[Manifest]) -> Iterator[TrainerCall]:
    """What a file of Lightning's command line says to the Trainer: its mapping `trainer:`."""
    for document in documents:
        values = {
            value.path[1]: value
            for value in document.values
            if len(value.path) == 2 and value.path[0] == "trainer" and value.path[1] in ARGUMENTS
        }
        if values:
            first = min((value.span for value in values.values()), key=lambda span: span.start)
            spans = {name: value.span for name, value in values.items()}
            yield TrainerCall({name: source(value.value) for name, value in values.items()}, spans, first)


def of_arguments(launch: LintLaunch) -> TrainerCall | None:
    """What a script's own arguments say to Lightning's Trainer; `name` is "arguments". None: nothing of the kind.

    Lightning's own command line (`--trainer.devices=4`), argparse (`--gpus 4 --num_nodes 3`), Hydra (`trainer.gpus=4`).
    Values are Python source, as in a call: a word that is no number is quoted.
    """
    if launch.script is None:
        return None
    arguments: dict[str, str] = {}
    spans: dict[str, Span] = {}
    words = launch.script_words
    if any(word.shown == "--" for word in words[:-1]):
        return None  # it hands on the command behind it, and its --gpus and --num_nodes ask a service for them
    for index, word in enumerate(words):
        option, equals, value = word.shown.partition("=")
        if option.startswith("--"):
            name = option[2:].removeprefix("trainer.").removeprefix("trainer_")
        elif equals and option.lstrip("+~").startswith("trainer."):
            name = option.lstrip("+").removeprefix("trainer.")
        else:
            continue
        name = name.replace("-", "_")
        if name not in ARGUMENTS:
            continue
        end = word
        if not equals:
            following = words[index + 1] if index + 1 < len(words) else None
            if following is None or _is_option(following):
                if name not in FLAGS:
                    continue
                value = "True"
            else:
                value, end = following.shown, following
        arguments[name] = source(value)
        spans[name] = Span(word.span.start, end.span.end, word.span.line, word.span.exact and end.span.exact)
    if not arguments:
        return None
    first, last = min(spans.values(), key=lambda span: span.start), max(spans.values(), key=lambda span: span.end)
    return TrainerCall(arguments, spans, Span(first.start, last.end, first.line, False), "arguments")


def _is_option(word: Word) -> bool:
    return word.shown.startswith("-") and not re.fullmatch(r"-\d+", word.shown, re.ASCII)


def source(value: str) -> str:
    """A word as Python source: numbers, lists, True, False and None as they are, others quoted."""
    if re.fullmatch(r"[+-]?\d{1,18}(?:\.\d{1,18})?|True|False|None|\[[\d,\s]*\]", value, re.ASCII):
        return value
    if value in ("null", "true", "false"):  # Hydra's and YAML's words
        return {"null": "None", "true": "True", "false": "False"}[value]
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
