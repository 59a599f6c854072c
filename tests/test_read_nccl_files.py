"""NCCL's files in its own syntax, the files and plugins that settings name, the names inside a libnccl."""

import importlib.util
import os
import shutil
import struct
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpudoctor.active import MARK, ChildReply
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.interpreter import Interpreter
from gpudoctor.read.nccl_files import LIBRARY, lines, plugins, read_communicator, read_files, read_paths, read_plugins
from gpudoctor.read.python import nccl_names
from gpudoctor.read.system import System
from gpudoctor.snapshot import ConfigFile, Reading
from tests.fake_tree import Link, Refusing, fake
from tests.lab.requirements import require

HOME = {"HOME": "/root"}
WORKERS = Path(__file__).parent.parent / "gpudoctor" / "workers"


def worker(name: str) -> ModuleType:
    """A worker by its file: workers are no part of a package, and mypy knows them by their bare names."""
    specification = importlib.util.spec_from_file_location(name, WORKERS / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


python_facts = worker("python_facts")
WISH = ExamineWish(Interpreter("/opt/python", "--python"))


def found(system: System) -> dict[str, ConfigFile]:
    files: Reading[tuple[ConfigFile, ...]] = read_files(system, "/work")["network.nccl_files"]
    return {file.path: file for file in files.value}


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"NCCL_DEBUG=INFO\n", {"NCCL_DEBUG": "INFO"}),
        (b"NCCL_DEBUG=INFO\r\nNCCL_NET=IB", {"NCCL_DEBUG": "INFO", "NCCL_NET": "IB"}),
        (b"#NCCL_DEBUG=INFO\n # NCCL_NET=IB\nno equals sign\n", {}),
        (b"NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\n", {"NCCL_DEBUG": "WARN"}),
        (b"NCCL_DEBUG = INFO\n", {"NCCL_DEBUG ": " INFO"}),
        (b'export NCCL_NET="IB"\n', {"export NCCL_NET": '"IB"'}),
        (b"NCCL_IB_HCA==mlx5_0,mlx5_1\n", {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}),
        (b"NCCL_NET=\n=5\n", {"NCCL_NET": ""}),
        (b"NCCL_NET=a\0b\n", {"NCCL_NET": "***"}),
        (b"MY_TOKEN=abc\nNCCL_SECRET_KEY=abc\nOTHER=1\n", {"NCCL_SECRET_KEY": "***"}),
        (b"NCCL_IB_HCA=" + b",x" * 5000, {"NCCL_IB_HCA": ",x" * 511 + ","}),
        (b"NCCL_IB_TIMEOUT=22 # of alice\n", {"NCCL_IB_TIMEOUT": "22 # ***"}),
        (b"\xff\xfe\x00garbage", {}),
    ],
)
def test_takes_lines_apart_as_nccl_does(content: bytes, expected: dict[str, str]) -> None:
    assert lines(content).settings == expected


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: b"NCCL_X=" + tail))
def test_survives_any_content(content: bytes) -> None:
    for name, value in lines(content).settings.items():
        (name + value).encode()
        assert "\n" not in name + value and "=" not in name


# ---------------------------------------------------------------- which files


def test_lists_the_files_in_nccls_order(tmp_path: Path) -> None:
    tree = {"/root/.nccl.conf": "NCCL_NET=IB", "/etc/nccl.conf": "NCCL_NET=Socket", "/work/my.conf": "NCCL_B=1"}
    files = found(fake(tmp_path, tree, HOME | {"NCCL_CONF_FILE": "my.conf"}))
    assert list(files) == ["/work/my.conf", "/root/.nccl.conf", "/etc/nccl.conf"]
    assert files["/work/my.conf"].settings.value == {"NCCL_B": "1"}
    assert files["/etc/nccl.conf"].settings.value == {"NCCL_NET": "Socket"}


def test_remembers_carriage_returns() -> None:
    content = b"NCCL_A=1\r\nNCCL_B=2\nNCCL_B=3\r\nNCCL_C=4\r\nNCCL_C=5\n# NCCL_D=6\r\nNCCL_E=7\r"
    assert lines(content).with_return == ("NCCL_A", "NCCL_C", "NCCL_E")


def test_two_homes_are_told_apart(tmp_path: Path) -> None:
    passwd = f"root:x:{os.getuid()}:0::/root:/bin/sh\n"
    files = found(fake(tmp_path, {"/etc/passwd": passwd}, {"HOME": "/scratch"}))
    assert {path: file.home_of for path, file in files.items()} == {
        "/root/.nccl.conf": "passwd",
        "/scratch/.nccl.conf": "HOME",
        "/etc/nccl.conf": "",
    }
    files = found(fake(tmp_path, {"/etc/passwd": passwd}, {"HOME": "/root"}))
    assert {path: file.home_of for path, file in files.items()} == {"/root/.nccl.conf": "", "/etc/nccl.conf": ""}


def test_looks_up_the_host_of_a_communicator(tmp_path: Path) -> None:
    asked: list[str] = []

    def resolver(name: str) -> list[str]:
        asked.append(name)
        return ["::1", "127.0.0.1", "127.0.0.1"]

    system = fake(tmp_path, {"/etc/nccl.conf": "NCCL_COMM_ID=localhost:29400\r\n"}, HOME)
    answer = read_communicator(system, "/work", resolver)["network.communicator_addresses"]
    assert answer.value == ("::1", "127.0.0.1")
    assert asked == ["localhost"]
    nothing = read_communicator(fake(tmp_path / "none", {}, HOME), "/work", resolver)["network.communicator_addresses"]
    assert nothing.missing_kind == "absent"


def test_a_tilde_is_a_folder_of_that_name(tmp_path: Path) -> None:
    files = found(fake(tmp_path, {"/root/nccl.conf": "NCCL_NET=IB"}, HOME | {"NCCL_CONF_FILE": "~/nccl.conf"}))
    assert files["/work/~/nccl.conf"].settings.missing_kind == "absent"


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    files = found(fake(tmp_path, {}, HOME | {"NCCL_CONF_FILE": "/etc/../etc/nccl.conf"}))
    assert list(files) == ["/etc/nccl.conf", "/root/.nccl.conf"]


def test_says_why_a_file_could_not_be_read(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/root/.nccl.conf": "NCCL_NET=IB", "/etc/nccl.conf/": ""}, HOME)
    files = found(Refusing(system, "/root"))
    assert files["/root/.nccl.conf"].settings.missing_kind == "denied"
    assert "directory" in files["/etc/nccl.conf"].settings.reason.lower()


def test_tries_the_files_that_settings_name(tmp_path: Path) -> None:
    tree = {"/opt/topo.xml": "<system/>", "/etc/nccl.conf": "NCCL_GRAPH_FILE=/opt/graph.xml"}
    variables = HOME | {"NCCL_TOPO_FILE": "/opt/topo.xml", "NCCL_IBVERBS_LIB": "libibverbs.so.1"}
    paths = read_paths(fake(tmp_path, tree, variables), "/work")["network.nccl_paths"]
    assert paths.value == {"/opt/topo.xml": True, "/opt/graph.xml": False}


# ---------------------------------------------------------------- plugins


def test_finds_plugins_in_the_loaders_order(tmp_path: Path) -> None:
    tree: dict[str, str | bytes | Link] = {
        "/opt/ofi/lib/libnccl-net-ofi.so": LIBRARY,
        "/opt/ofi/lib/libnccl-net-cut-off.so": "",
        "/opt/ofi/lib/libnccl-tuner-ofi.so": LIBRARY,
        "/usr/lib64/libnccl-net.so": LIBRARY,
        "/usr/lib64/libnccl-net-text.so": "version https://git-lfs.github.com/spec/v1",
        "/usr/lib64/libnccl-net-broken.so.bak": LIBRARY,
        "/opt/hpcx/libnccl-net.so.0": LIBRARY,
        "/work/libmine.so": LIBRARY,
        "/etc/ld.so.cache": b"glibc-ld.so.cache\0/opt/hpcx/libnccl-net.so.0\0/gone/libnccl-net.so\0",
    }
    variables = HOME | {"LD_LIBRARY_PATH": "/opt/ofi/lib:/missing:", "NCCL_NET_PLUGIN": "libmine.so,./libmine.so"}
    system = fake(tmp_path, tree, variables)
    assert read_plugins(system, "/work")["network.net_plugins"].value == (
        "/work/libmine.so",
        "/opt/ofi/lib/libnccl-net-ofi.so",
        "/opt/hpcx/libnccl-net.so.0",
        "/usr/lib64/libnccl-net.so",
    )


def test_no_plugin_is_an_answer(tmp_path: Path) -> None:
    assert plugins(fake(tmp_path, {}, HOME), "/") == ()


@given(st.binary(max_size=200))
def test_survives_any_loader_cache(content: bytes) -> None:
    class Cache(System):
        def raw(self, path: str, limit: int = 1 << 24) -> bytes:
            return b"/x/libnccl-net.so\0" + content + b"\0"

        def names(self, path: str) -> list[str]:
            raise FileNotFoundError

        def exists(self, path: str) -> bool:
            return True

    for path in plugins(Cache("/nowhere", {"NCCL_NET_PLUGIN": "none"}), "/"):
        path.encode()


# ---------------------------------------------------------------- names inside the library


def test_finds_the_names_in_a_real_library(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or ""
    require(compiler, "no C compiler")
    source, library = tmp_path / "nccl.c", tmp_path / "libnccl.so.2"
    source.write_text(
        'const char *get(int i) { switch (i) { case 0: return "NCCL_DEBUG"; case 1: return "unset NCCL_NET";'
        ' case 2: return "NCCL_IB_DISABLE is set"; case 3: return "TORCH_NCCL_X"; default: return "NCCL_"; } }'
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    assert python_facts.names_in_library(str(library)) == ["NCCL_DEBUG", "NCCL_NET"]
    said = python_facts.names_of(str(library))
    assert said == {"nccl_names": [str(library), ["NCCL_DEBUG", "NCCL_NET"]]}
    cut = tmp_path / "cut.so"
    cut.write_bytes(library.read_bytes()[:2000])
    assert "nccl_names_unread" in python_facts.names_of(str(cut))


@given(st.binary(max_size=400), st.booleans())
def test_garbage_is_no_library(tmp_path_factory: pytest.TempPathFactory, tail: bytes, is_elf: bool) -> None:
    path = tmp_path_factory.mktemp("elf") / "libnccl.so.2"
    path.write_bytes((b"\x7fELF\x02\x01" if is_elf else b"") + tail)
    said = python_facts.names_of(str(path))
    assert "nccl_names_unread" in said or "nccl_names" in said


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_absurd_section_headers_are_no_library(offset: int, size: int, name: int, index: int) -> None:
    header = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<QIHHHHHH", 64, 0, 64, 0, 0, 64, 2, index)
    section = struct.pack("<II4Q", name, 1, 0, 0, offset, size).ljust(64, b"\0")
    image = header.ljust(64, b"\0") + section * 2 + b"\0.rodata\0"
    with pytest.raises((ValueError, struct.error)):
        start, length = python_facts.rodata(image)
        assert start + length <= len(image)
        raise ValueError("sound after all")


def reply(*messages: str) -> ChildReply:
    output = b"".join(MARK + message.encode() + b"\n" for message in messages)
    return ChildReply("python", output, "", 0, timed_out=False, stuck=False, seconds=0.1, pid=1)


@pytest.mark.parametrize(
    ("messages", "outcome"),
    [
        (('{"nccl_names": ["/x", ["NCCL_NET"]]}',), ("NCCL_NET",)),
        (('{"nccl_names_unread": ["/x", "no 64-bit ELF file"]}',), "failed"),
        (('{"nccl_names": ["/x", [5]]}',), "failed"),
        (('{"no_nccl": true}',), "absent"),
        (('{"no_libraries": "Linux only"}',), "absent"),
        ((), "failed"),
    ],
)
def test_what_the_worker_said_becomes_a_reading(messages: tuple[str, ...], outcome: Any) -> None:
    names = nccl_names(WISH, reply(*messages))
    assert (names.value if names.is_read else names.missing_kind) == outcome
