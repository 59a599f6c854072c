"""Where a process crashed in native code, by what a log shows of it."""

import io

import pytest
from hypothesis import given, strategies as st

from gpudoctor.causes import CAUSES
from gpudoctor.explain.crashed_in import fix_of_crash
from gpudoctor.explain.explain import explain

FATAL = "Fatal Python error: Segmentation fault\n\n"
STACK = (
    'Current thread 0x00007f10 (most recent call first):\n  File "{path}", line 71 in pack\n'
    '  File "fit.py", line 9 in main\n'
)
KERNEL = "[ 912.4] python[6177]: segfault at 0 ip 00007f21aa sp 00007ffd10 error 4 in {library}[7f21a0000000+1c2000]\n"
PLACES = {
    "a package's frame": (
        FATAL + STACK.format(path="/opt/env/lib/python3.12/site-packages/fastpack/core.py"),
        "pack of fastpack (core.py, line 71)",
    ),
    "the program's own frame": (FATAL + STACK.format(path="/srv/fit/data.py"), "pack (data.py, line 71)"),
    "a function": (
        "*** SIGSEGV received at time=1755603602 on cpu 4 ***\n"
        "PC: @     0x7f2b44aa1c20  (unknown)  ncclProxyStart()\n" + FATAL,
        "ncclProxyStart",
    ),
    "a library": (KERNEL.format(library="libnccl.so.2.27.5") + FATAL, "libnccl.so.2.27.5"),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_place_is_named_and_nobody_is_asked_for_a_stack(name: str) -> None:
    text, place = PLACES[name]
    told = explain(["-"], stdin=io.BytesIO(text.encode()))
    (cause,) = (each for each in told.causes if each.cause == "native-crash")
    assert f"crashed in {place}" in cause.fix.text, cause.fix.text
    assert not cause.fix.commands


@pytest.mark.parametrize("text", [FATAL, KERNEL.format(library="libc.so.6") + FATAL])
def test_without_a_place_a_stack_is_asked_for(text: str) -> None:
    (cause,) = (each for each in explain(["-"], stdin=io.BytesIO(text.encode())).causes if each.cause == "native-crash")
    assert cause.fix == CAUSES["native-crash"].fix


LINES = [*FATAL.splitlines(), *STACK.splitlines(), *KERNEL.splitlines(), "PC: @     0x7f2b44aa1c20  (unknown)  f()"]


@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=80)), max_size=8))
def test_any_order_of_such_lines_is_read(texts: list[str]) -> None:
    fix = fix_of_crash(texts)
    assert fix is None or fix.text.startswith("It crashed in ")
