"""Rules of the shell text itself: Q01, Q02, Q07 and Q09, what copying and pasting breaks."""

import re
from bisect import bisect_left
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Span, TextSection
from gpudoctor.lint.quotes import unclosed
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.shell.parse import GAP
from gpudoctor.lint.shell.syntax import read_script, refused
from gpudoctor.lint.shell.words import RefusedShell

_LINES = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 \\\n  --master-addr=10.20.0.11 --master-port=61234 \\\n"
    "  train.py --lr 0.1\n"
)
_ONE = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234 train.py\n"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
_QUOTES = {
    "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"', "\u00ab": '"', "\u00bb": '"', "\uff02": '"',
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\uff07": "'",
}  # fmt: skip
_WIDE = {"\uff1a": ":", "\uff0c": ",", "\uff1d": "=", "\u3000": " ", "\u00a0": " ", "\u202f": " ", "\uff0e": "."}
_BLANKS = lazy_re(r"[ \t]*(?:#[^\n]*)?")
_TRAILING = lazy_re(r"(?<!\\)(?:\\\\)*\\([ \t]+)(#[^\n]*)?\r?$", re.MULTILINE)
_COMMENTED = lazy_re(r"(?<!\\)\\\r?\n([ \t]*#[^\n]*)(?=\n|\Z)")
_NEXT_FILE = lazy_re(r"^#@ (?:file|node|every|job)\b", re.MULTILINE)
_GOES_ON = lazy_re(r"(?:[ \t]*#[^\n]*\n)*[ \t]*[^\s#]")
"""Behind comment lines stands a line with something in it: what was to be the rest of the command."""
_AROUND = lazy_re(rf"(?:^|=)[{''.join(_QUOTES)}]|[{''.join(_QUOTES)}]$")
"""Typographic quotes where quotes belong: an apostrophe inside a word means nothing."""
_SCRIPT = lazy_re(
    r"\ufeff?#![ \t]*\S*(?:/|/env[ \t]+)(?:ba|da|k|a)?sh\b|\A(?:[ \t]*(?:#[^\n]*)?\n){0,20}#(?:SBATCH|PBS|BSUB|PJM) "
)
"""Where a text is a script, and not a piece of a page or of a session."""
_LONGEST = 1 << 17
ADDRESSES = ("master-addr", "rdzv-endpoint", "main-process-ip", "main-address", "host", "hosts")


def line_end(text: str, offset: int) -> int:
    """The end of the logical line that holds an offset: behind its continuations."""
    while True:
        end = text.find("\n", offset)
        if end < 0:
            return len(text)
        if not text[max(0, end - 2) : end].rstrip("\r").endswith("\\"):
            return end
        offset = end + 1


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _begin(invocation: Invocation) -> int:
    return invocation.span.start


def in_shell(launch: LintLaunch) -> bool:
    return not launch.invocation.manifest_path and launch.invocation.span.exact


@rule(
    "Q01",
    title="Every line of a command but the last ends with a backslash",
    source="bash(1): a backslash continues a line only when the newline follows it; threads",
    bad=(
        _LINES.replace("--node-rank=0 \\\n", "--node-rank=0\n"),
        _LINES.replace("--node-rank=0 \\\n", "--node-rank=0 \\ \n"),
        _LINES.replace("--node-rank=0 \\\n", "--node-rank=0 \\\n  # the head\n"),
        _LINES.replace("--node-rank=0 \\\n", "--node-rank=0 \\  # the head\n"),
        _LINES.replace("--node-rank=0 \\\n", "--node-rank=0 \\\n\n"),
    ),
    good=(
        _LINES,
        "# --nnodes=2 \\\n" + _LINES,
        "cat <<EOF\n--nnodes=2 \\ \nEOF\n" + _ONE,
        "cat > job.sh << EOF\n#!/bin/bash\npython t.py \\\\\n  --lr 1e-3 \\\\\n  --seed 7\nEOF\nsbatch job.sh\n",
        _LINES.replace("\n", "\r\n"),
        _LINES.replace("0.1\n", "0.1 \\\n  # --resume last.pt\n"),
        'RUN=(\n  "$PY" serve.py\n)\nRUN+=(--port 1)\ncd "$ROOT"\n"${RUN[@]}" > log &\n' + _ONE,
    ),
)
def broken_continuation(job: LintJob) -> Iterator[LintFinding]:
    """A command goes on in the next line only when a backslash is the very last character. A blank or comment behind
    it, a comment line between, an empty line, or a missing backslash end the command there: the rest is another
    command."""
    said = set()
    for finding in _ended_early(job):
        said.add(finding.span.line)
        yield finding
    for finding in _around_launches(job):
        if finding.span.line not in said:
            yield finding


def _ended_early(job: LintJob) -> Iterator[LintFinding]:
    """Of the whole text, whatever the command is."""
    for section in job.sections:
        if job.kind not in ("shell", "sbatch") or (section.kind == "file" and not _SCRIPT.match(section.text)):
            continue
        if len(section.text) > _LONGEST:
            continue
        read = read_script(section.text)
        if read.refused is not None and not _SCRIPT.match(section.text):
            continue  # prose, or a page
        for at in read.trailing:
            end = at + 1 + len(_BLANKS.match(section.text, at + 1)[0])  # type: ignore[index]
            what = "a comment follows the backslash" if "#" in section.text[at:end] else "a blank follows the backslash"
            at, end = at + section.start, end + section.start
            yield _ends(job, at, what, (Edit(Span(at + 1, end, 1), ""),))
        said = False
        for at in read.dashed:
            before = section.text[:at].rstrip(" \t")
            if before.endswith("\n") and before[:-1].strip():
                end = section.start + len(before.rstrip())
                direct = not before[:-1].endswith(("\n", "\\"))
                commented = before.rstrip().rpartition("\n")[2].lstrip().startswith("#")
                if commented and said:
                    continue  # each option has a comment of its own: said once
                said = said or commented
                why = "a comment line stands between" if commented else "no backslash ends it"
                yield _ends(job, end, why, (Edit(Span(end, end, 1), " \\"),) if direct and not commented else ())


def _around_launches(job: LintJob) -> Iterator[LintFinding]:
    """Where a start's words end, and what stands behind."""
    text = job.text
    ordered = sorted(job.invocations, key=_begin)
    for launch in job.launches:
        if not in_shell(launch):
            continue
        start, end = launch.invocation.span.start, launch.invocation.span.end
        rest = text[end : end + 2000]
        if (other := _NEXT_FILE.search(rest)) is not None:
            rest = rest[: other.start()]  # a backslash that ends its file takes nothing with it
        shift = end + len(rest) - len(rest.lstrip(" \t"))
        if (trailing := _TRAILING.match(rest.lstrip(" \t"))) is not None:
            at = shift + trailing.start(1) - 1
            what = "a comment follows the backslash" if trailing[2] else "a blank follows the backslash"
            yield _ends(job, at, what, (Edit(Span(at + 1, shift + trailing.end(), 1), ""),))
            continue
        comment = _COMMENTED.match(rest.lstrip(" \t"))
        if comment is not None and _GOES_ON.match(rest.lstrip(" \t"), comment.end() + 1):
            begin = shift + comment.start(1)
            yield _ends(
                job, begin, "a comment line stands between", (Edit(Span(begin, shift + comment.end() + 1, 1), ""),)
            )
            continue
        behind = bisect_left(ordered, max(end, start + 1), key=_begin)
        following = ordered[behind] if behind < len(ordered) else None
        if following is None or not re.match(r"-{1,2}[A-Za-z]", following.program):
            continue
        between = text[end : following.span.start]
        if re.fullmatch(r"[ \t]*\r?\n[ \t]*", between):
            yield _ends(job, end, "no backslash ends it", (Edit(Span(end, end, 1), " \\"),))
        elif re.fullmatch(r"[ \t]*\\\r?\n(?:[ \t]*\r?\n)+[ \t]*", between):
            first = text.index("\n", end) + 1
            last = text.rindex("\n", first, following.span.start) + 1
            yield _ends(job, end, "an empty line follows", (Edit(Span(first, last, 1), ""),))


def _ends(job: LintJob, at: int, why: str, edits: tuple[Edit, ...]) -> LintFinding:
    line = line_of(job.text, at)
    start = job.text.rfind("\n", 0, at) + 1
    end = job.text.find("\n", at)
    return LintFinding(
        span=Span(start, end if end >= 0 else len(job.text), line),
        summary=f"the command ends in line {line}: {why}",
        happens="What follows is a command of its own (`--option: command not found`): the launcher starts without"
        " those options, or without a script.",
        fix="Let every line but the last end with a backslash and nothing behind it.",
        edits=tuple(Edit(Span(edit.span.start, edit.span.end, line), edit.text) for edit in edits),
    )


@rule(
    "Q02",
    title="Quotes are plain and closed",
    source="bash(1): only \" and ' quote; threads",
    bad=(
        _ONE.replace("10.20.0.11", "\u201c10.20.0.11\u201d"),
        _ONE.replace("10.20.0.11", '"10.20.0.11'),
        _ONE.replace("10.20.0.11", "\"'10.20.0.11'\""),
        "#!/bin/bash\nsed 's/$/ slots=4/ -i hosts\n# the workers' shells know it\n" + _ONE,
    ),
    good=(_ONE, _ONE.replace("10.20.0.11", '"10.20.0.11"'), 'echo "it\'s fine"\n' + _ONE + "# don't mind\n"),
)
def stray_quote(job: LintJob) -> Iterator[LintFinding]:
    """Editors and web pages turn quotes into typographic ones, which the shell takes for letters: they become part of
    the address or number. A quote that is not closed swallows the lines that follow."""
    for launch in job.launches:
        if not in_shell(launch):
            continue
        own = {id(word) for word in launch.script_words}
        for word in launch.invocation.words:
            if id(word) in own and word.quoted:
                continue  # a text for the script, in real quotes
            if _AROUND.search(word.raw):
                plain = "".join(_QUOTES.get(letter, letter) for letter in word.raw)
                shown = " ".join(word.raw[:60].split())
                yield LintFinding(
                    span=word.span,
                    summary=f"{shown} has typographic quotes, which the shell takes for letters",
                    happens="They become part of the value: the address does not resolve, or the number is none.",
                    fix=f"Write {plain[:60]}.",
                    edits=(Edit(word.span, plain),) if word.span.exact else (),
                )
        yield from _inner_quotes(launch)
    yield from _unclosed(job)
    yield from _closed_by_a_comment(job)
    for refusal, span in _refused(job):
        if refusal.kind == "quote":
            yield LintFinding(
                span=span,
                summary=f"the {refusal.what} of line {span.line} is never closed",
                happens="The shell runs nothing of it: unexpected EOF while looking for the matching quote.",
                fix="Close the quote, or take it out.",
            )


def _refused(job: LintJob) -> Iterator[tuple[RefusedShell, Span]]:
    """What bash refuses of the scripts in the text; of a piece of a page the rest may stand elsewhere."""
    for section in job.sections:
        if job.kind not in ("shell", "sbatch") or len(section.text) > _LONGEST or section.is_part:
            continue
        named = section.kind == "file" and section.name.endswith((".sh", ".bash", ".sbatch", ".slurm"))
        is_script = named or _SCRIPT.match(section.text) is not None
        gap = GAP.search(section.text)
        read = is_script or gap or _OPENS.match(section.text) or _BRACKETS.search(section.text)
        refusal = refused(section.text) if read else None
        if refusal is not None:
            at = section.start + refusal.at
            valued = refusal.what == "(" and _VALUED.search(job.text, max(0, at - 60), at) is not None and job.launches
            whole = _is_open(section.text[: refusal.at], refusal.what) or (
                refusal.kind == "compound" and _starts_behind(job, section, at)
            )
            is_gap = gap is not None and gap.end() in (refusal.at, refusal.at + 1)
            if not is_script and not valued and not whole and not is_gap:
                continue
            end = job.text.find("\n", at)
            yield refusal, Span(at, end if end >= 0 else len(job.text), line_of(job.text, at))


_VALUED = lazy_re(r"\s--?[a-z][\w-]*[ =]\Z")
_BRACKETS = lazy_re(r"\s--?[a-z][\w-]*[ =]\([^()\n]{0,60}\)")
"""`--betas (0.9, 0.95)` without quotes."""
_ASSIGNED_GAP = lazy_re(r"(?<![<\w])(<[A-Za-z][^<>\n|;]{0,90}>)(?!>)")
"""With what words of instructions may hold beside those of `gaps`: commas and brackets."""
_OPENS = lazy_re(r"(?:[ \t]*(?:#[^\n]*|(?:export )?\w+=[^\n]*)?\n)*[ \t]*(?:if|for|while|until|case)\b")
"""A command line that begins with a loop or a condition."""


def _closed_by_a_comment(job: LintJob) -> Iterator[LintFinding]:
    """`sed 's/a/b/ -i x`, which the next apostrophe closes, that of a comment; and a comment's apostrophe within the
    quotes of `bash -c '...'`, which ends them."""
    for section in job.sections:
        if job.kind not in ("shell", "sbatch") or not _SCRIPT.match(section.text) or len(section.text) > _LONGEST:
            continue
        for start, end in read_script(section.text).over_lines:
            line = section.text[section.text.rfind("\n", start, end) + 1 : end]
            if section.text[start] in "'\"" and _IN_COMMENT.match(line) and _PROSE.match(section.text, end):
                span = section.span(start, end)
                yield LintFinding(
                    span=span,
                    summary=f"the {section.text[start]} of line {span.line} is closed by the apostrophe of a comment",
                    happens="What stands between is one word, and what stands behind is read as commands.",
                    fix="Close the quote where it ends; within quotes write a comment without an apostrophe.",
                )
                break


_IN_COMMENT = lazy_re(r"[ \t]*#.*\w['\"]$")
_PROSE = lazy_re(r"[A-Za-z]|[ \t]+[a-z]+[ \t]+[a-z]+\b")


def _is_open(before: str, closer: str) -> bool:
    """Whether a piece of a page holds what `fi` or `done` closes, so that what is missing is missing in it."""
    openers = {"fi": "if", "done": "for|while|until"}.get(closer)
    if openers is None:
        return False
    begun, ended = (len(re.findall(rf"^[ \t]*(?:{each})\b", before, re.MULTILINE)) for each in (openers, closer))
    return begun > ended


def _starts_behind(job: LintJob, section: TextSection, at: int) -> bool:
    """Whether a start stands in what is never closed."""
    end = section.start + len(section.text)
    return any(at <= launch.invocation.span.start < end for launch in job.launches)


@rule(
    "Q09",
    title="A script is one that bash takes",
    source="bash(1), Shell grammar; `bash -n`",
    bad=(
        "#!/bin/bash\nif [ -d data ]; then\n  echo there\n" + _ONE,
        "#!/bin/bash\nfor i in 1 2; do\n  echo $i\n" + _ONE,
        "#!/bin/bash\ncat > hosts <<EOF\nn01 slots=4\n" + _ONE,
        "#!/bin/bash\n" + _ONE + "fi\n",
        "#!/bin/bash\nHEAD=$(hostname\n" + _ONE,
        "#!/bin/bash\nfor ((i = 0; i < 2 i++)); do\n" + _ONE + "done\n",
        "N=4\nif [ $N -gt 1 ]; then\n" + _ONE,
        "if [ $N -gt 1 ]\n  " + _ONE + "fi\n",
        "torchrun --standalone --nproc-per-node=4 train.py --betas (0.9,0.95)\n",
        "#!/bin/bash\nDATA=<your path>\n" + _ONE,
        "#!/bin/bash\nVOCAB=<path (such as /data/vocab.json)>\n" + _ONE,
    ),
    good=(
        "if [ -d data ]; then\n" + _ONE + "fi\n",
        "#!/bin/bash\nfor ((i = 0; i < 2; i++)); do\n" + _ONE + "done\n",
        "#!/bin/bash\nif [ -d data ]; then\n  echo there\nfi\n" + _ONE,
        "#!/bin/bash\ncat <<EOF\nfi\nEOF\n" + _ONE,
    ),
)
def script_that_bash_refuses(job: LintJob) -> Iterator[LintFinding]:
    """bash reads an if, a loop, a function or a here-document as a whole before it runs it. Where the end is missing or
    stands where nothing began, it stops there: what comes before is run, and the training is not."""
    for refusal, span in _refused(job):
        gap = next(
            (
                each
                for each in _ASSIGNED_GAP.finditer(job.text, job.text.rfind("\n", 0, span.start) + 1, span.end)
                if refusal.what[:1] in (">", "(")
            ),
            None,
        )
        if refusal.kind == "unexpected" and gap is not None:
            summary = f"{gap[1]} is a placeholder of the instructions that nobody filled in"
            happens = "The script ends there: syntax error near unexpected token `newline'."
            fix = "Write the real value in its place, without the signs < and >."
        elif refusal.kind == "unexpected":
            summary = f"{refusal.what} stands where bash expects none"
            happens = f"The script ends there: syntax error near unexpected token `{refusal.what}'."
            fix = f"Take {refusal.what} out, or write what it belongs to before it."
        elif refusal.kind == "parts":
            summary = f"the brackets of the loop in line {span.line} do not hold three parts"
            happens = "The script ends there with a syntax error."
            fix = "Write for ((first; while; behind)): two semicolons, and no third."
        elif refusal.kind == "here-document":
            summary = f"the here-document of line {span.line} has no line {refusal.wanted}"
            happens = "All lines to the end of the script become its text, and none of them is run."
            fix = f"Write {refusal.wanted} alone on a line, without blanks around it, behind the text."
        elif refusal.kind != "quote":
            summary = f"{refusal.what} of line {span.line} is never closed: {refusal.wanted} is missing"
            happens = "The script ends with: syntax error: unexpected end of file."
            fix = f"Write {refusal.wanted} where it ends."
        else:
            continue
        yield LintFinding(span=span, summary=summary, happens=happens, fix=fix)


def _inner_quotes(launch: LintLaunch) -> Iterator[LintFinding]:
    """Quotes that arrive at the launcher, in the value of an address or number."""
    for option in launch.every_option:
        value = option.value
        if option.name not in (*ADDRESSES, "nnodes", "nproc-per-node", "node-rank", "master-port"):
            continue
        if value is None or value.text is None or not re.search(r"[\"']", value.text) or "\n" in value.text:
            continue
        plain = re.sub(r"[\"']", "", value.text)
        safe = re.fullmatch(r"[\w.:@%/,-]+", plain) is not None
        yield LintFinding(
            span=option.span,
            summary=f"{option.written} gets {value.text[:60]}, quotes included",
            happens="The quotes are part of the value: the address does not resolve, or the number is none.",
            fix=f"Write {option.written} {plain[:60]}." if safe else "Take the inner quotes out.",
            edits=(Edit(value.span, plain),) if safe and value.span.exact else (),
        )


def _unclosed(job: LintJob) -> Iterator[LintFinding]:
    for index, section in enumerate(job.sections):
        if section.kind == "file" or job.kind not in ("shell", "sbatch") or _SCRIPT.match(section.text):
            continue
        at = unclosed(section.text)
        if at is None:
            continue
        at += section.start
        for launch in job.of_section(index):
            span = launch.invocation.span
            if span.exact and span.start <= at <= line_end(job.text, span.end):
                end = job.text.find("\n", at)
                yield LintFinding(
                    span=Span(at, end if end >= 0 else len(job.text), line_of(job.text, at)),
                    summary="a quote is opened here and not closed",
                    happens="The shell waits for more input, or the following lines become part of one argument.",
                    fix="Close the quote, or take it out.",
                )
                break


@rule(
    "Q07",
    title="Dashes, colons, commas and blanks are ASCII",
    source="argparse takes - (U+002D) only; threads",
    bad=(
        _ONE.replace("--nnodes", "\u2013nnodes"),
        _ONE.replace("--node-rank", "\u2014node-rank"),
        _ONE.replace("--master-addr=10.20.0.11", "--rdzv-endpoint=10.20.0.11\uff1a29400"),
        _ONE.replace(" --nproc", "\u00a0--nproc"),
    ),
    good=(_ONE, _ONE.replace("train.py", 'train.py --name "a \u2013 b"')),
)
def typographic_dash(job: LintJob) -> Iterator[LintFinding]:
    """Word processors and chats turn -- into an en or em dash, and blanks into no-break spaces; keyboards of other
    scripts write full-width signs. The launcher sees no option in them."""
    for launch in job.launches:
        if not in_shell(launch):
            continue
        ours = {id(word) for word in launch.script_words}
        for word in launch.invocation.words:
            dashed = re.match(rf"[-{_DASHES}]*[{_DASHES}][-{_DASHES}]*(?=[A-Za-z])", word.raw)
            wide = {letter for letter in word.raw if letter in _WIDE} if id(word) not in ours else set()
            if dashed is None and not wide:
                continue
            plain = word.raw
            if dashed is not None:
                letters = re.match(r"[A-Za-z]+", plain[dashed.end() :])
                plain = ("--" if letters and len(letters[0]) > 1 else "-") + plain[dashed.end() :]
            plain = "".join(_WIDE.get(letter, letter) for letter in plain)
            signs = [*(dashed[0] if dashed else ""), *sorted(wide)]
            odd = ", ".join(dict.fromkeys(f"U+{ord(sign):04X}" for sign in signs if sign != "-"))
            yield LintFinding(
                span=word.span,
                summary=f"{word.raw[:60]} is written with {odd}; options are written with ASCII signs",
                happens="The launcher takes it for the script's name or an unknown argument, and ends with an error.",
                fix=f"Write {plain[:60]}.",
                edits=(Edit(word.span, plain),) if word.span.exact else (),
            )
