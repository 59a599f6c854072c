"""What to do about an exception of which only the class is known: the class's sentence where what it says was seen, and
else who raised it and what to look at next. A repair that points elsewhere is worse than none.
"""

from collections.abc import Mapping

from gpudoctor.explain.own_fixes import DISTRIBUTIONS
from gpudoctor.explain.own_words import also_told, refused_path, said
from gpudoctor.explain.told_by_place import is_of_a_package, package_of
from gpudoctor.fault_classes import Class
from gpudoctor.lazy import lazy_re

SIZES = lazy_re(r"\d[^\n]{0,300}?\d")
"""Two numbers: of shapes that do not fit a message names both."""
OF_SAMPLES = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__", "collate_fn", "fetch"})
NAMES_A_SAMPLE = lazy_re(
    r"(?i)[`'\"][^`'\"\n]{2,200}[`'\"]|\b(?:sample|row|column|line|record|image|file|label|field|example|batch|"
    r"entry|tokens?|shard)\b|/\S{3,}|\.(?:jpe?g|png|jsonl?|csv|parquet|arrow|tar|txt|wav|flac|npy|mp4)\b"
)
OF_DATA = lazy_re(
    r"(?:^|[/\\.])(?:PIL|cv2|av|decord|torchcodec|torchaudio|soundfile|librosa|pyarrow|pandas|webdataset|tarfile|"
    r"zipfile|gzip|lzma|zlib|h5py|json|csv|datasets|streaming|torch[/\\]utils[/\\]data|lmdb|tokenizers|data)(?:[/\\.]|$)"
)
LACKS = lazy_re(
    r"(?i)has no attribute|unexpected keyword|cannot import|undefined symbol|not (?:be )?found|missing|no kernel|"
    r"does not exist|no such (?:operator|function|symbol)|unknown"
)
NAMES_A_LIMIT = lazy_re(
    r"(?i)open files|\bprocess(?:es)?\b|\bthreads?\b|temporarily unavailable|memlock|lock(?:ed)? memory|\bstack\b"
    r"|ulimit"
)
CUT_OFF = lazy_re(
    r"(?i)corrupt|truncat|unexpected (?:end|eof)|ran out of input|end of file|central directory|invalid magic|header|"
    r"invalid load key|not a zip|incomplete|pickle data"
)
OF_STATE = lazy_re(r"(?i)state_dict|\bkeys?\b|size mismatch|shape|\bweights?\b|layers?|parameters?")
OF_KEYS = lazy_re(r"(?i)\b40[13]\b|token|credential|authenti|authoriz|api[ _-]?key|log ?in|gated|private|forbidden")
STATUS = lazy_re(r"\b(?P<status>40[134]|429|5\d\d)\b")
CERTIFICATE = lazy_re(r"(?i)certificate|SSL")
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
    "{package} "
    "is of another release than that was written for: take a newer one (python -m pip install --upgrade '{package}', "
    "or "
    "pull its sources)."
)
BASES = frozenset({"torch", "functorch", "numpy", "pandas", "scipy", "PIL", "cv2", "tqdm", "joblib"})
"""Packages whose words are mostly about what a program hands to them, and seldom about their release."""
VALUES = "the values and shapes that stand in that line"


def plain_fix(
    kind: Class, known: frozenset[str], type_name: str, message: str, raised_in: str, raised_by: str, *, alone: bool
) -> tuple[str, dict[str, str]]:
    """The variant of the cause program-error, and its values. `known`: the variants that there are."""
    told = {"told": also_told(message)}
    if (seen := _seen(kind, message, raised_in, raised_by)) in known:
        return seen, told
    if is_of_a_package(raised_in) and (package := package_of(raised_in)) and package not in BASES:
        clause = said(message)
        return "in-package", {
            "package": package,
            "distribution": distribution_of(package),
            "said": f": {clause}" if clause else "",
        }
    name = type_name.rpartition(".")[2]
    if raised_in or name in TO_PRINT:
        return "own-line", {"what": TO_PRINT.get(name, VALUES), **told}
    return "alone" if alone else "at", told


def distribution_of(package: str) -> str:
    """As pip calls it."""
    return DISTRIBUTIONS.get(package, package.replace("_", "-"))


def _seen(kind: Class, message: str, raised_in: str, raised_by: str) -> str:
    """The class's own sentence, or a narrower one, where the message shows that it holds; empty: it does not."""
    if kind == "shape":
        return "shape" if SIZES.search(message) else ""
    if kind == "data":
        is_data = raised_by in OF_SAMPLES or OF_DATA.search(raised_in) or not raised_in
        return "data" if is_data and NAMES_A_SAMPLE.search(message) else ""
    if kind == "dependency-mismatch":
        return "dependency-mismatch" if LACKS.search(message) else "apart"
    if kind == "limits":
        return "limits" if NAMES_A_LIMIT.search(message) else ""
    if kind == "permission":
        return "permission-key" if OF_KEYS.search(message) else "permission" if refused_path(message) else ""
    if kind == "checkpoint":
        return "checkpoint-file" if CUT_OFF.search(message) else "checkpoint" if OF_STATE.search(message) else ""
    if kind == "download":
        return _of_download(message)
    return kind if kind not in ("exception", "argument", "assertion", "config") else ""


def _of_download(message: str) -> str:
    if match := STATUS.search(message):
        return {"404": "download-name", "429": "download-rate"}.get(
            match["status"], "download-later" if match["status"].startswith("5") else "permission-key"
        )
    if CERTIFICATE.search(message):
        return "download-certificate"
    return "download" if NOT_REACHED.search(message) else "download-name"


__all__ = ["BASES", "OF_RELEASE", "distribution_of", "plain_fix"]
