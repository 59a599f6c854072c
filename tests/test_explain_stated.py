"""Releases that a message states, and what other lines of a log state of an error."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.pins import of_conflict, of_format, of_python, pinned

PACKAGES = "/opt/e/lib/python3.10/site-packages"


@pytest.mark.parametrize(
    ("message", "package"),
    [
        ("Numba needs NumPy 2.0 or less. Got NumPy 2.1.", "numpy<2.1"),
        ("Numba needs NumPy 1.22 or greater. Got NumPy 1.20.", "numpy>=1.22"),
        ("Pandas requires version '3.1.2' or newer of 'jinja2' (version '2.11' currently installed).", "jinja2>=3.1.2"),
        ("A NumPy version >=1.22.4 and <2.3.0 is required for this version of SciPy", "numpy>=1.22.4,<2.3.0"),
        (
            "Found an incompatible version of auto-gptq. Found version 0.4, but only versions above 0.5.0",
            "auto-gptq>=0.5.0",
        ),
        ("this model requires CUDA 11.8 or newer", ""),
        ("requires compute capability 8.0 or newer", ""),
        ("the attention requires hidden >= 64", ""),
        ("requires seq_len>=1024", ""),
        ("driver needs version 535 or newer", ""),
    ],
)
def test_a_release_is_stated_of_a_package_alone(message: str, package: str) -> None:
    assert pinned(message) == package


def test_what_pip_said_counts_only_where_the_error_speaks_of_it() -> None:
    said = ["vision 0.15.2 requires torch==2.0.1, but you have torch 2.4.0 which is incompatible."]
    assert "'torch==2.0.1'" in of_conflict("operator vision::nms does not exist", said)
    assert not of_conflict("No module named 'einops'", said)


def test_who_is_older() -> None:
    assert "3.8.18" in of_python("ERROR: Package 'kit' requires a different Python: 3.8.18 not in '>=3.9'")
    assert "--upgrade 'reader'" in of_format("Unsupported model IR version: 11, max supported IR version: 10", "reader")


def _traced(last: str, file: str = "/w/p/data.py", above: str = "") -> str:
    return (
        f'{above}Traceback (most recent call last):\n  File "/w/p/train.py", line 7, in <module>\n    go()\n'
        f'  File "{file}", line 30, in go\n    act()\n{last}\n'
    )


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (
            _traced(
                "AssertionError: 22 is not divisible by 4", above="+ torchrun t.py --layers 22 --pipeline-size 4\n"
            ),
            "set --pipeline-size to 2",
        ),
        (
            _traced("EOFError: Ran out of input", above="wget: unable to resolve host address 'x.example.org'\n"),
            "Mend first what failed before it: wget: unable to resolve",
        ),
        (_traced("ModuleNotFoundError: No module named 'kit.fast'", "/src/kit/kit/a.py"), "its sources in /src/kit"),
        (
            _traced("ImportError: cannot import name 'bigquery' from 'google.cloud' (unknown location)"),
            "google-cloud-bigquery",
        ),
        (
            _traced("ImportError: cannot import name 'load' from 'datasets' (unknown location)"),
            "only a folder datasets",
        ),
    ],
)
def test_what_other_lines_state(log: str, shown: str) -> None:
    answer = explain(["-"], stdin=io.BytesIO(log.encode()))
    assert shown in answer.causes[0].fix.text
