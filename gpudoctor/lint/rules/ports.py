"""Rules of the rendezvous port by itself: P01, P02, P03, P07, P09."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.assignments import with_value
from gpudoctor.lint.edits import everywhere
from gpudoctor.lint.look import LintWorld, Value, value
from gpudoctor.lint.model import Expansion, LintJob, LintLaunch
from gpudoctor.lint.rule import Edit, LintFinding, rule

STATIC = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr=10.20.0.11 --master-port={} train.py\n"
C10D = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint=head01:{} train.py\n"
GOOD = "#@ node 0\n" + STATIC.format(0, 61234) + "#@ node 1\n" + STATIC.format(1, 61234)
ONE = "torchrun --nnodes=1 --nproc-per-node=4 --master-port={} train.py\n"
BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=8\n"
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
)
SRUN = (
    "srun --cpus-per-task=8 bash -c 'torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --nproc-per-node=4"
    " --master-addr=$MASTER_ADDR --master-port={} train.py'\n"
)
EPHEMERAL = (32768, 60999)
"""net.ipv4.ip_local_port_range where nobody changed it (Linux's ip-sysctl documentation): any connection may take
one."""


def ported(job: LintJob) -> Iterator[tuple[LintWorld, tuple[tuple[LintLaunch, Value], ...]]]:
    """Worlds with the ports that their launches name."""
    for world in look.worlds(job):
        given = [(launch, look.port(launch)) for launch in world.launches if not look.standalone(launch)]
        ports = tuple((launch, port) for launch, port in given if port is not None)
        if ports:
            yield world, ports


def _port_of(launch: LintLaunch) -> Value | None:
    return look.port(launch) if launch.launcher != "deepspeed" else value(launch, "master-port")


def port_number(setting: Value) -> int | None:
    """The port as int() reads it; None when it is not known, or no number."""
    text = setting.sure
    return int(text) if text is not None and re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", text, re.ASCII) else None


def each_port(job: LintJob) -> Iterator[tuple[LintWorld, LintLaunch, Value]]:
    """Each port as written, once a world. DeepSpeed's own (it runs once) is among them."""
    for world, given in ported(job):
        seen: set[str] = set()
        for launch, port in given:
            if port.shown not in seen:
                seen.add(port.shown)
                yield world, launch, port
    for launch in job.launches[: look.SIBLINGS]:
        if launch.launcher == "deepspeed" and not look.meets(launch) and (single := value(launch, "master-port")):
            yield LintWorld(launches=(launch,), nodes=None), launch, single


_DRAWN = (
    (lazy_re(r"\$\((?:echo -n|printf(?: [\"']?%s[\"']?)?) [\"']?\$\{?\w*ID\}?[\"']? ?\| ?tail -c ?-?(\d)\)"), 0),
    (lazy_re(r"\$\(echo [\"']?\$\{?\w*ID\}?[\"']? ?\| ?tail -c ?-?(\d)\)"), -1),  # the newline is one of them
    (lazy_re(r"\$\{\w*ID:(?: -|\(-|0-)(\d)\)?(?::\d)?\}"), 0),
)
"""The last digits of a job's number, and how many fewer than are asked for."""
_OCTAL = lazy_re(r"^\$\(\([^%#]*\$\{\w*ID:(?: -|\(-|0-)\d\)?\}[^%#]*\)\)$")


def largest(shown: str) -> int | None:
    """The largest value of sums, moduli and last digits; None where anything else takes part."""
    text = shown
    for pattern, fewer in _DRAWN:
        text = pattern.sub(lambda match, fewer=fewer: "9" * (int(match[1]) + fewer), text)  # type: ignore[misc]
    text = re.sub(r"\$?\{?\b(?:SLURM_JOB_?ID|SLURM_ARRAY_JOB_ID|RANDOM)\b\}?", _number_of, text)
    text = re.sub(r"(\d{1,9}) ?\\?% ?(\d{1,6})(?!\d)", _remainder, text)
    text = re.sub(r"(?<!\$)\( ?(\d{1,9}) ?\)", r"\1", text)
    sums = re.fullmatch(r"(\d*)(?:\$\(\(?|\$\(expr |`expr )?\s*(\d{1,9}(?: ?\+ ?\d{1,9})*)\s*(?:\)\)?|`)?", text)
    if sums is None or text == shown:
        return None
    return int(sums[1] + str(sum(int(number) for number in sums[2].split("+"))))


def _number_of(match: re.Match[str]) -> str:
    return "32767" if "RANDOM" in match[0] else "99999999"


def _remainder(match: re.Match[str]) -> str:
    return str(min(int(match[1]), int(match[2]) - 1))


@rule(
    "P01",
    title="The port is a whole number up to 65535",
    source="measured with torch 2.13; threads",
    bad=(
        *(ONE.format(70000), "#@ node 1\n" + STATIC.format(1, "29500a"), C10D.format("654321"), ONE.format(-1)),
        ONE.format("$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 5))"),
        ONE.format("$((10000 + SLURM_JOB_ID % 60000))"),
        ONE.format("$((50000 + RANDOM))"),
        ONE.format("$((20000 + ${SLURM_JOB_ID: -4}))"),
    ),
    good=(
        *(ONE.format(29511), GOOD, ONE.format("$PORT"), ONE.format("$((20000 + RANDOM))")),
        ONE.format("$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))"),
        ONE.format("$(expr 10000 + $(echo $SLURM_JOBID | tail -c 5))"),
        ONE.format("$((20000 + 10#${SLURM_JOB_ID: -4}))"),
    ),
)
def port_out_of_range(job: LintJob) -> Iterator[LintFinding]:
    """A TCP port is a number from 0 to 65535. Anything else ends the start, and in old versions of torch a number that
    is too large silently becomes another port."""
    for world, _launch, given_port in each_port(job):
        text = given_port.sure
        if text is None and (most := largest(given_port.shown)) is not None and most > 65535:
            yield LintFinding(
                span=given_port.span,
                severity="warning",
                summary=f"{given_port.written} comes from {given_port.shown}, which may be up to {most}",
                happens="Jobs whose number ends so get no port: ports end at 65535.",
                fix="Write $((20000 + SLURM_JOB_ID % 10000)).",
            )
        elif text is None and _OCTAL.search(given_port.shown):
            yield LintFinding(
                span=given_port.span,
                severity="warning",
                summary=f"{given_port.written} comes from {given_port.shown}: digits with a 0 in front are octal",
                happens="Of a job whose last digits are 0812 bash says: value too great for base; there is no port.",
                fix="Write 10# in front of the digits, or $((20000 + SLURM_JOB_ID % 10000)).",
            )
        if text is None or re.search(r"[<>]|\.\.\.", text) or text == "":
            continue
        port = port_number(given_port)
        if port is not None and 0 <= port <= 65535:
            continue
        yield LintFinding(
            span=given_port.span,
            summary=f"{given_port.written} has {text} for a port; wanted is a number from 1024 to 65535",
            happens="ValueError or an OverflowError at the start; old versions wrap it around to another port.",
            fix="Write a free port outside of Linux's own range, such as 61234, the same on every node.",
            edits=everywhere(world, _port_of, given_port, port="61234"),
        )


@rule(
    "P02",
    title="The port is 1024 or above",
    source="nccl#743; threads",
    bad=(ONE.format(80), "#@ node 0\n" + STATIC.format(0, "0999") + "#@ node 1\n" + STATIC.format(1, "0999")),
    good=(ONE.format(1024), GOOD, C10D.format(29400)),
)
def privileged_port(job: LintJob) -> Iterator[LintFinding]:
    """Only root may listen on ports below 1024; the head of a job that a user starts ends at once."""
    for world, _launch, given_port in each_port(job):
        port = port_number(given_port)
        if port is not None and 1 <= port <= 1023:
            yield LintFinding(
                span=given_port.span,
                summary=f"{given_port.written} has port {port}; ports below 1024 are root's",
                happens="Permission denied (EACCES, errno 13) on the head, unless root starts it; the others time out.",
                fix="Write a port from 1024 up, such as 61234, the same on every node.",
                edits=everywhere(world, _port_of, given_port, port="61234"),
            )


def _formula(setting: Value, launch: LintLaunch) -> Iterator[tuple[Expansion, int, int]]:
    """Arithmetic that a port comes from, with the smallest and the largest value, where that is plain: B + X % K."""
    for origin in look.origins(setting.word, launch.invocation):
        if origin.value is not None:
            continue
        shuffled = re.search(r"shuf\s+(?:-n\s*1\s+)?-i\s*(\d{1,5})-(\d{1,5})", origin.raw)
        if shuffled:
            yield origin, int(shuffled[1]), int(shuffled[2])
            continue
        text = origin.raw.strip()
        if not text.startswith(("$((", "$(expr", "$[", "`expr")) or re.search(r"[*/<>&|^]", text[3:]):
            continue
        modulus = re.search(r"%\s*\(?\s*(\d{1,6})\b", text)
        rest = text.replace(modulus[0], "", 1) if modulus else text  # of `X % 101 + 20000` the sum, not 101
        base = re.search(r"(?:^|[\s(\[])(\d{1,6})\s*\+|\+\s*(\d{1,6})\b(?!\s*%)", rest)
        low = int(base[1] or base[2]) if base else 0
        if modulus and int(modulus[1]):
            yield origin, low, low + int(modulus[1]) - 1
        elif re.search(r"\bRANDOM\b", text) and "%" not in text:
            yield origin, low, low + 32767


@rule(
    "P03",
    title="The port of a multi-node job is outside of the range that Linux hands out",
    severity="warning",
    source="Linux ip-sysctl; enroot's 50-slurm-pytorch hook uses 61000 + id % 4536; threads",
    leads_to=("master-port-in-use",),
    bad=(
        BATCH + "export MASTER_PORT=$((49152 + SLURM_JOB_ID % 10000))\n" + SRUN.format("$MASTER_PORT"),
        "#@ node 0\n" + STATIC.format(0, 45321) + "#@ node 1\n" + STATIC.format(1, 45321),
    ),
    good=(GOOD, BATCH + "export MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))\n" + SRUN.format("$MASTER_PORT")),
)
def port_in_ephemeral_range(job: LintJob) -> Iterator[LintFinding]:
    """Linux takes the ports 32768 to 60999 for outgoing connections: once in a while one of those is the port that the
    job wants. A constant there works nearly always; a formula over a shared machine's jobs meets it sooner or later."""
    for world, launch, given_port in each_port(job):
        if not look.is_multi(job, world):
            continue
        port = port_number(given_port)
        if port is not None and EPHEMERAL[0] <= port <= EPHEMERAL[1]:
            yield LintFinding(
                span=given_port.span,
                severity="info",
                summary=f"Port {port} is in the range {EPHEMERAL[0]}-{EPHEMERAL[1]}, which Linux hands out to any"
                f" connection",
                happens="It works nearly always; once in a while the head ends with EADDRINUSE.",
                fix="Use a port from 61000 to 65535, or from 1024 to 32767.",
                edits=(),
            )
            continue
        for expansion, low, high in _formula(given_port, launch):
            if high >= EPHEMERAL[0] and low <= EPHEMERAL[1] and high <= 65535 + 32768 and "RANDOM" not in expansion.raw:
                edits: tuple[Edit, ...] = ()
                if (
                    re.search(r"SLURM_JOB_?ID", expansion.raw)
                    and expansion.span is not None
                    and expansion.raw.startswith("$((")
                ):
                    edits = (Edit(expansion.span, "$((61000 + SLURM_JOB_ID % 4536))"),)
                inside = min(high, EPHEMERAL[1]) - max(low, EPHEMERAL[0]) + 1
                yield LintFinding(
                    span=expansion.span or given_port.span,
                    severity=None if 2 * inside > high - low else "info",  # as seldom as a constant in it
                    summary=f"{expansion.raw} gives ports from {low} to {high}; Linux hands out"
                    f" {EPHEMERAL[0]}-{EPHEMERAL[1]}",
                    happens="Some jobs meet a port that a connection has: EADDRINUSE on the head, a time-out"
                    " elsewhere.",
                    fix="Use $((61000 + SLURM_JOB_ID % 4536))."
                    if edits
                    else "Use ports from 61000 to 65535, such as 61000 + NUMBER % 4536.",
                    edits=edits,
                )
                break


@rule(
    "P07",
    title="A random port is drawn above 1023",
    severity="warning",
    source="bash(1): RANDOM is 0 to 32767; threads",
    bad=(
        BATCH + "export MASTER_PORT=$RANDOM\n" + SRUN.format("$MASTER_PORT"),
        ONE.format("$((RANDOM % 10000))"),
        ONE.format("$RANDOM"),
    ),
    good=(
        ONE.format("$((20000 + RANDOM % 10000))"),
        BATCH + "export MASTER_PORT=$((20000 + RANDOM % 10000))\n" + SRUN.format("$MASTER_PORT"),
    ),
)
def random_port_too_low(job: LintJob) -> Iterator[LintFinding]:
    """$RANDOM is a number from 0 to 32767: one in 32 is a port that only root may take."""
    for _world, launch, port in each_port(job):
        for origin in look.origins(port.word, launch.invocation):
            if not re.search(r"\bRANDOM\b", origin.raw) or origin.value is not None:
                continue
            plain = re.fullmatch(r"\$\{?RANDOM\}?", origin.raw) is not None
            low = 0 if plain else next((low for one, low, _ in _formula(port, launch) if one == origin), None)
            if (
                low is None
                or low >= 1024
                or (plain and port.shown not in (origin.raw, "$" + origin.name) and _adds(port))
            ):
                continue
            right = "$((20000 + RANDOM % 10000))"
            yield LintFinding(
                span=origin.span or port.span,
                summary=f"The port comes from {origin.raw}, which can be below 1024",
                happens="Now and then the head ends with 'Permission denied' (EACCES).",
                fix=f"Write {right}.",
                edits=_drawn_higher(launch, port, origin, right),
            )
            break


def _drawn_higher(launch: LintLaunch, given: Value, drawn: Expansion, right: str) -> tuple[Edit, ...]:
    """`right` in place of the expansion; where that stands in an assignment (`PORT=$RANDOM`), there."""
    if drawn.span is not None:
        return (Edit(drawn.span, right),)
    for origin in look.origins(given.word, launch.invocation):
        setting = launch.invocation.settings.get(origin.name)
        if setting is not None and setting.word.raw.strip('"') == drawn.raw:
            return with_value(setting, right)
    return ()


def _adds(setting: Value) -> bool:
    """Digits in front: `2$RANDOM`; or arithmetic around it."""
    return re.search(r"\d\$\{?RANDOM|\$\(\(|\$\(", setting.shown) is not None


@rule(
    "P09",
    title="The port of a multi-node job is a fixed one",
    severity="warning",
    source="the source of torch 2.13 and accelerate 1.15",
    leads_to=("master-unreachable",),
    bad=(
        "#@ node 0\n" + STATIC.format(0, 0) + "#@ node 1\n" + STATIC.format(1, 0),
        "#@ every node\n" + C10D.format(0),
    ),
    good=(GOOD, "torchrun --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py\n"),
)
def port_zero_on_several_nodes(job: LintJob) -> Iterator[LintFinding]:
    """Port 0 means a free one, which the head then knows, and nobody else does."""
    for world, _launch, port in each_port(job):
        if port_number(port) == 0 and look.is_multi(job, world):
            yield LintFinding(
                span=port.span,
                summary=f"{port.written} has port 0 in a start of several nodes",
                happens="The head takes any free port; the other nodes cannot know which, and time out.",
                fix="Write a fixed port, such as 61234, on all nodes.",
                edits=everywhere(world, _port_of, port, port="61234"),
            )
