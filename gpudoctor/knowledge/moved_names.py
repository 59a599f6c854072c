"""Names that programs of 2018 to 2023 import, and where their work is done today.

torch: read from the wheels of 1.6 to 2.14 (torch.cuda.amp is deprecated since 2.4.0 and not yet in 2.3.0; each name
under `today` is imported by a test). Lightning: from those of pytorch-lightning 1.5.10 to 2.0.1. Apex: NVIDIA/apex,
README and issue 818; fairscale's last release is 0.4.13 of December 2022.
"""

from msgspec import Struct

from gpudoctor.knowledge.superseded import NEVER, Version


class MovedName(Struct, frozen=True, kw_only=True):
    name: str
    """The whole name; whatever stands below it is meant too."""
    package: str
    """The distribution whose version decides."""
    today: str
    """What to write, as a phrase behind "Write "."""
    first: Version = NEVER
    """The release of the package that has what is written today; with an older one nothing is said."""
    gone: Version = NEVER
    """The first release of the package without the old name."""
    deprecated: Version = NEVER
    needs: tuple[str, ...] = ()
    """The names of torch that `today` uses."""


_AMP = (
    'with torch.autocast("cuda", dtype=torch.float16): around forward and loss, and with a scaler ='
    ' torch.amp.GradScaler("cuda") scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update()'
)
_AMP_NEEDS = ("torch.autocast", "torch.amp.GradScaler")
_DDP = "torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])"
_FSDP = "torch.distributed.fsdp.fully_shard(model), or FullyShardedDataParallel(model) of the same module"
_FSDP_NEEDS = ("torch.distributed.fsdp.fully_shard", "torch.distributed.fsdp.FullyShardedDataParallel")
_SYNC = "torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)"
_STRATEGIES = {
    "DDP": "DDPStrategy", "DDP2": "DDPStrategy", "DDPSpawn": 'DDPStrategy(start_method="spawn")',
    "DDPSharded": "FSDPStrategy", "DDPSpawnSharded": "FSDPStrategy", "DDPFullySharded": "FSDPStrategy",
    "DataParallel": "DDPStrategy", "DeepSpeed": "DeepSpeedStrategy", "Horovod": "DDPStrategy",
    "SingleDevice": "SingleDeviceStrategy", "TPUSpawn": "XLAStrategy", "SingleTPU": "SingleDeviceXLAStrategy",
}  # fmt: skip
"""Of Lightning 2; before 2.0 each is called as its plugin, with Strategy in place of Plugin."""

EVERY: tuple[MovedName, ...] = (
    MovedName(name="apex.amp", package="apex", today=_AMP, needs=_AMP_NEEDS),
    MovedName(name="apex.fp16_utils", package="apex", today=_AMP, needs=_AMP_NEEDS),
    MovedName(
        name="apex.parallel.DistributedDataParallel", package="apex", today=_DDP,
        needs=("torch.nn.parallel.DistributedDataParallel",),
    ),
    *(
        MovedName(name=f"apex.parallel.{name}", package="apex", today=_SYNC,
                  needs=("torch.nn.SyncBatchNorm.convert_sync_batchnorm",))
        for name in ("convert_syncbn_model", "SyncBatchNorm")
    ),
    MovedName(
        name="apex.optimizers.FusedAdam", package="apex", today="torch.optim.AdamW(model.parameters(), fused=True)",
        needs=("torch.optim.AdamW",),
    ),
    MovedName(
        name="apex.optimizers.FusedSGD", package="apex",
        today="torch.optim.SGD(model.parameters(), lr=LR, fused=True)", needs=("torch.optim.SGD",),
    ),
    MovedName(
        name="apex.normalization.FusedLayerNorm", package="apex", today="torch.nn.LayerNorm",
        needs=("torch.nn.LayerNorm",),
    ),
    MovedName(
        name="apex.normalization.FusedRMSNorm", package="apex", today="torch.nn.RMSNorm", needs=("torch.nn.RMSNorm",)
    ),
    *(
        MovedName(name=f"fairscale.nn.{place}{name}", package="fairscale", today=_FSDP, needs=_FSDP_NEEDS)
        for place in ("", "data_parallel.")
        for name in ("ShardedDataParallel", "FullyShardedDataParallel")
    ),
    *(
        MovedName(
            name=name, package="fairscale",
            today="torch.distributed.optim.ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD,"
            " lr=LR), or FSDP, which shards gradients and weights too",
            needs=("torch.distributed.optim.ZeroRedundancyOptimizer",),
        )
        for name in ("fairscale.optim.OSS", "fairscale.optim.oss")
    ),
    MovedName(
        name="fairscale.optim.grad_scaler", package="fairscale",
        today='torch.amp.GradScaler("cuda"), which knows the sharded gradients of fully_shard',
        needs=("torch.amp.GradScaler",),
    ),
    MovedName(
        name="fairscale.nn.Pipe", package="fairscale",
        today="the stages and schedules of torch.distributed.pipelining (torch 2.4)",
        needs=("torch.distributed.pipelining",),
    ),
    MovedName(
        name="fairscale.nn.checkpoint", package="fairscale",
        today="torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
        needs=("torch.utils.checkpoint.checkpoint",),
    ),
    MovedName(
        name="torch.cuda.amp.autocast", package="torch", first=(1, 10), deprecated=(2, 4),
        today='torch.autocast("cuda", dtype=torch.float16)', needs=("torch.autocast",),
    ),
    MovedName(
        name="torch.cuda.amp.GradScaler", package="torch", first=(2, 3), deprecated=(2, 4),
        today='torch.amp.GradScaler("cuda")', needs=("torch.amp.GradScaler",),
    ),
    *(
        MovedName(
            name=f"torch.cuda.amp.{name}", package="torch", first=(2, 4), deprecated=(2, 4),
            today=f'torch.amp.{name}(device_type="cuda")', needs=(f"torch.amp.{name}",),
        )
        for name in ("custom_fwd", "custom_bwd")
    ),
    *(
        MovedName(
            name=f"pytorch_lightning.plugins.{name}Plugin", package="lightning", first=(1, 6), gone=(1, 8),
            today=f"Trainer(strategy=...) with {today} of pytorch_lightning.strategies in place of plugins=",
        )
        for name, today in _STRATEGIES.items()
    ),
    MovedName(
        name="pytorch_lightning.lite", package="lightning", gone=(2, 0),
        today='fabric = lightning.fabric.Fabric(accelerator="gpu", devices=2, strategy="ddp"), fabric.launch() and'
        " fabric.setup(model, optimizer)",
    ),
)  # fmt: skip
_BY_NAME = {each.name: each for each in EVERY}
WHY = {
    "apex": "apex of the package index is another project. NVIDIA's is built from its sources, its amp is no longer"
    " maintained, and torch has all of this itself.",
    "fairscale": "fairscale has had no release since 2022; its work went on in torch.",
}


def moved(name: str) -> MovedName | None:
    """The entry of a whole name, or of what it stands below."""
    while name:
        if (known := _BY_NAME.get(name)) is not None:
            return known
        name = name.rpartition(".")[0]
    return None
