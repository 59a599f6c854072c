"""Which release of torch knew which argument: the table is what the releases' sources say, and the installed one."""

import inspect
from importlib import import_module

import pytest

from gpudoctor.knowledge.pytorch.signatures import PLACES, READ, SIGNATURES, function_of, nearest, refused, takes
from tests.lab import torch_signatures

NAMES = {
    "torch.nn.parallel.DataParallel": "DataParallel",
    "torch.nn.parallel.DistributedDataParallel": "DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel": "FullyShardedDataParallel",
    "torch.distributed.init_process_group": "init_process_group",
    "torch.distributed.new_group": "new_group",
    "torch.multiprocessing.spawn": "spawn",
    "torch.multiprocessing.start_processes": "start_processes",
    "torch.utils.data.DistributedSampler": "DistributedSampler",
    "torch.utils.data.DataLoader": "DataLoader",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": "convert_sync_batchnorm",
    "torch.autocast": "autocast",
    "torch.amp.GradScaler": "GradScaler",
    "torch.cuda.amp.autocast": "cuda.amp.autocast",
    "torch.cuda.amp.GradScaler": "cuda.amp.GradScaler",
}


def test_the_installed_torch_takes_what_the_table_says() -> None:
    torch = pytest.importorskip("torch")
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    for name in ("torch.distributed.fsdp", "torch.multiprocessing", "torch.utils.data"):
        import_module(name)
    assert set(NAMES.values()) == SIGNATURES.keys() == PLACES.keys() == torch_signatures.SOURCES.keys()
    for name, function in NAMES.items():
        assert function_of(name) == function
        real = torch
        for part in name.split(".")[1:]:
            real = getattr(real, part)
        called = real.__init__ if inspect.isclass(real) else real
        parameters = [each for each in inspect.signature(called).parameters if each not in ("self", "_ranks")]
        assert sorted(takes(function, version)) == sorted(parameters), name


def test_the_table_is_what_the_releases_say() -> None:
    known = torch_signatures.read()
    if len(known) < len(torch_signatures.RELEASES):
        pytest.skip("not all releases are in the lab's cache: python -m tests.lab.torch_signatures fetch")
    groups: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for function, name, first, gone in torch_signatures.ranges(known):
        groups.setdefault((function, first, gone), []).append(name)
    assert {(function, first, gone): names.split() for function, first, gone, names in READ} == groups


def test_what_is_refused_by_which_release() -> None:
    assert refused("cuda.amp.autocast", "dtype", (1, 9)) is not None
    assert refused("cuda.amp.autocast", "dtype", (1, 10)) is refused("DataLoader", "in_order", None) is None
    assert refused("init_process_group", "rank", (1, 0)) is None, "that release took any name, which tells nothing"
    renamed = refused("FullyShardedDataParallel", "fsdp_auto_wrap_policy", (2, 1))
    assert renamed is not None and (renamed.near, renamed.gone) == ("auto_wrap_policy", (1, 12))
    assert refused("FullyShardedDataParallel", "fsdp_auto_wrap_policy", (1, 11)) is None


def test_what_was_meant() -> None:
    assert nearest("init_process_group", "ranks") == "rank", "not the private _ranks"
    assert nearest("DistributedDataParallel", "delay_allreduce") == "", "it is Apex's, and no other word for torch's"
    assert nearest("DistributedDataParallel", "find_unused") == "find_unused_parameters"
    assert nearest("DataParallel", "static_graph") == ""
    assert function_of("torch_geometric.loader.DataLoader") == function_of("torch.cpu.amp.autocast") == ""
