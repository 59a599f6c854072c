"""Room on file systems, and NCCL's leftovers in /dev/shm."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.shared_memory import mapped, read_segments, read_shared_memory
from gpudoctor.read.storage import Measure, candidates, read_paths, space
from gpudoctor.read.system import System
from gpudoctor.snapshot import Space, UsedPath
from tests.fake_tree import INITIAL, Link, Refusing, fake

MOUNTS = "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:9 / /scratch rw - lustre mds:/x rw\n"
ROOM = Space(100, 50)


def room(system: System, path: str) -> Space:
    return ROOM


def paths(system: System, folder: str = "/work", measure: Measure = room) -> dict[str, UsedPath]:
    found = read_paths(system, measure, folder)["host.paths"].value
    return {used.role: used for used in found}


def test_folders_by_variable_and_default(tmp_path: Path) -> None:
    files: dict[str, str | bytes | Link] = {"/tmp/": "", "/home/ann/.cache/huggingface/": "", "/work/": ""}
    found = paths(fake(tmp_path, files, {"HOME": "/home/ann", "TORCHINDUCTOR_CACHE_DIR": "/scratch/inductor"}))
    assert {role: used.path for role, used in found.items()} == {
        "TMPDIR": "/tmp",
        "working folder": "/work",
        "XDG_CACHE_HOME": "/home/ann/.cache",
        # The default, because it is there; torch's and Triton's are not, and are left out.
        "HF_HOME": "/home/ann/.cache/huggingface",
        "TORCHINDUCTOR_CACHE_DIR": "/scratch/inductor",
    }


def test_variables_are_read_as_their_users_read_them(tmp_path: Path) -> None:
    environment = {"HOME": "/home/ann", "HF_HOME": "~/models", "TMPDIR": "scratch", "XDG_CACHE_HOME": "/cache"}
    found = {item.role: item.path for item in candidates(fake(tmp_path, {}, environment), "/work")}
    assert found["HF_HOME"] == "/home/ann/models"
    assert found["TMPDIR"] == "/work/scratch"
    assert found["TORCH_HOME"] == "/cache/torch"


def test_the_home_folder_of_a_user_without_home_is_in_passwd(tmp_path: Path) -> None:
    passwd = f"bad line\nann:x:{os.getuid()}:100::/home/ann:/bin/sh\n"
    found = {item.role: item.path for item in candidates(fake(tmp_path, {"/etc/passwd": passwd}), None)}
    assert found["XDG_CACHE_HOME"] == "/home/ann/.cache"


def test_a_dead_mount_costs_itself_and_is_named(tmp_path: Path) -> None:
    release = threading.Event()

    def measure(system: System, path: str) -> Space:
        if path == "/dead":
            release.wait()
        return ROOM

    files: dict[str, str | bytes | Link] = {"/tmp/": "", "/dead/": ""}
    system = fake(tmp_path, files, {"HOME": "/h", "HF_HOME": "/dead"}, patience=0.05)
    found = paths(system, "/tmp", measure)
    release.set()
    assert found["HF_HOME"].space.missing_kind == "timeout"
    assert "/dead" in found["HF_HOME"].space.reason
    assert found["TMPDIR"].space.value == ROOM


def test_a_stale_handle_or_a_denied_folder_is_a_reason(tmp_path: Path) -> None:
    def measure(system: System, path: str) -> Space:
        raise {"/tmp": OSError(116, "Stale file handle"), "/work": PermissionError(13, "Permission denied")}[path]

    files: dict[str, str | bytes | Link] = {"/tmp/": "", "/work/": ""}
    found = paths(fake(tmp_path, files), "/work", measure)
    assert (found["TMPDIR"].space.missing_kind, found["TMPDIR"].space.reason) == ("failed", "Stale file handle")
    assert found["working folder"].space.missing_kind == "denied"


def test_a_tmpdir_that_does_not_exist_is_not_taken_for_its_parent(tmp_path: Path) -> None:
    found = paths(fake(tmp_path, {"/work/": ""}, {"TMPDIR": "/work/gone"}))
    assert found["TMPDIR"].space.reason == "no such folder"


def test_space_of_a_folder_that_will_be_made_is_its_parents(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/proc/self/mountinfo": MOUNTS, "/scratch/": ""})
    found = space(system, "/scratch/new/cache")
    real = os.statvfs(tmp_path)
    assert found.total_bytes == real.f_blocks * real.f_frsize > 0
    assert found.filesystem == "lustre"
    assert found.writable
    assert not (tmp_path / "scratch" / "new").exists()


def test_a_symbolic_link_leads_to_the_file_system_it_points_at(tmp_path: Path) -> None:
    link = Link(str(tmp_path / "scratch"))
    system = fake(tmp_path, {"/proc/self/mountinfo": MOUNTS, "/scratch/": "", "/home/cache": link})
    assert space(system, "/home/cache").filesystem == "lustre"


def test_off_linux_paths_are_read_without_proc(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/Temp/": ""}, {"TEMP": "/Temp"}, platform="win32")
    found = {item.role: item.path for item in candidates(system, None)}
    assert found["TMPDIR"] == "/Temp"
    assert space(system, "/Temp").filesystem == ""


# --- /dev/shm -----------------------------------------------------------------------------------------------------


def stat_line(pid: int, name: str = "python", state: str = "S", flags: int = 0) -> str:
    return f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 {flags} " + "0 " * 12 + "1000 0 0\n"


class Shm:
    """A tree with segments in /dev/shm and processes that may map them."""

    def __init__(self, root: Path, *segments: str, namespace: str = INITIAL) -> None:
        self.root = root
        self.system = fake(
            root,
            {
                "/dev/shm/": "",
                "/proc/self/ns/pid": Link(namespace),
                "/proc/1/stat": stat_line(1, "systemd"),
                "/proc/1/maps": "",
                **{f"/dev/shm/{name}": b"x" * 100 for name in segments},
            },
        )

    def process(self, pid: int, *, maps: str = "", opens: str = "", state: str = "S", flags: int = 0) -> None:
        fake(self.root, {f"/proc/{pid}/stat": stat_line(pid, state=state, flags=flags)})
        files: dict[str, str | bytes | Link] = {f"/proc/{pid}/maps": "7f00-7f01 rw-p 00000000 00:00 0 [heap]\n"}
        if maps:
            status = (self.root / "dev/shm" / maps).stat()
            device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
            # As a container sees it: under another name than ours.
            files[f"/proc/{pid}/maps"] = f"7f00-7f01 rw-s 00000000 {device} {status.st_ino} /{maps} (deleted)\n"
        if opens:
            files[f"/proc/{pid}/fd/9"] = Link(f"/dev/shm/{opens}")
        fake(self.root, files)


FIELD = "host.nccl_segments"


def test_a_segment_that_a_process_maps_or_holds_open_is_in_use(tmp_path: Path) -> None:
    shm = Shm(tmp_path, "nccl-mapped", "nccl-open", "nccl-left", "torch_123")
    shm.process(10, maps="nccl-mapped")
    shm.process(11, opens="nccl-open")
    assert read_segments(shm.system)[FIELD].value == (("nccl-left", 100),)


def test_no_segments_is_a_fact_whoever_looks(tmp_path: Path) -> None:
    shm = Shm(tmp_path, "torch_123", namespace="pid:[4026532500]")
    assert read_segments(Refusing(shm.system, "/proc/1/"))[FIELD].value == ()


def test_from_a_container_a_segment_may_be_another_containers(tmp_path: Path) -> None:
    shm = Shm(tmp_path, "nccl-x", namespace="pid:[4026532500]")
    assert read_segments(shm.system)[FIELD].missing_kind == "denied"
    shm.process(10, maps="nccl-x")
    assert read_segments(shm.system)[FIELD].value == ()


@pytest.mark.parametrize("state", ["D", "S"])
def test_a_process_that_cannot_be_looked_into_may_hold_it(tmp_path: Path, state: str) -> None:
    shm = Shm(tmp_path, "nccl-x")
    shm.process(10, maps="nccl-x", state=state)
    system = Refusing(shm.system, "/proc/10/maps") if state == "S" else shm.system
    found = read_segments(system)[FIELD]
    assert found.missing_kind == "denied"
    assert "nccl-x" in found.reason


def test_kernel_threads_and_zombies_hold_nothing(tmp_path: Path) -> None:
    shm = Shm(tmp_path, "nccl-x")
    shm.process(10, flags=0x00200000)
    shm.process(11, state="Z")
    assert read_segments(Refusing(shm.system, "/proc/10/maps", "/proc/11/maps"))[FIELD].value == (("nccl-x", 100),)


def test_hidden_processes_may_hold_it(tmp_path: Path) -> None:
    shm = Shm(tmp_path, "nccl-x")
    assert "hidepid" in read_segments(Refusing(shm.system, "/proc/1/stat"))[FIELD].reason


def test_shared_memory_that_is_not_there_is_not_its_parents(tmp_path: Path) -> None:
    assert read_shared_memory(fake(tmp_path / "a", {"/dev/shm/": ""}))["host.shared_memory"].value.total_bytes > 0
    assert read_shared_memory(fake(tmp_path / "b", {"/dev/": ""}))["host.shared_memory"].missing_kind == "failed"


@given(st.text())
def test_any_maps_can_be_parsed(text: str) -> None:
    assert all(" " in key for key in mapped(text))
