"""What `gpudoctor launch --strategy NAME` answers when tutorials teach a strategy that is gone or never was."""

from collections.abc import Mapping

from gpudoctor.knowledge.superseded import Version, dotted, lightning_version, refusal, superseded
from gpudoctor.knowledge.tensorflow import of_tensorflow

ELSEWHERE = {
    "fairscale": "fairscale has had no release since 2022; its sharding is PyTorch's own FSDP: --strategy fsdp",
    "ddp_sharded": "sharded DDP was fairscale's; today it is PyTorch's own FSDP: --strategy fsdp",
    "bagua": "Bagua has had no release since 2022: --strategy ddp",
    "apex": "Apex's amp and DDP became PyTorch's own: --strategy ddp --precision fp16",
    "dp": "DataParallel cannot leave its node and is slower there than DDP: --strategy ddp",
    "ddp2": "DDP2 left Lightning in 1.7: --strategy ddp",
}
"""For frameworks other than Lightning, whose own releases do not decide."""


REQUIRES = (((1, 6), "DDPShardedStrategy"), ((1, 5), "DDPShardedPlugin"))
"""What says that fairscale must be installed: in plugins/training_type/sharded.py, later in strategies/sharded.py."""


def _then(name: str, own: str, version: Version) -> str:
    """What fairscale's strategy really does in a release that has it."""
    required = next((words for first, words in REQUIRES if version >= first), "")
    missing = (
        f" Without it: MisconfigurationException: `{required}` requires `fairscale` to be installed."
        if required
        else ""
    )
    error = refusal(name, version)
    return (
        f" ({dotted(version)} is installed)"
        + (f", which ends with {error}" if error else "")
        + f"; that release calls it {own}, and it needs the package fairscale: --strategy {own}."
        + missing
        + " On several nodes it works as ddp does, gathers gradients in buckets of 8 million elements, and with "
        'precision=16 sends the parameters as fp16. Since Lightning 2.0 it is strategy="fsdp".'
    )


def answer(framework: str, strategy: str, versions: Mapping[str, str]) -> str:
    """One line for the user when this strategy cannot be started with what is installed; "" when nothing is known
    against it. `versions`: installed distributions, "lightning" -> "2.6.6".
    """
    strategy = strategy.strip()
    if of_tf := of_tensorflow(strategy):
        return f"--strategy {of_tf}"
    name = strategy.lower().replace("-", "_")
    if framework != "lightning":
        if framework == "horovod" and name == "horovod":
            return ""
        return f"--strategy {strategy}: {ELSEWHERE[name]}" if name in ELSEWHERE else ""
    entry = superseded("strategy", name)
    version = lightning_version(versions)
    if entry is None or not entry.is_gone(version):
        return ""
    if entry.gone:
        state = f"was removed in Lightning {dotted(entry.gone)}"
        if version is not None and entry.first and version < entry.first:
            state = f"came with Lightning {dotted(entry.first)} and was removed in {dotted(entry.gone)}"
    else:
        state = "was never a strategy of Lightning"
        own = superseded("strategy", entry.then) if entry.then else None
        if version is not None and own is not None and not own.is_gone(version):
            return f"--strategy {strategy} {state}{_then(name, own.name, version)}"
    here = f" ({dotted(version)} is installed)" if version is not None else ""
    use = f": --strategy {entry.instead}" if entry.instead else ""
    remark = f" {entry.remark}" if entry.remark else ""
    return f"--strategy {strategy} {state}{here}; today it is {entry.today}{use}.{remark}"
