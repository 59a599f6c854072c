"""Checkpoints as trainings write them, made by the torch that is installed; and hostile ones, made by hand.

python -m tests.checkpoint_files FOLDER      # in a process of its own: process groups, Lightning, torch.compile
"""

import argparse
import contextlib
import os
import pathlib
import pickle
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from gpudoctor.checkpoint.values import contiguous, product

DATE = (1980, 1, 1, 0, 0, 0)


def write_all(folder: Path) -> None:
    """One file for each way of saving that users have."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.optim.swa_utils import AveragedModel

    warnings.simplefilter("ignore")
    torch.manual_seed(0)

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))

    compiled: Any = torch.compile

    def save(value: Any, name: str, **more: Any) -> None:
        torch.save(value, folder / name, **more)

    model = net()
    state = model.state_dict()
    save(state, "plain.pt")
    save(state, "legacy.pt", _use_new_zipfile_serialization=False)
    save(nn.DataParallel(model).state_dict(), "data-parallel.pt")
    save(compiled(model).state_dict(), "compiled.pt")
    save(AveragedModel(model).state_dict(), "averaged.pt")
    wrapped = nn.Sequential(checkpoint_wrapper(nn.Linear(4, 3)), nn.Linear(3, 2))
    save(wrapped.state_dict(), "activation-checkpointing.pt")
    save(model, "whole.pt")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    training = {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    save(training, "training.pt")
    save({**training, "args": argparse.Namespace(out=pathlib.Path("/x"))}, "training-with-args.pt")
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
    try:
        save(nn.parallel.DistributedDataParallel(model).state_dict(), "ddp.pt")
        save(compiled(nn.parallel.DistributedDataParallel(model)).state_dict(), "compiled-ddp.pt")
        sharded = net()
        fully_shard(sharded, mesh=init_device_mesh("cpu", (1,)))
        save(sharded.state_dict(), "fsdp2.pt")
    finally:
        dist.destroy_process_group()
    save(torch.optim.Adam(model.parameters()).state_dict(), "optimizer.pt")
    save(torch.randn(3), "tensor.pt")
    save({"w": torch.eye(2).to_sparse()}, "sparse.pt")
    save({"w": torch.empty(2, device="meta")}, "meta.pt")
    tied = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "head": nn.Linear(4, 5, bias=False)})
    own: Any = tied["embedding"].weight
    tied["head"].register_parameter("weight", own)
    save(tied.state_dict(), "tied.pt")
    large = torch.arange(4096.0)
    save({"a": large[100:110], "b": large[105:120]}, "views.pt")
    save(
        {
            "f8": torch.randn(3).to(torch.float8_e4m3fn),
            "u16": torch.tensor([1, 2, 65535], dtype=torch.uint16),
            "complex": torch.randn(2, dtype=torch.complex64),
            "transposed": torch.randn(3, 4).t(),
            "expanded": torch.randn(1).expand(4),
            "bf16": torch.randn(7, dtype=torch.bfloat16),
            "half": torch.randn(7).half(),
            "bool": torch.tensor([True, False]),
            "empty": torch.empty(0, 3),
            "scalar": torch.tensor(2.5, dtype=torch.float64),
            "parameter": nn.Parameter(torch.randn(2)),
        },
        "kinds.pt",
    )
    poisoned = dict(state)
    poisoned["0.weight"] = torch.tensor([[1.0, float("nan"), float("inf"), 0.0]] * 3)
    save(poisoned, "nan.pt")
    with contextlib.suppress(AttributeError):
        torch.serialization.set_crc32_options(False)
        save(state, "without-checksums.pt")
        torch.serialization.set_crc32_options(True)
    from safetensors.torch import save_file

    save_file(state, folder / "plain.safetensors", metadata={"format": "pt"})
    script: Any = torch.jit.script(model)
    script.save(folder / "script.pt")
    lightning(folder, net)


def lightning(folder: Path, net: Callable[[], Any]) -> None:
    import lightning
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Module(lightning.LightningModule):
        def __init__(self, hidden: int = 3) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.model = net()

        def training_step(self, batch: Any, number: int) -> Any:
            return self.model(batch[0]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    trainer = lightning.Trainer(
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        accelerator="cpu",
        default_root_dir=folder,
    )
    trainer.fit(Module(), DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4))
    trainer.save_checkpoint(folder / "lightning.ckpt")


# ---------------------------------------------------------------- by hand


def zipped(entries: dict[str, bytes], *, packed: bool = False) -> bytes:
    """A zip file."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name, DATE), content, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
    return out.getvalue()


def as_torch(pickled: bytes, **storages: bytes) -> bytes:
    """The zip format of torch.save around a pickle."""
    records = {f"archive/data/{key.lstrip('_')}": content for key, content in storages.items()}
    return zipped({"archive/data.pkl": pickled, "archive/version": b"3\n", **records})


class Runs:
    """Pickled as a call of something."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def attack(marker: Path, protocol: int = 2) -> bytes:
    """A checkpoint that makes a file when it is loaded by pickle."""
    return pickle.dumps({"weight": 1, "x": Runs(os.system, f"touch {marker}")}, protocol)


def tensor(name: str = "w", *, key: str = "0", count: int = 4, shape: tuple[int, ...] = (4,), offset: int = 0) -> bytes:
    """The pickle of a state dict of one float32 tensor, made by hand so that its numbers can be wrong."""

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def number(value: int) -> bytes:
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(raw)]) + raw

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    stride = contiguous(shape)
    storage = text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(count)
    view = number(offset) + numbers(shape) + numbers(stride)
    call = b"ctorch._utils\n_rebuild_tensor_v2\n((" + storage + b"tQ" + view + b"\x89ccollections\nOrderedDict\n)RtR"
    return b"\x80\x02}(" + text(name) + call + b"u."


def example() -> bytes:
    """docs/examples/ddp-epoch12.pt: a training state of a DDP model, whose head has become NaN. Made without torch."""

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    shapes = {"encoder.weight": (8, 4), "encoder.bias": (8,), "head.weight": (3, 8), "head.bias": (3,)}
    inner = b"".join(
        tensor(f"module.{name}", key=str(number), count=product(shape), shape=shape)[3:-2][1:]
        for number, (name, shape) in enumerate(shapes.items())
    )
    pickled = b"\x80\x02}(" + text("epoch") + b"K\x0c" + text("model") + b"}(" + inner + b"uu."
    numbers = [[0.5] * product(shape) for shape in shapes.values()]
    numbers[2][5] = float("nan")
    packed = {f"_{key}": struct.pack(f"<{len(each)}f", *each) for key, each in enumerate(numbers)}
    return as_torch(pickled, **packed)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
