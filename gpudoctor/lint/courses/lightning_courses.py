"""What the hooks of Lightning's modules and callbacks do on rank 0 and on another rank: each followed by itself."""

import ast
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.lint.courses.follow import RankCourse
from gpudoctor.lint.courses.seats import Seat
from gpudoctor.lint.courses.values import CourseTooLong, FollowedFunction, Names, Thing, key_of, unknown
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes
from gpudoctor.lint.python_text import last_name

KINDS = {"LightningModule": "lightning", "Callback": "callback"}
ON_ONE = frozenset(("prepare_data", "__init__", "configure_optimizers", "state_dict", "load_state_dict"))
"""What Lightning itself calls on one rank, or where nothing is to be told."""


class HookCourses(Struct, frozen=True, eq=False):
    code: PythonCode
    hook: ast.FunctionDef | ast.AsyncFunctionDef
    ranks: tuple[RankCourse, RankCourse]


def hook_courses(job: LintJob) -> Iterator[HookCourses]:
    """Of each class of the text that Lightning calls."""
    for code in codes(job):
        if not code.brings("lightning", "pytorch_lightning"):
            continue
        classes = [
            (node, kind)
            for node in code.tree.body
            if isinstance(node, ast.ClassDef)
            for kind in (next((KINDS[last_name(each)] for each in node.bases if last_name(each) in KINDS), ""),)
            if kind
        ]
        for made, kind in classes:
            for hook in (each for each in made.body if isinstance(each, FUNCTIONS) and each.name not in ON_ONE):
                try:
                    one, two = (_of_hook(code, made, kind, hook, rank) for rank in (0, 1))
                except (CourseTooLong, RecursionError):
                    continue
                yield HookCourses(code, hook, (one, two))


def _of_hook(
    code: PythonCode, made: ast.ClassDef, kind: str, hook: ast.FunctionDef | ast.AsyncFunctionDef, rank: int
) -> RankCourse:
    seat = Seat(rank=rank, local=rank, node=0, world=2, each=2, gpus=None, variables={}, is_bare=False, launch=None,
                is_assumed=True)  # fmt: skip
    course = RankCourse(code, seat, "module")
    for node in code.tree.body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            course.statement(node, (course.module,))
    course.rank, course.world, course.has_group = rank, 2, True
    places: Names = {"is_global_zero": rank == 0, "global_rank": rank, "local_rank": rank}
    trainer = Thing("lightning trainer", key_of(("trainer",)), dict(places) | {"world_size": 2})
    trainer.fields["strategy"] = Thing("lightning strategy", key_of(("strategy",)), dict(places))
    own = Thing("lightning", key_of((made.name,)), {"": (course.module,), "trainer": trainer} | places, made)
    start = course.method_of(own, "__init__")
    if kind == "lightning" and start is not None and isinstance(start.node, ast.FunctionDef):
        of_start: Names = {each.arg: unknown(each) for each in (*start.node.args.args, *start.node.args.kwonlyargs)}
        course.inlined(start, of_start | {"self": own}, made)
        own.fields |= {"trainer": trainer} | places
        course.events, course.deeds = [], []
    given: Names = {each.arg: unknown(each) for each in (*hook.args.args, *hook.args.kwonlyargs)}
    for each in hook.args.args:
        if each.arg == "trainer":
            given["trainer"] = trainer
        elif each.arg in ("pl_module", "module", "lightning_module"):
            given[each.arg] = Thing(
                "lightning", key_of(("module",)), {"": (course.module,), "trainer": trainer} | places
            )
    function = FollowedFunction(hook, (course.module,), own)
    if not course.is_left_out(function):
        course.inlined(function, given | {"self": own}, hook)
    return course
