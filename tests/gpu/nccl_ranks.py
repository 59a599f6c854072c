"""Starts the rank program's ranks on this machine's GPUs, and keeps what they say and what NCCL logs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import pytest

from gpudoctor.fleet.messages import Launch, Measurement
from gpudoctor.marked import messages
from gpudoctor.nccl.rank_messages import AnyRankMessage, Begun, Failed, Member, Row, Skipped, decoder

WORKERS = Path(__file__).parent.parent.parent / "gpudoctor" / "workers"


class Ran(NamedTuple):
    status: int
    said: list[AnyRankMessage]
    logs: dict[int, str]
    """NCCL's log by rank."""

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(message for message in self.said if isinstance(message, Row))

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(message for message in self.said if isinstance(message, Member))

    @property
    def why(self) -> str:
        """For an assertion: what failed or was skipped, and the warnings of the logs."""
        bad = [message for message in self.said if isinstance(message, Failed | Skipped)]
        warnings = [line for log in self.logs.values() for line in log.splitlines() if "WARN" in line]
        return "\n".join([repr(bad), *warnings])


def need_nccl() -> int:
    """How many GPUs this interpreter's torch can use with NCCL; skips where that is none."""
    code = "import torch; print(torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    count = int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else 0
    if count == 0:
        pytest.skip(f"this torch sees no GPU, or has no NCCL {done.stderr[-200:]}")
    return count


def run(ranks: int, wanted: tuple[Measurement, ...], environment: Mapping[str, str], **fields: Any) -> Ran:
    launch = Launch(
        id="gpu",
        nodes=(0,),
        ranks_per_node=(ranks,),
        master_address="127.0.0.1",
        master_port=0,
        backend="nccl",
        device="cuda",
        measurements=wanted,
        **{"timeout": 120.0, **fields},
    )
    torchrun = [sys.executable, str(WORKERS / "under_doctor.py"), "-m", "torch.distributed.run", "--standalone"]
    plan = json.dumps({"launch": msgspec.to_builtins(launch)})
    own = tempfile.TemporaryDirectory(prefix="gpudoctor-torchrun-", ignore_cleanup_errors=True)  # for torchelastic_*
    process = subprocess.Popen(
        [*torchrun, f"--nproc-per-node={ranks}", str(WORKERS), "collective", plan],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environment, "TMPDIR": own.name},
        start_new_session=True,
    )
    said: list[AnyRankMessage] = []
    files: dict[int, IO[bytes]] = {}
    try:
        assert process.stdout is not None
        for line in process.stdout:
            for message in (decoder.decode(json.dumps(found)) for found in messages(line) if "type" in found):
                said.append(message)
                if isinstance(message, Begun) and message.log_fd >= 0:
                    log = Path(f"/proc/{message.pid}/fd/{message.log_fd}")
                    files[message.rank] = log.open("rb")
        status = process.wait(60)
        logs = {rank: os.pread(file.fileno(), 64 << 20, 0).decode("utf-8", "replace") for rank, file in files.items()}
    finally:
        process.kill()
        process.communicate()
        own.cleanup()
        for file in files.values():
            file.close()
    return Ran(status, said, logs)
