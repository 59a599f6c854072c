"""`python -m tests.corpus train`: what each word speaks for each class, learned from labelled logs of tune, messages
that are no case's (spoken.txt), and samples of symptoms and remedies.

A linear classifier, one class against the others (an SVM with squared hinge loss, by dual coordinate descent: Hsieh et
al., 2008), in plain Python and in one order, so that the same labels give the same table. Stems of words, weights and
the cost were chosen by eight-fold cross-validation inside of tune (docs/measured/explain.md).
"""

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_letters
from typing import NamedTuple

from gpudoctor.causes import CAUSES
from gpudoctor.explain import alike
from gpudoctor.explain.alike import HEALTHY, SAYS_NOTHING, STEP, TABLE, stems, weighed
from gpudoctor.fault_classes import CLASSES
from gpudoctor.remedies import REMEDIES
from gpudoctor.symptoms import TABLE as SYMPTOMS
from tests.corpus import families, one_line
from tests.corpus.cases import Case, cases

FILE = Path(alike.__file__).with_name(TABLE)
SPOKEN = Path(__file__).with_name("spoken.txt")
OURS = {"compile": "dependency-mismatch", "file-system": "storage", "open-files": "limits"}
"""The issue's classes that are another one of ours."""
MOST_DECISIVE, LAST = 6, 5
COST = 0.5
PASSES = 12
LEAST = 0.1
"""A weight below this is left out."""
WINDOWS = range(0, 60, 8)
"""How far before the end of a healthy log lines are learned from."""
UNTOLD = ("elsewhere", "as it is")
"""What words that are alike do not show of a restart."""


class Labelled(NamedTuple):
    kind: str
    lines: Sequence[str]
    blame: str = ""
    restart: str = ""


def labelled() -> Iterator[Labelled]:
    """What is learned from: the decisive and the last lines of tune's failed logs, lines of its healthy ones, and its
    single messages."""
    for case in cases():
        lines = [line for line in case.log.splitlines() if line.strip()]
        if case.half != "tune":
            continue
        if case.verdict == "healthy":
            ends = (len(lines) - before for before in WINDOWS if before < len(lines))
            yield from (Labelled(HEALTHY, lines[max(0, end - LAST) : end]) for end in ends)
        elif case.verdict == "cause" and case.decidable in ("text", "family"):
            kind = OURS.get(case.class_, case.class_)
            yield Labelled(kind, [*_decisive(case), *lines[-LAST:]], case.blame, case.restart)
    for file in (families.FILE, families.DRAWN):
        for message in families.messages(file):
            if message.half == "tune":
                yield Labelled((*message.classes, HEALTHY)[0], message.text.splitlines())
    for classes, text in one_line.labelled():
        if one_line.half(text) == "tune":
            yield Labelled((*classes, HEALTHY)[0], [text])
    for line in SPOKEN.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, _, said = line.partition(": ")
            yield from (Labelled(kind, [text]) for text in said.split(" | "))
    yield from _samples()


def _samples() -> Iterator[Labelled]:
    for symptom in SYMPTOMS:
        if symptom.cause in CAUSES:
            kind = CAUSES[symptom.cause].judge(symptom.variant).kind
            yield from (Labelled(kind, [text]) for text in symptom.samples)
    for remedy in REMEDIES:
        if remedy.judged is not None:
            yield from (Labelled(remedy.judged.kind, text.splitlines()) for text in remedy.samples)


def _decisive(case: Case) -> list[str]:
    patterns = [re.compile(each, re.IGNORECASE) for each in case.must]
    told = [line for line in case.log.splitlines() if any(each.search(" ".join(line.split())) for each in patterns)]
    return told[:MOST_DECISIVE]


def table(every: int = 1) -> str:
    """The text of words_of_classes.txt; of one in so many classes."""
    learned = list(labelled())
    found = [stems(each.lines) for each in learned]
    seen = Counter(word for words in found for word in words)
    rarity = {word: round(STEP * (math.log((1 + len(found)) / (1 + seen[word])) + 1)) / STEP for word in sorted(seen)}
    parts = [weighed(words, rarity) for words in found]
    kinds = [kind for kind in CLASSES if kind not in SAYS_NOTHING and any(each.kind == kind for each in learned)]
    speaks_for: dict[str, str] = defaultdict(str)
    head = []
    for letter, kind in ((HEALTHY, HEALTHY), *zip(ascii_letters, kinds, strict=False))[::every]:
        weights, own = _learned(parts, [each.kind == kind for each in learned])
        for word, weight in weights.items():
            if abs(weight) >= LEAST:
                speaks_for[word] += f"{letter}{round(STEP * weight)}"
        blame = _mostly([each.blame for each in learned if each.kind == kind], "program")
        restart = _mostly([each.restart for each in learned if each.kind == kind], "not decided")
        told = "not decided" if restart in UNTOLD else restart
        head.append("\t".join((letter, "other" if kind == HEALTHY else kind, blame, told, f"{own:.2f}")))
    rows = (f"{word} {round(STEP * rarity[word])} {speaks_for[word]}" for word in rarity if word in speaks_for)
    return "\n".join((*head, "", *rows, ""))


def _mostly(labels: Sequence[str], otherwise: str) -> str:
    counted = Counter(filter(None, labels))
    return max(sorted(counted), key=counted.__getitem__, default=otherwise)


def _learned(parts: Sequence[Mapping[str, float]], is_one: Sequence[bool]) -> tuple[dict[str, float], float]:
    """What each word speaks for this class, and what speaks for it before any word does."""
    weights: dict[str, float] = defaultdict(float)
    own = 0.0
    duals = [0.0] * len(parts)
    ridge = 1 / (2 * COST)
    order, chance = list(range(len(parts))), random.Random(1)
    for _ in range(PASSES):
        chance.shuffle(order)
        for index in order:
            words, sign, dual = parts[index], 1.0 if is_one[index] else -1.0, duals[index]
            said = own + sum(part * weights[word] for word, part in words.items() if word in weights)
            slope = sign * said - 1 + ridge * dual
            after = max(dual - slope / (2 + ridge), 0.0)  # of a length of 1 each, and 1 for `own`
            if after != dual:
                duals[index], step = after, (after - dual) * sign
                own += step
                for word, part in words.items():
                    weights[word] += step * part
    return weights, own
