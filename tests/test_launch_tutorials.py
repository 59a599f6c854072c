"""What tutorials teach that is gone: each entry answers with since when, and what takes its place."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.superseded import EVERY, Superseded, lightning_version, parsed, superseded
from gpudoctor.launch.tutorials import answer

NOW = {"lightning": "2.6.6"}


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: f"{entry.kind} {entry.name}")
def test_every_entry_is_whole(entry: Superseded) -> None:
    assert superseded(entry.kind, entry.name) is entry
    assert entry.today and entry.today != entry.name
    assert entry.since.split()[0] in ("removed", "never", "deprecated")
    assert not entry.remark or entry.remark.endswith(".")
    assert entry.deprecated < entry.gone or not entry.gone
    if entry.instead:
        assert superseded("strategy", entry.instead) is None, "what is taught instead is itself gone"


def test_names_are_unique() -> None:
    assert len({(entry.kind, entry.name) for entry in EVERY}) == len(EVERY)


@pytest.mark.parametrize(
    ("strategy", "versions", "says"),
    [
        ("fairscale", {}, ("never a strategy", "--strategy fsdp")),
        ("fairscale", {"lightning": "1.7.4"}, ("never a strategy", "1.7.4 is installed", "KeyError", "ddp_sharded")),
        ("fairscale", {"lightning": "1.5.10"}, ("ValueError: 'fairscale' is not a valid DistributedType", "Plugin`")),
        ("ddp_sharded", NOW, ("removed in Lightning 2.0", "2.6.6", 'strategy="fsdp"', "fairscale")),
        ("ddp-sharded", NOW, ("removed in Lightning 2.0",)),
        ("DP", NOW, ("removed in Lightning 2.0", "--strategy ddp")),
        ("ddp2", {"lightning": "1.7.0"}, ("removed in Lightning 1.7",)),
        ("bagua", {"pytorch-lightning": "1.5.10"}, ("came with Lightning 1.6", "1.5.10 is installed")),
        ("bagua", {"pytorch_lightning": "2.0.0"}, ("removed in Lightning 2.0",)),
        ("horovod", NOW, ("removed in Lightning 2.0", "--framework horovod")),
        ("apex", NOW, ("never a strategy", '"16-mixed"')),
    ],
)
def test_what_lightning_lacks_is_answered(strategy: str, versions: dict[str, str], says: tuple[str, ...]) -> None:
    told = answer("lightning", strategy, versions)
    assert told.startswith(f"--strategy {strategy} ") and "\n" not in told
    assert all(word in told for word in says), told


@pytest.mark.parametrize(
    ("strategy", "versions"),
    [
        ("ddp", NOW),
        ("fsdp", {}),
        ("deepspeed_stage_2", NOW),
        ("ddp_sharded", {"lightning": "1.9.5"}),
        ("ddp2", {"lightning": "1.6.5"}),
        ("bagua", {"lightning": "1.6.0"}),
        ("dp", {"pytorch-lightning": "1.5.10"}),
    ],
)
def test_what_the_installed_lightning_has_is_let_through(strategy: str, versions: dict[str, str]) -> None:
    assert answer("lightning", strategy, versions) == ""


def test_other_frameworks() -> None:
    assert "cannot leave its node" in answer("torchrun", "dp", {})
    assert "--strategy fsdp" in answer("slurm", "fairscale", NOW)
    assert answer("horovod", "horovod", {}) == ""
    assert answer("torchrun", "ddp", {}) == answer("deepspeed", "zero3", {}) == ""


def test_versions() -> None:
    assert parsed("2.4.1+cu121") == (2, 4, 1)
    assert parsed("2.5.0rc1") == (2, 5, 0)
    assert parsed("main") is None
    assert lightning_version({"lightning": "", "pytorch_lightning": "1.9"}) == (1, 9)
    assert lightning_version({}) is None


@given(st.text(max_size=30), st.text(max_size=20), st.text(max_size=12))
def test_nothing_that_is_given_is_an_exception(framework: str, strategy: str, version: str) -> None:
    assert isinstance(answer(framework, strategy, {"lightning": version}), str)


def test_lightnings_history_is_its_changelogs() -> None:
    """Its CHANGELOG: 1.9.0 deprecates amp_backend with apex (#16039); `collaborative` became `hivemind` (#13392)
    before 1.7.0, the release that first had it."""
    backend, strategy = superseded("argument", "amp_backend"), superseded("strategy", "collaborative")
    assert backend is not None and (backend.deprecated, backend.gone) == ((1, 9), (2, 0))
    assert strategy is not None and strategy.since == "never part of lightning"
