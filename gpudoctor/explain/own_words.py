"""What a message itself tells of its fix: the values that are allowed, the settings that do not go together, what is
missing, what is to be installed; else the sentence in which it refuses.

A framework refuses in its own words, of which no table can hold all. The forms of such sentences are few: `must be one
of [...]`, "--a cannot be used with --b", "requires b", "please install c". What they name is what has to be changed.
"""

import re
from collections.abc import Iterator

from gpudoctor.causes.program_error import MOUNTED
from gpudoctor.explain.advised import advice, split_by
from gpudoctor.explain.forms import of_form
from gpudoctor.explain.own_fixes import device_of, setting_of
from gpudoctor.explain.pins import pinned
from gpudoctor.explain.requirements import required
from gpudoctor.explain.things import OF_ITS_FOLDER, about, thing_of
from gpudoctor.fault_classes import Class
from gpudoctor.knowledge.modules import part_of_namespace
from gpudoctor.knowledge.rank_variables import OF_A_GROUP
from gpudoctor.knowledge.wording import shortened
from gpudoctor.lazy import lazy_re

MOST = 3_000
"""Characters of a message that are looked at."""
LONGEST = 240
"""A sentence of more is cut (our choice)."""
SHORT = 20
"""So few characters behind what a fix tells already say nothing."""
SUMMARY = 160
"""So much of a message stands in the summary above the fix."""
SENTENCE = lazy_re(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)\s+(?=[A-Z`'\"\-])|(?<=[a-z)`'\"][.!?])(?=[A-Z][a-z])|\n+")
QUOTED = r"[`'\"][^`'\"\n]{1,60}[`'\"]"
LIST = (
    r"(?P<allowed>\[[^\]\n]{1,300}\]|\{[^}\n]{1,300}\}|\((?=['\"`])[^)\n]{1,300}\)|"
    rf"{QUOTED}(?:(?:,? ?(?:or|and) ?|, ?| ?[|/] ?){QUOTED}){{1,30}}|"
    r"[\w.-]{1,40}(?:(?:, ?(?!got\b|but\b|not\b)| ?\| ?)[\w.-]{1,40}){1,30}(?:,? (?:or|and) [\w.-]{1,40})?)"
)
ALLOWED = lazy_re(
    r"(?i)(?:\b(?:must|should|ha(?:s|ve) to|needs? to|can|may|expected)(?: only)?(?: to)? be (?:\w{1,12} )?(?:one of|"
    r"either|any of|in|a subset of|among)\b|\bchoose(?:n)? (?:one )?(?:from|between|among|of)\b|\bone of\b|\bnot in\b|"
    r"\b(?:valid|allowed|available|supported|possible|permitted|known|accepted|registered|existing|legal|"
    r"current (?=columns|keys|names|fields|features))\b"
    r"(?! (?:for|by|in|with|on)\b)[^:\n.\[{]{0,60}?(?:\bare\b|\bis\b|:|(?=\[))|"
    r"\bexpected (?:one of|either)\b|\bmust be\b(?= [`'\"\[]))"
    rf"[^\n.\[{{('\"`]{{0,40}}?[:=]? ?{LIST}"
)
NAME = lazy_re(
    r"(?<![\w-])(?:`(?P<ticked>[^`\n]{1,60})`|(?P<option>--?[a-zA-Z][\w.-]{1,50}(?:=[\w.-]{1,30})?)|"
    r"[\"'](?P<quoted>[\w.-]{2,50}(?:=[\w.-]{1,30})?)[\"']|(?P<snake>[A-Za-z]\w{0,40}(?:[_.][A-Za-z]\w{0,40}){1,6}"
    r"(?:=[\w.-]{1,30})?(?![\w(]))|(?P<constant>[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{2,40}))"
)
"""A setting as messages write it: in ticks or quotes, as an option, with underscores or dots."""
REFUSED_BEFORE = lazy_re(
    r"(?i)\b(?:un(?:known|expected|recogni[sz]ed|supported)|invalid|illegal|bad|wrong|duplicate|no such)\b"
    r"[^,.;:(]{0,40}$|\(not [`'\"]?$"
)
NOT_TAKEN = lazy_re(
    r"(?i)\bun(?:known|expected|recogni[sz]ed|supported|used)\b|\b(?:invalid|illegal|no such|deprecated|obsolete|"
    r"removed|disallowed|ignored)\b|\bno longer\b|\bnot (?:a |an |yet |be |currently )?(?:valid|allowed|supported|"
    r"recogni[sz]ed|known|permitted|implemented|available|used|accepted|compatible)\b|\b(?:cannot|can't|must not|"
    r"should not) be\b"
)
"""What is refused as a whole may be left out; of what has another value than is wanted nothing is told by that."""
REFUSED_BEHIND = lazy_re(
    r"(?i)^[^.;:(]{0,60}?\b(?:is|are|was|were|must|should|cannot|can't|can|may|needs? to|ha(?:s|ve) to|not|\w{2,6}n't|"
    r"but|and|conflicts?)\b"
)
"""How a sentence goes on behind the name of what it refuses; who expects or
requires something refuses, and is not refused."""
NOT_TOGETHER = lazy_re(
    r"(?i)mutually exclusive|\btogether\b|\bat the same time\b|\bsimultaneously\b|(?:in|not )compatible with|"
    r"\bconflicts? with\b|\bnot both\b|\bboth\b[^.\n]{0,60}\b(?:set|specified|passed|provided|given|True|used|"
    r"enabled)\b|"
    r"\b(?:cannot|can't|can not|not allowed to|must not)\b[^.\n]{0,80}\b(?:with|when|while|and|if)\b|"
    r"\bnot (?:be )?(?:supported|allowed|permitted|implemented|available|combined|enabled|used)\b[^.\n]{0,20}"
    r"\b(?:with|when|if|together|while)\b|\b(?:only|at most) one of\b|\bchoose one\b"
)
WRITES = lazy_re(
    r"(?i)\bstd(?:out|err)\b|\boutput file\b|\bfor writing\b|"
    r"\b(?:cannot|could not|can't|unable to|failed to) (?:create|write|"
    r"save|touch)\b|^(?:touch|tee|mkdir|cp|mv): |'[wax]b?\+?'"
)
"""Of a file that is to be made: what is missing is its folder."""
WITH_EITHER = lazy_re(r"(?i)\b(?:in|not )compatible with [^.\n]{1,60}\bor\b")
WANTED = lazy_re(
    r"(?i)(?<!not )(?<!n't )(?:\brequires?\b|\brequired\b|\bneeds?\b(?! to))|"
    r"\b(?:must|should|ha(?:s|ve) to)(?: also)? (?:be )?(?:set|specif\w+|"
    r"provided?|pass(?:ed)?|given?|defined?|configured?|supplied|enabled?|present)\b|\bmissing\b|"
    r"\b(?:is|was|are|were)? ?not (?:set|specified|provided|passed|given|defined|configured)\b|"
    r"\b(?:cannot|can't|must not|should not) be (?:None|empty)\b|\bis None\b|\bat least one\b"
)
BEHIND = lazy_re(r"(?i)requires?|needs?|missing|at least")
ASKS = lazy_re(r"(?i)requires?|needs?")
"""What stands before it is who asks."""
NO_NAME = lazy_re(
    r"[\d.,eE+-]+|True|False|None(?:Type)?|str|int|float|bool|list|tuple|dict|set|bytes|<class '\w+'>|[ieIE]\.[egEG]"
)
A_FILE = lazy_re(r"\.(?:cpp|cc|cu|cuh|hpp?|py|so|c|rs|go|txt|json|ya?ml|toml|log|sh|md)$")
NO_SETTING = lazy_re(
    r"(?i)u?int\d{1,2}(?:_t)?|size_t|torch\.\w+|\w*(?:status|error|exit|return)_?(?:code|type|no)?|\w+_(?:errors?|failed|failure)|"
    r"(?:request|trace|span|job|task|run|process)_?id|find_package|target_\w+|invalid_\w+"
)
"""Types, and what a service tells of its answer: nobody has set it."""
UNSET = lazy_re(
    r"(?i:environment variables?|env(?:ironment)? vars?|\$)[ :]{0,2}[`'\"]?(?P<name>[A-Z][A-Z0-9_]{2,60})\b[`'\"]?"
    r"[^.\n]{0,30}?\b(?:not (?:set|found|defined|specified)|missing|empty|required|unset|unbound|"
    r"must be (?:set|defined))\b|"
    r"\b(?:set|export|define) (?:the |an? )?(?:environment variable|env var)s? [`'\"]?(?P<asked>[A-Z][A-Z0-9_]{2,60})\b"
)
"""The form in which programs say that a variable of their environment is not set."""
ADDRESS = lazy_re(r"\b[a-z][a-z\d+]{1,9}://[^\s`'\"]{1,300}")
RELATIVE = "a relative one starts at the folder that the job was started in"
REFUSING = lazy_re(
    r"(?i)\b(?:must|should|cannot|can't|needs?|ha(?:s|ve) to|expect(?:s|ed|ing)?|requires?|required|only|not|"
    r"unsupported|invalid|unexpected|unknown|already|mutually|but|missing|incompatible|conflicts?|fail(?:s|ed)?|None|without|"
    r"duplicate)\b|n't\b"
)
PACKAGE = (
    r"[`'\"]?(?P<package>[A-Za-z][\w.-]{1,50}(?:\[[\w,-]{1,40}\])?"
    r"(?:[<>=!~]=?[\w.<>=!~*]{1,30}(?:, ?[<>=!~]{1,2}[\w.*]{1,20})*)?)[`'\"]?"
)
INSTALL = tuple(
    lazy_re(text)
    for text in (
        rf"pip3? install (?:(?:-U|--upgrade|--user|-q) )*{PACKAGE}",
        r"(?:[Ii]nstall|[Uu]pgrade|[Uu]pdate)(?: the| a| newer| latest| your){0,2} "
        rf"(?!(?:it|the|from|this|that|them|with|by|of|to|a|and|or|version)\b){PACKAGE}",
        rf"\brequires? (?:the )?{PACKAGE}(?: (?:package|library|module))?(?:,? (?:to be|which is not) installed|"
        r"(?: >=? ?[\d.]+)|\s?$|[.,]| to\b)",
        rf"\b(?:package|library|module) {PACKAGE} (?:is|was|must|could)\b",
        rf"{PACKAGE} (?:package |library )?(?:is|was|must be|has to be|are|be)(?: not)? (?:available|installed)\b",
        rf"No module named {PACKAGE}",
    )
)
UNPLACED = lazy_re(r"cannot import name '(?P<name>\w{1,80})' from '(?P<package>[\w.]{1,120})' \(unknown location\)")
"""Of a package without a file of its own (a namespace)."""
NO_FILE_FITS = lazy_re(
    r"(?i)\b(?:no |not |un|could not|cannot|can't|couldn't|didn't|0 |empty)[^\n]{0,80}?[`'\"]?"
    r"(?P<pattern>(?:[\w.~@+-]{0,80}/)[\w./@+=~-]{0,200}[*?][\w./@+=~*?{}\[\]-]{0,120})[`'\"]?"
)
"""Of a pattern with * that no file fits."""
NO_LIST = lazy_re(r"(?i)\brange\b|\binterval\b|\[type=|\b(?:only|most|exactly) one of\b")
"""A span of numbers, pydantic's kind of refusal, and options of which one may be given."""
OF_ANOTHER_KIND = (
    (lazy_re(r"(?i)\bis a directory\b|\[Errno 21\]"), "is-folder"),
    (lazy_re(r"(?i)(?<!or )\bnot a directory\b|\[Errno 20\]"), "no-folder"),
)
"""EISDIR and ENOTDIR: it is there, and not what is wanted."""
IS_THERE = lazy_re(r"(?i)\b(?:already exists?|file exists|exists without|is not empty)\b")
RAISED_AT = lazy_re(r"\s{0,4}\(at /\S{1,200}:\d{1,6}\)\s*$")
"""Paddle's, of its own source."""
GUESSED_BY_PYTHON = lazy_re(r"(?<=[\w'])\. Did you mean: '\w{1,80}'\?")
"""Of a name that is not there (Lib/traceback.py): the one that is spelt most like it, whatever it is."""
HEADER = lazy_re(r"^\d+ (?:validation|configuration) errors? (?:for|in|detected)\b[^\n]*")
"""It announces what is refused."""
OF_FIELD = lazy_re(
    r"\n(?P<field>[\w.\[\]-]{1,120})\n\s*(?P<why>[^\n]{4,300}?)"
    r"(?:\s+\[type=\w{1,40}, input_value=(?P<value>[^\n]{0,80}?), "
    r"input_type=\w{1,60}\])?\s*(?:\n|$)"
)
"""pydantic: a setting, and below it what is wrong with it."""
PLACEHOLDER = lazy_re(r"(?i)(?:^|[/\\])path[/\\]to\b|namespace[/\\]repo|^repo_name$|\byour[-_]|^<|\.\.\.")
FOR_EXAMPLE = lazy_re(
    r"(?i)(?:\be\.g\.|\bsuch as|\bfor example|\blike|\bin the form(?:at)?(?: of)?|\binstead(?: of)?|\bsee|\bor|https?:)"
    r"[\s`'\",:(]{0,4}$"
)
BEFORE_REFUSED = lazy_re(
    r"(?i)(?:no such file or directory|not found|does not exist|doesn't exist|(?:cannot|can't|could not|couldn't|"
    r"unable to|"
    r"failed to|did(?: not|n't)) \w{3,12}(?: \w{2,12}){0,3}|denied|not a directory|is a directory|exists|"
    r"\[errno \d+\][^:\n]{0,60}|"
    r"form[^\n:]{0,60})"
    r":?[\s`'\"]{0,3}$"
)
BEHIND_REFUSED = lazy_re(
    r"(?i)[`'\"]?,?\s{0,2}(?:(?:do(?:es)? not|doesn't|did not) exist|(?:was |were |is |are )?not (?:found|a |an |"
    r"there)|(?:could not|cannot|can't) be|: (?:no such|permission denied|read-only|stale|is a|not a)|"
    r"is missing|no such)"
)
PATH = lazy_re(
    r"[\'\"`](?P<quoted>(?:[~.]{0,2}/)?[\w.@+~-]{1,80}(?:[/\\][\w.@+=~ -]{0,80}){1,20}|"
    r"/\.[\w.@+~-]{1,80}|[\w-]{1,80}\.\w{1,12})[\'\"`]|"
    r"(?:^|(?<=[\s:=(]))(?P<bare>[~.]{0,2}/[\w.@+=~-]{1,80}(?:/[\w.@+=~-]{0,80}){0,20})"
)
CUT = ("[", "(", "{", "*", "^", "<", "%")
"""Behind a path of whose name the pattern holds only the beginning."""
SPEAKS = lazy_re(
    r"(?:\[\d{1,8}\])?: (?!(?i:no such|not found|cannot execute|permission denied|is a directory|not a directory))"
)
"""Behind the name of a program that begins its message with it, as error(3) and bfd's linkers do."""
OF_SETTINGS: frozenset[Class] = frozenset({"config", "argument", "assertion", "exception", "launcher"})
OF_RELEASES: frozenset[Class] = frozenset({"dependency-mismatch", "config", "exception", "import"})
OF_FORMS: frozenset[Class] = OF_SETTINGS | {"dependency-mismatch", "import", "checkpoint"}
SUGGESTED = lazy_re(
    r"(?i)(?:\b(?:did|perhaps) you me(?:an|ant)\b|\btip: |\bhint: |\bto fix: |\[possible values: |\bchoose from\b|"
    r"\bavailable (?:options|commands)\b|\bpossibilities: )[^\n]{0,200}(?:\n[^\w\n]{0,12}\w[^\n]{0,120}){0,2}"
)
"""How parsers of command lines and settings name what they know."""
BOX = str.maketrans("│╭╮╰╯─", "      ")
NOT_A_PACKAGE = frozenset({"python", "torch.nn", "pip", "package", "library", "module", "this", "that", "it"})


VALUES = lazy_re(
    r"(?:Got|Found|Received|But|Instead|Expected|Actual|Given|Currently?|Available|Valid|Supported|Computed|"
    r"There (?:is|are)|It (?:is|was|has)|The \w{1,30} (?:`?\w{1,40}`? )?(?:is|was|are|were|has|have|seems?))\b"
)
"""How the sentence behind a refusal begins that tells what it was given."""
HOLDS = lazy_re(r"[=:] ?['\"`\d\[(]|\b\d+ (?:!=|vs\.?|and|of) ")
"""It tells a value."""
TWICE = lazy_re(
    r"[`'\"]?(?P<name>\w[\w.-]{1,60})[`'\"]? (?:is |are |was |were |has been )?(?:specified|given|set|defined|passed|"
    r"provided|found) (?:in|by|as|at) both (?:the |your )?(?P<first>[^\n,;.]{2,60}?) and (?:the |your )?"
    r"(?P<other>[^\n,;.]{2,60})"
)


def sentences(message: str) -> list[str]:
    return [text for text in split_by(SENTENCE, message[:MOST]) if text]


def said(message: str) -> str:
    """The sentence by which it refuses; the first where none does."""
    kept = RAISED_AT.sub("", HEADER.sub("", message) or message)
    if HEADER.match(message) and (field := OF_FIELD.search(message)):
        what = f"{field['field']}: {field['why']}"
        return f"{what} (it is {field['value']})" if field["value"] else what
    parts = sentences(kept)
    at = next((index for index, part in enumerate(parts) if REFUSING.search(part)), 0)
    text = parts[at] if parts else ""
    if at and text.startswith("But "):  # what it was given stands before it
        text = f"{parts[at - 1].rstrip('.')}. {text}"
    for part in parts[at + 1 : at + 3]:
        if len(text) + len(part) > LONGEST or not (VALUES.match(part) or (HOLDS.search(part) and not advice(part))):
            break
        text = f"{text.rstrip('.:')}. {part}"
    return shortened(text, LONGEST).rstrip(".!: ,")


def also_told(message: str, besides: str = "") -> str:
    """The sentence by which a message refuses, as one to stand behind a fix; empty where the fix says it."""
    clause = said(message)
    rest = clause
    for part in besides.split(". "):
        rest = rest.replace(part, "")
    is_shown = len(rest) < SHORT or clause in (besides or " ".join(message[:SUMMARY].split()))
    return f" The message: {clause}." if clause and not is_shown else ""


def suggested(message: str) -> str:
    """What a message proposes in place of what it refuses, as a sentence to stand behind a fix; empty: nothing."""
    match = SUGGESTED.search(message[:MOST])
    if match is None:
        return ""
    words = shortened(" ".join(match[0].translate(BOX).split()), LONGEST)
    return f" It proposes: {words.rstrip('. ')}."


def names(text: str) -> list[str]:
    """Of settings, in their order, as they are written."""
    return list(dict.fromkeys(name for _, name in _named(text)))


def unset_variable(message: str) -> dict[str, str]:
    """Values for the environment variable that a message says is not set; empty: it says so of none."""
    match = UNSET.search(message[:MOST])
    return {"name": match["name"] or match["asked"]} if match else {}


def of_variable(name: str) -> tuple[str, dict[str, str]]:
    """The variant for a variable that is not set, and its values."""
    return "no-launcher" if name in OF_A_GROUP else "no-variable", {"name": name}


def _named(text: str) -> Iterator[tuple[int, str]]:
    for match in NAME.finditer(ADDRESS.sub(lambda found: " " * len(found[0]), text)):
        name = next(filter(None, match.groups())).rstrip(".")
        if text[match.end() : match.end() + 1] == ":" and (match["quoted"] or name.isupper()):
            continue  # a key of JSON, a service's code of an error
        if not match.start() and text.startswith(": ", match.end()) and match["snake"]:
            continue  # who tells it
        if not (NO_NAME.fullmatch(name) or NO_SETTING.fullmatch(name) or A_FILE.search(name)):
            yield match.start(), name


def _wanted(clause: str, at: re.Match[str]) -> str:
    """What is asked for: behind "requires", before "must be set"."""
    named = list(_named(clause))
    behind = [name for start, name in named if start >= at.end() and not clause[:start].endswith(("not '", "not `"))]
    before = [name for start, name in named if start < at.start()]
    if ASKS.match(at[0]):
        return (behind or [""])[0]
    if BEHIND.match(at[0]):
        return (behind or before or [""])[0]
    return (before[-1:] or behind or [""])[0]


def of_own_words(kind: Class, message: str) -> tuple[str, dict[str, str]] | None:
    """The variant of the cause `program-error` that a message tells by its own words, and its values; None where what
    is known of its class says more."""
    clause, advised = said(message), advice(GUESSED_BY_PYTHON.sub("", message))
    values = {"said": clause}
    if kind == "file-missing" and (path := refused_path(message)) and IS_THERE.search(message):
        return "exists", {"path": path}
    if kind == "file-missing" and (path := refused_path(message)):
        if of_kind := next((variant for words, variant in OF_ANOTHER_KIND if words.search(message)), ""):
            return of_kind, {"path": path}
        if path.endswith("/bin/nvcc"):
            return "no-toolkit", {}
        if device := device_of(path):
            return "device-node", {"path": path, "device": device}
        if WRITES.search(message) and "/" in path.strip("/"):
            return "folder-missing", {"path": path, "folder": path.rstrip("/").rpartition("/")[0]}
        is_whole = path.startswith(("/", "~")) or "\\" in path
        where = "" if is_whole or thing_of(path).how == OF_ITS_FOLDER else f"; {RELATIVE}"
        told = f" The message itself: {advised}." if advised else also_told(message)
        return "path", {"path": path, "how": about(path), "where": where, "told": told}
    if kind in ("file-missing", "data") and (match := NO_FILE_FITS.search(message[:MOST])):
        return "pattern", {"pattern": match["pattern"], "where": MOUNTED}
    path = refused_path(message) if kind in ("permission", "storage", "quota") else ""
    if path and kind == "permission" and (device := device_of(path)):
        return "device-denied", {"path": path, "device": device}
    if path and (how := setting_of(path)) and (kind != "storage" or "tale" in message):
        return "stale" if kind == "storage" else "elsewhere", {"path": path, "how": how}
    match = ALLOWED.search(message[:MOST])
    if (
        kind in (*OF_SETTINGS, "data", "shape")
        and match
        and not NO_LIST.search(message[max(0, match.start() - 8) : match.end()])
    ):
        allowed = match["allowed"].strip(" .")
        more = advised and allowed not in advised
        return "allowed", {**values, "allowed": allowed, "told": f" The message itself: {advised}." if more else ""}
    if kind in OF_SETTINGS and (match := TWICE.search(clause)):
        return "twice", {**values, **{name: told.strip() for name, told in match.groupdict().items()}}
    if kind in OF_SETTINGS and (variable := unset_variable(message)):
        return of_variable(variable["name"])
    if kind in OF_RELEASES and (package := pinned(message)):
        return "pinned", {"package": package}
    if kind in (*OF_SETTINGS, "shape") and (change := required(clause)):
        return "required", {
            "change": change,
            "told": f" The message itself: {advised}." if advised else also_told(message),
        }
    if advised:
        return "advised", {"advice": advised, "told": also_told(message, advised)}
    if kind in OF_FORMS and (form := of_form(clause)):
        return "form", {"what": form, "told": also_told(message, form)}
    if not clause or kind not in OF_SETTINGS:
        return None
    named = names(clause.partition(" (it is ")[0])
    if len(named) > 1 and WITH_EITHER.search(clause):
        return "with-either", {**values, "first": named[0], "other": named[1]}
    if NOT_TOGETHER.search(clause) and len(named) > 1:
        return "not-together", {**values, "first": named[0], "other": named[1]}
    if (at := WANTED.search(clause)) and (wanted := _wanted(clause, at)):
        return "wanted", {**values, "names": wanted}
    if not named and kind == "argument":
        return "handed", values
    refused = _refused(clause.partition(" (it is ")[0])
    if refused:
        way = "change that where it is set, or take it out" if NOT_TAKEN.search(clause) else "see where that is set"
        what = f"The message speaks of {' and '.join(refused[:2])}: {way}. It says: {clause}"
    else:
        what = f"{UNKNOWN_WORDS} {clause}. Look where that comes from which they name: the command line, the settings, "
        what += "the environment, the data"
    return "refused", {**values, "what": what, "release": ""}


UNKNOWN_WORDS = "No remedy is known for these words:"


def _refused(clause: str) -> list[str]:
    """The names that the sentence's grammar has as what is refused, and not as who refuses or as what would do."""
    told = (
        name
        for start, name in _named(clause)
        if REFUSED_BEFORE.search(clause[:start])
        or REFUSED_BEHIND.search(clause[clause.find(name, start) + len(name) :])
    )
    return list(dict.fromkeys(told))


def refused_path(message: str) -> str:
    """The path that was refused: what an errno's words quote. One that a message only names, or of which the pattern
    takes a part alone, is none of which something can be said."""
    kept = message[:MOST]
    best, most = "", 1
    for match in PATH.finditer(kept):
        path = match["quoted"] or match["bare"].rstrip(".")
        if not match["quoted"] and SPEAKS.match(kept, match.end()) and kept[: match.start()].strip() == "":
            continue  # who tells it
        before, behind = kept[max(0, match.start() - 120) : match.start()], kept[match.end() : match.end() + 40]
        if not match["quoted"] and behind.startswith(CUT):
            continue
        if PLACEHOLDER.search(path) or FOR_EXAMPLE.search(before):
            continue
        worth = 1 + 2 * bool(BEHIND_REFUSED.match(behind)) + 3 * bool(BEFORE_REFUSED.search(before))
        if worth > most:
            best, most = path, worth
    return best


def to_install(message: str) -> str:
    """The package that a message asks to be installed, as pip takes it; empty where it names none."""
    if stated := pinned(message):
        return stated
    if (match := UNPLACED.search(message)) and (part := part_of_namespace(f"{match['package']}.{match['name']}")):
        return part
    for form in INSTALL:
        if (match := form.search(message[:MOST])) and match["package"].lower() not in NOT_A_PACKAGE:
            return match["package"].rstrip(".,")
    return ""
