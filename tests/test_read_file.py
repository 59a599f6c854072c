"""Any file that people have: a snapshot, or one line that says what it is and what to do."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor import bounded
from gpudoctor.read.file import load_snapshot, snapshot_of
from gpudoctor.snapshot import Snapshot, UnreadableSnapshot, from_json, to_json
from gpudoctor.testing.machines import h100_node

FIXTURES = sorted((Path(__file__).parent / "fixtures" / "nvidia_smi").iterdir())
TEXT = next(path for path in FIXTURES if path.name == "565-h100.txt").read_text()
XML = next(path for path in FIXTURES if path.name == "515-t4.xml").read_text()


def one_line(raw: bytes) -> str:
    """What is said of a file that cannot be read."""
    with pytest.raises(UnreadableSnapshot) as error:
        snapshot_of(raw)
    assert "\n" not in str(error.value)
    return str(error.value)


def answer(raw: bytes) -> Snapshot | str:
    """The snapshot, which must survive its own JSON, or the line; anything else raises."""
    try:
        snapshot = snapshot_of(raw)
    except UnreadableSnapshot as error:
        assert "\n" not in str(error) and str(error)
        return str(error)
    assert from_json(to_json(snapshot)) == snapshot
    return snapshot


def same_gpus(raw: bytes, text: str = TEXT) -> bool:
    return snapshot_of(raw).nvidia.gpus == snapshot_of(text.encode()).nvidia.gpus


def test_reads_a_captured_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(to_json(h100_node(), indent=2))
    assert load_snapshot(str(path)) == h100_node()
    assert snapshot_of(b"```json\n" + to_json(h100_node()) + b"\n```\n") == h100_node()


def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert len(load_snapshot("-").nvidia.gpus.value) == 2


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_reads_what_windows_writes(codec: str) -> None:
    assert same_gpus(TEXT.replace("\n", "\r\n").encode(codec))


@pytest.mark.parametrize(
    "pasted",
    [
        "alice@gpu17:~$ nvidia-smi -q\n\n" + TEXT + "alice@gpu17:~$ df -h\nFilesystem : 10\n    Total : 3 MiB\n",
        "### Logs\n\n```\n" + TEXT + "```\n\nMore : text\n",
        "".join(f"> {line}\n" for line in TEXT.splitlines()) + "\nOn Monday, Bob wrote: hello\n",
        "".join(f"    {line}\n" if line else "\n" for line in TEXT.splitlines()) + "\nafterwards\n",
        "\x1b[1;32m" + TEXT.replace("Product Name", "\x1b[0mProduct Name"),
    ],
    ids=["session", "markdown", "quoted", "indented", "coloured"],
)
def test_finds_a_log_inside_a_larger_text(pasted: str) -> None:
    assert same_gpus(pasted.encode())


def test_finds_xml_inside_a_larger_text() -> None:
    pasted = "$ nvidia-smi -q -x\n" + XML + "\n$ echo '<done'\n```\n"
    assert same_gpus(pasted.encode(), XML)


def test_reads_a_gpu_that_was_pasted_without_the_head() -> None:
    part = TEXT[TEXT.index("GPU 00000000:18:00.0") :]
    assert same_gpus(("Here it is:\n" + part).encode())


def test_takes_the_first_of_several_logs_and_says_so() -> None:
    later = TEXT.replace("Drain and Reset     ", "Drain").replace("81559 MiB", "1 MiB")
    snapshot = snapshot_of((TEXT + later).encode())
    assert same_gpus((TEXT + later).encode())
    assert "first of 2 logs" in snapshot.origin


def test_of_several_logs_takes_the_one_with_a_fault() -> None:
    later = TEXT.replace("81559 MiB", "Unknown Error")
    snapshot = snapshot_of((TEXT + later + TEXT).encode())
    assert same_gpus((TEXT + later + TEXT).encode(), later)
    assert "number 2 of 3 logs" in snapshot.origin


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"pid, process_name, used_gpu_memory [MiB]\n12, python, 8192 MiB\n", "--query-"),
        (b'{"schema": 3, "command": "amp", "verdict": "fault", "findings": []}', "`gpudoctor amp --from FILE`"),
        (b"x\n[rank0]: Traceback (most recent call last):\n", "line 2: it seems to be the log of a job"),
        (b"\x1f\x8b\x08\x00", "nothing of it can be unpacked"),
        (b"\x89PNG\r\n\x1a\n", "picture"),
        (b"\x7fELF\x02", "program"),
        (b"GPU\x00\x01\x02", "NUL character stands at position 3"),
        (b"A letter to my aunt", "it begins with 'A letter to my aunt'"),
        (b"[1, 2]", "neither a snapshot nor output of nvidia-smi"),
        (b'{"schema": 999}', "upgrade gpudoctor"),
        (b'{"a": 1}', "not a gpudoctor snapshot"),
        (b'{"schema": 1, "nvidia": {"gpus": 3}}', "$.nvidia.gpus"),
        (b'{"schema": 1', "the file is cut"),
        (b'{"schema" 1}', "not valid JSON"),
        (b'{"schema": 1, "x":' + b'{"x":' * 100_000, "nested too deeply"),
        (b"<nvidia_smi_log><gpu></driver></nvidia_smi_log>", "line 1, column"),
        (b"ok\n\n<nvidia_smi_log>\n<gpu></driver></nvidia_smi_log>", "line 4, column"),
        (b"<nvidia_smi_log>" + b"<a>" * 100_000, "more elements"),
    ],
)
def test_says_what_a_file_is_instead(raw: bytes, words: str) -> None:
    assert words in one_line(raw)


def test_tells_a_report_from_a_snapshot() -> None:
    report = {"schema": 1, "gpudoctor": "0.1.0", "machine": "x", "verdict": "healthy", "counts": {}, "results": []}
    assert "it is a report" in one_line(json.dumps(report).encode())
    assert "it is a report" in one_line(json.dumps(report, indent=2).encode())


def test_refuses_entities_and_never_opens_what_they_name(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("open sesame")
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><nvidia_smi_log><gpu>&b;</gpu></nvidia_smi_log>'
    assert "entities" in one_line(bomb.encode())
    external = f'<!DOCTYPE x [<!ENTITY a SYSTEM "{secret.as_uri()}">]><nvidia_smi_log>&a;</nvidia_smi_log>'
    assert "sesame" not in one_line(external.encode())
    assert "not the XML" in one_line(b"<nvidia_smi_log><gpu id='1'>&b;</gpu></nvidia_smi_log>")


def test_says_that_indentation_was_lost() -> None:
    flat = "\n".join(line.strip() for line in TEXT.splitlines())
    assert "indentation" in one_line(flat.encode())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "nothing", "there is no such file"),
        (lambda folder: folder, "it is a folder"),
        (lambda folder: str(folder / "a\0b"), "cannot be read"),
    ],
)
def test_says_why_a_file_cannot_be_opened(tmp_path: Path, make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(UnreadableSnapshot, match=words):
        load_snapshot(str(make(tmp_path)))


def test_says_that_permission_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "closed"
    path.write_text("x")

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(bounded, "opened", refuse)  # root, as whom CI runs, is refused nothing
    with pytest.raises(UnreadableSnapshot, match="permission denied"):
        load_snapshot(str(path))


def test_does_not_swallow_what_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "SNAPSHOT", bounded.SNAPSHOT._replace(size=1024**2))
    path = tmp_path / "large"
    path.write_bytes(b"\n" * (1024**2 + 1))
    with pytest.raises(UnreadableSnapshot, match="larger than 1 MiB"):
        load_snapshot(str(path))


@pytest.mark.thorough
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_survives_being_cut_anywhere(path: Path) -> None:
    """And a cut file never says more GPUs, or another value, than the whole one."""
    raw = path.read_bytes()
    whole = snapshot_of(raw).nvidia.gpus.value
    for length in range(0, len(raw), 13):
        cut = answer(raw[:length])
        if isinstance(cut, str) or not cut.nvidia.gpus.is_read:
            continue
        gpus = cut.nvidia.gpus.value
        assert len(gpus) <= len(whole)
        for part, complete in zip(gpus, whole, strict=False):
            for field in ("name", "uuid", "pcie_replays", "ecc_volatile", "ecc_aggregate", "memory_used_bytes"):
                reading = getattr(part, field)
                assert not reading.is_read or reading == getattr(complete, field), (length, field)


WHOLE_FILES = [*(path.read_bytes() for path in FIXTURES), to_json(h100_node(2))]
MUTATION = st.tuples(st.integers(0, 20_000), st.integers(0, 40), st.binary(max_size=40))


@settings(max_examples=150, deadline=None)
@given(source=st.sampled_from(WHOLE_FILES), mutations=st.lists(MUTATION, min_size=1, max_size=5))
def test_survives_mutated_files(source: bytes, mutations: list[tuple[int, int, bytes]]) -> None:
    raw = bytearray(source)
    for position, length, replacement in mutations:
        place = position % len(raw)
        raw[place : place + length] = replacement
    answer(bytes(raw))


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.sampled_from(TEXT.splitlines()),
            st.sampled_from(XML.splitlines()),
            st.text(st.characters(codec="utf-8"), max_size=60),
            st.builds(
                lambda indent, name, value: f"{' ' * indent}{name} : {value}", st.integers(0, 90), st.text(), st.text()
            ),
        ),
        max_size=60,
    )
)
def test_survives_lines_in_any_order(lines: list[str]) -> None:
    answer("\n".join(lines).encode("utf-8", "replace"))


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=400))
def test_survives_any_bytes(raw: bytes) -> None:
    answer(raw)


@settings(max_examples=100, deadline=None)
@given(value=st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=60), form=st.booleans())
def test_survives_any_value(value: str, form: bool) -> None:
    if form:
        text = TEXT.replace(": N/A", f": {value}").replace("Enabled", value).replace(": 0\n", f": {value}\n")
    else:
        safe = value.replace("&", "&amp;").replace("<", "&lt;")
        text = XML.replace(">N/A<", f">{safe}<").replace("Enabled", safe).replace(">0<", f">{safe}<")
    answer(text.encode())
