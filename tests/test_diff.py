"""Two captures compared: every place counts or is named as one that does not; what is told, and when."""

import io
import typing
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings, strategies as some
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.compare.facts import FACTS, VOLATILE
from gpudoctor.compare.leaves import spots
from gpudoctor.compare.pairing import KEYS, paired
from gpudoctor.compare.report import DiffReport, DiffSide, diff
from gpudoctor.plugins import find_checks
from gpudoctor.redact import redact
from gpudoctor.render.diff import show_diff
from gpudoctor.render.prose import console
from gpudoctor.snapshot import (
    EccCounts,
    Interface,
    NvLink,
    Reading,
    Snapshot,
    absent,
    from_json,
    missing,
    read,
    to_json,
)
from gpudoctor.testing.machines import but, but_gpu, h100_node, t4_node
from tests.machines.hand_built import MACHINES
from tests.machines.network_machines import NETWORK_MACHINES

EVERY: dict[str, Callable[[], Snapshot]] = {**MACHINES, **NETWORK_MACHINES}
CHECKS = find_checks()[0]


def compare(before: Snapshot, after: Snapshot) -> DiffReport:
    return diff(before, after, (DiffSide("A", "a"), DiffSide("B", "b")), CHECKS)


def told(before: Snapshot, after: Snapshot) -> list[str]:
    return [f"{each.severity} {each.summary}" for each in compare(before, after).changes]


def without(machine: Snapshot, *indices: int) -> Snapshot:
    """The GPUs are gone from the driver, which numbers the others anew; the bus shows them still."""
    left = [each for each in machine.nvidia.gpus.value if each.index not in indices]
    gpus = tuple(replace(each, index=index) for index, each in enumerate(left))
    return replace(machine, nvidia=replace(machine.nvidia, gpus=read("nvml", gpus), peers=read("nvml", ())))


# ---------------------------------------------------------------- the table


def is_volatile(name: str) -> str:
    """Why a place is no difference by itself; empty where it counts, or stands nowhere."""
    if name in FACTS:
        return ""
    while name:
        if name in VOLATILE:
            return VOLATILE[name]
        name = name[:-2] if name.endswith(("[]", "{}")) else name.rpartition(".")[0]
    return ""


def places(type_: Any, place: str) -> Iterator[str]:
    """Every place that a difference can stand at, by the types of the snapshot."""
    if get_origin(type_) is typing.Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) is Reading:
        inner = get_args(type_)[0]
        if isinstance(inner, type) and issubclass(inner, Struct):
            yield place  # there in one of the two only
        yield from places(inner, place)
    elif isinstance(type_, type) and issubclass(type_, Struct):
        for name, inner in get_type_hints(type_, include_extras=True).items():
            if name in type_.__struct_fields__:
                yield from places(inner, f"{place}.{name}" if place else name)
    elif get_origin(type_) is tuple and (inner := get_args(type_)[0]) and getattr(inner, "__name__", "") in KEYS:
        yield f"{place}[]"
        yield from places(inner, f"{place}[]")
    elif get_origin(type_) is dict:
        yield from places(get_args(type_)[1], f"{place}{{}}")
    else:
        yield place


def test_every_place_of_a_snapshot_counts_or_is_named_as_one_that_does_not() -> None:
    every = set(places(Snapshot, ""))
    keys = {
        place for place in every if place.endswith(tuple(f"].{field}" for fields in KEYS.values() for field in fields))
    }
    nowhere = {place for place in every if place not in FACTS and not is_volatile(place)} - keys
    assert len(every) > 250 and not nowhere
    assert not {place for place in FACTS if place not in every and place + "{}" not in FACTS}
    assert not {name for name in VOLATILE if not any(place.startswith(name) for place in every)}


@pytest.mark.parametrize("name", EVERY)
def test_a_capture_is_the_same_as_itself_and_all_that_differs_is_told_or_named(name: str) -> None:
    machine, other = EVERY[name](), h100_node()
    again = from_json(to_json(machine))
    assert not list(spots(machine, again, paired(machine, again)))
    for spot in (*spots(other, machine, paired(other, machine)), *spots(machine, other, paired(machine, other))):
        above = any(place.startswith(spot.place) for place in FACTS)  # a part that one of them could not read
        assert spot.place in FACTS or is_volatile(spot.place) or above, spot.place


def test_a_report_on_two_alike_is_empty() -> None:
    for machine in (h100_node(), t4_node(), MACHINES["broken-8xh100"](), MACHINES["lost-gpu"]()):
        report = compare(machine, machine)
        assert (report.verdict, report.exit_status, report.changes, report.unseen) == ("the same", 0, (), ())


VALUES = some.one_of(some.integers(0, 2**40), some.booleans(), some.text(max_size=8), some.none())


@settings(max_examples=60, deadline=None)
@given(some.sampled_from(sorted(EVERY)), some.data())
def test_whatever_a_file_holds_it_equals_itself_and_a_change_of_it_is_told_both_ways(
    name: str, data: some.DataObject
) -> None:
    """A machine with some of its numbers changed, as JSON allows."""
    plain = msgspec.json.decode(to_json(EVERY[name]()))
    here, steps = plain, 0
    while isinstance(here, (dict, list)) and here and steps < 12:
        key = data.draw(some.sampled_from(list(here) if isinstance(here, dict) else list(range(len(here)))))
        inside, steps = here[key], steps + 1
        if isinstance(inside, (dict, list)) and inside:
            here = inside
            continue
        here[key] = data.draw(some.integers(0, 9)) if type(inside) is int else inside
        break
    try:
        changed = from_json(msgspec.json.encode(plain))
    except ValueError:
        return
    machine = EVERY[name]()
    assert not list(spots(changed, changed, paired(changed, changed)))
    forth, back = (
        {spot.place for spot in spots(*pair, paired(*pair))} for pair in ((machine, changed), (changed, machine))
    )
    assert forth == back


# ---------------------------------------------------------------- what is told


def test_a_gpu_that_is_gone_comes_first_by_uuid_and_place() -> None:
    machine = but_gpu(without(h100_node(), 5), 2, pcie_width=8)
    lines = told(h100_node(), machine)
    assert lines[0] == (
        "error gone: GPU 5 (0000:6b:00.0, GPU-00000005-1111-2222-3333-444444444444) "
        "(NVIDIA H100 80GB HBM3; still on the PCI bus)"
    )
    assert lines[1] == "warning GPU 2 (0000:3b:00.0): PCIe lanes 16 -> 8" and len(lines) == 2
    assert compare(h100_node(), machine).exit_status == 1
    back = compare(machine, h100_node())
    assert {each.kind for each in back.changes} == {"better", "new"} and back.exit_status == 0
    assert back.verdict == "not worse"


def test_a_gpu_moved_or_replaced_is_said() -> None:
    machine = h100_node()
    other = but_gpu(machine, 3, uuid="GPU-99999999-1111-2222-3333-444444444444")
    assert any("another GPU sits in its place" in line and "GPU-9999" in line for line in told(machine, other))
    moved = but_gpu(machine, 3, pci_bus_id="00000000:cb:00.0")
    assert "info GPU 3 (0000:cb:00.0): PCI address 00000000:4b:00.0 -> 00000000:cb:00.0" in told(machine, moved)


def test_the_finding_that_rests_on_a_change_is_named_with_it_and_not_told_twice() -> None:
    machine = but_gpu(h100_node(), 3, ecc_volatile=EccCounts(0, 2))
    (change,) = compare(h100_node(), machine).changes
    assert change.checks == ("ecc-uncorrected-errors",) and change.severity == "error" and change.gpus == (3,)


def test_numbers_of_a_moment_are_no_difference_until_they_cross_what_a_check_judges() -> None:
    machine = h100_node()
    warm = but_gpu(machine, 1, temperature_celsius=48, memory_used_bytes=2**20, clock_sm_mhz=345, pcie_generation=1)
    assert compare(machine, warm).verdict == "the same"
    hot = but_gpu(machine, 1, temperature_celsius=89)
    (change,) = compare(machine, hot).changes
    assert change.kind == "finding" and "89" in change.summary
    (back,) = compare(hot, machine).changes
    assert back.kind == "mended" and compare(hot, machine).exit_status == 0


def test_links_and_ports_are_told_once_for_all_alike() -> None:
    links = tuple(NvLink(link, link > 3, "switch") for link in range(18))
    all_up = tuple(NvLink(link, True, "switch") for link in range(18))
    before, after = (but_gpu(h100_node(), 5, nvlinks=each) for each in (all_up, links))
    assert told(before, after) == ["error GPU 5 links 0-3: NVLink active: yes -> no"]
    slower = h100_node()
    for index in range(8):
        slower = but_gpu(slower, index, power_limit_watts=500.0)
    assert "warning GPUs 0-7: power limit 700 W -> 500 W" in told(h100_node(), slower)


def test_versions_say_upgrade_or_downgrade() -> None:
    machine = h100_node()
    older = replace(machine, nvidia=replace(machine.nvidia, driver_version=read("nvml", "580.65.06")))
    # An error, because the kernel module and the fabric manager are still the newer ones.
    assert "error driver 580.95.05 -> 580.65.06 (downgrade)" in told(machine, older)
    assert "info driver 580.65.06 -> 580.95.05 (upgrade)" in told(older, machine)
    kernel = but(machine, "host.kernel_release", "6.11.0-9-generic")
    assert next(line for line in told(machine, kernel) if "kernel" in line).endswith("(upgrade)")


def test_two_machines_are_not_told_apart_by_what_each_has_of_its_own() -> None:
    machine = h100_node()
    other = but(machine, "host.hostname", "node-2")
    for index in range(8):
        other = but_gpu(other, index, uuid=f"GPU-abcdef0{index}-1111-2222-3333-444444444444", serial=str(index))
    report = compare(machine, other)
    assert (report.kinship, report.verdict, report.changes) == ("other", "the same", ())
    assert [each.summary for each in compare(machine, but_gpu(other, 4, pcie_width=4)).changes] == [
        "GPU 4 (0000:5b:00.0): PCIe lanes 16 -> 4"
    ]


def test_of_redacted_captures_nothing_is_told_by_pseudonyms() -> None:
    machine = h100_node()
    both = redact(machine), redact(without(machine, 0))
    lines = told(*both)
    assert lines[0].startswith("error gone: GPU 0 (0000:1b:00.0")
    assert compare(*both).kinship == "unknown"
    assert [line for line in told(machine, redact(machine)) if "error" in line or "warning" in line] == []
    assert any("redacted" in line for line in compare(*both).unseen)


def test_what_one_does_not_tell_is_said_and_never_taken_for_equal() -> None:
    machine = h100_node()
    blind = replace(machine, nvidia=replace(machine.nvidia, gpus=missing("nvml", "permission denied", "denied")))
    report = compare(machine, blind)
    assert report.exit_status == 3 and "the GPUs are not in B" in report.lacking[0]
    silent = but_gpu(machine, 6, name=missing("nvml", "GPU is lost", "lost"))
    assert "error GPU 6 (0000:7b:00.0): it cannot be read any more: GPU is lost" in told(machine, silent)
    early = from_json(b'{"schema": 1, "nvidia": {"driver_version": {"source": "nvml", "value": "580.95.05"}}}')
    report = compare(early, machine)
    assert report.exit_status == 3 and not [each for each in report.changes if each.severity != "info"]
    assert any("GPUs" in line and "A does not tell" in line for line in report.unseen)


def test_a_driver_or_torch_that_is_gone_is_an_error() -> None:
    machine = h100_node()
    bare = replace(machine, training=replace(machine.training, torch_files=absent("torch", "not installed")))
    assert any(line.startswith("error torch") for line in told(machine, bare))
    no_gpu = replace(machine, nvidia=replace(machine.nvidia, gpus=absent("nvml", "no GPU")))
    assert sum(line.startswith("error gone: GPU ") for line in told(machine, no_gpu)) == 8


def test_interfaces_of_containers_come_and_go_unsaid() -> None:
    machine = h100_node()
    every = machine.network.interfaces.value
    veth = Interface("veth1a2b", 77, "veth", is_up=True)
    assert compare(machine, but(machine, "network.interfaces", (*every, veth))).verdict == "the same"
    slower = tuple(replace(each, mtu=1500, speed_mbps=1000) for each in every)
    before = but(machine, "network.interfaces", tuple(replace(each, mtu=9000, speed_mbps=10000) for each in every))
    lines = told(before, but(machine, "network.interfaces", slower))
    assert any("speed 10000 Mb/s -> 1000 Mb/s" in line for line in lines)
    assert any("MTU 9000 -> 1500" in line for line in lines)


def test_both_machines_are_shown_and_the_verdict_last() -> None:
    page = io.StringIO()
    report = compare(h100_node(), MACHINES["broken-8xh100"]())
    show_diff(report, console(no_color=True, file=page, width=80))
    lines = page.getvalue().splitlines()
    assert lines[0].startswith("A: ") and "B: " in page.getvalue() and max(map(len, lines)) <= 80
    assert "B is worse: " in "\n".join(lines[-3:]) and report.exit_status == 1
    again = msgspec.json.decode(msgspec.json.encode(report), type=DiffReport)
    assert again == report
