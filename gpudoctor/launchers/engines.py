"""Servers of language models that start a rank for each GPU themselves: vLLM, SGLang and TensorRT-LLM.

vLLM (engine/arg_utils.py, config/parallel.py of 0.6 to 0.12): tensor times pipeline times data parallel ranks; on
several nodes over a Ray cluster, or since 0.11.1 by --nnodes, --node-rank, --master-addr and --master-port. SGLang
(server_args.py of 0.4 and 0.5): --dist-init-addr is HOST:PORT of node 0, the ranks are cut over --nnodes. trtllm-serve
(commands/serve.py of 1.0): under trtllm-llmapi-launch each task of srun or mpirun is one of its ranks.
"""

import re
from collections.abc import Iterator

from msgspec import structs

from gpudoctor.launcher.grammar import HOLDS_OPTIONS
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Invocation, LintLaunch, Option, Span, Word

_VLLM = {
    "tensor-parallel-size": "-tp", "pipeline-parallel-size": "-pp", "data-parallel-size": "-dp",
    "data-parallel-size-local": "-dpl", "nnodes": "-n", "node-rank": "-r", "master-addr": "", "master-port": "",
    "distributed-executor-backend": "", "data-parallel-address": "-dpa", "model": "", "port": "", "host": "",
}  # fmt: skip
_SGLANG = {
    "tensor-parallel-size": "--tp --tp-size", "pipeline-parallel-size": "--pp --pp-size",
    "data-parallel-size": "--dp --dp-size", "expert-parallel-size": "--ep --ep-size --moe-ep-size", "nnodes": "",
    "node-rank": "", "dist-init-addr": "--nccl-init-addr", "model": "--model-path", "port": "", "host": "",
}  # fmt: skip
_TRTLLM = {
    "tensor-parallel-size": "--tp-size", "pipeline-parallel-size": "--pp-size", "expert-parallel-size": "--ep-size",
    "gpus-per-node": "", "port": "", "host": "",
}  # fmt: skip
_FLAGS = {"headless", "enable-dp-attention"}
_WHOLE = lazy_re(r"[0-9]{1,4}", re.ASCII)


def read_engine(form: Form, invocation: Invocation, start: int) -> LintLaunch | None:
    """Options wherever they stand; what is none that counts is passed over."""
    table = {"vllm": _VLLM, "sglang": _SGLANG, "trtllm": _TRTLLM}[form.launcher]
    names = {spelling: name for name, more in table.items() for spelling in (f"--{name}", *more.split())}
    given = tuple(_options(invocation.words, start, names))
    options = {option.name: option for option in given}
    endpoint = options.get("dist-init-addr")
    if endpoint is not None and endpoint.value is not None:
        host, _, port = endpoint.value.shown.rpartition(":")
        options |= {
            name: Option(name, endpoint.written, _piece(endpoint.value, text), endpoint.span)
            for name, text in (("master-addr", host), ("master-port", port))
            if text
        }
    named = options.get("model")
    first = invocation.words[start] if start < len(invocation.words) else None
    positional = first if first is not None and not first.shown.startswith("-") else None
    return LintLaunch(
        launcher=form.launcher,
        invocation=invocation,
        entry=form.launcher,
        options=options,
        every_option=given,
        script=named.value if named is not None else positional,
        script_words=tuple(invocation.words[start:]),
        unread=tuple(_may_hold_options(invocation.words, start)),
    )


def _options(words: tuple[Word, ...], start: int, names: dict[str, str]) -> Iterator[Option]:
    for index, word in enumerate(words[start:], start):
        written, equals, rest = word.shown.partition("=")
        spelling = "--" + written[2:].replace("_", "-") if written.startswith("--") else written
        if spelling[2:] in _FLAGS and spelling.startswith("--"):
            yield Option(spelling[2:], written, None, word.span)
        if spelling not in names:
            continue
        following = words[index + 1] if index + 1 < len(words) else None
        value = _piece(word, rest) if equals else following
        if value is not None:
            yield Option(names[spelling], written, value, word.span)


def _may_hold_options(words: tuple[Word, ...], start: int) -> Iterator[Word]:
    """Variables of unknown value that stand where an option may: the value of one is none."""
    for before, word in zip(words[start - 1 :], words[start:], strict=False):
        bare = word.text is None and re.match(r"[\"']?\$", word.shown) is not None
        if bare and (HOLDS_OPTIONS.search(word.shown) or not before.shown.startswith("-") or "=" in before.shown):
            yield word


def _piece(word: Word, text: str) -> Word:
    """A part of a word: known where nothing in it is filled in."""
    known = text if word.text is not None or not re.search(r"[$`]", text) else None
    span = Span(word.span.start, word.span.end, word.span.line, False)
    kept = tuple(expansion for expansion in word.expansions if expansion.raw in text)
    return structs.replace(word, text=known, shown=text, span=span, expansions=kept)


def size(launch: LintLaunch, name: str) -> int | None:
    """A degree of parallelism: 1 unless it is told, None where it is told and not known."""
    option = launch.options.get(name)
    if option is None:
        return None if launch.unread else 1
    text = option.value.text if option.value is not None else None
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None


def ranks(launch: LintLaunch) -> int | None:
    """Of one engine on all its nodes."""
    parts = [size(launch, "tensor-parallel-size"), size(launch, "pipeline-parallel-size")]
    if launch.launcher != "trtllm" and not (launch.launcher == "sglang" and "enable-dp-attention" in launch.options):
        local = "data-parallel-size-local" in launch.options
        parts.append(size(launch, "data-parallel-size-local" if local else "data-parallel-size"))
    whole = 1
    for part in parts:
        if not part:
            return None
        whole *= part
    return whole


def over_ray(launch: LintLaunch) -> bool:
    """vLLM that is told to take the GPUs of a Ray cluster, wherever they are."""
    return launch.launcher == "vllm" and launch.text("distributed-executor-backend") == "ray"


def counts(launch: LintLaunch) -> tuple[int | None, int | None]:
    """Nodes, and ranks on each."""
    total, nodes = ranks(launch), size(launch, "nnodes")
    if total is None or nodes is None or launch.launcher == "trtllm" or over_ray(launch):
        return None, None
    return nodes, total // nodes if nodes and total % nodes == 0 else None


LAUNCHER = LauncherTraits(
    name="engines",
    forms=(
        Form(
            launcher="vllm",
            programs=("vllm serve",),
            modules=("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"),
            read=read_engine,
        ),
        Form(
            launcher="sglang",
            programs=("sglang serve",),
            modules=("sglang.launch_server", "sglang serve"),
            read=read_engine,
        ),
        Form(
            launcher="trtllm",
            programs=("trtllm-serve", "trtllm-serve serve", "trtllm-llmapi-launch trtllm-serve"),
            read=read_engine,
        ),
    ),
    a_node=True,
    serves=True,
    counts=counts,
    decisive=("nnodes", "node-rank", "master-addr", "master-port", "tensor-parallel-size"),
    package="vllm",
    other_packages=("sglang", "tensorrt-llm"),
    in_this_shell=False,
)
