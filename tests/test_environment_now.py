"""The environment of live processes, as it is now: what os.environ was told, what a title has been written over."""

import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.hang import live
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.job import JobMember, Members
from gpudoctor.read.job import describer, environment_now as reading, processes, ray_driver
from gpudoctor.read.job.environment_now import as_set, environment_now
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import Process
from tests.fake_tree import fake

SETS = "import os, time; os.environ.update(RANK='3', WORLD_SIZE='8'); os.environ.pop('GONE'); "
WAITS = "print(flush=True); time.sleep(300)"
PYTHONS = [sys.executable, *(name for name in ("/usr/bin/python3",) if Path(name).exists())]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@contextlib.contextmanager
def running(program: str, python: str = sys.executable, **variables: str) -> Iterator[int]:
    """A process that has written a line."""
    environment = {"PATH": os.environ["PATH"], "GONE": "no", **variables}
    with subprocess.Popen([python, "-c", program + WAITS], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def variables_of(pid: int) -> dict[str, str]:
    system = System()
    raw = environment_now(system, pid, system.text(f"/proc/{pid}/maps"))
    assert raw == b"" or raw.endswith(b"\0")
    return dict(text.partition("=")[::2] for text in raw.decode().split("\0") if text)


@pytest.mark.parametrize("python", PYTHONS)
def test_what_a_program_has_set_and_removed(python: str) -> None:
    with running(SETS, python) as pid:
        found = variables_of(pid)
    assert (found["RANK"], found["WORLD_SIZE"], found["PATH"]) == ("3", "8", os.environ["PATH"])
    assert "GONE" not in found


def test_a_program_without_python() -> None:
    with subprocess.Popen(["sleep", "300"], env={"PATH": os.environ["PATH"], "ONE": "1"}) as process:
        time.sleep(0.2)
        found = variables_of(process.pid)
        process.kill()
    assert found["ONE"] == "1"


def test_what_has_been_written_over() -> None:
    """A title (setproctitle) lies where the environment was at the start."""
    over = "import ctypes; c = ctypes.CDLL(None); c.memset(ctypes.c_char_p.in_dll(c, 'environ'), 0, 0); "
    with running(over + SETS) as pid:
        assert variables_of(pid)["RANK"] == "3"


def test_a_long_variable_and_many() -> None:
    many = (
        "import os, time; os.environ.update({f'V{n}': 'x' * 200 for n in range(300)}); os.environ['L'] = 'y' * 9000; "
    )
    with running(many) as pid:
        found = variables_of(pid)
    assert len(found["L"]) == 9000
    assert found["V299"] == "x" * 200


def test_only_a_python_with_torch_that_was_not_told_is_asked(tmp_path: Path) -> None:
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(bytes(mmap.PAGESIZE))
    loads = f"import mmap; file = open({str(library)!r}, 'r+b'); held = mmap.mmap(file.fileno(), 0); "
    with running(SETS) as without, running(loads + SETS) as pid:
        system = System()
        assert as_set(system, without, "python", b"A=1\0") == b"A=1\0"
        assert as_set(system, pid, "nginx", b"A=1\0") == b"A=1\0"
        assert as_set(system, pid, "python", b"RANK=1\0") == b"RANK=1\0"
        assert b"\0RANK=3\0" in as_set(system, pid, "ray::Worker.tra", b"A=1\0")
        told = processes.find(system, doctor=without)  # which we are not: these are our children
        (member,) = (member for job in find_jobs([told]) for member in job.members if member.process.pid == pid)
        assert (member.role, member.rank, member.world_size) == ("rank", 3, 8)
        again, raw, reason = describer.Describer(system).again(pid, member.process.started)
        assert again is not None and again.environment["RANK"] == "3" and b"RANK=3" in raw and not reason


def test_memory_that_never_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = "7f0000000000-7f0000001000 r--p 00000000 00:00 1 /lib/libtorch_cpu.so\n"
    monkeypatch.setattr(reading, "SECONDS", 0.05)
    monkeypatch.setattr(reading, "environment_now", lambda *_: time.sleep(5))
    with pytest.raises(TimeoutError):
        as_set(fake(tmp_path, {"/proc/7/maps": maps}), 7, "python", b"")


@pytest.mark.parametrize(
    "maps",
    [
        "",
        "no line of maps",
        "zz-7f r--p 00000000 00:00 1 /lib/libc.so.6\n",
        "7fffffffffffff00-7fffffffffffffff r--p 00000000 00:00 1 /lib/libc.so.6\n",
        "ffffffffffffffff0-ffffffffffffffff1 r--p 00000000 00:00 1 /lib/libc.so.6\n",
    ],
)
def test_maps_that_lie(maps: str) -> None:
    assert environment_now(System(), os.getpid(), maps) == b""


def test_an_image_of_zeros_and_one_without_end() -> None:
    zeros = ctypes.create_string_buffer(1 << 16)
    ring = ctypes.create_string_buffer(b"\x7fELF\x02\x01" + b"\x40" * 58 + b"\x02\x00\x00\x00" * 8192)
    for image in (zeros, ring):
        line = f"{ctypes.addressof(image):x}-7fffffffffff r--p 00000000 00:00 1 /lib/libc.so.6\n"
        assert environment_now(System(), os.getpid(), line) == b""


def test_a_driver_names_the_job_below_it() -> None:
    """Its workers were started by another program, and no process of the job is it."""
    with running("import time; ") as pid:
        worker = Process(pid=pid, parent=os.getpid(), started=1)
        job = Members(id="ray", members=(JobMember(node=0, process=worker, role="rank", rank=0),))
        assert live._of_process((job,), pid, here=False) == (job,)
        assert live._of_process((job,), os.getpid(), here=True) == (job,)
        assert live._of_process((job,), os.getpid(), here=False) == ()
        assert live._of_process((job,), 1 << 22, here=True) == ()


def test_a_driver_of_ray_names_the_one_job_of_workers_that_began_since(tmp_path: Path) -> None:
    """Its cluster was there before it, so that none of them is below it."""
    library = tmp_path / "ray" / "_raylet.so"
    library.parent.mkdir()
    library.write_bytes(bytes(4096))
    mapped = f"import mmap, time; f = open({str(library)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); "

    def job(pid: int, name: str, started: int) -> Members:
        worker = Process(pid=pid, parent=1, started=started, command=(name, ""))
        return Members(id=f"{name} {started}", members=(JobMember(node=0, process=worker, role="rank", rank=0),))

    with running(mapped) as driver, running("import time; ") as other:
        began = ray_driver.started_by_driver(driver)
        assert began is not None and ray_driver.started_by_driver(other) is None
        alone = Process(pid=driver, parent=1, started=began, alone=True)
        itself = Members(id="alone", members=(JobMember(node=0, process=alone, role="rank", rank=0),))
        workers, before = job(1 << 22, "ray::RayTrainWorker", began + 9), job(1 << 22, "ray::RayTrainWorker", began - 9)
        assert live._of_process((itself, before, workers), driver, here=True) == (workers,)
        assert live._of_process((itself, before, workers), other, here=True) == ()
        assert live._of_process((itself, before), driver, here=True) == (itself,)
        two = (itself, workers, job(1 << 22, "ray::WorkerDict", began + 5))
        assert live._of_process(two, driver, here=True) == (itself,)  # whose they are is not known
