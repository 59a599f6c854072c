"""Rules of values that a shell takes apart, and of commands that end where their quotes do: Q34, Q35, Q36."""

import re
from collections.abc import Iterator, Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.look import SHELLS, SIBLINGS
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Word
from gpudoctor.lint.rule import LintFinding, rule

_ONE = "torchrun --standalone --nproc-per-node=4 train.py {}\n"
_OPENS = lazy_re(r"(?:--?[A-Za-z][\w-]*=)?(?P<quote>['\"])|\+{0,2}[\w./@-]+=(?P<list>[\[{])|(?P<json>\{)(?=['\"\w])")
"""A word that begins with a quote that is a letter, or with a list or mapping of a Hydra override or an option."""
_CLOSES = {"[": "]", "{": "}"}
_MAPPING = lazy_re(r"\+{0,2}[\w./@-]+=\{\w+:[^{}\s]*(?:,\w+:[^{}\s]*)+\}")
"""A mapping of Hydra's, which is a list in braces to bash."""


@rule(
    "Q34",
    title="A value with blanks or quotes is one word",
    source="bash(1), Word Splitting and Quote Removal: quotes that a variable brings are letters; a blank ends a word;"
    " quotes that stand bare are taken away; measured with bash 5.2 and Hydra 1.3 (LexerNoViableAltException)",
    bad=(
        "ARGS=\"--name 'my run' --lr 1e-4\"\n" + _ONE.format("$ARGS"),
        "ARGS=\"--name='base'\"\n" + _ONE.format("$ARGS"),
        _ONE.format('--kwargs {"use_reentrant": false} --lr 1'),
        _ONE.format('--kwargs {"use_reentrant":false}'),
        _ONE.format("data.paths=[a, b] x=1"),
        _ONE.format("+model={name:unet,depth:4}"),
    ),
    good=(
        "ARGS=(--name 'my run' --kw '{\"a\": 1}')\n" + _ONE.format('"${ARGS[@]}"'),
        "ARGS=\"--name 'my run'\"\neval " + _ONE.format("$ARGS"),
        _ONE.format("--kwargs '{\"use_reentrant\": false}'"),
        _ONE.format("data.paths=[a,b] +x={a:1} 'data.more=[a, b]'"),
        _ONE.format("[--lr LR] [options]"),
    ),
)
def value_that_is_taken_apart(job: LintJob) -> Iterator[LintFinding]:
    """Bash takes a line apart before it looks into variables: quotes of a variable's value keep nothing together and
    reach the program, and what stands bare ends at a blank and loses its quotes."""
    if job.kind not in ("shell", "sbatch", "manifest"):
        return
    for launch in job.launches[:SIBLINGS]:
        finding = _apart(launch, launch.script_words)
        if finding is not None:
            yield finding
        for word in launch.script_words:
            raw = job.text[word.span.start : word.span.end]
            if "{" in raw and _MAPPING.fullmatch(raw) is not None and "{" not in word.shown:
                yield _finding(
                    word, raw, "bash's braces make several words of it", f"Write '{raw}', in quotes.", split=True
                )
                break


def _apart(launch: LintLaunch, words: Sequence[Word]) -> LintFinding | None:
    for index, word in enumerate(words):
        text = word.text or ""
        bare = '"' not in text and re.search(r"(?<!['\"\\$])\{\"", word.raw) is not None
        match = _OPENS.match(text)
        if match is None or (word.quoted and not bare) or word.literal_dollar:
            continue
        quote, before = match["quote"], words[index - 1].shown if index else launch.program_file
        close = quote or _CLOSES[match["list"] or match["json"]]
        if (match["json"] or match["list"]) and _is_whole(text, match["list"] or match["json"], close):
            if bare and match["json"] and before.startswith("--"):
                return _finding(word, text, "bash takes its quotes away", f"Write '{word.raw}', in single quotes.")
            continue
        if quote and len(text) > match.end() and text.endswith(quote):
            return _finding(word, text, "its quotes are letters", "Take the quotes out, or keep the words in an array.")
        last = next((each for each in words[index + 1 : index + 40] if (each.shown or " ")[-1] == close), None)
        if last is None or (last.quoted is not word.quoted and not bare):
            continue
        whole = " ".join(each.shown for each in words[index : words.index(last) + 1])
        fix = (
            "Keep the words in an array, NAME=(... 'two words' ...), and write \"${NAME[@]}\"."
            if quote
            else (f"Write it in quotes: '{whole}'.")
        )
        return _finding(word, whole, "it is taken apart at its blanks", fix, split=True)
    return None


def _is_whole(text: str, opens: str, closes: str) -> bool:
    return text.count(opens) <= text.count(closes)


def _finding(word: Word, shown: str, why: str, fix: str, *, split: bool = False) -> LintFinding:
    return LintFinding(
        span=word.span,
        severity=None if split else "warning",
        summary=f"{shown[:60]} is no value in one piece: {why}",
        happens="The program refuses the words behind it as unknown arguments, or its parser ends."
        if split
        else "The program gets another value than was meant: no JSON, or one with quotes in it.",
        fix=fix,
    )


_CUT = lazy_re(r"-[a-z]*c")


@rule(
    "Q35",
    title="Quotes inside of a command in quotes are of the other kind",
    source="bash(1): a double quote ends what a double quote began; -c takes one word, those behind it are $0, $1 ...",
    bad=(
        'srun bash -c "' + _ONE.format('--name "my run" --lr 3').strip() + '"\n',
        'sbatch --nodes=1 --gres=gpu:4 --wrap="' + _ONE.format('--name "a b"').strip() + '"\n',
        "bash -c 'echo it''s; " + _ONE.format("--name 'my run' --lr 3").strip() + "'\n",
    ),
    good=(
        'srun bash -c "' + _ONE.format("--name 'my run' --lr 3").strip() + '"\n',
        'bash -c "' + _ONE.format('--name \\"my run\\"').strip() + '"\n',
    ),
)
def quotes_that_end_the_command(job: LintJob) -> Iterator[LintFinding]:
    """The inner quote ends the command; with a blank behind it the rest is no part of it at all."""
    for invocation in job.invocations:
        words = invocation.words
        at = next((index for index, word in enumerate(words[:-1]) if word.raw.startswith(("--wrap='", '--wrap="'))), 2)
        if at == 2 and (invocation.program not in SHELLS or len(words) < 4 or not _CUT.fullmatch(words[1].shown)):
            continue
        command, behind = words[at].raw.removeprefix("--wrap="), words[at + 1].raw
        quote = command[:1]
        if quote and quote in "'\"" and command[-1:] != quote and quote in behind and behind[:1] != quote:
            yield LintFinding(
                span=words[at].span,
                summary=f"The command of {invocation.program} ends at {command[-24:]}: its quote is closed inside",
                happens=f"{behind[:40]} and what follows is no part of the command"
                + (": it is $0 and $1 of the shell." if at == 2 else ": sbatch refuses words behind --wrap."),
                fix="Write the inner quotes as " + ('single ones, or \\".' if quote == '"' else "double ones."),
            )


_REMOTE = ("ssh", "pdsh", "clush", "srun", "docker", "podman", "kubectl")
_ALONE = ("cd", "source", ".", "export", "conda", "module")


@rule(
    "Q36",
    title="What a remote host shall do stands in quotes",
    source="bash(1), Lists: && and ; end a command of this shell; what follows is run here",
    bad=(
        "pdsh -w n[1-2] cd /opt/t && torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-id=3"
        " --rdzv-endpoint=n1:29400 train.py\n",
        "srun cd /opt/t && python train.py\n",
    ),
    good=(
        "pdsh -w n[1-2] 'cd /opt/t && torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-id=3"
        " --rdzv-endpoint=n1:29400 train.py'\n",
        "ssh n1 module list && python train.py\n",
    ),
)
def remote_command_that_ends_early(job: LintJob) -> Iterator[LintFinding]:
    """`ssh HOST cd X && torchrun ...`: the folder is changed there, to no end, and the program starts here."""
    for invocation in job.invocations:
        word = _enters(invocation)
        if word is None or not job.launches:
            continue
        behind = re.match(r"[\"']?\s*(&&|;)\s*(?:\\\r?\n\s*)?[\w./$]", job.text[invocation.words[-1].span.end :])
        if behind is not None and word.span.exact:
            yield LintFinding(
                span=word.span,
                summary=f"{invocation.program} gets {' '.join(each.shown for each in invocation.words[-2:])[:50]}"
                f" alone; what follows {behind[1]} is run here",
                happens="The program starts on this machine, and not where it was meant to: the others wait for it.",
                fix=f"Put all of the remote command into quotes: {invocation.program} ... 'cd X && ...'.",
            )


def _enters(invocation: Invocation) -> Word | None:
    """The word `cd` of a remote command that is no more than that."""
    if invocation.program not in _REMOTE or invocation.within:
        return None
    words = invocation.words
    at = next((index for index, word in enumerate(words) if index and word.shown in _ALONE and not word.quoted), None)
    if at is None or len(words) - at > 3 or (words[at].shown in ("conda", "module") and words[at + 1 :][:1] == ()):
        return None
    second = words[at + 1].shown if at + 1 < len(words) else ""
    wanted = {"conda": ("activate",), "module": ("load", "add")}.get(words[at].shown)
    return words[at] if second and (wanted is None or second in wanted) else None
