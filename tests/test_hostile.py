"""Snapshots that lie, are cut up or carry traps: nothing raises, nothing steers the terminal or the shell."""

import contextlib
import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gpudoctor.diagnose import diagnose
from gpudoctor.envelope import encode
from gpudoctor.plugins import find_checks
from gpudoctor.render import nagios
from gpudoctor.render.paste import markdown
from gpudoctor.render.terminal import plain
from gpudoctor.report import Report
from gpudoctor.snapshot import (
    Library,
    SmokeResult,
    SmokeTarget,
    Snapshot,
    TorchDevice,
    UnreadableSnapshot,
    from_json,
    read,
    to_json,
)
from gpudoctor.testing.machines import but, h100_node
from tests.machines.hand_built import MACHINES

CHECKS = find_checks()[0]
PLAIN = {name: msgspec.json.decode(to_json(build())) for name, build in MACHINES.items()}
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**31, -(2**63), 2**63 - 1, 2**64, 10**30]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["", " ", "\x1b[2J\x1b[H", "GPU-", "MIG-", "0000:00:00.0", "nan", "../..", "$(reboot)", "a\nb"]),
    st.sampled_from([[], {}, [[]], [None], {"source": "x", "value": 1}]),
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(leaf for key, child in children for leaf in leaves(child, (*path, key)))]


PATHS = {name: leaves(content)[1:] for name, content in PLAIN.items()}


def changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = msgspec.json.decode(msgspec.json.encode(content))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def diagnosed(machine: Snapshot) -> Report:
    report = diagnose(machine, CHECKS)
    crashed = [(result.check, result.reasons) for result in report.results if result.outcome == "crashed"]
    assert not crashed
    return report


def judge(machine: Snapshot) -> None:
    """Everything that `check --from` does with a snapshot."""
    report = diagnosed(machine)
    for text in (plain(report, machine), nagios.line(report), markdown(report, machine)):
        assert not any(ord(character) < 32 and character != "\n" for character in text)
        assert "\x9b" not in text
    assert "\n" not in nagios.line(report)
    encode(report)


@QUICK
@given(st.data())
def test_no_single_lie_makes_anything_raise(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PLAIN)))
    path = data.draw(st.sampled_from(PATHS[name]))
    raw = msgspec.json.encode(changed(PLAIN[name], path, data.draw(VALUES)))
    try:
        machine = from_json(raw)
    except UnreadableSnapshot as error:
        assert "\n" not in str(error)
        return
    judge(machine)


def fields(content: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Each kind of number in a JSON value -> the place of one."""

    def number(path: tuple[Any, ...]) -> bool:
        place = content
        for key in path:
            place = place[key]
        return isinstance(place, (int, float)) and not isinstance(place, bool)

    return {tuple(0 if isinstance(key, int) else key for key in path): path for path in leaves(content) if number(path)}


@pytest.mark.thorough
def test_no_number_is_computed_with_for_long() -> None:
    """`2 ** generation`: a lie about one number must not take all memory. Every kind of number is diagnosed in the
    largest machine that has it, and shown in the smallest."""
    largest = sorted(PLAIN, key=lambda name: len(PATHS[name]), reverse=True)
    kinds: dict[tuple[Any, ...], list[tuple[str, tuple[Any, ...]]]] = {}
    for name in largest:
        for kind, path in fields(PLAIN[name]).items():
            kinds.setdefault(kind, []).append((name, path))
    assert len(kinds) > 50
    for places in kinds.values():
        for (name, path), look in ((places[0], diagnosed), (places[-1], judge)):
            with contextlib.suppress(UnreadableSnapshot):
                look(from_json(msgspec.json.encode(changed(PLAIN[name], path, 2**63 - 1))))


@QUICK
@given(st.sampled_from(sorted(PLAIN)), st.data())
def test_no_cut_or_flipped_byte_makes_anything_raise(name: str, data: st.DataObject) -> None:
    raw = bytearray(msgspec.json.encode(PLAIN[name]))
    position = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[position:]
    else:
        raw[position] = data.draw(st.integers(0, 255))
    try:
        machine = from_json(bytes(raw))
    except UnreadableSnapshot as error:
        assert "\n" not in str(error)
        return
    judge(machine)


TRAP = "a b;$(reboot)'`x`\"&"


def with_traps(value: Any, key: str = "") -> Any:
    """A JSON value in which every free text holds a shell trap."""
    if isinstance(value, dict):
        return {name: with_traps(child, name) for name, child in value.items()}
    if isinstance(value, list):
        return [with_traps(child, key) for child in value]
    return f"{value}{TRAP}" if isinstance(value, str) and key != "kind" else value


def test_devices_that_torch_and_the_smoke_test_name_oddly_are_in_no_line() -> None:
    machine = h100_node(1)
    facts = machine.training.torch.value
    odd = TorchDevice(1, "cuda", "old", TRAP, (5, 0), 1), TorchDevice(2, "cuda", "x", TRAP, (9, 0), 1)
    known = (*facts.devices, *odd)
    machine = but(machine, "training.torch", msgspec.structs.replace(facts, devices=known))
    result = read("smoke", SmokeResult(TRAP, outcome="failed", error="no"))
    machine = but(machine, "active.smoke", (SmokeTarget(TRAP, result),))
    library, bundled = (
        Library("nccl", f"/opt/{TRAP}", "LD_LIBRARY_PATH", "2.1"),
        Library("nccl", TRAP, "package", "2.2"),
    )
    machine = but(machine, "training.libraries", (library, bundled))
    commands = [
        command
        for result, problem in diagnose(machine, CHECKS).problems
        if result.check in ("smoke-failed", "torch-without-gpu-kernels", "nccl-library-shadowed")
        for command in problem.fix.commands
    ]
    assert commands
    assert not [command for command in commands if "reboot" in command], "no device and no UUID is called so"


def test_commands_to_paste_quote_what_the_machine_said() -> None:
    """A path or name in a snapshot reaches the shell as one word, whatever it is."""
    seen = 0
    for content in PLAIN.values():
        for section in ("environment", "nvidia", "cuda", "accelerators", "host", "training"):
            trapped = {**content, section: with_traps(content[section])}
            try:
                machine = from_json(msgspec.json.encode(trapped))
            except UnreadableSnapshot:
                continue  # a text that is one of a closed set of words
            for result, problem in diagnose(machine, CHECKS).problems:
                for command in problem.fix.commands:
                    if "reboot)" in command:
                        seen += 1
                        words = shlex.split(command, comments=True)
                        assert any(TRAP in word for word in words), (result.check, command)
    assert seen, "no command carries a text of the machine; the test looks at nothing"
