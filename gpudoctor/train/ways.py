"""The ways of training that `gpudoctor train-test` tries, and what old tutorials call them.

The programs are workers/train_*.py; this side must not import torch, and knows how each way is started.
"""

from typing import Literal, NamedTuple

from gpudoctor.errors import BadInput
from gpudoctor.knowledge.superseded import SupersededKind, superseded
from gpudoctor.knowledge.wording import listed

Precision = Literal["fp32", "bf16", "fp16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "fp16")


class Way(NamedTuple):
    """One way of training."""

    name: str
    title: str
    launched: Literal["torchrun", "one process"]
    """torchrun: its ranks are torchrun's. one process: it uses one, or starts its processes by itself."""
    needs_peers: bool = True
    """It shows something only with two ranks or more."""
    spans_nodes: bool = False
    package: str = ""
    """What has to be installed besides torch."""


WAYS: dict[str, Way] = {
    way.name: way
    for way in (
        Way("single", "one process, one device: what the others are compared with", "one process", needs_peers=False),
        Way("dp", "nn.DataParallel", "one process", needs_peers=False),
        Way("ddp", "DistributedDataParallel under torchrun", "torchrun", spans_nodes=True),
        Way("no_sync", "DDP with gradient accumulation in no_sync()", "torchrun", spans_nodes=True),
        Way("spawn", "DistributedDataParallel through mp.spawn", "one process"),
        Way("fsdp", "FSDP2 (fully_shard) under torchrun", "torchrun", spans_nodes=True),
        Way("split", "a model split over two devices", "one process", needs_peers=False),
        Way("lightning", "Lightning, strategy ddp", "torchrun", spans_nodes=True, package="lightning"),
        Way("lightning_spawn", "Lightning, strategy ddp_spawn", "one process", package="lightning"),
        Way("accelerate", "Hugging Face accelerate", "torchrun", spans_nodes=True, package="accelerate"),
        Way("xla", "a TPU through torch_xla", "one process", needs_peers=False, package="torch_xla"),
    )
}
DEFAULT: tuple[str, ...] = ("single", "dp", "ddp", "no_sync", "spawn", "fsdp", "split")
"""What needs torch alone: Lightning takes longer to import than all of these to train. `all` has the rest too."""

_ALIASES = {
    "data_parallel": "dp",
    "dataparallel": "dp",
    "distributed_data_parallel": "ddp",
    "distributeddataparallel": "ddp",
    "ddp_spawn": "spawn",
    "mp_spawn": "spawn",
    "fsdp2": "fsdp",
    "fully_shard": "fsdp",
    "model_parallel": "split",
    "pipeline": "split",
    "gradient_accumulation": "no_sync",
    "pytorch_lightning": "lightning",
    "pl": "lightning",
    "lightning_ddp": "lightning",
    "lightning_ddp_spawn": "lightning_spawn",
    "torch_xla": "xla",
    "tpu": "xla",
}
_ARGUMENTS = ("distributed_backend", "accelerator", "strategy")
"""Of Lightning's Trainer, as tutorials copy them along: "distributed_backend=dp"."""
_ELSEWHERE = {
    "deepspeed": "DeepSpeed starts its ranks by its own launcher, which is not tried here: fsdp shards alike, and "
    "gpudoctor launch --framework deepspeed writes its start",
    "zero": "ZeRO is DeepSpeed's; fsdp shards alike, and needs torch alone",
}


class AskedWays(NamedTuple):
    """What a list of names means."""

    ways: tuple[str, ...]
    answered: dict[str, str]
    """Names that nothing is run for, and why: what is gone, and what is written today."""


def parse_ways(text: str) -> AskedWays:
    """The ways that "ddp,fsdp", "all" or a tutorial's words name. Raises `ValueError` with one line for the user."""
    ways: list[str] = []
    answered: dict[str, str] = {}
    for word in text.split(","):
        if not word.strip():
            continue
        argument, equals, value = word.strip().rpartition("=")
        asked = value.strip().strip("\"'").lower().replace("-", "_")
        name = _ALIASES.get(asked, asked)
        if name == "all" and not equals:
            ways.extend(WAYS)
        elif equals and argument.strip() not in _ARGUMENTS:
            raise BadInput(f"{word.strip()[:60]!r} is no way of training; choose of {_choice()}, or all")
        elif equals and (why := _of_argument(argument.strip(), asked, name)):
            answered[word.strip()] = why
        elif name in WAYS:
            ways.append(name)
        elif why := _gone("strategy", asked) or _ELSEWHERE.get(asked, "") or _ELSEWHERE.get(asked.split("_")[0], ""):
            answered[asked] = why
        else:
            raise BadInput(f"{word.strip()[:60]!r} is no way of training; choose of {_choice()}, or all")
    if not ways and not answered:
        raise BadInput(f"no way of training is named; choose of {_choice()}, or all")
    return AskedWays(tuple(name for name in WAYS if name in ways), answered)


def parse_precisions(text: str) -> tuple[Precision, ...]:
    """The precisions that "fp32,bf16" names, in their order here. Raises `ValueError` with one line for the user."""
    same = {"32": "fp32", "float32": "fp32", "bfloat16": "bf16", "16": "fp16", "float16": "fp16", "half": "fp16"}
    words = [word.strip().lower().removesuffix("-mixed") for word in text.split(",") if word.strip()]
    asked = [same.get(word, word) for word in words]
    if asked == ["all"]:
        return PRECISIONS
    unknown = [word for word in asked if word not in PRECISIONS]
    if unknown or not asked:
        named = repr((unknown or [text])[0][:60])
        raise BadInput(f"{named} is no precision of this test; choose of {', '.join(PRECISIONS)}, or all")
    return tuple(precision for precision in PRECISIONS if precision in asked)


def _choice() -> str:
    return listed(WAYS, most=len(WAYS))


def _of_argument(argument: str, asked: str, name: str) -> str:
    """Why a Trainer's argument with this value is not written any more; "" where it is."""
    if argument == "strategy":
        return _gone("strategy", asked)
    if argument == "accelerator":
        return _gone("value", f'accelerator="{asked}"')
    why = _gone("argument", argument)
    where = f"; {name} is tried by --strategy {name}" if name in WAYS else ""
    return f"{why}{where}" if why else ""


def _gone(kind: SupersededKind, name: str) -> str:
    """ "removed in lightning 1.7; today: ..." of what the releases of today lack; else ""."""
    entry = superseded(kind, name)
    if entry is None:
        return ""
    remark = f" ({entry.remark.rstrip('.')})" if entry.remark else ""
    instead = "; --strategy lightning tries it" if entry.instead == "ddp" else ""
    return f"{entry.since}; today: {entry.whole}{instead}{remark}"
