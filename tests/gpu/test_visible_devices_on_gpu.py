"""Predicted devices against the real CUDA driver's. `pytest tests/gpu -rP` also shows what is not documented."""

import json
import os
import subprocess
import sys

import pytest

from gpudoctor.knowledge.visible.agreement import agrees, enumerated
from gpudoctor.knowledge.visible.devices import select, select_on
from gpudoctor.snapshot import Snapshot
from tests.driver_answers import driver_answers, examined, uuids_of
from tests.visible_values import generated

pytestmark = pytest.mark.timeout(600)  # a driver without persistence mode takes seconds for each of the values
VALUES = 300


def compare(machine: Snapshot, values: list[str], environment: dict[str, str]) -> tuple[list[str], list[str], int]:
    """What differs although it is documented, what differs of the rest, and how many values are documented."""
    answers = driver_answers(values, environment, at_once=min(8, os.cpu_count() or 1))
    wrong: list[str] = []
    surprising: list[str] = []
    certain = 0
    for value in values:
        selection = select_on(machine, value)
        certain += selection.certain
        if not agrees(selection, answers[value]):
            predicted = [device.identity for device in selection.devices]
            found = enumerated(answers[value])
            said = answers[value].error_name if found is None else [device.uuid for device in found]
            (wrong if selection.certain else surprising).append(f"{value!r}: predicted {predicted}, CUDA says {said}")
    return wrong, surprising, certain


def test_the_prediction_is_the_driver_s_answer(machine: Snapshot, environment: dict[str, str]) -> None:
    values = generated(uuids_of(machine), VALUES)
    wrong, surprising, certain = compare(machine, values, environment)
    print(f"{certain} of {len(values)} values are documented; of the others these differ:", *surprising, sep="\n")
    assert not wrong, "\n".join([f"{len(wrong)} of {certain} documented values differ:", *wrong])
    assert certain > 10


@pytest.mark.parametrize("order", ["PCI_BUS_ID", "FASTEST_FIRST"])
def test_so_it_is_in_either_order(order: str, environment: dict[str, str], machine: Snapshot) -> None:
    ordered = {**environment, "CUDA_DEVICE_ORDER": order}
    values = generated(uuids_of(machine), 40, seed=3)
    wrong, surprising, _ = compare(examined(ordered), values, ordered)
    print(*surprising, sep="\n")
    assert not wrong, "\n".join(wrong)


def test_pci_order_needs_no_driver_to_be_known(machine: Snapshot, environment: dict[str, str]) -> None:
    """Without the driver's answer, as for a file: in PCI order the rules alone give what it enumerates."""
    ordered = examined({**environment, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    predicted = select(None, machine.nvidia.gpus.value, order="PCI_BUS_ID")
    if not predicted.certain:
        pytest.skip("a machine with MIG devices or a lost GPU: its numbering is not documented")
    assert agrees(predicted, ordered.cuda.all.value)


def test_the_command_agrees_with_the_driver(machine: Snapshot, environment: dict[str, str]) -> None:
    first = machine.cuda.all.value.devices[0]
    for value in (None, first.uuid, "0", ""):
        arguments = [] if value is None else ["--cuda-visible-devices", value]
        done = subprocess.run(
            [sys.executable, "-m", "gpudoctor", "devices", "--json", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
        )
        assert done.returncode == (1 if value == "" else 0), done.stderr
        answer = json.loads(done.stdout)
        assert answer["agrees"] is True, (value, answer["driver"])
