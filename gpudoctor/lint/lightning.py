"""Lightning as a text shows it: whether a start is Lightning's, its version, and what its Trainer asks for.

A script's own arguments (`--devices 4`) come before the Trainer call of a file that stands in the text, which often
passes them on.
"""

import ast
import re
from typing import Literal

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, LintLaunch, Span, TrainerCall
from gpudoctor.lint.python_code import PythonCode, codes, codes_and_starts
from gpudoctor.lint.trainers import of_arguments

OWN = frozenset({"accelerator", "strategy", "num_nodes", "devices", "gpus", "distributed_backend", "precision"})
"""Arguments of Lightning's Trainer and Fabric that Hugging Face's Trainer does not have."""
OLD = frozenset({"use_amp", "amp_level", "amp_backend", "auto_select_gpus", "tpu_cores", "nb_gpu_nodes",
                 "replace_sampler_ddp", "use_distributed_sampler"})  # fmt: skip
"""More of them, of one release or another."""
ITS_OWN = lazy_re(r"lightning|\bpl\b|nemo")
"""Modules that bring its Trainer along."""
CLASSES = ("Trainer", "Fabric", "LightningLite")
SPAWNS = lazy_re(r"spawn|fork|notebook")
"""Strategies that start their processes by multiprocessing, whatever LOCAL_RANK says."""


class Argument(Struct, frozen=True):
    """An argument of the Trainer. `source` is Python."""

    name: str
    source: str
    span: Span
    written: str
    """As a message names it: "--devices 4", "devices=4"."""

    @property
    def value(self) -> object:
        """The constant; None when it is an expression (or None)."""
        try:
            return ast.literal_eval(self.source)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None


def calls(job: LintJob) -> tuple[TrainerCall, ...]:
    """The Trainer and Fabric calls of the text that are Lightning's."""
    candidates = [call for call in job.trainers if call.name in CLASSES and (OWN | OLD) & call.arguments.keys()]
    others = _of_others(job) if candidates else frozenset()
    return tuple(call for call in candidates if call.span.start not in others)


def _of_others(job: LintJob) -> frozenset[int]:
    """Where calls of a Trainer stand that the text itself defines, or that another package brings."""
    return frozenset(
        code.span(call).start for code in codes(job) for call in code.calls if is_of_another(code, call.func)
    )


def is_of_another(code: PythonCode, function: ast.expr) -> bool:
    """Whether a Trainer that is called is certainly not Lightning's."""
    if isinstance(function, ast.Name) and function.id in code.own:
        bases = (
            base
            for node in code.nodes
            if isinstance(node, ast.ClassDef) and node.name == function.id
            for base in node.bases
        )
        return not any(ITS_OWN.search(code.name(base) or ast.unparse(base)) for base in bases)
    name = code.name(function)
    return bool(name) and not ITS_OWN.search(name)


def is_lightning(job: LintJob, launch: LintLaunch) -> bool:
    """Whether this start is Lightning's, by a call, by the script's arguments or by what the user said."""
    if calls(job) or "lightning" in job.facts.given or launch.launcher == "fabric":
        return True
    call = of_arguments(launch)
    return call is not None and ("strategy" in call.arguments or len(OWN & call.arguments.keys()) > 1)


def version(job: LintJob) -> tuple[int, ...] | None:
    return job.facts.version("lightning")


def before(job: LintJob, *limit: int) -> bool:
    """The version is known, and older."""
    installed = version(job)
    return installed is not None and installed < limit


def since(job: LintJob, *limit: int) -> bool:
    """The version is known, and not older."""
    installed = version(job)
    return installed is not None and installed >= limit


def named(job: LintJob) -> str:
    """ "Lightning 1.9.5", or "Lightning"."""
    text = job.facts.versions.get("lightning", "")
    return f"Lightning {text}" if text else "Lightning"


def argument(job: LintJob, launch: LintLaunch, *names: str) -> Argument | None:
    """An argument of the script or of the only Trainer call, under any of these names."""
    call = of_arguments(launch)
    if call is not None:
        for name in names:
            if name in call.arguments:
                span = call.spans[name]
                return Argument(name, call.arguments[name], span, job.text[span.start : span.end])
    known = calls(job)
    if len(known) != 1:
        return None
    for name in names:
        if name in known[0].arguments:
            source = known[0].arguments[name]
            told = Argument(name, source, known[0].spans[name], f"{name}={source}")
            if told.value is None and source != "None" and (value := _decided(job, launch, told)) is not None:
                return Argument(name, value, told.span, told.written)
            return told
    return None


def _decided(job: LintJob, launch: LintLaunch, argument: Argument) -> str | None:
    """The value of an expression, as Python: of a name, an option of the start, a variable that its starter sets."""
    from gpudoctor.lint.python_values import PythonValues  # a call without names need not wait for it
    from gpudoctor.lint.rank_environment import of_starter

    for code, starts in codes_and_starts(job):
        for call in code.calls:
            for keyword in call.keywords:
                if keyword.arg != argument.name:
                    continue
                span = code.span(keyword)
                if not span.start <= argument.span.start <= argument.span.end <= span.end:
                    continue
                environment = of_starter(job, launch) if launch in starts else {}
                value = PythonValues(code, launch if launch in starts else None, environment).value(keyword.value)
                return repr(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    return None


def devices(job: LintJob, launch: LintLaunch) -> int | Literal["auto"] | None:
    """Processes a node that the Trainer asks for; "auto": all GPUs it sees; None: not known."""
    given = argument(job, launch, "devices", "gpus", "num_gpus", "num_processes")
    if given is None:
        return None
    value = given.value
    if isinstance(value, list | tuple):
        return len(value)
    text = str(value).strip() if value is not None and not isinstance(value, bool) else ""
    if text in ("-1", "auto"):
        return "auto"
    if "," in text:
        parts = [part for part in text.split(",") if part.strip()]
        return len(parts) if all(re.fullmatch(r"\s*\d+\s*", part) for part in parts) else None
    return int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) and int(text) > 0 else None


def num_nodes(job: LintJob, launch: LintLaunch) -> tuple[int, Argument] | None:
    """The nodes that the Trainer is told, where it is."""
    given = argument(job, launch, "num_nodes", "nodes")
    if given is None:
        return None
    value = given.value
    return (value, given) if isinstance(value, int) and not isinstance(value, bool) else None


def strategy(job: LintJob, launch: LintLaunch) -> str | None:
    """The strategy's name where one is told ("ddp"); accelerator= and distributed_backend= held it once."""
    for name in ("strategy", "distributed_backend", "accelerator"):
        given = argument(job, launch, name)
        if given is None or not isinstance(given.value, str):
            continue
        if name == "accelerator" and given.value in ("gpu", "cpu", "tpu", "auto", "cuda", "mps", "hpu", "ipu"):
            continue
        return given.value
    return None
