"""What diagnostics say of the GPUs that they tested: the table of `dcgmi diag` (2 to 4), and gpu-burn's last lines.

Sources: dcgmi's Diag.cpp ("Fail - GPU: 0", rows "Warning" and "Error" folded at the column's width; since 4 a row for
each GPU below an empty name) and gpu_burn-drv.cpp ("Tested 8 GPUs:", then "GPU 0: OK" or "FAULTY"). A test that passed
says of a GPU what it tested and no more: nothing here is called well for that.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.snapshot import ToldTrouble

DCGM, BURN = "dcgmi diag", "gpu-burn"
DCGM_HEADING = lazy_re(
    r"\| Diagnostic +\| Result *\||Successfully ran diagnostic for group|"
    r"\|[^|]{1,60}\| (?:Pass|Fail|Skip) - (?:All|GPUs?:)|"
    r"[|+]-{3,} +(?:Deployment|Integration|Hardware|Stress) +-{3,}\+-{3,}"
)
BURN_HEADING = lazy_re(
    r"Tested \d{1,3} GPUs:$|Couldn't init a GPU test|\W?\d{1,3}\.\d% +proc'd: |No clients are alive!", re.ASCII
)
CATEGORY = lazy_re(r"[|+]-+ +(?P<category>[A-Z]\w{2,20}) +-+\+-+[|+]")
ROW = lazy_re(r"\|(?P<name>[^|]{1,80})\|(?P<told>[^|]{0,300})(?:\||$)")
RESULT = lazy_re(r"(?:GPU ?(?P<gpu>\d{1,3}): )?(?P<status>Pass|Fail|Warn|Skip)\b(?: - )?(?P<which>.{0,120})", re.ASCII)
REASON = lazy_re(r"Warning|Error")
BUSY = lazy_re(r"out of memory|\bin use\b|\bbusy\b|MCUTIL|already running", re.IGNORECASE)
OF_A_GPU = lazy_re(r"\bGPU ?\d", re.ASCII)
ERRORS = lazy_re(r"-?\d{1,20}(?: +\((?P<mark>WARNING|DIED)!\))?", re.ASCII)
"""Of each GPU, in gpu-burn's order."""
MOST = 20
BURNT = lazy_re(r"GPU (?P<gpu>\d{1,3}): (?P<status>OK|FAULTY)$", re.ASCII)


class TestRow(NamedTuple):
    category: str
    name: str
    told: str


def parse(block: Pasted) -> ToolOutput:
    """dcgmi's table. A GPU that fails a test is a trouble; that a test of the software failed, or that a GPU was in
    use, says nothing of a GPU."""
    is_closed = bool(block.lines) and block.lines[-1].startswith("+--")
    return _judged(list(_rows(block)), () if is_closed else (f"{DCGM}'s table is cut",))


def parse_json(raw: bytes) -> ToolOutput:
    """`dcgmi diag -j`. Raises `msgspec.DecodeError`."""
    every = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    report = msgspec.json.decode(next(value for name, value in every.items() if "DCGM" in name), type=_DcgmReport)
    rows = [
        row
        for category in report.test_categories
        for test in category.tests
        for result in test.results
        for row in _of_json(category.category, test.name, result)
    ]
    return _judged(rows, ())


def _of_json(category: str, name: str, result: "_DcgmResult") -> Iterator[TestRow]:
    which = result.gpu_ids or (str(result.entity_id) if result.entity_id >= 0 else "")
    yield TestRow(
        category, name, f"{result.status.capitalize()} - GPU: {which}" if which else result.status.capitalize()
    )
    words = (
        result.warnings
        if isinstance(result.warnings, str)
        else ", ".join(str(each.get("warning", "")) for each in result.warnings)
    )
    if words:
        yield TestRow(category, "Warning", " ".join(words.split())[:600])


class _DcgmResult(msgspec.Struct):
    status: str
    gpu_ids: str = ""
    entity_id: int = -1
    warnings: str | list[dict[str, Any]] = ""


class _DcgmTest(msgspec.Struct):
    name: str
    results: list[_DcgmResult] = []


class _DcgmCategory(msgspec.Struct):
    category: str
    tests: list[_DcgmTest]


class _DcgmReport(msgspec.Struct):
    test_categories: list[_DcgmCategory]


def _judged(rows: Sequence[TestRow], cut: tuple[str, ...]) -> ToolOutput:
    passed = sum(row.told.startswith("Pass") or ": Pass" in row.told for row in rows)
    troubles, lacks = list[ToldTrouble](), list[str]()
    for place, row in enumerate(rows):
        result = RESULT.match(row.told)
        if result is not None and result["status"] == "Fail":
            which = f"GPU {result['gpu']}" if result["gpu"] else result["which"].strip()
            behind = next((each for each in rows[place + 1 :] if not RESULT.match(each.told)), None)
            why = behind.told if behind is not None and REASON.match(behind.name) else ""
            said = f"{DCGM}: {row.name} failed" + (f" ({which})" if which else "") + (f": {why[:200]}" if why else "")
        elif result is None and row.name.startswith("Error") and OF_A_GPU.search(f"{row.name} {row.told}"):
            said = f"{DCGM}: {row.told[:200]}"
        else:
            continue
        of_software = row.category == "Deployment" or not (row.category or (result and result["which"]))
        if BUSY.search(said) or (result is not None and of_software):
            lacks.append(said)
        else:
            troubles.append(_trouble(said, f"| {row.name} | {row.told[:200]} |"))
    return ToolOutput(
        DCGM,
        troubles=tuple(troubles)[:MOST],
        lacks=(*lacks[:MOST], *cut),
        tells=f"that {counted(passed, 'test')} passed" if passed else "of no test that passed",
    )


def parse_burn(block: Pasted) -> ToolOutput:
    """A GPU on which it could not begin is OK in its last lines too."""
    seen = [match for match in map(BURNT.match, block.lines) if match is not None]
    faulty = {match["gpu"] for match in seen if match["status"] == "FAULTY"}
    died, did_not_begin = set[str](), [line for line in block.lines if line.startswith("Couldn't init")]
    for line in block.lines:
        for place, counted_errors in enumerate(ERRORS.finditer(line.partition("errors:")[2].partition("temps:")[0])):
            faulty |= {str(place)} if counted_errors["mark"] == "WARNING" else set()
            died |= {str(place)} if counted_errors["mark"] == "DIED" else set()
    told = f"{BURN}: wrong results on GPU {', '.join(sorted(faulty, key=int))}"
    lacks = [f"{BURN} could not begin on a GPU ({did_not_begin[0][:120]})"] if did_not_begin else []
    lacks += (
        [f"{BURN}'s test died on GPU {', '.join(sorted(died, key=int))}: the kernel's log tells why"] if died else []
    )
    well = 0 if lacks else len(seen) - len(faulty)
    return ToolOutput(
        BURN,
        troubles=(_trouble(told, f"GPU {min(faulty, key=int)}: FAULTY"),) if faulty else (),
        lacks=tuple(lacks),
        tells=f"that {counted(well, 'GPU')} computed rightly under load" if well else "of no GPU that passed",
    )


def _rows(block: Pasted) -> Iterator[TestRow]:
    """Each result and each reason, with what was folded below it."""
    category, held = "", None
    for line in block.lines:
        if (match := CATEGORY.match(line)) is not None:
            category = match["category"]
        elif (match := ROW.match(line)) is not None:
            name, told = match["name"].strip(), match["told"].strip()
            if held is not None and not name and not RESULT.match(told):
                held = held._replace(told=f"{held.told} {told}"[:600])
                continue
            if held is not None:
                yield held
            held = TestRow(category, name or (held.name if held is not None else ""), told)
    if held is not None:
        yield held


def _trouble(said: str, line: str) -> ToldTrouble:
    return ToldTrouble("diagnosed", "xid-gpu-lost", "", said, {}, line)
