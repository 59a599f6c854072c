"""NCCL's settings as NCCL sees them: strtoll, the precedence of files, and the version that reads them."""

import ctypes
import string
import sys

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.nccl.repair import set_to, take_out
from gpudoctor.knowledge.nccl.settings import (
    ENVIRONMENT,
    Setting,
    effective,
    home_file,
    integer,
    nccl_version,
    number,
    set_integer,
    set_text,
)
from gpudoctor.snapshot import ConfigFile, Library, NotApplicable, NotRead, Snapshot, absent, missing, read
from gpudoctor.testing.machines import but, h100_node, unread
from gpudoctor.testing.networks import with_network
from tests.checks.nccl import setting, with_nccl

H100 = h100_node(1)
NUMBERS = st.text(alphabet=string.digits + "abfxXABF+- \t\v.truekM_,", max_size=30)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("true", 0),
        ("", 0),
        ("0x10", 16),
        ("0X1f", 31),
        ("0xg", 0),
        ("010", 8),
        ("08", 0),
        ("22 ", 22),
        (" -3", -3),
        ("+4MB", 4),
        ("- 4", 0),
        ("1_000", 1),
        ("\N{ARABIC-INDIC DIGIT ONE}", 0),
        ("9223372036854775808", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x" + "0" * 9000 + "5", 5),
        ("9" * 9000, 2**63 - 1),
    ],
)
def test_reads_integers_as_strtoll(text: str, value: int) -> None:
    assert integer(text) == value


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the C library of Linux")
@given(NUMBERS)
def test_agrees_with_the_c_library(text: str) -> None:
    strtoll = ctypes.CDLL(None).strtoll
    strtoll.restype = ctypes.c_longlong
    end = ctypes.c_char_p()
    raw = ctypes.create_string_buffer(text.encode())
    start = ctypes.cast(raw, ctypes.c_char_p)
    value = strtoll(start, ctypes.byref(end), 0)
    found = number(text)
    assert found.value == value
    if found.is_number:
        assert (end.value or b"").decode() == found.rest
    else:
        assert end.value == start.value


@given(st.text(max_size=40))
def test_reads_any_text(text: str) -> None:
    found = number(text)
    assert -(2**63) <= found.value < 2**63
    assert text.endswith(found.rest)


def files(machine: Snapshot, **settings: dict[str, str] | None) -> Snapshot:
    """The files of these names, in this order; None for one that is not there."""
    paths = {"named": "/opt/nccl.conf", "home": "/root/.nccl.conf", "system": "/etc/nccl.conf"}
    return with_network(
        machine,
        nccl_files=tuple(
            ConfigFile(paths[name], absent(paths[name], "none") if content is None else read(paths[name], content))
            for name, content in settings.items()
        ),
    )


def test_the_environment_wins_then_the_users_file() -> None:
    machine = files(
        setting(H100, NCCL_NET="IB", PATH="x"), home={"NCCL_NET": "A", "NCCL_B": "1"}, system={"NCCL_B": "2", "C": "3"}
    )
    assert effective(machine) == {
        "NCCL_B": Setting("NCCL_B", "1", "/root/.nccl.conf"),
        "NCCL_NET": Setting("NCCL_NET", "IB", ENVIRONMENT),
    }


def test_an_empty_variable_keeps_a_files_line_from_holding() -> None:
    settings = effective(files(setting(H100, NCCL_IB_DISABLE=""), system={"NCCL_IB_DISABLE": "1"}))
    assert set_integer(settings, "NCCL_IB_DISABLE", 0) == 0
    assert set_text(settings, "NCCL_IB_DISABLE") == ""


@pytest.mark.parametrize(("version", "expected"), [((2, 22, 3), "home"), ((2, 23, 4), "named"), ((2, 29, 7), "named")])
def test_nccl_conf_file_takes_the_place_of_the_users_file_from_2_23_4_on(
    version: tuple[int, ...], expected: str
) -> None:
    machine = files(
        setting(H100, NCCL_CONF_FILE="/opt/nccl.conf"),
        named={"NCCL_NET": "named"},
        home={"NCCL_NET": "home"},
        system={"NCCL_NET": "system"},
    )
    assert effective(with_nccl(machine, *version))["NCCL_NET"].value == expected


def test_without_the_version_nobody_can_tell_which_file_is_read() -> None:
    machine = files(setting(H100, NCCL_CONF_FILE="/opt/nccl.conf"), named={}, home=None, system=None)
    machine = but(but(machine, "training.torch", unread()), "training.libraries", unread())
    with pytest.raises(NotRead):
        effective(machine)
    # with neither of the two files it makes no difference
    assert set(effective(files(machine, named=None, home=None, system={"NCCL_NET": "IB"}))) == {
        "NCCL_CONF_FILE",
        "NCCL_NET",
    }


def test_a_file_that_could_not_be_read_is_not_passed_over() -> None:
    denied = ConfigFile("/etc/nccl.conf", missing("/etc/nccl.conf", "permission denied", "denied"))
    with pytest.raises(NotRead):
        effective(with_network(H100, nccl_files=(denied,)))


@pytest.mark.parametrize(("version", "value"), [((2, 29, 7), "eth0\r"), ((2, 30, 3), "eth0")])
def test_a_carriage_return_belongs_to_the_value_before_2_30_3(version: tuple[int, ...], value: str) -> None:
    there = read("/etc/nccl.conf", {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_NET": "IB"})
    file = ConfigFile("/etc/nccl.conf", there, with_return=("NCCL_SOCKET_IFNAME",))
    found = effective(with_nccl(with_network(H100, nccl_files=read("test", (file,))), *version))
    assert found["NCCL_SOCKET_IFNAME"] == Setting("NCCL_SOCKET_IFNAME", value, "/etc/nccl.conf")
    assert found["NCCL_NET"].value == "IB"


@pytest.mark.parametrize(("version", "expected"), [((2, 29, 7), "/root"), ((2, 30, 3), "/scratch")])
def test_of_two_homes_the_release_decides(version: tuple[int, ...], expected: str) -> None:
    homes = [
        ConfigFile(f"{place}/.nccl.conf", read("test", {"NCCL_NET": place}), home_of=home_of)
        for place, home_of in (("/root", "passwd"), ("/scratch", "HOME"))
    ]
    machine = with_nccl(with_network(H100, nccl_files=read("test", tuple(homes))), *version)
    assert effective(machine)["NCCL_NET"].value == expected
    assert (home_file(machine) or homes[0]).path == f"{expected}/.nccl.conf"
    only = with_network(machine, nccl_files=read("test", tuple(homes[:1])))
    assert ("NCCL_NET" in effective(only)) is (expected == "/root")


def test_the_version_is_that_of_the_library_that_torch_loaded() -> None:
    library = Library("nccl", "/opt/libnccl.so.2", "LD_LIBRARY_PATH", "2.27.5")
    machine = but(H100, "training.libraries", (library,))
    assert nccl_version(machine) == (2, 29, 7)
    loaded = but(machine, "training.torch.loaded_libraries", {"nccl": "/opt/libnccl.so.2"})
    assert nccl_version(loaded) == (2, 27, 5)
    assert nccl_version(but(machine, "training.torch", unread())) == (2, 27, 5)


def test_a_torch_without_nccl_has_no_version() -> None:
    machine = but(but(H100, "training.torch.nccl_version", None), "training.libraries", ())
    with pytest.raises(NotApplicable):
        nccl_version(machine)
    with pytest.raises(NotRead):
        nccl_version(Snapshot())


def test_a_number_that_does_not_fit_counts_as_unset() -> None:
    settings = {"NCCL_IB_TC": Setting("NCCL_IB_TC", "9" * 30, ENVIRONMENT)}
    assert set_integer(settings, "NCCL_IB_TC", -1) == -1


def test_lines_to_paste_are_quoted() -> None:
    plain = Setting("NCCL_NET", "a b", ENVIRONMENT)
    filed = Setting("NCCL_X/e id #", "1", "/tmp/my file")
    assert take_out(plain, filed) == ("unset NCCL_NET", "sed -i '/^NCCL_X.e.id..=/d' '/tmp/my file'")
    assert set_to(plain, "c d") == ("export NCCL_NET='c d'",)
    assert set_to(plain, "1", "NCCL_NEW") == ("unset NCCL_NET", "export NCCL_NEW=1")
