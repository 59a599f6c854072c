"""What a message itself says is to be done: its sentences in the imperative, and those that say how it can be done.

Every library has its own advice and its own words for it. The forms are few: an imperative with its object ("Set X",
"try increasing Y", "run your code as a script, or choose ..."), "you should", "can be disabled by", "to allow this,".
What sends the reader elsewhere ("see the log above", "report a bug") is none.
"""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re

MOST, LONGEST, MOST_SENTENCES = 3_000, 420, 3
"""Characters of a message that are looked at, of what is quoted of it, and sentences of that (our choice)."""
LONGEST_SENTENCE = 300
SENTENCE = lazy_re(
    r"(?<=[.!?;])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bw\.)\s+(?=[A-Z`'\"<(\-]|or |if |you |please )|"
    r"(?<=[a-z)`'\"][.!?])(?=[A-Z][a-z])|\n+|\s+(?=\(?\d[.)] [A-Z])"
)
LEAD = (
    r"(?:(?:HINT|Hint|hint|Solution|Fix|Tip|NOTE|Note|Suggestion|Workaround):\s{0,4}|\(?\d[.)]\s+|[-*•]\s+|"
    r"(?:[Pp]lease|PLEASE|[Ee]ither|[Aa]lternatively|[Oo]therwise|[Ii]nstead|[Aa]lso|[Oo]r|[Aa]nd|[Tt]hen|[Jj]ust|"
    r"[Ff]irst|[Kk]indly|[Ee]xplicitly),?\s+){0,3}"
)
VERB = (
    r"(?:set|unset|use|try|pass|specify|provide|add|remove|delete|install|reinstall|upgrade|update|downgrade|increase|"
    r"reduce|decrease|lower|raise|call|enable|disable|convert|change|replace|rename|move|re-?run|run|restart|reset|"
    r"export|define|import|register|wrap|cast|resize|pad|truncate|choose|select|switch|turn|configure|adjust|modify|"
    r"edit|rebuild|recompile|compile|clear|free|kill|stop|start|launch|create|mount|ensure|make sure|verify|check|"
    r"consider|avoid|do not|don't|allow|split|skip|drop|fix|correct|write|put|give|request|log ?in|authenticate|accept|"
    r"download|clone|pull|initialize|initialise|apply|limit|activate|consult|override|implement|opt|wait|unload|merge|"
    r"freeze|move|shard|tune|prepare|preprocess|rescale|normalize|clip|load(?= (?:an?|the|your|it) )|"
    r"place(?= (?:both|all|the|your|it|them) )|point(?= \S{1,60} (?:to|at) ))"
)
IMPERATIVE = lazy_re(
    rf"^{LEAD}(?P<verb>{VERB})\b(?!\s?(?:of|failed|fails?|failure|errors?|is|was|has|had|by|from|with exit|"
    rf"took|returned|got)\b|[:(=.\[_-]|\s\(\d|\s\d{{1,12}},|(?<=[Cc]all) to\b)(?:\s+\S)",
    re.IGNORECASE,
)
MODAL = lazy_re(
    r"(?i)\b(?:you (?:can(?!not|'t)|could|should|must|may (?:want|need|have|also)|need to|might (?:want|need)|have to|"
    r"forgot|probably)|"
    r"do you need|did you (?:mean|call|forget|set)|"
    r"(?:can|may|could|should|must) (?:also )?be (?:set|passed|disabled|enabled|changed|fixed|avoided|solved|"
    r"overridden|"
    r"increased|raised|reduced|lowered|adjusted|configured|controlled|specified|suppressed|resolved|turned off|"
    r"installed|"
    r"switched)\b|"
    r"(?:^|[,;:] )(?:to|in order to) (?:fix|solve|avoid|resolve|disable|enable|use|load|suppress|override|allow|"
    r"prevent|bypass|append|add|"
    r"increase|change|continue|proceed|silence|work around|remedy)\b|if you (?:want|wish|need|are|have|really|use)\b|"
    r"\bconsider (?:using|setting|adding|\w{3,20}ing)|try (?:to|using|setting|\w{3,20}ing)|"
    r"(?:best|easiest|simplest|recommended) (?:solution|fix|way|workaround) (?:is|will be|would be) to|"
    r"by (?:setting|passing|using|adding|installing|specifying|increasing|reducing|running|calling|upgrading)\b)"
)
IN_BRACKETS = lazy_re(r"\((?P<told>(?:use|try|set|pass|specify|add) [^()\n]{3,120})\)")
"""As kubectl and git have it: "... (use --force to override): ..."."""
INNER = lazy_re(
    rf"[,;:]\s+(?=(?:(?:so|and|but|or|then) )?(?:please|you (?:can|could|should|must|may|need|might)|try|consider|"
    rf"make sure|ensure|{VERB})\b\s)",
    re.IGNORECASE,
)
"""Where a clause begins inside a sentence that may be the advice in it."""
ELSEWHERE = lazy_re(
    r"(?i)\b(?:report|(?:file|open|raise|submit|create) an? (?:\w{1,10} )?(?:issue|bug)|look up to see|"
    r"for more (?:information|details)|for further|for details|more information|"
    r"CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|NCCL_DEBUG|TORCH_DISTRIBUTED_DEBUG|HYDRA_FULL_ERROR|TORCH_LOGS|"
    r"TORCHDYNAMO_\w{0,30}(?:VERBOSE|DEBUG)\w{0,40}|OC_CAUSE|stack ?trace|"
    r"trace ?back|see (?:the |https?:|above|below|also)|refer to|read the|consult|print statements|"
    r"(?:check|look at|inspect|view|examine|review|find) (?:the |your |its |all )?(?:[\w-]{1,20} )?"
    r"(?:logs?|output|documentation|docs|above|below|messages?|errors?|statements|README)\b|"
    r"if you are (?:using GNU date|a Facebook employee)|request (?:the )?support|migration examples|"
    r"following (?:error )?message|inspect the (?:repository|content)|contact|"
    r"ask (?:the|your|for help)|make sure (?:that )?you trust|ignore this|bug\b|anomaly|good luck|"
    r"this is likely|help us|README|\w\.md\b|\b(?:error|message|output|log)s? (?:above|below)|for the actual)\b|"
    r"\b(?:error|logs?) above"
)
"""What only asks for more to be told, or sends somebody somewhere."""
A_NOUN = lazy_re(
    r"(?i)^wait timeout\b|^free (?:\w{1,12} )?memory (?:on|of|in|is|was|left|at)\b|^\w{3,12} [^\n]{0,160}\berror:|"
    r"^(?:shard|request|split|register|limit|drop|start|run|update|change|import|download|call|mount|check|stop|"
    r"launch|write|export|reset|pull|clone|merge|move|switch|pass|fix|set|pad|shard|start|clip|tune|load) "
    r"(?!(?:the|a|an|that|whether|if|your|all|this|these|it|its|each|every|both|any|`|'|\"|-)\b)"
    r"(?:id\b|(?:\S{1,40} ){0,3}(?:errors?|failed|failure)[. ]*$|(?:\S{1,40} ){0,2}(?:holds?|has|had|have|is|are|was|"
    r"were|"
    r"fail(?:s|ed)|exceed(?:s|ed)|returned|returns|does|did|could|cannot|can't|contains?|requires?|needs?|expired|"
    r"timed)\b)"
)
"""Words for a thing that are verbs too, with what it does or is behind them."""
BETWEEN = lazy_re(r"\S ?\[(?:rank|default)?\d{1,5}\]: ?\S|\bTraceback \(most recent|\bFile \"[^\"\n]{1,200}\", line \d")
"""Another rank's words, or its traceback's, in the middle of a line: who wrote what cannot be told."""
NOTHING_CAN = lazy_re(r"(?i)\b(?:none|nothing|neither|no \w{1,20})\b[^,.;]{0,40}\b(?:can|may|could) be\b")
A_RAISE = lazy_re(r"^\s*raise [A-Z\w.]{1,80}(?:\(|$)|^\s*(?:return|assert) \S")
"""A traceback's source line."""
SAYS_NO_MORE = lazy_re(
    r"(?i)^(?:please )?(?:(?:double-?)?(?:check|verify) (?:(?:your|the|that|if|whether) )?[a-z ,]{1,60}|try again|"
    r"(?:you (?:might|may|can|should|must|need to|might need to|may need to) )?\w{3,12} "
    r"(?:it|this|that|them|these)(?: \w{2,8})?|make sure)[ .!]*$"
)
"""What it speaks of stands elsewhere."""


def advice(message: str) -> str:
    """What the message itself says is to be done; empty where it says nothing of the kind."""
    kept = message[:MOST]
    if A_RAISE.match(kept):
        return ""
    chosen: list[str] = []
    sentences = list(split_by(SENTENCE, kept))
    for index, sentence in enumerate(sentences):
        told = _advised(sentence)
        if told.endswith(":"):
            told = (
                f"{told} {sentences[index + 1]}" if index + 1 < len(sentences) and sentences[index + 1] else told[:-1]
            )
        if not told or told in chosen or len(told) > LONGEST_SENTENCE or BETWEEN.search(told):
            continue
        if chosen and len(". ".join((*chosen, told))) > LONGEST:
            break
        chosen.append(told.rstrip(" .!,;"))
        if len(chosen) == MOST_SENTENCES:
            break
    return ". ".join(chosen)


def split_by(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The sentences of a text; a dotted name is none's end."""
    start = 0
    for at in pattern.finditer(text):
        word = text[start : at.start()].rpartition(" ")[2]
        if not at[0] and ("." in word[:-1] or "_" in word or "/" in word):
            continue
        yield " ".join(text[start : at.start()].split())
        start = at.end()
    yield " ".join(text[start:].split())


def _advised(sentence: str) -> str:
    """The advice in a sentence, from where it begins."""
    if ELSEWHERE.search(sentence) or SAYS_NO_MORE.match(sentence) or NOTHING_CAN.search(sentence):
        return ""
    if IMPERATIVE.match(sentence):
        return "" if A_NOUN.match(sentence) else sentence
    if (told := IN_BRACKETS.search(sentence)) and not ELSEWHERE.search(told["told"]):
        return told["told"]
    for at in INNER.finditer(sentence):
        clause = sentence[at.end() :]
        is_imperative = IMPERATIVE.match(re.sub(r"^(?:so|and|but|or|then) ", "", clause)) and not A_NOUN.match(clause)
        if (is_imperative or MODAL.match(clause)) and not SAYS_NO_MORE.match(clause.partition(" (at ")[0]):
            return clause
    return sentence if MODAL.search(sentence) else ""


__all__ = ["advice", "split_by"]
