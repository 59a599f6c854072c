"""Rules of files that every rank makes for itself to read, all at one path: U32."""

import ast
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.events import Deed
from gpudoctor.lint.courses.follow import RankCourse
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.values import OpenValue, Thing, is_own, key_of
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, RUN

_FETCH = "import urllib.request\nurllib.request.urlretrieve('https://a.example/a.pt', {})\n"
_LOCKS = lazy_re(r"lock|first|rank|master|main_process|one_at_a_time|sequential|ordered")
"""Of a `with` or a condition around it: it lets one rank in at a time, or one alone."""
_MAKES = ("written", "save", "fetched")


@rule(
    "U32",
    title="A file that every rank makes is whole when another one reads it",
    severity="warning",
    source="earth2mip#91, pytorch/tutorials#3065, lighteval#1102: a file is there, and half of it, while another rank"
    " still writes it",
    leads_to=("program-error",),
    bad=(
        DDP + _FETCH.format("'a.pt'") + "state = torch.load('a.pt', map_location='cpu')\n" + RUN,
        DDP + "import pandas as pd\nmake().to_parquet('a.parquet')\nback = pd.read_parquet('a.parquet')\n" + RUN,
        DDP + "if not os.path.exists('a.pt'):\n    with open('a.pt', 'wb') as file:\n        fetch(file)\n"
        "state = torch.load('a.pt', map_location='cpu')\n" + RUN,
    ),
    good=(
        DDP + "if rank == 0:\n    " + _FETCH.format("'a.pt'").replace("\nurl", "\n    url")
        + "dist.barrier()\nstate = torch.load('a.pt', map_location='cpu')\n" + RUN,
        DDP + _FETCH.format("f'a{rank}.pt'") + "state = torch.load(f'a{rank}.pt', map_location='cpu')\n" + RUN,
        DDP + "from filelock import FileLock\nimport urllib.request\nwith FileLock('a.lock'):\n    "
        + _FETCH.format("'a.pt'").partition("\n")[2] + "state = torch.load('a.pt', map_location='cpu')\n" + RUN,
        DDP + "make().to_csv('a.csv')\n" + RUN,
    ),
)  # fmt: skip
def made_by_all_and_read(job: LintJob) -> Iterator[LintFinding]:
    """Each rank finds no file, makes it and goes on; what it then reads another one may be writing anew."""
    for each in courses(job):
        found = _made_and_read(each)
        if found is not None:
            made, read = found
            fetched = made.what == "fetched"
            yield LintFinding(
                span=each.code.span(made.node),
                summary=f"every rank {'downloads' if fetched else 'writes'} this same file, all at once, and reads it,"
                f" line {each.code.line_of(read.node)}",
                happens="A rank that is through reads what another one is still writing: it is cut off, or no file of"
                " its kind.",
                fix="Do it on rank 0 alone, with dist.barrier() on all ranks behind it; or write to a name of the"
                " rank's own, and os.replace() it.",
            )


def _made_and_read(each: Courses) -> tuple[Deed, Deed] | None:
    first: dict[tuple[int, int], int] = {}
    for rank in each.ranks:
        if rank.seat.node or rank.seat.is_assumed or (rank.world or 0) < 2:
            continue
        for made, read in _pairs(rank):
            if _by_one(each, made):
                continue
            if first.setdefault((id(made.node), key_of(made.value)), rank.seat.rank) != rank.seat.rank:
                return made, read
    return None


def _pairs(rank: RankCourse) -> Iterator[tuple[Deed, Deed]]:
    """What a rank makes, and reads at the same path, with no collective of all between."""
    for place, made in enumerate(rank.deeds):
        if made.what not in _MAKES or made.value is None or is_own(made.value) or _is_moved(made.value):
            continue
        for read in rank.deeds[place + 1 :]:
            if read.what == "read" and key_of(read.value) == key_of(made.value) and read.barriers <= made.barriers:
                yield made, read
                break


def _is_moved(value: object) -> bool:
    """What `tempfile` gives, and the like: a name that nobody else has."""
    return not isinstance(value, (str, OpenValue, Thing))


def _by_one(each: Courses, made: Deed) -> bool:
    for above in each.code.around(made.node):
        if isinstance(above, (ast.With, ast.AsyncWith)):
            if any(_LOCKS.search(ast.unparse(item.context_expr).lower()) for item in above.items):
                return True
        elif isinstance(above, ast.If) and _LOCKS.search(ast.unparse(above.test).lower()):
            return True
    return False
