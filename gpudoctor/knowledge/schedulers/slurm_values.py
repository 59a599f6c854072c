"""Which values sbatch, salloc and srun take for an option, before they ask the controller: what they refuse otherwise.

Each form was measured with sbatch --test-only of Slurm 22.05.8, and stands in src/common/slurm_opt.c and proc_args.c;
what later releases take besides (--nodes=2,4,8 since 23.02) is taken too.
"""

import re

from gpudoctor.lazy import lazy_re

TIME = r"-1|infinite|unlimited|\d+(?::\d+){0,2}|\d+-(?:\d+(?::\d+){0,2})?"
_DAY = r"(?:0?[1-9]|1[0-2])[/.]?(?:0?[1-9]|[12]\d|3[01])(?:[/.]?(?:\d\d){1,2})?"
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?: ?[ap]m)?"
_WORDS = "midnight|noon|fika|teatime|elevenses"
BEGIN = (
    rf"now(?: ?[+-] ?\d+ ?[a-z]*)?|(?:today|tomorrow|\d{{4}}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12]\d|3[01])|{_DAY})"
    rf"(?:[- tT](?:{_CLOCK}|{_WORDS}))?|{_CLOCK}|{_WORDS}|\d{{9,11}}"
)
"""src/common/parse_time.c: a time of the day, a date, both, or now and so much more."""
MEMORY = r"\d+(?:[kmgt]b?)?"
COUNT = r"\+?0*[1-9]\d*"
NUMBER = r"\+?\d+"
NODES = r"-?\d+[km]?(?:-\d+[km]?)?(?::\d+)?(?:,\d+[km]?(?:-\d+[km]?)?(?::\d+)?)*"
SIGNALS = "HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU"
SIGNAL = rf"(?:[RB]{{1,2}}:)?(?:(?:SIG)?(?:{SIGNALS})|[1-9]\d?)(?:@\d{{1,5}})?"
_MAILS = "none|begin|end|fail|requeue|all|stage_out|time_limit(?:_(?:50|80|90))?|invalid_depend|array_tasks"
MAIL = rf"(?:.*,)?(?:{_MAILS})(?:,.*)?"
ELEMENTS = r"\d+(?:-\d+(?::[1-9]\d*)?)?"
GRES_NAME = r"(?!gpus\b)[A-Za-z_][\w.-]*"
GRES_TYPE = r"(?=[\w.-]*[A-Za-z])\w[\w.-]*"
GRES = rf"(?:gres[:/])?{GRES_NAME}(?::{GRES_TYPE}|:\w[\w.-]*:\d+[kmgtp]?|:\d+[kmgtp]?)?(?:\([^()]*\))?"
GPUS = rf"(?:{GRES_TYPE}|(?:\w[\w.-]*:)?\d+[kmgtp]?)(?:\([^()]*\))?"

_FORMS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            *("ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket"),
            *("cpus-per-task", "cpus-per-gpu", "mincpus", "threads-per-core", "cores-per-socket", "sockets-per-node"),
        ),
        (COUNT, "a whole number above 0"),
    ),
    **dict.fromkeys(("core-spec", "thread-spec", "wait-all-nodes", "kill-on-bad-exit"), (NUMBER, "a whole number")),
    **dict.fromkeys(
        ("time", "time-min", "delay-boot"), (TIME, "minutes, minutes:seconds, hours:minutes:seconds or days-hours")
    ),
    "begin": (BEGIN, "HH:MM, YYYY-MM-DDTHH:MM, MM/DD, or now+COUNT with minutes, hours, days"),
    **dict.fromkeys(
        ("mem", "mem-per-cpu", "mem-per-gpu", "tmp"), (MEMORY, "a whole number with K, M, G or T (MB without)")
    ),
    "nodes": (NODES, "a number, or the fewest and the most: 2-4"),
    "signal": (SIGNAL, "[B:]NAME[@SECONDS], such as B:USR1@120; at most 65535 seconds"),
    "mail-type": (MAIL, "BEGIN, END, FAIL, ALL and the like, with commas between"),
    "array": (rf"{ELEMENTS}(?:,{ELEMENTS})*(?:%\d+)?|\[.*\](?:%\d+)?", "numbers, as 0-7, 1,3,5 or 0-15%4"),
    "dependency": (
        r"(?:(?:after(?:any|burstbuffer|corr|notok|ok)?|expand):.+|singleton.*)",
        "TYPE:JOB, such as afterok:1234, or singleton",
    ),
    "requeue": (r"expedite", "no value (expedite since 25.11)"),
    "open-mode": (r"[at].*", "append or truncate"),
    "exclusive": (r"user|mcs|topo|exclusive|oversubscribe", "no value, user or mcs"),
    "hint": (r".*(?:compute_bound|memory_bound|multithread|help).*", "compute_bound, memory_bound or [no]multithread"),
    "distribution": (
        r"(?:block|cyclic|arbitrary|plane|fcyclic|pack|nopack)\b.*|\*.*", "block, cyclic, plane=N or arbitrary",
    ),
    "gres": (
        rf"none|(?!(?:null|nil|undefined|n/?a|false|gpu\d)$){GRES}(?:,{GRES})*",
        "NAME[:TYPE][:COUNT], such as gpu:4 or gpu:a100:4",
    ),
    "gpus-per-node": (rf"{GPUS}(?:,{GPUS})*", "[TYPE:]COUNT, such as 4 or a100:4"),
    "gpu-bind": (
        r"(?:verbose,|v,|gres:gpu:|gpu:)*(?:none|closest|cores|(?:single|per_task):\d+|(?:map|mask)(?:_gpu)?:.*|help|"
        r"verbose|v)",
        "none, closest, single:N, per_task:N, map_gpu:LIST or mask_gpu:LIST",
    ),
}  # fmt: skip
_COMPILED = {name: (lazy_re(form, re.IGNORECASE | re.ASCII), wanted) for name, (form, wanted) in _FORMS.items()}
LONGEST = 200
"""Longer values are read by nobody: lists of hosts and mail addresses are not among the forms."""


def is_checked(name: str) -> bool:
    """Whether the form of an option's value is known."""
    return name in _COMPILED


def wanted_instead(name: str, value: str) -> str:
    """What sbatch takes for the option, where it refuses this value; "" where it takes it, or where nobody knows."""
    compiled = _COMPILED.get(name)
    if compiled is None or len(value) > LONGEST:
        return ""
    form, wanted = compiled
    if form.fullmatch(value):
        if name == "signal" and int(value.partition("@")[2] or 0) > 65535:
            return wanted
        if name == "nodes" and (limits := re.fullmatch(r"(\d+)-(\d+)", value)) and int(limits[1]) > int(limits[2]):
            return "the fewest nodes first, then the most"
        return ""
    return wanted
