"""The table of nvidia-smi that a chat made one line of says what its lines say."""

import pytest

from gpudoctor.read.pasted.tools import parts_of
from gpudoctor.read.pasted.unfolded import unfolded
from tests.smi_tables import GEFORCE, A, table

TABLES = {
    "h100": table(),
    "geforce": table(count=2, name="NVIDIA GeForce RTX 3090", values=GEFORCE, driver="535.129.03", cuda="12.2"),
    "before-cuda-versions": table(count=2, name="Tesla P100", driver="384.81"),
    "with-processes": table(count=2, processes=[(0, 1234, "C", "python", "18019MiB"), (1, 1235, "C+G", "/x/y", "N/A")]),
    "mig": table(
        {0: {"mig": "Enabled"}},
        count=1,
        values=A,
        driver="535.129.03",
        cuda="12.2",
        mig=[(0, 1, 0, 0, "3MiB / 40448MiB"), (0, 2, 0, 1, "3MiB / 40448MiB")],
    ),
    "r610": table(count=2, driver="610.1", cuda="13.3"),
}


@pytest.mark.parametrize("name", TABLES)
def test_one_line_says_what_its_lines_say(name: str) -> None:
    text = TABLES[name]
    told = parts_of(text)
    assert told and told[0].gpus and not told[0].lacks
    for flat in (" ".join(text.split()), text.replace("\n", " "), text.replace("\n", "")):
        assert parts_of(unfolded(flat)) == told
        assert parts_of(unfolded(f"Why is only one of them busy? {flat} Thank you")) == told


def test_what_is_no_folded_table_stays_as_it_was() -> None:
    lines = TABLES["h100"]
    assert unfolded(lines) == lines
    for text in ("a | b | c | d | e | f", "| NVIDIA-SMI | a | b | c | d | e", "", "NVIDIA-SMI " + "|" * 300_000):
        assert unfolded(text) == text
