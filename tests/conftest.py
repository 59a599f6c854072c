"""Fixtures for all tests."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests.lab.nvidia import Machine, fake_nvidia
from tests.lab.reading import HOST_PID_NAMESPACE, write
from tests.quick import is_quick, spread

# A machine that does much else is slow at times: that is no property of the code.
settings.register_profile("anywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("anywhere")


def heard_and_not_heeded(number: int, frame: FrameType | None) -> None:
    """What is ignored stays so in every child; what has a handler does not."""


# Under nohup SIGHUP is ignored, in the background of a script SIGINT and SIGQUIT. gpudoctor obeys that, as it should;
# what is started here is to hear them as in a terminal.
for _number in {signal.SIGINT, getattr(signal, "SIGQUIT", signal.SIGINT), getattr(signal, "SIGHUP", signal.SIGINT)}:
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, heard_and_not_heeded)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_quick(item):
            item.add_marker("quick")
    if worker := getattr(config, "workerinput", None):
        items[:] = spread(items, worker["workercount"])


@pytest.hookimpl(optionalhook=True)  # without xdist (`-p no:xdist`) there is no such hook
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """`-n auto`: one more for every two processors, for the lab waits a third of its time."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors if config.option.markexpr == "quick" else processors + processors // 2


@pytest.fixture
def environment_on() -> Iterator[Callable[..., dict[str, str]]]:
    """`environment_on(machine, CUDA_VISIBLE_DEVICES="0")`: the environment of a process on a fake NVIDIA machine."""
    with contextlib.ExitStack() as stack:

        def environment(machine: Machine, **variables: str) -> dict[str, str]:
            return stack.enter_context(fake_nvidia(machine, **variables))

        yield environment


@pytest.fixture
def gpu_root(tmp_path: Path) -> Path:
    """A /proc and /sys in which eight GPUs have a NUMA node."""
    for index in range(8):
        folder = tmp_path / f"sys/bus/pci/devices/0000:{0x1B + 0x10 * index:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{index // 4}\n")
    write(tmp_path / "sys/devices/system/cpu/possible", "0-127\n")
    write(tmp_path / "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(HOST_PID_NAMESPACE)
    return tmp_path
