"""Which release of Lightning knew which argument of Trainer: the table is what the releases' sources say."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpudoctor.knowledge.superseded import arrived, formerly, refusal, refused, superseded
from gpudoctor.knowledge.trainer_arguments import RELEASES, REMARKS, SOURCES, TODAY, WARNED
from tests.lab import lightning_trainers

ABOVE = 8
"""Lines of a list below the entry that has the number."""
ERRORS = {
    "ValueError: 'fairscale' is not a valid DistributedType": (1, 5, 10),
    "KeyError: \"'fairscale' not found in registry. Available names: ['bagua', 'ddp', 'deepspeed']\"": (1, 7, 4),
    "ValueError: You selected an invalid strategy name: `strategy='fairscale'`. It must be either a string or": (2, 4),
}


def test_every_argument_that_is_gone_has_its_successor() -> None:
    gone = {name for name, (_, end) in RELEASES.items() if end}
    assert set(TODAY) == gone and set(REMARKS) <= gone and set(WARNED) <= gone
    for name, (first, end) in RELEASES.items():
        assert not end or first < end, name
        assert not WARNED.get(name) or first <= WARNED[name] < end, name
    for name, today in TODAY.items():
        if today.endswith("=") and not today.startswith("lightning."):
            assert RELEASES[today.rpartition(" ")[2].removesuffix("=")][1] == (), f"{name} leads to what is gone itself"
        entry = superseded("argument", name)
        assert entry is not None and not entry.whole.endswith("=")


def test_the_installed_trainer_takes_what_the_table_says() -> None:
    package = find_spec("lightning")
    if package is None or not package.submodule_search_locations:
        pytest.skip("lightning is not installed")
    file = Path(package.submodule_search_locations[0]) / "pytorch/trainer/trainer.py"
    taken = set(lightning_trainers.arguments(file.read_bytes()))
    assert taken == {name for name, (_, end) in RELEASES.items() if not end}


def test_the_table_is_what_the_releases_say() -> None:
    known = lightning_trainers.releases()
    if len(known) < len(lightning_trainers.SOURCES + lightning_trainers.WHEELS):
        pytest.skip("not all releases are in the lab's cache: python -m tests.lab.lightning_trainers fetch")
    assert {name: (first, gone) for name, first, gone in lightning_trainers.ranges(known)} == RELEASES


def test_what_took_the_place_of_each_stands_in_lightnings_own_words() -> None:
    """In its CHANGELOG: the line names the argument, and bears what the table gives, or a line that it is below."""
    assert SOURCES.keys() == TODAY.keys()
    package = find_spec("lightning")
    if package is None or not package.submodule_search_locations:
        pytest.skip("lightning is not installed")
    lines = (Path(package.submodule_search_locations[0]) / "pytorch/CHANGELOG.md").read_text("utf-8").splitlines()
    for name, source in SOURCES.items():
        if ":" in source:
            continue
        near = (lines[max(0, at - ABOVE) : at + 1] for at, line in enumerate(lines) if name in line)
        assert any(re.search(rf"{re.escape(source)}(?!\d)", "\n".join(each)) for each in near), name
    for end in ("#8597", "#16783", "#9664", "#9175", "#9848"):
        assert any(f"[{end}]" in line for line in lines), end


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if ":" in source])
def test_what_took_the_place_of_each_stands_in_the_release_that_is_named(name: str) -> None:
    release, _, words = SOURCES[name].partition(": ")
    text = lightning_trainers.wheel(release, ("trainer.py", "deprecated_api.py", "_connector.py"))
    if not text:
        pytest.skip("it is not in the lab's cache: python -m tests.lab.lightning_trainers fetch")
    place = text.index(words) + len(words)
    assert re.search(name.removesuffix("s").replace("_", "[_ ]"), text[place - 400 : place]), name


def test_what_came_when_and_what_it_was_called_before() -> None:
    assert (arrived("strategy"), arrived("devices"), arrived("num_nodes")) == ((1, 5), (1, 4), (0, 5, 3))
    assert arrived("gpus") is arrived("logger_name") is arrived("fast_dev_run") is None
    assert formerly("strategy", (1, 4)) == "distributed_backend" and formerly("devices", (1, 3)) == "gpus"
    assert formerly("barebones", (1, 9)) == formerly("strategy", (0, 4)) == ""


@pytest.mark.parametrize("message", ERRORS)
def test_each_release_refuses_a_strategy_in_its_own_words(message: str) -> None:
    words = refusal("fairscale", ERRORS[message])
    assert message.replace('"', "").startswith(words), "what is foretold is what is said"
    entry = refused(message)
    assert entry is not None and entry.name == "fairscale"


@pytest.mark.parametrize("release", ["1.5.0", "1.5.10", "1.6.0", "1.7.4", "1.8.6", "1.9.1", "1.9.2", "2.0.0", "2.6.0"])
def test_the_words_of_a_refusal_stand_in_that_release(release: str) -> None:
    text = lightning_trainers.wheel(release)
    if not text:
        pytest.skip("it is not in the lab's cache: python -m tests.lab.lightning_trainers fetch")
    words = refusal("x", lightning_trainers.parsed(release))
    written = {"Distrib": "DistributedType(self.distributed_backend)", "registry": "'{}' not found in registry"}
    expected = next((code for part, code in written.items() if part in words), "You selected an invalid strategy name")
    assert expected in text
    if expected in written.values():
        assert "You selected an invalid strategy name" not in text


def test_what_others_refuse_is_not_lightnings() -> None:
    assert refusal("ddpp", (1, 4)) == ""
    assert refused("TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'gpus'") is None
    assert refused("TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'") is None
    bare = "TypeError: __init__() got an unexpected keyword argument 'gpus'"
    assert (
        refused(bare)
        is refused(bare, "/home/mia/argparse.py")
        is refused(bare, "/x/lightning_mine/argparse.py")
        is None
    )
    assert refused(bare, "/venv/site-packages/lightning/pytorch/utilities/argparse.py") is superseded(
        "argument", "gpus"
    )
    assert refused("KeyError: 'resnet' not found in registry") is None
