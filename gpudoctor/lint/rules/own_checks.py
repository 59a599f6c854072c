"""Rules of programs that refuse, by checks of their own, what they are started with: V23."""

from collections.abc import Iterator

from gpudoctor.lint.courses.programs import courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import of

_START = (
    "torchrun --standalone --nproc-per-node={} fit.py {}\n#@ file fit.py\nimport argparse\nimport os\nimport torch\n"
)
_ARGUMENTS = (
    "parser = argparse.ArgumentParser()\nparser.add_argument('--micro', type=int, default=2)\n"
    "parser.add_argument('--total', type=int, default=64)\nparser.add_argument('--kind', default='full')\n"
    "args = parser.parse_args()\n"
)
_WORLD = "world = int(os.environ['WORLD_SIZE'])\n"
_TRAINS = "torch.distributed.init_process_group('nccl')\n"
LONGEST = 90
"""Of a condition and of a message that are shown."""


@rule(
    "V23",
    title="A program's own checks take what it is started with",
    source="Python: an assertion or a raise below conditions that the words and the environment of the start decide",
    leads_to=("program-error",),
    bad=(
        _START.format(8, "--micro 3") + _ARGUMENTS + _WORLD
        + "assert args.total % (args.micro * world) == 0, 'uneven'\n" + _TRAINS,
        _START.format(2, "--kind ful") + _ARGUMENTS
        + "if args.kind not in ('full', 'lora'):\n    raise ValueError(f'unknown kind {args.kind}')\n" + _TRAINS,
        _START.format(6, "") + _ARGUMENTS + _WORLD
        + "def check(world):\n    if world not in (1, 2, 4, 8):\n        parser.error('a power of 2, please')\n"
        "check(world)\n" + _TRAINS,
    ),
    good=(
        _START.format(8, "--micro 4") + _ARGUMENTS + _WORLD
        + "assert args.total % (args.micro * world) == 0, 'uneven'\n" + _TRAINS,
        _START.format(2, "--kind $KIND") + _ARGUMENTS
        + "if args.kind not in ('full', 'lora'):\n    raise ValueError(f'unknown kind {args.kind}')\n" + _TRAINS,
        _START.format(2, "--kind ful") + _ARGUMENTS
        + "try:\n    if args.kind not in ('full', 'lora'):\n        raise ValueError(args.kind)\n"
        "except ValueError:\n    args.kind = 'full'\n" + _TRAINS,
        _START.format(6, "") + _ARGUMENTS + "assert torch.cuda.is_available()\n" + _TRAINS,
    ),
)  # fmt: skip
def its_own_check(job: LintJob) -> Iterator[LintFinding]:
    """Programs look at their options and at the world before they train, and end where these do not fit. What is not
    decided by the start is passed over."""
    for each in courses(job):
        told: set[int] = set()
        for follower, deed in of(each.ranks, "its own check"):
            line = each.code.line_at(deed.node)
            if line in told:
                continue
            told.add(line)
            test, holds, says = deed.more
            shown = ", ".join(f"{name} is {value!r}" for name, value in deed.value.items())
            several = len(each.ranks) > 1 and not all(
                any(other.node is deed.node for other in rank.deeds if other.what == deed.what) for rank in each.ranks
            )
            message = "" if says is None else f": {_short(each.code.words(says))}"
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=f"the program's own check refuses this start: {_short(each.code.words(test))}"
                f" is {holds}" + (f" ({_short(shown)})" if shown else ""),
                happens=(
                    f"Rank {follower.seat.rank} ends here, and the others wait for it"
                    if several
                    else "It ends here, before anything is trained"
                )
                + f"{message}.",
                fix="Start it with other values, or take the check out where it is wrong.",
            )


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= LONGEST else f"{one[: LONGEST - 3]}..."
