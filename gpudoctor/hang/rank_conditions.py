"""What a condition of the program asks of the rank, and for whom it holds."""

import ast
import re

from gpudoctor.hang.conditions import Known, leaves, name_of, parsed, says
from gpudoctor.knowledge import rank_names
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Enclosing

RANK_WORDS = lazy_re(
    r"rank|is_main|is_master|is_global_zero|master_process|main_process|is_local_main|is_first_worker|is_chief", re.I
)
"""Names by which programs ask which rank they are: torch, Lightning, accelerate, transformers, fairseq, detectron2."""
_OF_THE_WORLD = lazy_re(
    r"(?:\w+\.)*(?:is_available|is_initialized|(?:get_)?world_size|num_processes|(?:is_|use_)?distributed)", re.I
)
"""What ranks of one job find alike: that there is a group of them, and how large it is."""
_RANK = lazy_re(r"(?:get_)?(?:\w+_)?rank", re.I)
_IS_ZERO = lazy_re(
    r"is_main_process|is_master|is_global_zero|master_process|main_process|is_local_main_process|is_main|is_rank_0"
    r"|is_world_process_zero|is_local_process_zero|is_rank_zero|is_rank0|is_chief|is_first_worker|is_primary",
    re.I,
)


def condition_of(statement: Enclosing) -> str:
    """What a condition asks, in terms of the rank where that could be followed through the program."""
    return statement.asks or statement.text


def is_by_rank(statement: Enclosing) -> bool:
    """Whether a condition asks for the rank: by what its names were given, else by the names themselves."""
    return bool(statement.asks) or RANK_WORDS.search(statement.text) is not None


def admits(statement: Enclosing, rank: int) -> bool | None:
    """Whether a condition lets a rank through; None where what else it asks decides, or where it is not understood.

    Names with "rank" in them count as the rank, those of the kind of `is_main_process` as whether it is 0. The rest of
    the condition is unknown: "step % 10 == 0 and rank == 0" keeps rank 1 out all the same.
    """
    verdict = says(condition_of(statement), _known(rank))
    return None if verdict is None else verdict is not (statement.kind == "else")


def asks_for(condition: str, rank: int) -> bool | None:
    """Whether a condition lets a rank through, as far as it asks for the rank: `step % 10 == 0 and (full or rank == 0)`
    lets in rank 0. None where it does not ask, or is not understood. "not (...)" stands for the other branch."""
    return says(condition, _known(rank), partly=True)


def asks_for_world(condition: str) -> bool:
    """Whether a condition asks whether there are several ranks, and nothing else: no two of them part there."""
    node = parsed(condition)
    asked = [*leaves(node)] if node is not None else []
    return bool(asked) and all(leaf is not None and _is_of_world(leaf) for leaf in asked)


def _known(rank: int) -> Known:
    def known(node: ast.expr) -> float | None:
        if _IS_ZERO.fullmatch(name_of(node)):
            return rank == 0
        return rank if is_rank(node) else None

    return known


def is_rank(node: ast.expr) -> bool:
    """Not its number in a group: which ranks have it there, a condition does not tell."""
    name = name_of(node)
    asks_group = isinstance(node, ast.Call) and bool(node.args or node.keywords)
    return _RANK.fullmatch(name) is not None and not asks_group and rank_names.IN_GROUP.fullmatch(name) is None


def _is_of_world(leaf: ast.expr) -> bool:
    if isinstance(leaf, ast.Call):
        return not leaf.args and not leaf.keywords and _is_of_world(leaf.func)
    return isinstance(leaf, ast.Name | ast.Attribute) and _OF_THE_WORLD.fullmatch(ast.unparse(leaf)) is not None
