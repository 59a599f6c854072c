"""Runs workers/amp.py on each device in turn, in processes of its own, and keeps what each said until it ended.

One device at a time: two that compute at once would share power, memory bandwidth of the host and, on a CPU, the
cores. A process that a dtype crashed is followed by another for the dtypes that are left.
"""

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpudoctor.active import Child, ChildReply, Waiting, gather, messages, start, worker
from gpudoctor.amp import assemble
from gpudoctor.amp.report import AmpDevice
from gpudoctor.defaults import DEVICE_SECONDS
from gpudoctor.knowledge.precision.support import Dtype
from gpudoctor.read.python import how_it_ended
from gpudoctor.snapshot import Probe

MEASURING = 0.2
"""The share of the timeout after which no measurement of speed begins."""
COMPILING = 30.0
"""Most seconds for torch.compile, whose first use compiles for five to fifteen (our estimate), beside the rest."""
LEAST_SECONDS = 5.0
"""With less than this left, no second process is started for the dtypes that a crash cut off."""


def examine(
    devices: Sequence[str],
    dtypes: Sequence[Dtype],
    python: str,
    timeout: float = DEVICE_SECONDS,
    waiting: Waiting | None = None,
    *,
    speed: bool = True,
    compile_too: bool = True,
) -> tuple[AmpDevice, ...]:
    """Each device ("cuda:0", "cpu") with its dtypes, in `timeout` seconds each at most. Never raises for what a
    device or an interpreter does.

    `speed` False leaves out what is timed; `compile_too` False leaves out torch.compile, which is tried on GPUs only.
    """
    return tuple(
        examine_one(device, dtypes, python, timeout, waiting, speed=speed, compile_too=speed and compile_too)
        for device in devices
    )


def examine_one(
    device: str,
    dtypes: Sequence[Dtype],
    python: str,
    timeout: float,
    waiting: Waiting | None,
    *,
    speed: bool,
    compile_too: bool,
) -> AmpDevice:
    started = time.monotonic()
    wish: dict[str, Any] = {"dtypes": list(dtypes), "seconds": timeout * MEASURING, "speed": speed}
    said: list[dict[str, Any]] = []
    probe = Probe(timeout_seconds=timeout)
    compiled: tuple[list[dict[str, Any]], Probe] | None = None
    left = list(dtypes)
    with compiling_folder(compile_too and device.partition(":")[0] in ("cuda", "xpu")) as environment:
        while left:
            seconds = timeout - (time.monotonic() - started)
            children = []
            try:
                children.append(child(f"amp {device}", python, device, wish | {"dtypes": left}, seconds, None))
                if environment is not None and compiled is None:
                    name = f"torch.compile {device}"
                    children.append(
                        child(name, python, device, wish | {"compile": True}, min(seconds, COMPILING), environment)
                    )
            except OSError as error:
                for process in children:
                    process.end()
                text = f"{python} cannot be run: {error.strerror or error}"
                return AmpDevice(device=device, seconds=time.monotonic() - started, error=text)
            replies = gather(children, waiting)
            reply = replies[f"amp {device}"]
            more, probe = heard(reply, seconds)
            said += more
            if f"torch.compile {device}" in replies:
                compiled = heard(replies[f"torch.compile {device}"], min(seconds, COMPILING))
            under_way = assemble.under_way(more)
            if probe.outcome != "crashed" or under_way not in left:
                break
            # The crash belongs to this dtype; what comes after it is not lost with it.
            said.append({"dtype": under_way, "failed": probe.detail, "step": probe.step})
            done = {message.get("dtype") for message in more if "finished" in message}
            left = [dtype for dtype in left[left.index(under_way) + 1 :] if dtype not in done]
            if timeout - (time.monotonic() - started) < LEAST_SECONDS:
                break
    return assemble.device(device, dtypes, said, probe, time.monotonic() - started, compiled)


def child(
    name: str,
    python: str,
    device: str,
    wish: Mapping[str, Any],
    seconds: float,
    environment: Mapping[str, str] | None,
) -> Child:
    return start(name, worker(python, "amp", device, json.dumps(wish)), timeout=seconds, environment=environment)


def heard(reply: ChildReply, seconds: float) -> tuple[list[dict[str, Any]], Probe]:
    said = messages(reply.output)
    return said, how_it_ended(reply, said, round(seconds, 1))


@contextlib.contextmanager
def compiling_folder(wanted: bool) -> Iterator[dict[str, str] | None]:
    """An environment in which torch.compile and Triton keep their files in a folder that is gone afterwards.

    None where nothing is to be compiled, or no folder can be made.
    """
    if not wanted:
        yield None
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix="gpudoctor-amp-", ignore_cleanup_errors=True)
    except OSError:
        yield None
        return
    with folder as path:
        yield {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(Path(path, "inductor")),
            "TRITON_CACHE_DIR": str(Path(path, "triton")),
            "TMPDIR": path,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compiling processes for one small net
        }
