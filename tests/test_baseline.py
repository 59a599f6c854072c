"""`check --baseline FILE`: what an earlier capture had and this machine has not."""

from msgspec.structs import replace

from gpudoctor import library
from gpudoctor.report import Report
from gpudoctor.snapshot import Snapshot, missing, read
from gpudoctor.testing.machines import but, but_gpu, h100_node
from tests.machines.hand_built import MACHINES

OF_BASELINE = (
    "gpu-gone-since-baseline",
    "worse-than-baseline",
    "changed-since-baseline",
    "baseline-of-another-machine",
)


def found(now: Snapshot, then: Snapshot) -> tuple[Report, list[str]]:
    report = library.diagnose(now, baseline=then)
    told = [
        f"{problem.severity} {result.check}: {problem.summary}"
        for result, problem in report.problems
        if result.check in OF_BASELINE
    ]
    return report, told


def without(machine: Snapshot, index: int) -> Snapshot:
    """The bus does not show it either, so that nothing but the earlier capture tells of it."""
    gone = machine.nvidia.gpus.value[index].pci_bus_id.value[4:]
    left = [each for each in machine.nvidia.gpus.value if each.index != index]
    gpus = tuple(replace(each, index=number) for number, each in enumerate(left))
    bus = tuple(each for each in machine.accelerators.pci.value if each.bus_id != gone)
    machine = replace(machine, nvidia=replace(machine.nvidia, gpus=read("nvml", gpus), peers=read("nvml", ())))
    return but(machine, "accelerators.pci", bus)


def test_a_healthy_machine_is_ready_and_nothing_is_told() -> None:
    report, told = found(h100_node(), h100_node())
    assert report.verdict == "ready" and told == []
    assert {result.outcome for result in report.results if result.check in OF_BASELINE} == {"ok"}


def test_a_gpu_that_is_gone_makes_it_not_ready_by_uuid_and_place() -> None:
    report, told = found(without(h100_node(), 5), h100_node())
    assert report.verdict == "not ready" and report.exit_status == 1
    assert told[0].startswith("error gpu-gone-since-baseline: gone: GPU 5 (0000:6b:00.0, GPU-00000005-1111")
    assert "not on the PCI bus either" in told[0]
    assert not [result for result, _ in report.problems if result.check == "gpus-fewer-than-expected"]


def test_slower_is_a_warning_and_changed_an_info() -> None:
    now = but(but_gpu(h100_node(), 2, power_limit_watts=500.0), "host.distribution", "Ubuntu 26.04 LTS")
    report, told = found(now, h100_node())
    assert "warning worse-than-baseline: GPU 2 (0000:3b:00.0): power limit 700 W -> 500 W" in told[0]
    assert told[-1].startswith("info changed-since-baseline: 1 other thing changed")
    assert report.exit_status == 0 and report.status(strict=True) == 1


def test_another_machine_is_said_and_its_gpus_are_expected() -> None:
    then = but(h100_node(), "host.hostname", "node-2")
    for index in range(8):
        then = but_gpu(then, index, uuid=f"GPU-abcdef0{index}-1111-2222-3333-444444444444")
    _, told = found(h100_node(), then)
    assert told == ["warning baseline-of-another-machine: The earlier capture is of another machine (node-2)"]


def test_the_earlier_capture_counts_as_what_was_expected() -> None:
    no_accelerator = MACHINES["no-accelerator"]()
    assert library.diagnose(no_accelerator).verdict == "cannot tell"
    assert library.diagnose(no_accelerator, baseline=no_accelerator).sight.on_cpu


def test_what_could_not_be_read_is_never_taken_for_unchanged() -> None:
    blind = replace(
        h100_node(), nvidia=replace(h100_node().nvidia, gpus=missing("nvml", "permission denied", "denied"))
    )
    for pair in ((blind, h100_node()), (h100_node(), blind)):
        report, _ = found(*pair)
        skipped = {result.check for result in report.results if result.outcome == "skipped"}
        assert "gpu-gone-since-baseline" in skipped


def test_a_part_of_a_file_lacks_no_gpu() -> None:
    part = replace(without(h100_node(), 5), lacks=("the file is cut",))
    assert not [line for line in found(part, h100_node())[1] if "gone" in line]
