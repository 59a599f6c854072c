"""The Xid catalog: whole, told apart, and in words that a check can print."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.gpus.gpu_lookup import gpu_at, gpus_at, place, same_address, selector
from gpudoctor.knowledge.gpus.xid import (
    CATALOG,
    RECENT_SECONDS,
    SXID_CORRECTED,
    by_code,
    explain,
    is_recent,
    latest,
    times,
)
from gpudoctor.snapshot import XidEvent
from gpudoctor.testing.machines import h100_node

# NVIDIA's catalog calls these "Unused": no GPU of today logs them.
UNUSED = {*range(1, 8), 9, 10, 12, *range(15, 25), *range(26, 31), *range(33, 37), 42, 47, *range(49, 54), 55}
UNUSED |= {56, 57, 58, 59, 61, 65, 73, 81, 87, 90, 91, *range(111, 119), *range(122, 126), 138}


def test_every_code_that_nvidia_explains_is_here() -> None:
    assert set(range(1, 173)) - UNUSED == set(CATALOG)
    assert all(code == xid.code for code, xid in CATALOG.items())


@pytest.mark.parametrize(
    ("code", "level", "action"),
    [
        (13, "application", "restart-job"),
        (31, "application", "restart-job"),
        (45, "notice", "none"),
        (63, "notice", "none"),
        (48, "hardware", "reset-gpu"),
        (64, "hardware", "reset-gpu"),
        (74, "hardware", "check-nvlink"),
        (79, "hardware", "reboot"),
        (94, "hardware", "restart-job"),  # contained: the job, not the machine
        (95, "hardware", "reset-gpu"),
        (119, "hardware", "reset-gpu"),
        (145, "hardware", "check-nvlink"),
        (159, "hardware", "contact-support"),
        (166, "hardware", "contact-support"),
        (170, "hardware", "contact-support"),
    ],
)
def test_whose_fault_and_what_to_do(code: int, level: str, action: str) -> None:
    assert (CATALOG[code].level, CATALOG[code].action) == (level, action)


# The column "Resolution Bucket (Immediate Action)" of NVIDIA's catalog of October 2025, as it stands there; codes that
# have a workflow of their own (45, 48, 74, 144-150, 154) or no bucket (162-172) are not among them.
BUCKETS: dict[str, set[int]] = {
    "RESTART_APP": {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88}
    | {89, 94, *range(96, 106), *range(126, 136), 139},
    "IGNORE": {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161},
    "RESET_GPU": {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158},
    "RESTART_BM": {79},
    "CHECK_MECHANICALS": {54},
    "UPDATE_SWFW": {78},
    "RESTART_VM": {151},
    "CONTACT_SUPPORT": {142},
    "CHECK_UVM": {159},
}
ACTIONS = {
    "RESTART_APP": "restart-job",
    "IGNORE": "none",
    "RESET_GPU": "reset-gpu",
    "RESTART_BM": "reboot",
    "CHECK_MECHANICALS": "check-power",
    "UPDATE_SWFW": "update-driver",
    "RESTART_VM": "restart-vm",
    "CONTACT_SUPPORT": "contact-support",
    "CHECK_UVM": "contact-support",
}


def test_the_action_is_the_one_that_nvidia_names() -> None:
    for bucket, codes in BUCKETS.items():
        assert {code: CATALOG[code].action for code in codes} == dict.fromkeys(codes, ACTIONS[bucket]), bucket
        assert {CATALOG[code].level == "notice" for code in codes} == {bucket == "IGNORE"}, bucket
    assert {code for code, xid in CATALOG.items() if xid.action == "reboot"} == {79, 167}


def test_single_bit_errors_of_a_switch_are_corrected() -> None:
    """The codes that the Fabric Manager User Guide lists under "Single bit ECC errors", with no impact."""
    singles = {11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068}
    assert {*singles, 19071, 24001, 24002, 24003} == SXID_CORRECTED


def test_application_errors_never_ask_for_a_reset() -> None:
    assert {xid.action for xid in CATALOG.values() if xid.level == "application"} == {"restart-job"}
    assert {xid.action for xid in CATALOG.values() if xid.level == "notice"} == {"none"}


@given(st.integers(min_value=0, max_value=10**9))
def test_any_code_is_explained(code: int) -> None:
    xid = explain(code)
    assert xid.code == code and xid.name and not xid.meaning.endswith(".")


def test_events_are_grouped_and_aged() -> None:
    old, new = XidEvent(31, "a", "", seconds_ago=RECENT_SECONDS + 1), XidEvent(31, "a", "", seconds_ago=5.0)
    timeless = XidEvent(79, "b", "")
    assert by_code((old, timeless, new)) == {31: [old, new], 79: [timeless]}
    assert [is_recent(event) for event in (old, new, timeless)] == [False, True, True]
    assert latest((old, new, timeless)) is new and latest((timeless,)) is timeless
    assert times((old, new)) == "2 times, the last 5 seconds ago"
    assert (times((new,)), times((timeless,))) == ("once, 5 seconds ago", "once")


def test_addresses_of_the_log_find_their_gpu() -> None:
    gpus = h100_node().nvidia.gpus.value
    for address in ("0000:4b:00", "0000:4B:00.0", "00000000:4b:00.0", "4b:00"):
        found = gpu_at(gpus, address)
        assert found is not None and found.index == 3
    several = ["0000:4b:00.0", "junk", "0000:1b:00.0", "0000:4b:00"]
    assert [gpu.index for gpu in gpus_at(gpus, several)] == [0, 3]
    assert (place(gpus, several), place(gpus, several[:1])) == ("GPUs 0,3", "GPU 3 (0000:4b:00.0)")
    assert place((), several[:1]) == "the GPU at 0000:4b:00.0"
    assert (selector(gpus, "0000:4b:00"), selector((), "0000:4b:00")) == ("3", "00000000:4B:00.0")


@given(st.text(max_size=30))
def test_no_address_raises(text: str) -> None:
    assert same_address(text, "0000:4b:00.0") in (True, False)
    selector((), text)
    gpu_at(h100_node(1).nvidia.gpus.value, text)
