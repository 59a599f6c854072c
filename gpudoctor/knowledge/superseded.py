"""What tutorials of the field teach that is gone: since when, and what takes its place.

Tried with Lightning 1.5.10, 1.7.4, 1.9.5 and 2.6.6; the rest is read from the sources of the releases. Arguments of
Trainer: knowledge/trainer_arguments.py.
"""

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gpudoctor.knowledge.trainer_arguments import RELEASES, REMARKS, TODAY, WARNED
from gpudoctor.lazy import lazy_re

SupersededKind = Literal["strategy", "argument", "value", "launcher"]
"""strategy: a value of `strategy=`. argument: one of `Trainer(...)`. value: an argument with this value."""
Version = tuple[int, ...]
NEVER: Version = ()


class Superseded(Struct, frozen=True, kw_only=True):
    """Something that was there once, or never, and what is written today."""

    name: str
    """As tutorials write it: "ddp_sharded", "gpus", "precision=16", "torch.distributed.launch"."""
    kind: SupersededKind
    package: str
    """The distribution whose version decides: "lightning", "torch", "torch_xla"."""
    first: Version = NEVER
    """The release that brought it; () where that does not matter."""
    gone: Version = NEVER
    """The first release without it, () for what never was in one; (0,) where every release of today lacks it."""
    deprecated: Version = NEVER
    """The first release that warns; () for none."""
    today: str
    """What to write instead, as code or a noun phrase."""
    instead: str = ""
    """Where `today` is one value for `gpudoctor launch --strategy`: that value."""
    remark: str = ""
    """A sentence more."""
    then: str = ""
    """What releases that are older than its end called it: a strategy's name. Empty where it was called so."""

    @property
    def whole(self) -> str:
        """`today` as it can be written where the old value is not known: what ends with = has one of its kind."""
        return (
            f"{self.today}{VALUES.get(self.today.rpartition(' ')[2], 'N')}" if self.today.endswith("=") else self.today
        )

    @property
    def since(self) -> str:
        """ "removed in lightning 2.0", "never a strategy of lightning"."""
        if self.gone == NEVER:
            return (
                f"never part of {self.package}"
                if not self.deprecated
                else f"deprecated in {self.package} " + dotted(self.deprecated)
            )
        if self.gone == (0,):
            return f"in no supported release of {self.package}"
        return f"removed in {self.package} {dotted(self.gone)}"

    def is_gone(self, version: Version | None) -> bool:
        """Whether that version lacks it; with an unknown version, whether today's does."""
        if self.gone == NEVER:
            return not self.deprecated
        if version is None:
            return True
        return version >= self.gone or (self.first != NEVER and version < self.first)


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


def parsed(version: str) -> Version | None:
    """(2, 4, 1) of "2.4.1+cu121"; None of what is no version."""
    match = re.match(r"\d{1,9}(?:\.\d{1,9})*", version, re.ASCII)
    return tuple(int(number) for number in match[0].split(".")) if match else None


VALUES = {
    "strategy=": '"ddp"',
    "use_distributed_sampler=": "False",
    "enable_model_summary=": "False",
    "enable_progress_bar=": "False",
    "default_root_dir=": '"runs"',
    "gradient_clip_val=": "1.0",
    "plugins=": "[...]",
}
"""A value of the kind that an argument takes; of all others a number."""

OLDEST_READ: Version = (0, 5)

FSDP = 'strategy="fsdp", or "deepspeed_stage_2" where DeepSpeed is installed'
SHARDED = "It was fairscale's sharded DDP; fairscale itself has had no release since 2022."

_LIGHTNING = {
    "strategy": (
        Superseded(
            name="fairscale", kind="strategy", package="lightning", today=FSDP, instead="fsdp", remark=SHARDED,
            then="ddp_sharded",
        ),
        Superseded(
            name="ddp_sharded", kind="strategy", package="lightning", gone=(2, 0), deprecated=(1, 9),
            today=FSDP, instead="fsdp", remark=SHARDED,
        ),
        Superseded(
            name="ddp_sharded_spawn", kind="strategy", package="lightning", gone=(2, 0), deprecated=(1, 9),
            today=FSDP, instead="fsdp", remark=SHARDED,
        ),
        Superseded(
            name="ddp_fully_sharded", kind="strategy", package="lightning", gone=(2, 0), deprecated=(1, 9),
            today='strategy="fsdp"', instead="fsdp",
            remark="It was fairscale's fully sharded DDP, which became PyTorch's own FSDP.",
        ),
        Superseded(
            name="fsdp_native", kind="strategy", package="lightning", first=(1, 7), gone=(2, 0),
            today='strategy="fsdp"', instead="fsdp", remark="The same under its present name.",
        ),
        Superseded(
            name="dp", kind="strategy", package="lightning", gone=(2, 0), today='strategy="ddp"', instead="ddp",
            remark="DataParallel stays on one node and is slower there than DDP.",
        ),
        Superseded(
            name="ddp2", kind="strategy", package="lightning", gone=(1, 7), today='strategy="ddp"', instead="ddp",
        ),
        Superseded(
            name="horovod", kind="strategy", package="lightning", gone=(2, 0), deprecated=(1, 9),
            today='strategy="ddp"', instead="ddp",
            remark="With a release before 2.0 it is started by horovodrun: gpudoctor launch --framework horovod.",
        ),
        Superseded(
            name="bagua", kind="strategy", package="lightning", first=(1, 6), gone=(2, 0), deprecated=(1, 9),
            today='strategy="ddp"', instead="ddp", remark="Bagua itself has had no release since 2022.",
        ),
        Superseded(
            name="collaborative", kind="strategy", package="lightning",
            today="the package lightning-hivemind",
        ),
        Superseded(
            name="apex", kind="strategy", package="lightning",
            today='precision="16-mixed" or "bf16-mixed" beside strategy="ddp"', instead="ddp",
            remark="Apex's amp was a way of mixed precision, and PyTorch has its own.",
        ),
    ),
    "argument": tuple(
        Superseded(
            name=name, kind="argument", package="lightning", first=RELEASES[name][0], gone=RELEASES[name][1],
            deprecated=WARNED.get(name, NEVER), today=today, remark=REMARKS.get(name, ""),
        )
        for name, today in TODAY.items()
    ),
    "value": tuple(
        Superseded(
            name=f'accelerator="{name}"', kind="value", package="lightning", gone=(1, 7), deprecated=(1, 5),
            today=f'accelerator="gpu", strategy="{name}"' if name.startswith("ddp") else 'accelerator="gpu", strategy=',
        )
        for name in ("ddp", "ddp_spawn", "ddp_cpu", "ddp2", "dp", "horovod")
    ),
}  # fmt: skip

_LAUNCHERS = (
    Superseded(
        name="torch.distributed.launch", kind="launcher", package="torch", deprecated=(1, 10), today="torchrun",
        remark="It still runs; torchrun hands LOCAL_RANK over as a variable and not as an argument.",
    ),
    Superseded(
        name="torch_xla.distributed.xla_dist", kind="launcher", package="torch_xla", gone=(2, 1),
        today='gcloud compute tpus tpu-vm ssh NAME --worker=all --command="PJRT_DEVICE=TPU python3 train.py"',
        remark="It started XRT, which PJRT replaced in 2023: each worker of a TPU finds the others by itself.",
    ),
    Superseded(
        name="XRT_TPU_CONFIG", kind="launcher", package="torch_xla", gone=(2, 1), today="PJRT_DEVICE=TPU",
        remark="XRT was removed in 2023.",
    ),
)  # fmt: skip

EVERY: tuple[Superseded, ...] = (*(entry for group in _LIGHTNING.values() for entry in group), *_LAUNCHERS)
_BY_NAME = {(entry.kind, entry.name): entry for entry in EVERY}


def superseded(kind: SupersededKind, name: str) -> Superseded | None:
    """The entry of that name, whether or not the installed version still has it; ask `is_gone`."""
    return _BY_NAME.get((kind, name))


def arrived(argument: str) -> Version | None:
    """The release that brought an argument which Trainer still has; None for what is gone or was never one, and where
    the oldest release that was read has it."""
    first, gone = RELEASES.get(argument, (NEVER, NEVER))
    return first if first > OLDEST_READ and not gone else None


def formerly(argument: str, version: Version) -> str:
    """What that older release calls it: "gpus"; empty where it has nothing of the kind."""
    old = (entry for entry in _LIGHTNING["argument"] if entry.today.endswith(f"{argument}="))
    return next((entry.name for entry in old if entry.first <= version < entry.gone), "")


REFUSALS: tuple[tuple[Version, str], ...] = (
    ((1, 9, 2), "ValueError: You selected an invalid strategy name: `strategy={!r}`"),
    ((1, 6), "KeyError: {!r} not found in registry"),
    ((1, 5), "ValueError: {!r} is not a valid DistributedType"),
)
"""How Lightning refuses a strategy that it does not know, by the first release that has these words: from the sources
of 1.5 (accelerator_connector.py, enums.py), of 1.6 to 1.9.1 (the strategies' registry) and since."""


def refusal(name: str, version: Version | None) -> str:
    """The error of that release, of today's where it is not known; empty before `strategy=` was there."""
    return next((words.format(name) for first, words in REFUSALS if version is None or version >= first), "")


OF_TRAINER = lazy_re(r"(?:^|[/\\])(?:pytorch_)?lightning[/\\](?:\w+[/\\]){0,3}(?:argparse|env_vars_connector)\.py$")
"""Where every call of Trainer passes, since 1.6 and from 1.0 to 1.5: its arguments may stand in the environment."""
CALLS_TRAINER = lazy_re(r"(?:^|[^\w.])(?:(?:pl|L|lightning|pytorch_lightning)(?:\.pytorch)?\.)?Trainer\(")
UNEXPECTED = lazy_re(r"(?P<trainer>\bTrainer\.)?__init__\(\) got an unexpected keyword argument '(?P<name>\w{1,60})'")


def refused(message: str, raised_in: str = "", code: str = "") -> Superseded | None:
    """What Lightning's own error says that it does not know: an argument of Trainer, or a strategy, in the words of any
    release since 1.5. `raised_in` and `code`: file and source of the innermost frame; Python before 3.10 does not name
    the class."""
    if match := UNEXPECTED.search(message):
        ours = match["trainer"] or OF_TRAINER.search(raised_in) or CALLS_TRAINER.search(code)
        return superseded("argument", match["name"]) if ours else None
    if match := re.search(r"'(\w{1,60})' (?:is not a valid DistributedType|not found in registry)", message):
        return superseded("strategy", match[1])
    if match := re.search(r"invalid (strategy|accelerator) name: `(?:strategy|accelerator)='(\w{1,60})'`", message):
        return superseded("strategy", match[2]) or superseded("value", f'{match[1]}="{match[2]}"')
    return None


def too_new(message: str, raised_in: str) -> str:
    """An argument that Lightning's Trainer has since a later release than the one that raised this; empty for none."""
    match = UNEXPECTED.search(message)
    return match["name"] if match and OF_TRAINER.search(raised_in) and arrived(match["name"]) else ""


def lightning_version(versions: Mapping[str, str]) -> Version | None:
    """The installed Lightning's, under either name of its distribution."""
    return parsed(
        versions.get("lightning") or versions.get("pytorch-lightning") or versions.get("pytorch_lightning") or ""
    )
