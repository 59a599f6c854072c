"""What the user's program says around a line."""

import ast
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.job.source import MAXIMUM_BYTES, context
from gpudoctor.read.job.source_child import is_installed
from gpudoctor.read.job.sources import Sources
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext, Thread

PROGRAM = textwrap.dedent(
    """\
    import torch.distributed as dist

    def train(loader, rank, secret="k"):
        for epoch in range(3):
            for batch in loader:
                if batch is None and secret != "abc123":
                    continue
                try:
                    loss = model(batch)
                    loss.backward()
                except ValueError:
                    log("lost")
                if rank == 0:
                    dist.barrier()
                elif rank == 1:
                    dist.barrier(group=f"{secret}")
                else:
                    with guard():
                        dist.all_reduce(
                            loss,
                            group="top",
                        )
                while True:
                    break
            functools.reduce(a, b)
            dist.broadcast(t, 0)
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
        return rank

    class Model:
        async def forward(self):
            match self.rank:
                case 0:
                    dist.send(self.t, 1)
                case _:
                    pass

    dist.all_reduce(x)
    """
)


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


def at(text: str, program: str = PROGRAM) -> SourceContext:
    number = next(number for number, line in enumerate(program.splitlines(), 1) if text in line)
    found = context(Frame("train", "train.py", number), lambda name: program.encode())
    assert found is not None
    return found


def kinds(found: tuple[Enclosing, ...]) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in found]


AROUND = [("for", "batch in loader"), ("for", "epoch in range(3)"), ("function", "train")]


@pytest.mark.parametrize(
    ("line", "text", "enclosing"),
    [
        ("dist.barrier()", "dist.barrier()", [("if", "rank == 0"), *AROUND]),
        ("dist.barrier(group", 'dist.barrier(group="...")', [("elif", "rank == 1"), *AROUND]),
        ('group="top"', 'dist.all_reduce(loss, group="...")', [("with", "guard()"), ("else", "rank == 1"), *AROUND]),
        ("loss.backward()", "loss.backward()", [("try", ""), *AROUND]),
        ('log("lost")', 'log("...")', [("except", "ValueError"), *AROUND]),
        ("for batch in loader", "for batch in loader", [("for", "epoch in range(3)"), ("function", "train")]),
        ("dist.send", "dist.send(self.t, 1)", [("if", "self.rank"), ("function", "forward")]),
        ("dist.all_reduce(x)", "dist.all_reduce(x)", []),
        ("def train", "def train", []),
    ],
)
def test_what_stands_around_a_line(line: str, text: str, enclosing: list[tuple[str, str]]) -> None:
    found = at(line)
    assert found.text == text
    assert [pair for pair in kinds(found.enclosing) if pair != ("else", "rank == 0")] == enclosing


def test_what_passes_the_line_by_in_its_loop() -> None:
    found = at("dist.barrier()")
    assert found.exits == (
        Enclosing("continue", line_of("continue"), 'batch is None and secret != "..."'),
        Enclosing("pass", line_of("except ValueError"), "ValueError"),
    )


def test_a_break_of_an_inner_loop_passes_nothing_by() -> None:
    assert "break" not in [one.kind for one in at("dist.barrier()").exits]


def test_outside_a_loop_returns_and_swallowed_exceptions_count() -> None:
    found = at("with contextlib.suppress")
    assert ("return", "") in kinds(found.exits)
    assert ("pass", "RuntimeError") in kinds(found.exits)
    assert "return" not in [one.kind for one in at("return rank").exits]  # it does not pass itself by


def test_a_condition_in_what_a_call_is_given_is_none_of_the_call_and_a_comprehension_is_a_loop() -> None:
    def around(line: str) -> list[tuple[str, str]]:
        return kinds(at("LINE", f"def step(rank):\n    {line}  # LINE\n").enclosing)[:-1]

    assert around("halo = swap(None if still else border.clone(), 1 - rank)") == []
    assert around("print(gather(x) if rank == 0 else 0)") == [("if", "rank == 0")]
    assert around("return {name: reduced(value) for name, value in local.items()}") == [
        ("for", "(name, value) in local.items()")
    ]
    assert around("total = sum(reduced(each) for each in losses)") == [("for", "each in losses")]
    assert around("dist.all_reduce(torch.tensor([count(each) for each in rows]))") == []
    assert around("names = [str(each) for each in rows]") == []


def test_a_forward_of_one_rank_is_a_call_of_what_has_parameters() -> None:
    program = textwrap.dedent(
        """\
        class Profiler:
            def due(self, step):
                return step % 5 == 0 and self.rank == 0

            def measure(self, net, batch):
                net(batch)

            def keep(self, net):
                torch.save(net, "x")

        def train(model, profiler, rank):
            optimizer = SGD(model.parameters())
            for step in range(9):
                if profiler.due(step):
                    profiler.measure(model, batch)
                if rank == 1:
                    profiler.keep(model)
                    score(batch)
                if step:
                    model(batch)
                loss = model(batch)
                loss.backward()
        """
    )
    (forward,) = at("loss.backward()", program).forwards
    assert (forward.kind, forward.text) == ("forward", "profiler.due(step)")
    assert forward.asks.endswith("rank == 0")


def test_the_handler_in_which_a_line_stands_does_not_pass_it_by() -> None:
    assert "pass" not in [one.kind for one in at('log("lost")').exits]


def test_collectives_of_the_function_with_the_condition_that_guards_each() -> None:
    assert kinds(at("dist.barrier()").calls) == [
        ("backward", ""),
        ("barrier", "rank == 0"),
        ("barrier", "rank == 1"),
        ("all_reduce", "not (rank == 1)"),
        ("broadcast", ""),
        ("destroy_process_group", ""),
    ]


def test_no_string_of_the_program_is_told() -> None:
    for number in range(1, len(PROGRAM.splitlines()) + 1):
        found = context(Frame("f", "t.py", number), lambda name: PROGRAM.encode())
        assert found is None or ("abc123" not in repr(found) and "top" not in repr(found))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"def f(:\n",
        b"\x00\x01\xff" * 99,
        b"x = " + b"(" * 5000 + b")" * 5000,
        b"# coding: no-such-thing\nx = 1\n",
        b"#" * (MAXIMUM_BYTES + 1),
    ],
    ids=["empty", "broken", "binary", "parentheses", "coding", "too large"],
)
def test_a_file_that_cannot_be_understood_is_left_alone(raw: bytes) -> None:
    assert context(Frame("f", "train.py", 1), lambda name: raw) is None


def test_what_is_too_much_for_the_parser_is_for_the_caller_to_say() -> None:
    """tests/attacks/test_hang_files.py: in a child process, the only place where this is called."""
    raw = b"x = " + b"-" * 200_000 + b"1"
    with pytest.raises((MemoryError, RecursionError)):
        context(Frame("f", "train.py", 1), lambda name: raw)


LONG = b"# " + b"x" * 300_000 + b"\n"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (LONG + PROGRAM.encode(), "dist.barrier()"),
        (b"# coding: latin-1\n" + LONG + PROGRAM.encode() + b"x = '\xe9'\n" * 30_000, "dist.barrier()"),
        (b"def f():\n    dist.barrier()\n" + b"x = 1\n" * 100_000, "dist.barrier()"),
        (b"x = (\n" + b"1,\n" * 200_000 + b")\n" + PROGRAM.encode(), "dist.barrier()"),
    ],
    ids=["behind a long comment", "encoded", "before much", "behind a long list"],
)
def test_of_a_large_file_the_statement_around_the_line_is_read(raw: bytes, text: str) -> None:
    number = next(number for number, line in enumerate(raw.splitlines(), 1) if text.encode() in line)
    found = context(Frame("train", "train.py", number), lambda name: raw)
    assert found is not None
    assert (found.line, found.text) == (number, text)
    assert found.enclosing[-1].kind == "function"


def test_deeply_nested_text_beside_the_line_is_cut_not_fatal() -> None:
    program = "def f():\n    if " + " + ".join(["a"] * 900) + ":\n        return\n    dist.barrier()\n"
    found = context(Frame("f", "train.py", 4), lambda name: program.encode())
    assert found is None or found.text == "dist.barrier()"


@pytest.mark.parametrize(
    "frame",
    [
        Frame("f", "", 1),
        Frame("f", "<string>", 1),
        Frame("f", "a.py", 0),
        Frame("f", "a.so", 3, True),
        Frame("f", "a.py", 10**9),
    ],
)
def test_frames_without_a_line_of_a_file(frame: Frame) -> None:
    assert context(frame, lambda name: PROGRAM.encode()) is None


def test_a_file_that_may_not_be_read() -> None:
    def read(name: str) -> bytes:
        raise PermissionError(name)

    assert context(Frame("f", "a.py", 1), read) is None


def test_nothing_is_executed_and_no_warning_travels(capsys: pytest.CaptureFixture[str]) -> None:
    program = b"print('ran')\nx = '\\d'\nimport sys; sys.exit(3)\n"
    assert context(Frame("f", "a.py", 2), lambda name: program) is not None
    assert capsys.readouterr().out == ""


SNIPPETS = [
    "x = 1",
    "for a in b:",
    "if a:",
    "    c()",
    "try:",
    "except E:",
    "    pass",
    "else:",
    "return",
    "def f():",
    "@",
]


@given(st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=12)), max_size=12), st.integers(-1, 14))
def test_any_text_and_any_line(lines: list[str], number: int) -> None:
    raw = "\n".join(lines).encode("utf-8", "replace")
    found = context(Frame("f", "a.py", number), lambda name: raw)
    assert found is None or found.line == number


@given(st.integers(1, 3000))
def test_any_line_of_a_real_module(number: int) -> None:
    with open(ast.__file__, "rb") as file:  # noqa: PTH123
        raw = file.read()
    found = context(Frame("f", ast.__file__, number), lambda name: raw)
    assert found is None or len(found.text) <= 200


def test_packages_outside_of_site_packages_are_not_the_program(tmp_path: Path) -> None:
    """As `pip install --target` lays them, and as a clone that another program imports; of this very process."""
    files = (
        *("libs/yaml/__init__.py", "libs/PyYAML-6.0.dist-info/METADATA"),
        *("clone/pyproject.toml", "clone/src/engine/__init__.py", "clone/src/engine/core/__init__.py"),
        *("work/train.py", "work/model/__init__.py", "clone/tools/run.py"),
    )
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    pid, train = os.getpid(), f"{tmp_path}/work/train.py"
    assert is_installed(pid, f"{tmp_path}/libs/yaml/loader.py", train)
    assert is_installed(pid, f"{tmp_path}/clone/src/engine/core/loop.py", train)
    assert not is_installed(pid, f"{tmp_path}/clone/src/engine/core/loop.py", f"{tmp_path}/clone/tools/run.py")
    assert not is_installed(pid, f"{tmp_path}/work/model/net.py", train)
    assert not is_installed(pid, train, train)


MADE = """\
class Mean(Callback):
    def end(self, loss):
        dist.all_reduce(loss)

class Lines(Callback):
    def end(self, loss):
        dist.broadcast(loss, 0)

def build(trainer, rank):
    mean: Mean | None = None
    if rank == 0:
        trainer.add(Mean())
    trainer.add(Lines() if rank == 0 else None)
"""


@pytest.mark.parametrize(
    ("more", "line", "asks"),
    [
        ("", "dist.all_reduce", "rank == 0"),
        ("", "dist.broadcast", "rank == 0"),
        ("    trainer.add(Mean())\n", "dist.all_reduce", ""),
        ("    trainer.kinds = [Mean]\n", "dist.all_reduce", ""),
        ("    if rank == 1:\n        trainer.add(Mean())\n", "dist.all_reduce", ""),
        ("    if rank == 0:\n        trainer.add(Mean())\n", "dist.all_reduce", "rank == 0"),
        ("class Own(Mean):\n    pass\n", "dist.all_reduce", ""),
    ],
)
def test_what_only_one_rank_makes_only_it_calls(more: str, line: str, asks: str) -> None:
    asked = [each.asks for each in at(line, MADE + more).enclosing if each.asks]
    assert asked == ([asks] if asks else [])


HANDED = """\
class Progress:
    def state_dict(self):
        dist.all_gather_object(self.every, self.offset)

class Training:
    def __init__(self):
        self.rank = dist.get_rank()
        self.progress = Progress()

    def save(self):
        found = {}
        self.progress.advance(4)
        if self.rank == 0:
            found["progress"] = self.progress
        dcp.save(found)
"""


@pytest.mark.parametrize(
    ("more", "asks"),
    [
        ("", "rank == 0"),
        ("    def keep(self):\n        self.every.append(self.progress)\n", ""),
        ("    def look(self):\n        return self.progress.state_dict()\n", ""),
    ],
)
def test_what_only_one_rank_hands_on_others_call_there(more: str, asks: str) -> None:
    asked = [each.asks for each in at("dist.all_gather_object", HANDED + more).enclosing if each.asks]
    assert asked == ([asks] if asks else [])


def test_a_sharded_model_is_unsharded_by_one_rank() -> None:
    program = textwrap.dedent(
        """\
        def update(average, model):
            model.unshard()
            average.take(model)

        def main():
            average = Average() if dist.get_rank() == 0 else None
            optimizer = AdamW(model.parameters())
            for step in range(9):
                model(batch).mean().backward()
                if average is not None:
                    update(average, model)
        """
    )
    (forward,) = at("model(batch)", program).forwards
    assert (forward.text, forward.asks) == ("average is not None", "rank == 0")


def test_a_number_that_the_rank_is_compared_with_may_be_any() -> None:
    program = "def once(rank=0):\n    def wrapper(call):\n        if get_rank() == rank:\n            call()\n"
    (guard,) = [each for each in at("call()", program).enclosing if each.kind == "if"]
    assert guard.asks == "rank == something"


CAUGHT = """
def train(parts):
    while True:
        try:
            for part in parts:
                model(part)
        except StopIteration:
            pass
        except RuntimeError as error:
            if "memory" not in str(error):
                raise
            failed = True
        except ValueError:
            raise
        dist.barrier()
"""


def test_an_exception_that_is_caught_around_the_loop_ends_it() -> None:
    found = context(Frame("train", "train.py", 6), lambda name: CAUGHT.encode())
    assert found is not None
    assert [(one.kind, one.line, one.text) for one in found.exits] == [("caught", 9, "RuntimeError")]


@pytest.mark.parametrize(
    ("function", "call", "given"),
    [
        ("def exchange(hidden):\n    dist.all_reduce(hidden)\n", "exchange(mine)", ("mine",)),
        ("def exchange(hidden):\n    dist.all_reduce(hidden)\n", "exchange(hidden=mine)", ("mine",)),
        ("def exchange(hidden):\n    dist.all_reduce(hidden)\n", "exchange(mine.half())", ()),
        ("def exchange(hidden):\n    hidden = pad(hidden)\n    dist.all_reduce(hidden)\n", "exchange(mine)", ()),
        (
            "def exchange(hidden):\n    out = like(hidden)\n    dist.all_to_all_single(out, hidden)\n",
            "exchange(mine)",
            ("mine",),
        ),
        ("def exchange(hidden, to):\n    dist.all_to_all_single(out, hidden, to, to)\n", "exchange(mine, parts)", ()),
        (
            "def exchange(x, to):\n    dist.all_to_all_single(out, x, input_split_sizes=to)\n",
            "exchange(mine, parts)",
            (),
        ),
        ("def take(weights, source):\n    dist.broadcast(weights, src=source)\n", "take(mine, best)", ("mine", "best")),
    ],
)
def test_what_a_function_passes_on(function: str, call: str, given: tuple[str, ...]) -> None:
    text = f"import torch.distributed as dist\n{function}def main():\n    {call}\n    torch.cuda.synchronize()\n"
    line = text.count("\n")
    told = context(Frame("main", "/home/mara/moe.py", line), lambda file: text.encode())
    assert told is not None
    assert [each.gives for each in told.leads_to] == [given]


@pytest.mark.parametrize(
    ("options", "told"), [(("-uc",), ["time.sleep(600)"]), (("-W", "ignore", "-c"), ["time.sleep(600)"]), (("-m",), [])]
)
def test_the_text_of_a_command_is_read(options: tuple[str, ...], told: list[str]) -> None:
    """evaluator_inherits_ranks: no file holds the program of a child that was started as `python -c`."""
    command = ["import time\n\ntime.sleep(600)", "-c", "import elsewhere"]
    words = ("timeit", "-s") if options == ("-m",) else ()
    child = subprocess.Popen([sys.executable, *options, *words, *command], stderr=subprocess.DEVNULL)
    sources = Sources()
    try:
        thread = Thread(id=child.pid, frames=(Frame("<module>", "<string>", 3),))
        found = sources.of({child.pid: thread}, time.monotonic() + 60)
    finally:
        sources.end()
        child.kill()
        child.wait()
    assert [context.text for context in found[child.pid]] == told
