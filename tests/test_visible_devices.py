"""What CUDA_VISIBLE_DEVICES selects: a table from the facts, properties, and a driver written independently."""

import sys
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.knowledge.visible.agreement import agrees, enumerated
from gpudoctor.knowledge.visible.devices import select, select_on
from gpudoctor.knowledge.visible.selection import Selection
from gpudoctor.knowledge.visible.words import advice, line_to_paste, meaning
from gpudoctor.snapshot import CudaAnswer, CudaDevice, Gpu, MigDevice, Snapshot, missing
from gpudoctor.testing.machines import but_gpu, gpu, h100_node, node, nvml, rtx_4090, t4
from tests.driver_answers import driver_answers, examined, uuids_of
from tests.lab import machines
from tests.lab.nvidia import Machine, fake_nvidia
from tests.visible_values import generated

TAIL = "-1111-2222-3333-444444444444"
FOUR = h100_node(4)
ALL = [0, 1, 2, 3]


def uuid(index: int) -> str:
    return f"GPU-{index:08x}{TAIL}"


def mig(n: int) -> str:
    return f"MIG-0000000{n}{TAIL}"


def instances(*ids: tuple[int, int], first: int = 0) -> tuple[MigDevice, ...]:
    """MIG devices with these GPU and compute instance ids."""
    return tuple(
        MigDevice(n, nvml(mig(first + n)), nvml("1g.10gb"), nvml(gi), nvml(ci)) for n, (gi, ci) in enumerate(ids)
    )


def in_mig_mode(index: int, devices: tuple[MigDevice, ...]) -> Gpu:
    return gpu(index, mig_mode=True, mig_devices=devices)


def indices(selection: Selection) -> list[int | None]:
    return [device.nvml for device in selection.devices]


# (value, nvidia-smi indices that a program gets, the notes, what was meant); sources: facts/05-devices-amp.md 1.1
TABLE: list[tuple[str | None, list[int], list[str], str | None]] = [
    (None, ALL, [], None),
    ("", [], ["empty"], None),
    ("2,1", [2, 1], [], None),
    ("0,2,-1,1", [0, 2], ["negative"], "0,2,1"),
    ("8", [], ["out-of-range"], None),
    ("0,8,1", [0], ["out-of-range"], "0,1"),
    ("0,1,1", [], ["duplicate"], "0,1"),
    ("0,00", [], ["duplicate"], "0"),
    ("1gpu2,2ampere", [1, 2], ["ignored-text", "ignored-text"], "1,2"),
    ("0, 1", [0, 1], [], None),
    ("+3", [3], [], None),
    ("-0", [0], [], None),
    ("0-2", [0], ["ignored-text"], "0,1,2"),
    ("0..3", [0], ["ignored-text"], "0,1,2,3"),
    ("0;1", [0], ["ignored-text"], "0,1"),
    ("0 1", [0], ["ignored-text"], "0,1"),
    ("0,1,", [0, 1], [], None),
    ("0,,1", [0], ["blank"], "0,1"),
    (",0", [], ["blank"], "0"),
    ("0,,", [0], [], None),
    (",", [], ["hides-all"], None),
    ("NoDevFiles", [], ["hides-all"], None),
    ("-1", [], ["hides-all"], None),
    ("none", [], ["hides-all"], None),
    (" ", [], ["empty"], None),
    ("-1,0", [], ["negative"], "0"),
    ("all", [], ["not-a-number"], "0,1,2,3"),
    ("cuda:1", [], ["not-a-number"], "1"),
    ("GPU-2", [], ["unknown-uuid"], "2"),
    ("'0,1'", [], ["not-a-number"], "0,1"),
    ('"2"', [], ["not-a-number"], "2"),
    ("[0,1]", [], ["not-a-number"], "0,1"),
    ("/dev/nvidia3", [], ["not-a-number"], "3"),
    ("+", [], ["not-a-number"], None),
    ("²", [], ["not-a-number"], None),
    ("٣", [], ["not-a-number"], "3"),  # a digit to people and to Python's isdigit, none to strtol
    ("0\x00", [0], ["ignored-text"], "0"),
    ("01", [1], [], None),
    ("010", [], ["out-of-range"], None),  # 10 or 8: past the end either way
    ("0x1", [0], ["number-format"], None),
    ("99999999999999999999", [], ["out-of-range"], None),
    ("9" * 5000, [], ["out-of-range"], None),
    (uuid(2), [2], [], None),
    ("GPU-00000002", [2], [], None),
    ("GPU-00000002,GPU-00000000", [2, 0], [], None),
    ("GPU-0000000", [], ["ambiguous-uuid"], None),
    ("GPU-", [], ["ambiguous-uuid"], None),
    ("GPU-00000001,GPU-dead,GPU-00000002", [1], ["unknown-uuid"], f"{uuid(1)},{uuid(2)}"),
    (f"GPU-00000001,{uuid(1)}", [], ["duplicate"], uuid(1)),
    ("gpu-00000001", [], ["wrong-case"], uuid(1)),
    (" GPU-00000001", [], ["unknown-uuid"], uuid(1)),
    ("GPU-00000001 ", [], ["unknown-uuid"], uuid(1)),
    (f"00000002{TAIL}", [2], ["missing-prefix"], uuid(2)),
    ("0,GPU-00000001", [0], ["mixed-forms"], f"{uuid(0)},{uuid(1)}"),
    ("GPU-00000001,0", [1], ["mixed-forms"], f"{uuid(1)},{uuid(0)}"),
    ("GPU-00000001,MIG-x", [1], ["unknown-uuid"], uuid(1)),
    ("MIG-GPU-00000001/0/0", [], ["unknown-uuid"], None),
    ("00000000:2b:00.0", [0], ["ignored-text"], uuid(1)),
    ("2-9", [2], ["ignored-text"], None),
]


@pytest.mark.parametrize(("value", "expected", "kinds", "suggested"), TABLE, ids=[repr(row[0])[:30] for row in TABLE])
def test_selects(value: str | None, expected: list[int], kinds: list[str], suggested: str | None) -> None:
    selection = select_on(FOUR, value)
    assert indices(selection) == expected
    assert [note.kind for note in selection.notes] == kinds
    assert selection.suggested == suggested


@pytest.mark.parametrize(
    ("value", "certain"),
    [
        (None, True),
        ("0,2,-1,1", True),
        ("0,1,1", True),
        ("1gpu2", True),
        ("GPU-0000000", True),
        ("010", True),
        ("0x1", False),
        ("\t1", False),
        ("4294967296", False),  # 0 to a parser that keeps 32 bits
        ("0,GPU-00000001", False),
        ("gpu-00000001", False),
        (" GPU-00000001", False),
        ("3,9,9", False),  # torch's parser finds the duplicate behind the end of the list
        ("3,9,8", True),
    ],
)
def test_says_when_cuda_s_behaviour_is_not_documented(value: str | None, certain: bool) -> None:
    assert select_on(FOUR, value).certain is certain


def test_what_was_lost_is_named() -> None:
    note = select_on(FOUR, "3,x,2,1").notes[0]
    assert (note.entry, note.position, note.lost) == ("x", 1, ("x", "2", "1"))


def test_an_ambiguous_prefix_names_its_candidates() -> None:
    assert select_on(FOUR, "GPU-0").notes[0].candidates == tuple(uuid(index) for index in range(4))


def test_a_bare_uuid_can_be_another_card_s_number() -> None:
    shuffled = [gpu(0), gpu(1, uuid=f"GPU-00000003{TAIL}"), gpu(2), gpu(3, uuid=f"GPU-0000abcd{TAIL}")]
    selection = select(f"00000003{TAIL}", shuffled)
    assert (indices(selection), selection.suggested) == ([3], f"GPU-00000003{TAIL}")


# -- the order ---------------------------------------------------------------------------------------------------


def answer_in_order(machine: Snapshot, *ordinals: int) -> CudaAnswer:
    devices = machine.cuda.all.value.devices
    chosen = tuple(msgspec.structs.replace(devices[old], ordinal=new) for new, old in enumerate(ordinals))
    return msgspec.structs.replace(machine.cuda.all.value, devices=chosen)


def test_ordinals_count_in_the_driver_s_order() -> None:
    mixed = node((t4(0), gpu(1), gpu(2)))
    selection = select("0,2", mixed.nvidia.gpus.value, known=answer_in_order(mixed, 1, 2, 0))
    assert (indices(selection), selection.certain) == ([1, 0], True)
    assert indices(select(None, mixed.nvidia.gpus.value, known=answer_in_order(mixed, 1, 2, 0))) == [1, 2, 0]


@pytest.mark.parametrize(
    ("order", "expected", "certain"),
    [(None, 1, False), ("FASTEST_FIRST", 1, False), ("PCI_BUS_ID", 0, True), ("pci_bus_id", 1, False), ("", 1, False)],
)
def test_the_order_of_mixed_models_is_a_guess_until_it_is_pci(order: str | None, expected: int, certain: bool) -> None:
    selection = select("0", [t4(0), gpu(1)], order=order)
    assert (indices(selection), selection.certain) == ([expected], certain)


def test_uuids_do_not_depend_on_the_order() -> None:
    selection = select("GPU-00000000", [t4(0), gpu(1)])
    assert (indices(selection), selection.certain, selection.notes) == ([0], True, ())


def test_equal_models_are_in_pci_order_whatever_nvml_s_index() -> None:
    swapped = [rtx_4090(0, pci_bus_id="00000000:81:00.0"), rtx_4090(1, pci_bus_id="00000000:21:00.0")]
    assert indices(select("0", swapped)) == [1]


def test_a_gpu_that_the_driver_does_not_enumerate_is_out_of_reach() -> None:
    selection = select("2,3", FOUR.nvidia.gpus.value, known=answer_in_order(FOUR, 0, 1, 3))
    assert indices(selection) == [3]
    by_uuid = select(uuid(2), FOUR.nvidia.gpus.value, known=answer_in_order(FOUR, 0, 1, 3))
    assert [note.kind for note in by_uuid.notes] == ["unreachable"]


def test_a_lost_gpu_leaves_the_numbers_in_doubt() -> None:
    lost = but_gpu(FOUR, 1, pci_bus_id=missing("nvml", "GPU is lost", "lost"))
    selection = select("1", lost.nvidia.gpus.value)
    assert (indices(selection), selection.certain) == ([2], False)


# -- MIG ---------------------------------------------------------------------------------------------------------

MIG_FIRST = [in_mig_mode(0, instances((7, 0), (8, 0))), gpu(1), gpu(2)]
SHARED = [in_mig_mode(0, instances((1, 0), (1, 1), (2, 0))), gpu(1)]


@pytest.mark.parametrize(
    ("value", "driver", "expected"),
    [
        (None, "580.95.05", [mig(0), mig(1), uuid(1), uuid(2)]),
        (None, "535.129.03", [mig(0)]),
        (mig(1), "535.129.03", [mig(1)]),
        (mig(1), "580.95.05", [mig(1)]),
        (f"{mig(1)},{mig(0)}", "580.95.05", [mig(1), mig(0)]),
        (f"{mig(1)},{mig(0)}", "535.129.03", [mig(1)]),
        (f"{mig(1)},{uuid(2)}", "580.95.05", [mig(1), uuid(2)]),
        (f"{mig(1)},{mig(1)}", "580.95.05", []),
        (f"MIG-{uuid(0)}/8/0", "450.80.02", [mig(1)]),
        (f"MIG-{uuid(0)}/9/0", "450.80.02", []),
        ("1,2", "535.129.03", [uuid(1), uuid(2)]),
        ("0,1", "535.129.03", [mig(0)]),
    ],
)
def test_selects_mig_devices(value: str | None, driver: str, expected: list[str]) -> None:
    assert [device.identity for device in select(value, MIG_FIRST, driver_version=driver).devices] == expected


def test_the_one_device_that_an_old_driver_shows_beside_mig_does_not_renumber_the_others() -> None:
    last = [gpu(0), gpu(1), in_mig_mode(2, instances((7, 0)))]
    shown = CudaAnswer(0, devices=(CudaDevice(0, mig(0), "00000000:3b:00.0", "MIG"),))
    assert [device.identity for device in select(None, last, known=shown, driver_version="535.129.03").devices] == [
        mig(0)
    ]
    selection = select("0,1", last, known=shown, driver_version="535.129.03")
    assert (indices(selection), selection.certain) == ([0, 1], False)


def test_the_line_for_a_gpu_in_mig_mode_does_not_name_it_again() -> None:
    selection = select("0,9", MIG_FIRST, driver_version="580.95.05")
    assert [line_to_paste(note, selection) for note in selection.notes if note.kind == "mig-parent"] == [
        "nvidia-smi -L"
    ]


def test_one_compute_instance_of_each_gpu_instance() -> None:
    both = select(f"{mig(0)},{mig(1)},{mig(2)}", SHARED, driver_version="580.95.05")
    assert [device.mig for device in both.devices] == [mig(0), mig(2)]
    assert [(note.kind, note.lost) for note in both.notes] == [("mig-limit", (mig(1),))]
    assert [device.mig for device in select(None, SHARED, driver_version="580.95.05").devices] == [mig(0), mig(2), None]


def test_mig_devices_carry_their_parent() -> None:
    device = select(mig(1), MIG_FIRST).devices[0]
    assert (device.nvml, device.uuid, device.mig, device.pci) == (0, uuid(0), mig(1), "00000000:1b:00.0")


def test_a_gpu_in_mig_mode_without_instances_is_not_counted() -> None:
    selection = select(uuid(0), [in_mig_mode(0, ()), gpu(1)])
    assert [note.kind for note in selection.notes] == ["unreachable"]
    assert "MIG mode" in selection.notes[0].problem
    assert indices(select(None, [in_mig_mode(0, ()), gpu(1)])) == [1]


# -- properties --------------------------------------------------------------------------------------------------

GPUS = [*MIG_FIRST, t4(3)]
PIECES = ["0", "1", "2", "3", "9", "-1", "+1", "0x1", "007", " ", "", "GPU-", "MIG-", "gpu-", "-", "cuda:", uuid(1)]
PIECES += [mig(0), mig(1), "GPU-00000002", f"MIG-{uuid(0)}/7/0", "all", "²", "\x00", "\ud800", ";", "/", TAIL]
VALUES = st.one_of(
    st.text(),
    st.text("0123456789,+-GPUMIG /abcdefx.:; \t"),
    st.lists(st.lists(st.sampled_from(PIECES), max_size=3).map("".join), max_size=8).map(",".join),
)
DRIVERS = st.sampled_from(["", "450.80.02", "535.129.03", "580.95.05", "x.y"])


@settings(deadline=None)
@given(VALUES, DRIVERS, st.one_of(st.none(), st.sampled_from(["PCI_BUS_ID", "FASTEST_FIRST"]), st.text()))
def test_no_value_makes_it_raise_or_repeat_a_device(value: str, driver: str, order: str | None) -> None:
    selection = select(value, GPUS, order=order, driver_version=driver)
    identities = [device.identity for device in selection.devices]
    assert len(set(identities)) == len(identities)
    assert [device.cuda for device in selection.devices] == list(range(len(identities)))
    for note in selection.notes:
        line = line_to_paste(note, selection) or ""
        text = f"{note.problem} {meaning(note, selection)} {advice(note, selection)} {line}"
        assert text.isprintable()
        assert len(note.problem) < 2000  # a value of hundreds of entries is not repeated
    if selection.suggested is None and len(selection.devices) < len(value.split(",")):
        assert selection.notes or (selection.devices and not value.rpartition(",")[2].strip())


@settings(deadline=None)
@given(VALUES, DRIVERS)
def test_what_follows_the_end_of_the_list_changes_nothing_before_it(value: str, driver: str) -> None:
    shorter = select(value.rpartition(",")[0] or value, GPUS, driver_version=driver)
    longer = select(value, GPUS, driver_version=driver)
    # A GPU in MIG mode serves its instance only while no whole GPU is on the list.
    if longer.devices and driver != "" and not any(device.mig for device in shorter.devices):
        assert longer.devices[: len(shorter.devices)] == shorter.devices[: len(longer.devices)]


@settings(deadline=None)
@given(VALUES, DRIVERS)
def test_what_is_suggested_has_nothing_wrong_with_it(value: str, driver: str) -> None:
    suggested = select(value, GPUS, order="PCI_BUS_ID", driver_version=driver).suggested
    if suggested is not None:
        again = select(suggested, GPUS, order="PCI_BUS_ID", driver_version=driver)
        assert {note.kind for note in again.notes} <= {"mig-parent", "mig-limit", "order-guess"}
        assert again.devices


# -- against a driver that somebody else wrote ----------------------------------------------------------------------

LAB: dict[str, Callable[[], Machine]] = {
    "8xH100": machines.hgx_h100,
    "1xH200": machines.one_h200,
    "mixed": machines.mixed_cards,
    "DGX Station": machines.dgx_station,
    "MIG": machines.hgx_a100_with_mig,
    "MIG, driver 535": lambda: machines.hgx_a100_with_mig("535.129.03"),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fake driver is an ELF library")
@pytest.mark.parametrize("name", LAB)
def test_agrees_with_the_fake_driver(name: str) -> None:
    lab = LAB[name]()
    with fake_nvidia(lab) as environment:
        machine = examined(environment)
        uuids = uuids_of(machine)
        migs = [uuid for uuid in uuids if uuid.startswith("MIG-")]
        values = list(dict.fromkeys(generated(uuids, 250) + generated(migs or uuids, 150, seed=2)))
        answers = driver_answers(values, environment)
    differing = []
    certain = 0
    for value in values:
        selection = select_on(machine, value)
        certain += selection.certain
        if selection.certain and not agrees(selection, answers[value]):
            found = [device.uuid for device in enumerated(answers[value]) or ()]
            differing.append((value, [device.identity for device in selection.devices], found))
    assert not differing
    assert certain > (10 if "MIG" in name else 150), "too little is certain for this to say much"


@pytest.mark.parametrize("value", ["0,1,2,3,4,5,6,8", "1,2,3,4,5,6,7,8"])
def test_as_many_numbers_as_gpus_mean_all_of_them(value: str) -> None:
    """docs/examples/broken-8xh100.json: what was advised selected 7 of 8 GPUs, as what was wrong did."""
    selection = select_on(h100_node(), value)
    assert selection.suggested == "0,1,2,3,4,5,6,7"
