"""What under_doctor.py hands to the launcher of the torch that is there."""

import runpy
from pathlib import Path

import pytest

from gpudoctor.fleet.messages import Launch
from gpudoctor.fleet.torchrun import command

UNDER_DOCTOR = Path(__file__).parent.parent / "gpudoctor" / "workers" / "under_doctor.py"


@pytest.fixture(scope="module")
def arguments() -> list[str]:
    launch = Launch(
        id="one",
        nodes=(0, 1),
        ranks_per_node=(2, 2),
        master_address="10.0.0.1",
        master_port=29500,
        backend="gloo",
        device="cpu",
        measurements=(),
        timeout=30.0,
    )
    words = command(launch, 1, "python")
    return words[words.index("-m") + 1 :]


@pytest.mark.parametrize(
    ("version", "first", "without"),
    [
        ("1.8.1+cu102", ["torch.distributed.launch", "--use_env"], ("--rdzv", "--max_restarts", "--log_dir")),
        ("1.9.0", ["torch.distributed.run"], ("--log_dir",)),
        ("2.2.2", ["torch.distributed.run"], ("--log_dir",)),
        ("2.3.0", ["torch.distributed.run"], ()),
        ("2.13.0+cpu", ["torch.distributed.run"], ()),
    ],
)
def test_each_release_gets_what_it_takes(
    version: str, first: list[str], without: tuple[str, ...], arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend("")  # the file puts its own folder there; all of sys.path is put back
    words = runpy.run_path(str(UNDER_DOCTOR))["understood"](arguments, version)
    assert words[: len(first)] == first
    assert not [word for word in words if word.startswith(without or ("--none",))]
    assert words[-3:] == arguments[-3:]
    for kept in ("--nnodes=2", "--node_rank=1", "--nproc_per_node=2", "--master_addr=10.0.0.1"):
        assert kept in words
