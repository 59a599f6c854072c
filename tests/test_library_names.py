"""Since when a library has a name, and since when it has it no more; what `explain` makes of that."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.releases_apart import of_releases
from gpudoctor.knowledge import library_names
from gpudoctor.knowledge.library_names import argument, attribute, imported, libraries, submodule
from tests.lab.library_names import TABLES

HERE = " (/e/lib/python3.11/site-packages/{}/__init__.py)"


def test_the_tables_are_small_and_whole() -> None:
    files = sorted(TABLES.glob("*.txt"))
    assert {file.stem.partition(".")[0] for file in files} == libraries()
    assert sum(file.stat().st_size for file in files) < 370_000
    for file in files:
        head, *lines = file.read_text(encoding="utf-8").splitlines()
        releases = head.split()[1:]
        assert len(releases) > 1
        for line in lines:
            kind, rest = line.split(maxsplit=1)
            assert kind in ("module", "name", "arg", "attr")
            for part in (rest if kind == "module" else rest.split(maxsplit=1)[1]).split(" | "):
                first, gone, *_ = part.split()
                assert first == "-" or releases.index(first)
                assert gone == "-" or gone in releases
                assert (first, gone) != ("-", "-")


@pytest.mark.parametrize(
    ("type_name", "message", "shown"),
    [
        (
            "ImportError",
            "cannot import name 'DataLoaderConfiguration' from 'accelerate.utils'" + HERE.format("accelerate/utils"),
            "'accelerate>=0.28.0'",
        ),
        (
            "ImportError",
            "cannot import name 'cached_download' from 'huggingface_hub'" + HERE.format("huggingface_hub"),
            "'huggingface_hub<=0.25.2'",
        ),
        ("ModuleNotFoundError", "No module named 'pytorch_lightning.metrics'", "'pytorch-lightning<=1.4.9'"),
        ("AttributeError", "module 'numpy' has no attribute 'float_'", "'numpy<=1.26.4'"),
        ("TypeError", "Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'", "<=0.34.2'"),
        ("TypeError", "get_duration() got an unexpected keyword argument 'filename'", "'librosa<=0.11.0'"),
    ],
)
def test_what_a_library_has_not(type_name: str, message: str, shown: str) -> None:
    told = of_releases(type_name, message)
    assert told is not None
    assert shown in told.how


@pytest.mark.parametrize(
    ("type_name", "message"),
    [
        ("ImportError", "cannot import name 'load_metric' from 'datasets' (/home/ann/datasets/__init__.py)"),
        ("ImportError", "cannot import name 'array' from 'numpy'" + HERE.format("numpy")),
        ("ImportError", "cannot import name 'nobody' from 'strange'"),
        ("ModuleNotFoundError", "No module named 'numpy'"),
        ("ModuleNotFoundError", "No module named 'strange.part'"),
        ("TypeError", "build() got an unexpected keyword argument 'depth'"),
        ("AttributeError", "'Net' object has no attribute 'forward'"),
        ("AttributeError", "module 'strange' has no attribute 'part'"),
        ("ValueError", "module 'numpy' has no attribute 'float_'"),
    ],
)
def test_what_no_table_knows(type_name: str, message: str) -> None:
    assert of_releases(type_name, message) is None


def test_a_name_of_two_libraries_is_of_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"one": ("one 1.0 2.0", "arg Thing - 2.0 old"), "two": ("two 1.0 2.0", "arg Thing 2.0 - old")}
    monkeypatch.setattr(library_names, "libraries", lambda: frozenset(tables))
    monkeypatch.setattr(library_names, "_lines", tables.__getitem__)
    assert argument("Thing", "old") is None
    assert attribute("Thing", "old") is None
    assert imported("one", "old") is None
    assert submodule("one.old") is None


def test_what_came_in_its_place_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("one 1.0 2.0 3.0", "name one - 2.0 thing=one.parts", "name one 2.0 - New*", "arg Box - 3.0 wide=width")
    monkeypatch.setattr(library_names, "libraries", lambda: frozenset({"one"}))
    monkeypatch.setattr(library_names, "_lines", lambda _: lines)
    moved = of_releases("ImportError", "cannot import name 'thing' from 'one' (/e/site-packages/one/__init__.py)")
    assert moved is not None and "write from one.parts import thing" in moved.how
    came = of_releases("ImportError", "cannot import name 'NewModel' from 'one' (/e/site-packages/one/__init__.py)")
    assert came is not None and "'one>=2.0'" in came.how
    other = of_releases("ImportError", "cannot import name 'New2Model' from 'one' (/e/site-packages/one/__init__.py)")
    assert other is None
    renamed = of_releases("TypeError", "Box.__init__() got an unexpected keyword argument 'wide'")
    assert renamed is not None and "write width=" in renamed.how


def test_a_log_is_answered_with_it() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/w/train.py", line 4, in <module>\n'
        "    from huggingface_hub import cached_download\n"
        "ImportError: cannot import name 'cached_download' from 'huggingface_hub'"
        + HERE.format("huggingface_hub")
        + "\n"
    )
    told = explain((), stdin=io.BytesIO(), texts=(log,)).causes[0]
    assert told.kind == "dependency-mismatch"
    assert "'huggingface_hub<=0.25.2'" in told.fix.text
    assert "/w/train.py:4" in told.fix.text
