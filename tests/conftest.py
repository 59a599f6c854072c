"""Fixtures for all tests."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests.lab import warm
from tests.lab.nvidia import Machine, fake_nvidia
from tests.lab.reading import HOST_PID_NAMESPACE, write
from tests.quick import Watch, is_quick, none_is_quick, spread
from tests.rest import is_named, on_wish
from tests.shares import read_constants, rewrite

# Where Python is told to keep no compiled files, each of the thousand processes started here would compile the whole
# of gpudoctor, and each worker rewrite every test again.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rest", action="store_true", help="the lab's other cases too (tests/rest.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """True: it is left out; None: others decide."""
    return True if config.option.markexpr == "quick" and none_is_quick(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Twenty thousand tests are no rubbish: to look through them for some took a fifth of the time here and later."""
    gc.disable()
    try:
        if session.config.args == session.config.getini("testpaths"):
            rewrite(session.config, Path(__file__).parent)
        yield
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # hypothesis reads all our modules where one of its tests is left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_quick(item):
            item.add_marker("quick")
    if config.option.markexpr == "quick":
        others = [item for item in items if item.get_closest_marker("quick") is None]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.get_closest_marker("quick") is not None]
    if not (config.getoption("--rest") or is_named(config.args, config.option.keyword)):
        left_out = on_wish(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    if any(hasattr(getattr(item, "function", None), "hypothesis") for item in items):
        read_constants(config)
    if worker := getattr(config, "workerinput", None):
        items[:] = spread(items, worker["workercount"])


WATCH = Watch()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    WATCH.started.clear()
    outcome = yield
    if WATCH.started and pyfuncitem.get_closest_marker("quick") is not None:
        pytest.fail(f"starts a process and counts as quick; mark it `thorough`: {WATCH.started[0]}", pytrace=False)
    return outcome


@pytest.hookimpl(optionalhook=True)  # without xdist (`-p no:xdist`) there is no such hook
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """`-n auto`: two for each processor, and on a large machine three for two: the lab waits a third of its time."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors if config.option.markexpr == "quick" else processors + max(processors // 2, min(processors, 4))


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """gpudoctor, children of it that import torch, and its agents, are forks of a process that has imported that."""
    if warm.available():
        monkeypatch.setattr(subprocess, "Popen", warm.forking(warm.the_server, doctors=True))


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
