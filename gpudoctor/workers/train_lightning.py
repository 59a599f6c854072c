"""Lightning as it is installed (lightning or pytorch_lightning, 1.5 and later): strategy ddp under torchrun.

Lightning drives the loop, inserts the DistributedSampler, wraps the model and computes in the precision that its own
words name; a callback follows it. No logger, no checkpoint, no file.
"""

import importlib
import inspect
import os
from typing import Any, Dict, Optional, Tuple

import train_precision
from train_packages import imported, installed, numbers
from train_samples import torch_order
from train_watch import Scale, Surroundings, Watch, WatchedRank
from train_way import Context, Way

DISTRIBUTIONS = ("lightning", "pytorch-lightning")
MODULES = ("lightning.pytorch", "pytorch_lightning")
OLDEST = (1, 5)  # the first Trainer with strategy= and devices=
# Every attempt to write somewhere fails, and names itself.
NOWHERE = "/dev/null/gpudoctor"
WORDS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
OLD_WORDS: Dict[str, Any] = {"fp32": 32, "bf16": "bf16", "fp16": 16}
# Of the loader, logger and progress bar; what a version does not know is left out.
QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
}


def precision_word(name: str, version: "Tuple[int, ...]") -> Any:
    """How this version's Trainer spells a precision."""
    return (WORDS if version >= (2, 0) else OLD_WORDS)[name]


def lacking(context: Context) -> str:
    """Why Lightning cannot train here in this precision; "" when it can."""
    name, version = installed(DISTRIBUTIONS)
    if not name:
        return "Lightning is not installed; pip install lightning"
    if numbers(version) < OLDEST:
        return f"{name} {version} is older than 1.5, whose Trainer was the first with strategy=; pip install -U {name}"
    if context.precision == "fp16" and context.device.type == "cpu":
        return "fp16 on a CPU: Lightning takes 16-mixed for CUDA only (2.x computes in bfloat16 instead and says so)"
    return train_precision.lacking(context.torch, context.precision, context.device)


class Lightning(Way):
    """Trainer(strategy="ddp") in processes that torchrun, or srun, has started."""

    name = "lightning"

    def lacking(self, context: Context) -> str:
        return lacking(context)

    def run(self, context: Context) -> Dict[str, Any]:
        lightning, why = imported(context, MODULES)
        if lightning is None:
            return {"outcome": "failed", "reason": why}
        scale = Scale(context.plan, context.precision, context.team.ranks)
        place = placement(context)
        with Surroundings(("SLURM_", "PL_TRAINER_") if place.own else ("PL_TRAINER_",)):
            return self.train(context, lightning, scale, place)

    def train(self, context: Context, lightning: Any, scale: Scale, place: "Placement") -> Dict[str, Any]:
        import train_lightning_model as ours
        import train_net

        torch = context.torch
        result: Dict[str, Any] = {}

        class Here(WatchedRank):
            def open(self, trainer: Any) -> Watch:
                return watch_of(context, scale, trainer)

            def close(self, watch: Watch) -> None:
                result.update(watch.finish())

        context.enter("model")
        follow = ours.Follow(Here())
        torch.manual_seed(int(context.plan["seed"]))
        model = ours.Model(follow)
        loader = torch.utils.data.DataLoader(train_net.Samples(scale.samples), batch_size=scale.batch, shuffle=True)
        context.enter("Trainer")
        trainer, why = None, ""
        try:
            plugins = [environment(lightning, context)] if place.own else []
            trainer = make_trainer(lightning, context, scale, follow, "ddp", place.devices, place.nodes, plugins)
        except Exception as error:  # whatever this version has against its arguments
            why = f"Trainer(): {type(error).__name__}: {' '.join(str(error).split())}"
        why = context.team.first_text(why)
        if why or trainer is None:
            return {"outcome": "failed", "reason": why}
        if place.own:
            context.note(place.why)
        trainer.fit(model, loader)
        return result


class Placement:
    """What the Trainer is told about where the ranks are."""

    def __init__(self, devices: Any, nodes: int, why: str = "") -> None:
        self.devices = devices
        self.nodes = nodes
        self.why = why
        """Why Lightning is told the ranks instead of finding them itself; "" when it finds them."""

    @property
    def own(self) -> bool:
        return bool(self.why)


def placement(context: Context) -> Placement:
    """torchrun's ranks as Lightning finds them, where it can; else each rank is told as a node of its own."""
    ranks = context.team.ranks
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "0") or 0)
    index = context.device.index if context.device.type == "cuda" else int(os.environ.get("LOCAL_RANK", "0"))
    why = ""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        why = "no torchrun"
    elif context.launch.get("ranks_share_gpu"):
        why = "ranks share a GPU"
    elif here < 1 or here * max(1, len(context.launch.get("nodes", ()))) != ranks:
        why = "not the same number of ranks on every node"
    elif index != int(os.environ.get("LOCAL_RANK", "0")):
        why = "each rank sees its own GPU only"
    why = context.team.first_text(why)
    if why:
        devices = [context.device.index] if context.device.type == "cuda" else 1
        return Placement(devices, ranks, f"Lightning was told its ranks, one a node, instead of finding them: {why}")
    return Placement(here, ranks // here)


def plain_environment(lightning: Any) -> Any:
    """Lightning's own ClusterEnvironment, in which it starts the processes."""
    return importlib.import_module(f"{lightning.__name__}.plugins.environments").LightningEnvironment()


def environment(lightning: Any, context: Context) -> Any:
    """A ClusterEnvironment in which each rank is a node."""

    class Told(type(plain_environment(lightning))):  # type: ignore[misc]
        creates_processes_externally = True

        def creates_children(self) -> bool:
            return False

        def local_rank(self) -> int:
            return 0

        def node_rank(self) -> int:
            return context.team.rank

        def global_rank(self) -> int:
            return context.team.rank

        def world_size(self) -> int:
            return context.team.ranks

    return Told()


def make_trainer(
    lightning: Any,
    context: Context,
    scale: Scale,
    follow: Any,
    strategy: str,
    devices: Any,
    nodes: int,
    plugins: "list[Any]",
) -> Any:
    """The Trainer as users write it for this version. Raises what the version raises."""
    version = numbers(str(lightning.__version__))
    wanted = {
        **QUIET,
        "accelerator": "gpu" if context.device.type == "cuda" else "cpu",
        "devices": devices,
        "num_nodes": nodes,
        "strategy": strategy,
        "precision": precision_word(context.precision, version),
        "max_epochs": scale.epochs,
        "max_steps": scale.steps,
        "callbacks": [follow],
        "default_root_dir": NOWHERE,
    }
    if plugins:
        wanted["plugins"] = plugins
    known = inspect.signature(lightning.Trainer.__init__).parameters
    trainer = lightning.Trainer(**{name: value for name, value in wanted.items() if name in known})
    context.note(
        f'{lightning.__name__} {lightning.__version__}: strategy="{strategy}", precision={wanted["precision"]!r}'
    )
    return trainer


def watch_of(context: Context, scale: Scale, trainer: Any) -> Watch:
    """For a trainer whose ranks have found each other."""
    plugin = getattr(trainer, "precision_plugin", None)
    if getattr(plugin, "scaler", None) is not None:
        # Lightning's own begins at 65536, with which the tiny model's gradients may overflow by themselves.
        plugin.scaler = train_precision.scaler(context.torch, context.device.type)  # type: ignore[union-attr]
    order = torch_order(context.torch, scale.samples, seed())

    def scaler() -> Optional[Any]:
        return getattr(plugin, "scaler", None)

    return Watch(context, scale, order if context.team.ranks > 1 else None, scaler)


def seed() -> int:
    """From which Lightning's DistributedSampler shuffles: PL_GLOBAL_SEED, which seed_everything sets; else 0."""
    try:
        return int(os.environ.get("PL_GLOBAL_SEED", "0"))
    except ValueError:
        return 0
