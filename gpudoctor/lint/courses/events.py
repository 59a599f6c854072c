"""What a rank comes by, in order: collectives, and what it does with devices, files and groups."""

import ast

from msgspec import Struct

from gpudoctor.lint.courses.values import Value


class CourseCollective(Struct, frozen=True, eq=False):
    """A call that waits for the other ranks of its group."""

    call: str
    """As torch or accelerate names it: "barrier", "all_reduce", "gather_for_metrics"."""
    node: ast.expr
    group: tuple[int, ...] | None = None
    """Ranks of its group; None: all."""
    is_weak: bool = False
    """It talks to the others beside what it does (backward): calls are not compared by it, but whoever comes waits."""
    below: ast.expr | None = None
    """The condition of the text above it that is decided for this rank, and is of ranks by its words."""


class CourseFork(Struct, frozen=True, eq=False):
    """A condition that nobody knows, with what follows where it holds and where not."""

    key: int
    node: ast.AST
    yes: "tuple[Event, ...]"
    no: "tuple[Event, ...]"
    is_own: bool = False
    """What one rank alone has computed or drawn decides it."""


class CourseRound(Struct, frozen=True, eq=False):
    """A loop's body, once; or a function's."""

    node: ast.AST
    events: "tuple[Event, ...]"
    is_loop: bool = True


class Leave(Struct, frozen=True, eq=False):
    """The rest of the loop or the function is not come to."""

    how: str
    """break, continue, return, end (the process ends)."""
    node: ast.AST


Event = CourseCollective | CourseFork | CourseRound | Leave


class Deed(Struct, frozen=True, eq=False):
    """Something else that one rank does."""

    what: str
    """join, device, wrap, save, folder, load, tensor, peer, caught (and gone on, what a backward has raised),
    refused (by torch, at the call)."""
    node: ast.expr
    value: Value = None
    more: Value = None
    is_sure: bool = True
    """Below no condition that nobody knows."""
    condition: int = 0
    """The conditions that nobody knows above it, as a key."""
    barriers: int = 0
    """How many collectives of all ranks it has come to before."""
    loops: tuple[ast.AST, ...] = ()
    """The loops that it stands in, outermost first, those of its callers too."""
