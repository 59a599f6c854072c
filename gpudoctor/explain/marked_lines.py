"""Lines that their writer marks as errors itself, by the forms of loggers: whoever it is, and whatever it says.

Forms, from the loggers' sources: logfmt (logrus' TextFormatter, on a terminal too, slog's
TextHandler), JSON of zap, zerolog, slog, pino
and Google's severities, klog and glog (a letter before month and day), Ray's, env_logger and tracing, spdlog, loguru,
Python's logging (BASIC_FORMAT, dashes, brackets), zap's console, log4j and logback, rclone's and JuiceFS's, oneCCL's,
Open MPI's and PMIx's ERROR_LOG, CANN's codes, ROCr's handler,
panics of Go and Rust, and the word in front that commands have for it.
"""

from gpudoctor.explain.course import MILD
from gpudoctor.explain.writers import unprefixed
from gpudoctor.lazy import lazy_re

LEVEL = r"(?:error|fatal|critical|panic|dpanic|emergency|severe)"
UPPER = r"(?:ERROR|FATAL|CRITICAL|PANIC|DPANIC|SEVERE)"
STAMP = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?"
ANYWHERE = lazy_re(
    rf"(?i:\blevel={LEVEL}\b)|"
    rf"(?i:\"(?:level|severity|lvl|levelname|log\.level|@l|loglevel)\": ?\"{LEVEL}\")|"
    r"(?i:\"(?:failure|status|state|exit|termination|stop(?:ped)?)_?reason\": ?\"\w|\"error_?(?:message)?\": ?\"\w)|"
    rf"\|\s{{0,8}}{UPPER}\s{{0,8}}\||(?i:\[{LEVEL}\])|<(?:ERROR|FATAL)>|\|\w{{1,8}}_ERROR\||"
    rf" - {UPPER} - |\t{UPPER}\t|{STAMP}\]? ?\|? ?{UPPER}\b|"
    r"\b(?:PMIX|PRTE|PRRTE|ORTE|OPAL|OMPI)[ _]ERROR(?:_LOG)?\b|"
    r"^(?:\[[^\]\n]{1,30}\]:? ?)?E[A-Z]\d{4}: (?:\[PID: \d{1,8}\] )?\d{4}-\d\d-\d\d-|\bHW Exception by GPU node-\d|"
    r"\b[EF](?:\d{3,4}|20\d{6}) \d\d:\d\d:\d\d|\[[\d-]{10} [\d:,.]{8,15} [EFC] \d{1,9} \d{1,9}\]|"
    r"\bthread '[^'\n]{0,60}' (?:\(\d{1,9}\) )?panicked at\b"
)
AT_THE_BEGINNING = lazy_re(
    rf"{UPPER}\b ?(?:[:(\[~]|  )|(?:\[[^\]\n]{{1,60}}\] |==> |> |[\w./@-]{{1,60}}: |\([\w =,.-]{{1,60}}\) ){{0,2}}"
    r"(?:[Ee]rror|ERROR|[Ff]atal(?: [Ee]rror)?|FATAL|[Cc]ritical|panic|Abort(?:ing|ed)?)(?:\[\w{1,12}\])?"
    r"(?:: | \((?:[\w ]{1,30})\): | {2,}\w| (?:from|in|when|while|executing|at|during)\b)|"
    r"\w{2,20} ERROR[: ]|(?:ERRO|FATA|PANI)\[\d{4,8}\] |"
    r"(?:\([\w =,.-]{1,60}\) )?(?:CUDA|HIP|NCCL|MPI|cuDNN|CUDNN|cuBLAS|NVML) [Ee](?:rror|RROR)\b"
)
OF_A_DAEMON = lazy_re(
    r"(?:<\d{1,3}>)?[A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d\S* [\w.-]{1,253} [\w./()@-]{1,80}(?:\[\d{1,8}\])?: "
)
"""syslog's and the journal's form: of one of the machine's daemons, which need not be the job's."""


OF_PEOPLE = lazy_re(
    r"\b(?:I|he|she|his|her|him|my|me|students?|questions?|paragraphs?|sentences?|story|essay|graders?|summary|"
    r"answers?|"
    r"premises?|author|translation|conversation|reader|teacher)\b"
)
NO_PROSE = lazy_re(r"[\w)]\(|[_/=\\{}<>|]|\d|\b\w+\.\w|\b[a-z]+[A-Z]|(?:Error|Exception)\b|\bNone\b")
"""Names, numbers, paths and calls, of which every error of a program has some."""
WORDS = 10
"""Of a sentence about people and texts, at least (our choice)."""


def is_prose(text: str) -> bool:
    """What a model wrote or read, in sentences about people and texts, whatever stands before it: no program's "
    "error."""
    told = MARK.sub("", unprefixed(text), count=1)
    return len(told.split()) >= WORDS and OF_PEOPLE.search(told) is not None and NO_PROSE.search(told) is None


MARK = lazy_re(r"^\s*\[?[A-Za-z]{4,8}\]?:? ?")


def is_marked(text: str) -> bool:
    """Its writer marks it as an error."""
    if MILD.search(text) or OF_A_DAEMON.match(text) or is_prose(text):
        return False
    rest = unprefixed(text).lstrip()
    return ANYWHERE.search(text[:400]) is not None or AT_THE_BEGINNING.match(rest) is not None
