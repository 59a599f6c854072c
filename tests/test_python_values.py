"""What an expression of a program is, where the text and its start decide it."""

import ast

import pytest

from gpudoctor.lint.asked import lint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.python_values import UNDECIDED, PythonValues

BEFORE = """import argparse
import os
import sys
gpus = "2,3"
grown = [1]
grown.append(2)
twice = 1
twice = 2
parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, default=7)
parser.add_argument("--name", default="a")
parser.add_argument("--made", type=make)
args = parser.parse_args()
os.environ["OWN"] = "5"
def once(rank, world=4):
    told({inside})
def often(rank):
    told(rank)
once(int(sys.argv[1]))
often(1)
often(2)
def local():
    gpus = "9"
    return gpus
told({outside})
"""


def value(
    inside: str = "0", outside: str = "0", start: str = "A=3 python train.py 6 --rank 1", *, fixed: bool = False
) -> object:
    text = f"{start}\n#@ file train.py\n{BEFORE.format(inside=inside, outside=outside)}"
    job = lint(text, LintFacts()).job
    code, launches = next(iter(codes_and_starts(job)))
    calls = [call for call in code.calls if isinstance(call.func, ast.Name) and call.func.id == "told"]
    asked = calls[0] if inside != "0" else calls[-1]
    return PythonValues(code, launches[0], is_fixed=fixed).value(asked.args[0])


@pytest.mark.parametrize(
    ("outside", "wanted"),
    [
        ("gpus", "2,3"),
        ("[int(i) for i in gpus.split(',')]", [2, 3]),
        ("list(map(int, gpus.split(',')))[1]", 3),
        ("list(range(3))", [0, 1, 2]),
        ("f'cuda:{1 + 2 * 3}'", "cuda:7"),
        ("7 // 2 % 2", 1),
        ("7 // 0", UNDECIDED),
        ("grown", UNDECIDED),
        ("twice", UNDECIDED),
        ("args.rank", 1),
        ("args.name", "a"),
        ("args.made", UNDECIDED),
        ("int(sys.argv[1])", 6),
        ("sys.argv[9]", UNDECIDED),
        ("int(os.environ['A'])", 3),
        ("os.environ.get('B', 1)", UNDECIDED),
        ("int(os.environ['OWN'])", 5),
        ("unknown", UNDECIDED),
        ("'cuda:1' if torch.cuda.is_available() else 'cpu'", "cuda:1"),
        ("1 if flag else 2", UNDECIDED),
    ],
)
def test_a_value(outside: str, wanted: object) -> None:
    assert value(outside=outside) == wanted


@pytest.mark.parametrize(("inside", "wanted"), [("rank", 6), ("world", 4), ("gpus", "2,3")])
def test_a_value_within_a_function_that_is_called_once(inside: str, wanted: object) -> None:
    assert value(inside=inside) == wanted


def test_what_no_start_can_change() -> None:
    assert value(outside="args.rank", fixed=True) is UNDECIDED
    assert value(outside="sys.argv[1]", fixed=True) is UNDECIDED
    assert value(outside="os.environ['A']", fixed=True) is UNDECIDED
    assert value(outside="os.environ['OWN']", fixed=True) == "5"
