"""Reports of an environment that other programs than torch's write: which torch, for which CUDA, beside which GPUs.

Sources: detectron2/utils/collect_env.py and mmengine/utils/dl_utils/collect_env.py; transformers, accelerate and
diffusers (`... env`); xformers/info.py; deepspeed/env_report.py; lightning's collect_env_details.py; `pip list` and
`conda list`. They name the same facts in their own words: a table makes collect_env's of these.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gpudoctor.command import is_a
from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted import collect_env
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.snapshot import Reading

REPORTS = (
    ("the report of detectron2 or mmengine", r"sys\.platform(?: *:| {2,})"),
    ("transformers env", r"- `transformers` version: "),
    ("accelerate env", r"- `[Aa]ccelerate` version: "),
    ("diffusers-cli env", r"- \W{0,3}[Dd]iffusers`? version: "),
    ("xformers.info", r"xFormers \d|WARNING\[XFORMERS\]: "),
    ("ds_report", r"DeepSpeed general environment info:"),
    ("pip list", r"Package +Version(?: +\S.*)?$"),
    ("conda list", r"# packages in environment at "),
    ("Lightning's report", r"\* (?:CUDA|Lightning):$"),
)
HEADING = lazy_re("|".join(f"(?:{pattern})" for _, pattern in REPORTS))
GOES_ON = lazy_re(r"#(?:$| Name )")
"""conda's own heading; elsewhere a shell of root waits so."""
FACT = lazy_re(r"[-*\s]{0,8}`?(?P<name>[A-Za-z][\w .()?/]{0,45}?)`?(?: ?\.{3,40} | *: | {2,})\s*(?P<value>\S.{0,200})$")
NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "pytorch",
            "pytorch version (gpu?)",
            "pytorch version (accelerator?)",
            "pytorch.version",
            "torch version",
            "torch",
        ),
        "PyTorch version",
    ),
    **dict.fromkeys(("gpu available", "cuda available", "pytorch.cuda", "available"), "Is CUDA available"),
    **dict.fromkeys(("torch cuda version",), "CUDA used to build PyTorch"),
    **dict.fromkeys(("torch hip version",), "ROCM used to build PyTorch"),
    **dict.fromkeys(("driver version",), "Nvidia driver version"),
    **dict.fromkeys(("python", "python version"), "Python version"),
}
"""Their names, in small letters -> collect_env's."""
PACKAGES = {"pytorch": "torch", **{name: name for name in ("torch", "torchvision", "torchaudio", "xformers")}}
GPUS = lazy_re(r"GPU (?P<numbers>\d{1,3}(?:,\d{1,3}){0,63}) *:? +(?P<name>[A-Za-z].{1,78}?)(?: \(arch=.{1,10}\))?$", 0)
GPU_NAME = lazy_re(r"(?:- )?(?:gpu\.name|GPU type|Accelerator): +(?P<name>NVIDIA .{1,70}?)(?:, \d{1,7} MiB.*)?$")
LOCAL = lazy_re(
    r"\+(?:cu(?P<cuda>\d{2,3})\b|cpu\b|rocm(?P<hip>\d{1,2}\.\d{1,2}))|py3\.\d{1,2}_(?:cuda(?P<dotted>\d{1,2}\.\d{1,2})|cpu)"
)
"""A version's local part; conda's build."""
IN_BRACKETS = lazy_re(r"\((?P<word>\w{2,12})\)")
WORDS = {"true": "True", "yes": "True", "available": "True", "cuda": "True", "false": "False", "no": "False"}
WORDS["not available"] = "False"
NO_CUDA = "torch sees no CUDA there: no GPU, no driver, or a container without them"
BUILT_WITHOUT = "torch {} is built for the CPU, and sees no GPU whatever is there"
OTHER_TORCH = lazy_re(r"PyTorch (?P<for>\d\S{2,30}) with CUDA \d{3,5} \(you have (?P<torch>\d\S{2,30})\)")
"""xFormers, of its extensions."""


class EnvironmentFacts(NamedTuple):
    facts: dict[str, str]
    packages: dict[str, str]


def parse(block: Pasted) -> ToolOutput:
    source = next(name for name, pattern in REPORTS if any(map(re.compile(pattern).match, block.lines)))
    said = _said(block.lines)
    gpus = tuple(collect_env.gpus_of(_gpu_lines(block.lines), source))
    other = next(filter(None, map(OTHER_TORCH.match, block.lines)), None)
    lacks = [f"xFormers is built for torch {other['for']} and finds {other['torch']}"] if other else []
    training = collect_env.training(said.facts, gpus, said.packages, is_cut=True, source=source)
    if not gpus:
        lacks += _without_cuda(said, training)
    return ToolOutput(
        source,
        gpus or None,
        collect_env.driver_of(said.facts.get("Nvidia driver version", ""), source),
        training=training,
        lacks=tuple(lacks),
        tells="what is installed",
    )


def _without_cuda(said: EnvironmentFacts, training: Mapping[str, Reading[Any]]) -> list[str]:
    """Why torch sees no GPU, as far as the report tells."""
    files = training.get("torch_files")
    if files is not None and files.is_read and not any((files.value.cuda, files.value.hip, files.value.xpu)):
        return [BUILT_WITHOUT.format(files.value.version)]
    return [NO_CUDA] if said.facts.get("Is CUDA available") == "False" else []


def _said(lines: Iterable[str]) -> EnvironmentFacts:
    facts, packages = dict[str, str](), dict[str, str]()
    for line in lines:
        if (match := FACT.match(line)) is None or "(you have " in line:
            continue
        name, (value, _, behind) = match["name"].casefold().strip(), match["value"].partition(" ")
        if name in PACKAGES and is_a("version", value):
            packages.setdefault(PACKAGES[name], value)
        ours = NAMES.get(name)
        if ours == "PyTorch version":
            facts.setdefault(ours, value)
            for told, word in _built_for(f"{value} {behind}"):
                facts.setdefault(told, word)
        elif ours == "Is CUDA available":
            facts.setdefault(ours, WORDS.get(match["value"].casefold(), ""))
        elif ours is not None:
            facts.setdefault(ours, value)
    return EnvironmentFacts(facts, packages)


def _built_for(said: str) -> Iterator[tuple[str, str]]:
    """What a version and what stands behind it say of the build; one from PyPI says nothing."""
    if (word := IN_BRACKETS.search(said)) is not None and word["word"].casefold() in WORDS:
        yield "Is CUDA available", WORDS[word["word"].casefold()]
    if (local := LOCAL.search(said)) is None:
        return
    cuda = local["cuda"]
    yield "CUDA used to build PyTorch", local["dotted"] or (f"{cuda[:-1]}.{cuda[-1]}" if cuda else "None")
    if local["hip"]:
        yield "ROCM used to build PyTorch", local["hip"]


def _gpu_lines(lines: Iterable[str]) -> Iterator[str]:
    """As collect_env has them."""
    listed = -1
    for line in lines:
        if (several := GPUS.match(line)) is not None:
            for number in several["numbers"].split(","):
                yield f"GPU {number}: {several['name']}"
        elif (one := GPU_NAME.match(line)) is not None:
            yield f"GPU 0: {one['name']}"
        elif line == "- GPU:":
            listed = 0
        elif listed >= 0 and line.startswith("- ") and ":" not in line:
            yield f"GPU {listed}: {line[2:]}"
            listed += 1
        else:
            listed = -1
