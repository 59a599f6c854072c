"""What to do about an exception of which only the class is known: the class's sentence where what it says was seen, and
else who raised it and what to look at next. A repair that points elsewhere is worse than none.
"""

import builtins
from collections.abc import Mapping

from gpudoctor.explain.concrete import address, limit, port, read_file, sizes, url
from gpudoctor.explain.own_fixes import DISTRIBUTIONS
from gpudoctor.explain.own_words import also_told, refused_path, said
from gpudoctor.explain.things import thing_of
from gpudoctor.explain.told_by_place import NO_ATTRIBUTE, is_of_a_package, package_of
from gpudoctor.fault_classes import MEANS, Class
from gpudoctor.lazy import lazy_re

OF_SAMPLES = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__", "collate_fn", "fetch"})
"""Functions in which a data set reads what it gives: a file there is no checkpoint."""
NAMES_A_SAMPLE = lazy_re(
    r"(?i)[`'\"][^`'\"\n]{2,200}[`'\"]|\b(?:sample|row|column|line|record|image|file|label|field|example|batch|"
    r"entry|tokens?|shard)\b|/\S{3,}|\.(?:jpe?g|png|jsonl?|csv|parquet|arrow|tar|txt|wav|flac|npy|mp4)\b"
)
OF_DATA = lazy_re(
    r"(?:^|[/\\.])(?:PIL|cv2|av|decord|torchcodec|torchaudio|soundfile|librosa|pyarrow|pandas|webdataset|tarfile|"
    r"zipfile|gzip|lzma|zlib|h5py|json|csv|datasets|streaming|torch[/\\]utils[/\\]data|lmdb|tokenizers|"
    r"data)(?:[/\\.]|$)"
)
LACKS = lazy_re(
    r"(?i)has no attribute|unexpected keyword|cannot import|undefined symbol|not (?:be )?found|missing|no kernel|"
    r"does not exist|no such (?:operator|function|symbol)|unknown"
)
OF_RELEASES = lazy_re(
    r"(?i)[<>=]=? ?\d+\.\d|\d\.\d[^\n]*\b\d+\.\d|\bABIs?\b|version|release|incompatib|mismatch|\bsymbols?\b|upgrade|"
    r"outdated|too old|(?:compiled|built|linked) (?:with|against|for|by)\b|\b(?:older|newer) (?:than|one)\b"
)
"""Two releases, or words for a build that another one does not take. A build that only failed names none."""
CUT_OFF = lazy_re(
    r"(?i)corrupt|truncat|unexpected (?:end|eof)|ran out of input|end of file|central directory|invalid magic|header|"
    r"invalid load key|not a zip|incomplete|pickle data"
)
DAMAGED = lazy_re(
    r"(?i)corrupt|truncat|unexpected (?:end|eof)|ran out of input|end of file|central directory|invalid magic|"
    r"not a zip|"
    r"incomplete|CRC check|not a gzipped"
)
OF_STATE = lazy_re(r"(?i)state_dict|\bkeys?\b|size mismatch|shape|\bweights?\b|layers?|parameters?")
OF_KEYS = lazy_re(r"(?i)\b40[13]\b|token|credential|authenti|authoriz|api[ _-]?key|log ?in|gated|private|forbidden")
STATUS = lazy_re(r"\b(?P<status>40[134]|429|5\d\d)\b")
CLOSED = lazy_re(
    r"(?i)connection (?:was )?(?:reset|aborted|closed)|broken pipe|closed (?:the connection )?by (?:the )?(?:peer|"
    r"remote)"
)
STALE, READ_ONLY = lazy_re(r"(?i)stale"), lazy_re(r"(?i)\bread-only file ?system\b|\bEROFS\b")
CERTIFICATE, OF_CERTIFICATES = lazy_re(r"(?i)certificate|SSL"), lazy_re(r"(?i)CERTIFICATE_VERIFY|certificate verify")
NOT_REACHED = lazy_re(
    r"(?i)timed? ?out|unreachable|refused|resolve|max retries|connection|offline|name or service|network"
)
TO_PRINT: Mapping[str, str] = {
    "IndexError": "the index, and the length of what is indexed: it holds less than the code expects, mostly because "
    "nothing was found or read, or a line has fewer parts",
    "ZeroDivisionError": "the divisor: a length of what is empty (a data set, a batch, a list of files), or a count "
    "that was divided to 0",
    "StopIteration": "the length of what is gone through: it is empty, or was used up before",
    "TypeError": "the types of what stands in that line",
    "AttributeError": "type() of what stands before the dot",
    "KeyError": "the keys of what is read",
    "RecursionError": "which functions call each other in the frames that repeat",
}
"""By the exception, what tells more at the line of the program that raised it."""
OF_RELEASE = (
    " Where nobody here has set it so (a model's, a checkpoint's or a project's own file does), the installed "
    "{package} may be older than that was written for: take a newer one (python -m pip install --upgrade "
    "'{package}', or pull its sources)."
)
OF_RELEASE_OF_ANY = " Where it is not misspelt, what says so may be older than what it was given."
BASES = frozenset({"torch", "functorch", "numpy", "pandas", "scipy", "PIL", "cv2", "tqdm", "joblib"})
"""Packages whose words are mostly about what a program hands to them, and seldom about their release."""
CLIENTS = frozenset(
    {
        *("requests", "urllib3", "httpx", "httpcore", "aiohttp", "botocore", "boto3", "openai", "anthropic", "grpc"),
        *("azure", "wandb", "mlflow", "kubernetes", "comet_ml", "clearml", "neptune", "minio"),
    }
)
"""Packages that hand on what a service answers."""
VALUES = "the values and shapes that stand in that line"


OUTSIDE: frozenset[Class] = frozenset(
    {
        *("rendezvous", "route", "firewall", "dead-rank", "node-lost", "scheduler", "storage", "permission", "quota"),
        *("driver", "no-device", "device-lost", "limits", "host-memory", "gpu-memory", "rdma", "time-limit"),
    }
)
"""Of which no release of the package that tells it can be the fault."""
OF_A_PROGRAM: frozenset[Class] = frozenset(
    {"argument", "data", "assertion", "exception", "shape", "config", "checkpoint", "nan", "other"}
)
"""Classes of what a program's own line has at hand: of a device, a driver or a network it can print nothing."""


OF_NETWORK = lazy_re(
    r"(?i)connect|time[ -]?d? ?out|http|url\b|download|fetch|retriev|status|\bhost|proxy|ssl|certificate|request|"
    r"respon|\bserv|resol|network|offline|remote|socket|\b[45]\d\d\b|\bhub\b|repo(?:sitory)?\b|comm|"
    r"client ?error|\bwhen calling\b|\bAPI\b"
)
"""Words of an exchange: packages that download have settings and files too."""
NOT_KNOWN = lazy_re(
    r"(?i)\b(?:do(?:es)?(?: not|n't) (?:exist|support|recognize|know)|(?:is |are )?not (?:supported|registered|"
    r"implemented|recognized|known)|unsupported|unrecognized|unknown)\b"
)
"""Of something that another release may know."""
REFUSES = lazy_re(
    r"(?i)\b(?:must|should|can only|only|cannot|can't|expect(?:s|ed)?|requires?|required|unsupported|invalid|unknown|"
    r"un(?:expected|recognized)|not (?:a |an |yet |be )?(?:supported|allowed|valid|registered|known|implemented|"
    r"compatible|divisible|found|available|set|specified)|(?:does not|doesn't|do not|don't) (?:exist|match|support|"
    r"fit|have)|duplicate|mismatch|greater|less|larger|smaller|at least|at most|equal)\b"
)
"""It holds what was given against what is taken; else a package tells of what it met, and refuses nothing."""
OF_A_DUMP = lazy_re(r"[{\[(<]|\w+\((?:\w+=)")
"""What a program printed of its own state."""
NEWER = "; or take a newer {package}, which may know it (python -m pip install --upgrade '{distribution}')"
ITS_OWN = (
    "; where nobody set or changed that, look for the message in the issues of {package}: the fault may be its own, or "
    "of this release"
)


def plain_fix(
    kind: Class,
    known: frozenset[str],
    type_name: str,
    message: str,
    raised_in: str,
    raised_by: str,
    code: str = "",
    *,
    alone: bool,
) -> tuple[str, dict[str, str]]:
    """The variant of the cause program-error, and its values. `known`: the variants that there are."""
    told = {"told": also_told(message)}
    clause, package = said(message), package_of(raised_in) if is_of_a_package(raised_in) else ""
    seen, values = _seen(kind, type_name, message, raised_in, raised_by)
    name = type_name.rpartition(".")[2]
    if seen == "apart" and package:
        return "apart-package", {"package": package, "distribution": distribution_of(package), "said": clause}
    if seen in known:
        return seen, {"said": clause, **told, **values}
    client = type_name.partition(".")[0]
    if (client in CLIENTS or package in CLIENTS) and OF_NETWORK.search(f"{name} {message} {raised_in}"):
        package = client if client in CLIENTS else package
        return "by-client", {"package": package, "said": clause or name}
    if package and package not in BASES and kind in OUTSIDE:
        return "outside", {"package": package, "means": MEANS[kind].partition(" (")[0], "said": clause}
    if package and package not in BASES:
        of_its_kind = name == "AssertionError" or (kind in ("data", "config", "argument") and name not in TO_PRINT)
        of_its_kind = of_its_kind or code.startswith("raise ")
        worded = clause.count(" ") > 2 and of_its_kind and REFUSES.search(clause) and not OF_A_DUMP.match(clause)
        values = {"package": package, "distribution": distribution_of(package)}
        otherwise = (NEWER if NOT_KNOWN.search(clause) else ITS_OWN).format_map(values)
        values |= {"said": f": {clause}" if clause else "", "otherwise": otherwise}
        return "by-package" if worded else "in-package", values
    if name == "AssertionError" and clause:
        return "asserted", {"said": clause}
    if (name in TO_PRINT or (raised_in and hasattr(builtins, name))) and kind in OF_A_PROGRAM:
        return "own-line", {"what": TO_PRINT.get(name, VALUES), **told}
    return "alone" if alone else "at", told


def distribution_of(package: str) -> str:
    """As pip calls it."""
    return DISTRIBUTIONS.get(package, package.replace("_", "-"))


def _seen(kind: Class, type_name: str, message: str, raised_in: str, raised_by: str) -> tuple[str, dict[str, str]]:
    """The class's own sentence, or a narrower one, with what the message names for it; empty: it does not hold, or
    nothing of what it speaks of is named."""
    if kind == "shape":
        two = sizes(message)
        return ("shape" if two else "", {"sizes": two})
    if kind == "data":
        is_named = not hasattr(builtins, type_name.rpartition(".")[2])  # a type of the program's or a package's own
        is_data = is_named or raised_by in OF_SAMPLES or OF_DATA.search(raised_in) or not raised_in
        file = read_file(message)
        is_data = is_data or thing_of(file).kind == "data"
        if DAMAGED.search(message):
            return "data-file", {"file": file or "What is read there"}
        shown = file or (f"what the message names ({said(message)})" if NAMES_A_SAMPLE.search(message) else "")
        return ("data" if is_data and shown else "", {"sample": shown})
    if kind == "dependency-mismatch" and (match := NO_ATTRIBUTE.search(message)):
        return "no-attribute", match.groupdict()
    if kind == "dependency-mismatch":
        apart = "apart" if OF_RELEASES.search(message) else ""
        return ("dependency-mismatch" if LACKS.search(message) else apart, {})
    if kind == "limits":
        reached = limit(message)
        return ("limits" if reached else "", {"limit": reached})
    if kind == "permission":
        path = refused_path(message)
        if OF_KEYS.search(message):
            where = url(message)
            return "permission-key", {"what": f" ({where})" if where else ""}
        return ("permission" if path else "", {"path": path})
    if kind in ("storage", "quota", "disk-full"):
        path = refused_path(message)
        if kind == "storage" and READ_ONLY.search(message):
            return "read-only", {"path": path or "What is written there"}
        if kind == "storage" and path and STALE.search(message):
            return "stale", {"path": path, "how": "TMPDIR, or a folder of the node's own disk"}
        return (kind if path else "quota-service" if kind == "quota" else "", {"path": path})
    if kind == "checkpoint":
        if CUT_OFF.search(message):
            return "checkpoint-file", {"file": read_file(message) or "The file"}
        return ("checkpoint" if OF_STATE.search(message) or sizes(message) else "", {})
    if kind == "download":
        return _of_download(message), {"what": f" ({where})" if (where := url(message) or address(message)) else ""}
    if kind == "route":
        if OF_CERTIFICATES.search(message):
            return "download-certificate", {}
        asked = address(message)
        if CLOSED.search(message):
            return "route-closed", {"asked": f"The other end ({asked})" if asked else "The other end"}
        return "route", {"asked": asked or "what it connects to"}
    if kind == "port":
        held = port(message)
        return "port", {"port": f"port {held}" if held else "that port"}
    if kind == "file-missing":
        where = url(message)
        return ("download-name" if where else "", {"what": f" ({where})"})
    return (kind if kind not in ("exception", "argument", "assertion", "config") else "", {})


def _of_download(message: str) -> str:
    if match := STATUS.search(message):
        return {"404": "download-name", "429": "download-rate"}.get(
            match["status"], "download-later" if match["status"].startswith("5") else "permission-key"
        )
    if CERTIFICATE.search(message):
        return "download-certificate"
    return "download" if NOT_REACHED.search(message) else "download-name"


__all__ = ["BASES", "NOT_KNOWN", "OF_NETWORK", "OF_RELEASE", "OF_RELEASE_OF_ANY", "distribution_of", "plain_fix"]
