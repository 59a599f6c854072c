"""FSDP2: torch's fully_shard, with its own mixed precision."""

import contextlib
from typing import Any, Dict, Tuple

from train_loop import Recipe, train
from train_precision import Precision, lacking
from train_way import Context, NotApplicable, Way


class Fsdp(Recipe, Way):
    """Each block is sharded by itself, and what is left with the whole model, as torch's tutorial does."""

    name = "fsdp"

    def lacking(self, context: Context) -> str:
        try:
            fully_shard(context.torch)
        except (ImportError, AttributeError):
            return f"FSDP2 needs torch 2.4 (fully_shard); {context.torch.__version__} is installed"
        return lacking(context.torch, context.precision, context.device)

    def run(self, context: Context) -> Dict[str, Any]:
        context.enter("reduce_scatter")
        why = context.team.first_text(backend_lacks(context))
        if why:
            raise NotApplicable(why)
        return train(context, self)

    def wrap(self, context: Context, model: Any) -> Any:
        shard, policy = fully_shard(context.torch)
        from torch.distributed.device_mesh import init_device_mesh

        options: Dict[str, Any] = {"mesh": init_device_mesh(context.device.type, (context.team.ranks,))}
        if context.precision != "fp32":
            dtype = Precision(context.torch, context.precision, context.device).dtype
            options["mp_policy"] = policy(param_dtype=dtype, reduce_dtype=context.torch.float32)
        for block in model.blocks:
            shard(block, **options)
        shard(model, **options)
        return model

    def autocast(self, context: Context, precision: Precision) -> Any:
        return contextlib.nullcontext()  # the policy casts parameters and inputs


def fully_shard(torch: Any) -> Tuple[Any, Any]:
    """(fully_shard, MixedPrecisionPolicy) from where this torch has them. Raises ImportError, AttributeError."""
    try:
        from torch.distributed import fsdp as home  # 2.6

        return home.fully_shard, home.MixedPrecisionPolicy
    except (ImportError, AttributeError):
        import importlib

        older = importlib.import_module("torch.distributed._composable.fsdp")  # 2.4, 2.5
        return older.fully_shard, older.MixedPrecisionPolicy


def backend_lacks(context: Context) -> str:
    """What the backend cannot do that FSDP2 needs; "" when it can all. Each rank must ask."""
    torch = context.torch
    ranks = context.team.ranks
    try:
        part = torch.ones(1, device=context.device)
        whole = torch.ones(ranks, device=context.device)
        torch.distributed.all_gather_into_tensor(whole, part)
        torch.distributed.reduce_scatter_tensor(part, whole)
    except (RuntimeError, NotImplementedError) as error:
        text = " ".join(str(error).split())
        if "not support" not in text and "not implemented" not in text:
            raise
        return f"the backend {context.launch['backend']} of torch {torch.__version__}: {text[:200]}"
    return ""
