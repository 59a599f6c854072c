"""What a message names, each in its role: the sizes that meet, the address that was asked, the limit that was reached,
the file that was read. A sentence of a class is told with them, and where they are missing it is not told.
"""

from gpudoctor.explain.own_words import refused_path
from gpudoctor.lazy import lazy_re

MOST = 2_000
"""Characters of a message that are looked at."""
BRACKETS = (
    r"(?:torch\.Size\(\[\d{0,12}(?:, ?\d{1,12}){0,7}\]\)|(?<!\w)[\[(]\d{1,12}(?:, ?\d{1,12}){1,7},?[\])]|"
    r"(?<!\w)\[\d{1,12}\]|\b\d{1,9}(?:x\d{1,9}){1,5}\b)"
)
TWO_SIZES = (
    lazy_re(r"tensor a \((?P<one>\d{1,12})\)[^\n]{1,60}tensor b \((?P<other>\d{1,12})\)"),
    lazy_re(rf"(?P<one>{BRACKETS})[^\n]{{1,160}}?(?P<other>{BRACKETS})"),
    lazy_re(r"(?i)\bgot (?P<one>\d{1,12}) and (?P<other>\d{1,12})\b"),
    lazy_re(
        r"(?i)\bexpected[^\n\d]{1,60}(?P<one>\d{1,12})[^\n]{0,60}?\b(?:got|have|but|found|not)\b[^\n\d]{1,40}"
        r"(?P<other>\d{1,12})\b"
    ),
    lazy_re(r"(?i)\b(?:sizes?|shapes?|lengths?|dim(?:ension)?s?) (?P<one>\d{1,12}) and (?P<other>\d{1,12})\b"),
    lazy_re(r"\((?P<one>\d{1,12})\)[^\n]{1,80}\((?P<other>\d{1,12})\)"),
)
ADDRESS = (
    lazy_re(r"\bhost='(?P<host>[\w.:-]{1,253})', port=(?P<port>\d{1,5})"),
    lazy_re(r"\(['\"](?P<host>[\w.:-]{1,253})['\"], (?P<port>\d{1,5})\)"),
    lazy_re(r"\b(?:https?|grpc|tcp|rediss?|ws)://(?:[^\s/@'\"]{1,80}@)?(?P<host>[\w.-]{1,253})(?::(?P<port>\d{1,5}))?"),
    lazy_re(r"(?<![\w./])(?P<host>(?:\d{1,3}\.){3}\d{1,3})[:<](?P<port>\d{1,5})\b"),
    lazy_re(
        r"\b(?:host|port of|connect to|server|peer|dial tcp) (?P<host>[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}):"
        r"(?P<port>\d{1,5})\b"
    ),
    lazy_re(r"\bssh: connect to host (?P<host>[\w.-]{1,253}) port (?P<port>\d{1,5})"),
)
"""As urllib3, asyncio and sockets, URLs, gloo and Go write whom they asked."""
LIMITS = (
    (lazy_re(r"(?i)open files|EMFILE|ENFILE|os error 24|ancdata"), "the number of open files (ulimit -n)"),
    (lazy_re(r"(?i)memlock|lock(?:ed)? memory|mlock"), "locked memory (ulimit -l)"),
    (lazy_re(r"(?i)\bstack\b"), "the stack (ulimit -s)"),
    (lazy_re(r"(?i)\bthreads?\b|\bprocess(?:es)?\b|\bfork\b|temporarily unavailable|pids"),
     "processes and threads (ulimit -u; in a container or pod the cgroup's pids.max)"),
)  # fmt: skip
"""setrlimit(2)'s, by the words of what was refused."""
URL = lazy_re(r"\b(?:https?|s3|gs|az|abfs|hf|oci|file)://[^\s'\"<>)\],/]{1,253}/[^\s'\"<>)\],]{1,300}")
FILE = lazy_re(
    r"[`'\"](?P<quoted>[^`'\"\n]{1,200}\.(?:jpe?g|png|webp|tiff?|jsonl?|csv|tsv|parquet|arrow|tar|gz|zst|zip|txt|wav|"
    r"flac|mp3|mp4|npy|npz|pkl|h5|bin|idx|tfrecord|ya?ml))[`'\"]|(?<![\w'\"`])(?P<bare>/[\w.@+=~/-]{3,200}\.\w{1,10})\b"
)
SOURCE = lazy_re(
    r"[\w./+-]{0,200}\.(?:cc|cpp|cxx|c|cu|cuh|h|hpp|rs|go|py|pyx|java)(?::|\(|, line )\d{1,7}(?::\d{1,5}|\))?"
)
"""Where a library's own source wrote a message: no file of the user's, and its line is no port."""
PORT = lazy_re(r"(?i)(?:\bport\b[^\n\d]{0,12}|:)(?P<port>\d{2,5})\b")


def _said(message: str) -> str:
    return SOURCE.sub(" ", message[:MOST])


def sizes(message: str) -> str:
    """The two that do not fit; empty where the message does not tell two."""
    found = (match for form in TWO_SIZES if (match := form.search(_said(message))))
    return next((f"{match['one']} and {match['other']}" for match in found if match["one"] != match["other"]), "")


def address(message: str) -> str:
    """Whom a connection was asked of."""
    match = next((match for form in ADDRESS if (match := form.search(_said(message)))), None)
    return "" if match is None else f"{match['host']}:{match['port']}" if match["port"] else match["host"]


def limit(message: str) -> str:
    return next((name for words, name in LIMITS if words.search(_said(message))), "")


def url(message: str) -> str:
    match = URL.search(_said(message))
    return match[0].rstrip(".:;") if match else ""


def read_file(message: str) -> str:
    """The file or address that was read: what was refused by an errno, what a URL names, what has a data file's "
    "name."""
    if path := refused_path(_said(message)) or url(message):
        return path
    match = FILE.search(_said(message))
    return (match["quoted"] or match["bare"]) if match else ""


def port(message: str) -> str:
    match = PORT.search(_said(message))
    return match["port"] if match else ""


__all__ = ["address", "limit", "port", "read_file", "sizes", "url"]
