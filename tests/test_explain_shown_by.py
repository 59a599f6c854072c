"""What stands elsewhere in a log decides the fix; the same log without it is answered as before."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

NVML = "RuntimeError: No CUDA GPUs are available\n"
FULL = "OSError: [Errno 28] No space left on device: '/scratch/mt/a.npy'\n"
OLD = (
    "NVIDIA GeForce RTX 5080 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
    "The current PyTorch install supports CUDA capabilities sm_70 sm_80 sm_90.\n"
)
NO_KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
ROCE = "g1:9:10 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eno1:10.4.0.1<0>\n"
RETRIES = (
    "g1:9:11 [0] transport/net_ib.cc:1698 NCCL WARN NET/IB: Got completion from peer 10.4.0.2<5071> with status=12 "
    "opcode=0 len=0 vendor err 129 (Send) localGid fe80::a288:c2ff:fe00:11 remoteGids fe80::1 hca mlx5_0\n"
)
LOGS = (
    ("Filesystem Inodes IUsed IFree IUse% Mounted on\n/dev/sdb1 2441 2441 0 100% /scratch\n", FULL, "no inodes left"),
    ("failed to register layer: write /a.so: no space left on device\n", "", "keeps images"),
    (OLD, NO_KERNEL, "CUDA 12.8"),
    ("Found GPU0 Tesla K80 which is of cuda capability 3.7.\n", NO_KERNEL, "an older release"),
    (
        'Traceback (most recent call last):\n  File "/e/site-packages/accelerate/commands/launch.py", line 999, in '
        "simple_launcher\n    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)\n"
        "subprocess.CalledProcessError: Command '['python', 'fit.py']' returned non-zero exit status 1.\n",
        'Traceback (most recent call last):\n  File "/w/fit.py", line 9, in <module>\n    rank = dist.get_rank()\n'
        "ValueError: Default process group has not been initialized, please make sure to call init_process_group.\n",
        "--multi_gpu",
    ),
    ("CUDA_VISIBLE_DEVICES=\n", NVML, "CUDA_VISIBLE_DEVICES is empty there"),
    ("WARNING: Could not find any nv files on this host!\n", NVML, "apptainer's --nv"),
    (ROCE, RETRIES, "link-local"),
    ("[ 8.1] nfs: server f1 not responding, still trying\n", "[ 8.9] nfs: server f1 OK\n", ""),
    ("+ srun -n 4 --gpus-per-task=1 python a.py\n", "1: RuntimeError: CUDA error: invalid device ordinal\n", "its one"),
    (
        "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(...)': "
        "/simple/\n",
        "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)\n",
        "did not reach its index",
    ),
    (
        "Error: connect() to 10.4.0.2 failed\n",
        "[n2][[3,1],4][btl_tcp_endpoint.c:667:mca_btl_tcp_endpoint_complete_connect] connect() to 172.17.0.1 failed: "
        "Connection refused (111)\n",
        "docker's",
    ),
)


def told(log: str) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log.encode()))


def fixes(seen: Explanation) -> str:
    return f"{seen.causes[0].fix.text if seen.causes else ''} {seen.advice}"


@pytest.mark.quick
@pytest.mark.parametrize(("shown", "error", "words"), [each for each in LOGS if each[2]])
def test_a_line_elsewhere_decides_the_fix(shown: str, error: str, words: str) -> None:
    assert words in fixes(told(shown + error))
    assert not error or words not in fixes(told(error)) or words == "docker's"


@pytest.mark.quick
def test_what_does_not_stand_there_decides_nothing() -> None:
    """InfiniBand's own GIDs are fe80:: too; a list of devices beside an empty one is no empty list."""
    assert "link-local" not in fixes(told(ROCE.replace("RoCE", "IB") + RETRIES))
    assert "is empty there" not in fixes(told("CUDA_VISIBLE_DEVICES=0,1\nCUDA_VISIBLE_DEVICES=\n" + NVML))
