"""Headers of batch schedulers other than SLURM: which options their lines have, and the forms of some values.

PBS: qsub(1B) of OpenPBS 23 and Torque 6, with NEC's -b and -T; POSIX qsub for where the header ends. LSF: bsub of 10.1.
PJM: pjsub of Fujitsu's Technical Computing Suite. Grid Engine: qsub(1) of 8.1 and of Altair's 2023.
"""

import re

from msgspec import Struct

from gpudoctor.lazy import lazy_re

CLOCK = r"\d+(?::\d+){0,2}(?:\.\d+)?"
PBS_TIME = lazy_re(CLOCK, re.ASCII)
LSF_TIME = lazy_re(r"(?:\d+:)?\d+(?:/\S+)?|:\d+", re.ASCII)
SGE_TIME = lazy_re(r"(?:\d*:\d*:\d+|\d+|INFINITY)", re.ASCII | re.IGNORECASE)
PJM_TIME = lazy_re(rf"unlimited|{CLOCK}(?:-{CLOCK})?", re.ASCII | re.IGNORECASE)
PBS_SIZE = lazy_re(r"\d+(?:[kmgtp]?[bw]?)", re.ASCII | re.IGNORECASE)


class HeaderKind(Struct, frozen=True, kw_only=True):
    """A scheduler's header."""

    name: str
    """As a message calls it."""
    submit: str
    """The program that reads the header."""
    prefix: str
    """A pattern of what a line of it begins with."""
    marker: str
    """The same as it is written."""
    flags: str
    """Options without a value."""
    valued: str
    """Options with one."""
    letters: bool
    """getopt(3): one letter each, and their value may follow without a blank."""
    ends: bool
    """The header ends at the first command."""

    @property
    def known(self) -> frozenset[str]:
        return frozenset(self.flags.split()) | frozenset(self.valued.split())


PBS = HeaderKind(
    name="PBS", submit="qsub", prefix=r"#PBS(?=[ \t])", marker="#PBS",
    flags="-f -h -I -V -X -z -x -E -n -G",
    valued="-a -A -b -B -c -C -d -D -e -F -j -J -k -K -l -L -m -M -N -o -p -P -q -r -R -S -t -T -u -v -w -W",
    letters=True, ends=True,
)  # fmt: skip
LSF = HeaderKind(
    name="LSF", submit="bsub", prefix=r"#BSUB(?=[ \t])", marker="#BSUB",
    flags="-B -H -I -Ip -Is -IS -ISp -ISs -IX -K -N -r -rn -rnc -ul -x -XF -hl -tty -h -V -csm -pack",
    valued="-a -alloc_flags -app -b -C -c -cn_cu -cn_mem -core_isolation -cwd -D -data -datachk -datagrp -E -Ep -env -e"
    " -eo -eptl -ext -F -f -freq -G -g -gpu -hostfile -i -is -J -Jd -jobaff -jsdl -jsdl_strict -jsm -k -L -Lp -ln_mem"
    " -ln_slots -M -m -mig -n -network -nnodes -notify -o -oo -outdir -P -p -ptl -Q -q -R -rsrc -S -s -sla -smt -sp"
    " -stage -step_cgroup -swiftly -T -t -ti -U -u -v -W -We -w -wa -wt -Zs",
    letters=False, ends=False,
)  # fmt: skip
PJM = HeaderKind(
    name="PJM", submit="pjsub", prefix=r"#PJM(?=[ \t])", marker="#PJM",
    flags="-j -S -s -X -Z --restart --norestart --interact --step -w",
    valued="-L -N -e -g -m -o -P -p -x -z --mpi --mail-list --bulk --sparam --rsc-list --name --out --err --llio"
    " --spath --appname --comment --at --fs --stg-transfiles --vset --env --group --uid",
    letters=False, ends=False,
)  # fmt: skip
SGE = HeaderKind(
    name="Grid Engine", submit="qsub", prefix=r"#\$(?=[ \t]+-)", marker="#$",
    flags="-C -clear -cwd -h -hard -help -notify -noshell -nostdin -soft -terse -V -verify -s",
    valued="-@ -a -A -ac -ar -b -bgio -binding -c -ckpt -dc -display -dl -e -g -hold_jid -hold_jid_ad -i -j -jc -js"
    " -jsv -l -m -M -masterq -mbind -mods -N -now -o -ot -P -p -par -pe -pty -q -R -r -rou -S -sc -shell -si -sync -t"
    " -tc -tcon -u -v -w -wd -when -xd -xdv -masterl -scope -pre -rdi -umask",
    letters=False, ends=False,
)  # fmt: skip
KINDS = (PBS, LSF, PJM, SGE)

_RESOURCES = lazy_re(r"(?:^|,)(walltime|cput|pcput|mem|pmem|vmem|pvmem)=([^,]+)")
_GPU_KEYS = frozenset(
    ("num", "mode", "mps", "j_exclusive", "aff", "block", "gpack", "gvendor", "gmodel", "gmem", "gtile", "nvlink",
     "glink", "mig", "j_mps")
)  # fmt: skip


def wanted_instead(kind: HeaderKind, option: str, value: str) -> tuple[str, str]:
    """What stands there, and what the scheduler takes; ("", "") where it takes it, or where nobody knows."""
    if kind is PBS and option == "-l":
        return _of_pbs(value)
    if kind is LSF:
        return _of_lsf(option, value)
    if kind is PJM and option in ("-L", "--rsc-list"):
        for name, _, each in (part.partition("=") for part in value.split(",")):
            if name.strip() == "elapse" and not PJM_TIME.fullmatch(each.strip()):
                return f"elapse={each}", "[[hours:]minutes:]seconds, or unlimited"
    if kind is SGE and option == "-l":
        for name, _, each in (part.partition("=") for part in value.split(",")):
            if name in ("h_rt", "s_rt", "h_cpu", "s_cpu") and each and not SGE_TIME.fullmatch(each):
                return f"{name}={each}", "seconds, or hours:minutes:seconds"
    switches = kind is SGE and option in ("-j", "-b", "-r", "-R", "-now", "-shell")
    if switches and not re.fullmatch(r"y|yes|n|no", value, re.IGNORECASE):
        return f"{option} {value}", "y or n"
    return "", ""


def _of_pbs(value: str) -> tuple[str, str]:
    for name, each in _RESOURCES.findall(value):
        if name in ("walltime", "cput", "pcput"):
            if not PBS_TIME.fullmatch(each):
                return f"{name}={each}", "seconds, or hours:minutes:seconds"
        elif not PBS_SIZE.fullmatch(each):
            return f"{name}={each}", "a whole number with kb, mb, gb or tb"
    chunks = re.search(r"(?:^|,)select=([^,]*)", value)
    for chunk in chunks[1].split("+") if chunks is not None else ():
        parts = chunk.split(":")
        first = parts[0] if "=" not in parts[0] else "1"
        resources = parts[1:] if "=" not in parts[0] else parts
        if not re.fullmatch(r"\d+", first, re.ASCII):
            return f"select={chunk}", "N:resource=number:..., such as 2:ncpus=32:ngpus=4"
        odd = next((part for part in resources if not re.fullmatch(r"[A-Za-z_][\w.-]*=.+", part, re.ASCII)), None)
        if odd is not None:
            return f"select=...:{odd}", "N:resource=number:..., such as 2:ncpus=32:ngpus=4"
        for name, _, each in (part.partition("=") for part in resources):
            counted = name in ("ncpus", "ngpus", "mpiprocs", "ompthreads") and not re.fullmatch(r"\d+", each, re.ASCII)
            if counted or (name == "mem" and not PBS_SIZE.fullmatch(each)):
                return f"{name}={each}", "a whole number with kb, mb, gb or tb" if name == "mem" else "a whole number"
    return "", ""


def _of_lsf(option: str, value: str) -> tuple[str, str]:
    if option in ("-W", "-We", "-c") and not LSF_TIME.fullmatch(value):
        return f"{option} {value}", "minutes, or hours:minutes"
    if option == "-n" and not re.fullmatch(r"\d+(?:,\s*\d+)?", value, re.ASCII):
        return f"{option} {value}", "a whole number of slots, or the fewest and the most"
    if option == "-gpu" and "=" in value:
        for name, _, each in (part.partition("=") for part in value.split(":")):
            if name not in _GPU_KEYS and not (name.isdigit() and not each):
                return f"{option} {value}", "num=N:mode=shared or exclusive_process:mps=yes or no:j_exclusive=yes or no"
            if name == "num" and not re.fullmatch(r"\d+(?:/(?:task|host))?", each):
                return f"num={each}", "a whole number"
    return "", ""


def excluded(kind: HeaderKind, given: list[tuple[str, str]]) -> tuple[str, str]:
    """Two options that exclude each other, and what is said; ("", "") where there are none."""
    if kind is not PBS:
        return "", ""
    lists = [value for option, value in given if option == "-l"]
    if any(re.search(r"(?:^|,)select=", values) for values in lists):
        old = next(
            (match for values in lists if (match := re.search(r"(?:^|,)(nodes|ncpus|ngpus|mpiprocs)=", values))), None
        )
        if old is not None:
            return f"-l select= and -l {old[1]}=", "old-style resources with select or place are refused"
    return "", ""
