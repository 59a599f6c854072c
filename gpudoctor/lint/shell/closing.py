"""Where a quote or a bracket of a shell text ends."""


def closing_quote(text: str, at: int, end: int) -> int:
    """The double quote that ends what begins before `at`; `end` when none does."""
    while at < end:
        if text[at] == "\\":
            at += 2
        elif text[at] == '"':
            return at
        elif text[at] == "$" and text[at + 1 : at + 2] in ("(", "{"):
            at = closing(text, at + 1, end)
        else:
            at += 1
    return end


def closing(text: str, at: int, end: int) -> int:
    """The offset behind the bracket that closes the one at `at`; `end` when none does."""
    waiting: list[str] = []
    while at < end:
        sign = text[at]
        if sign == "\\":
            at += 2
            continue
        if waiting and waiting[-1] == '"':
            if sign == '"':
                waiting.pop()
            elif sign == "$" and text[at + 1 : at + 2] in ("(", "{"):
                at += 1
                waiting.append({"(": ")", "{": "}"}[text[at]])
        elif sign == "'":
            at_quote = text.find("'", at + 1, end)
            at = end if at_quote < 0 else at_quote
        elif sign == '"':
            waiting.append('"')
        elif sign in "({":
            waiting.append({"(": ")", "{": "}"}[sign])
        elif waiting and sign == waiting[-1]:
            waiting.pop()
            if not waiting:
                return at + 1
        at += 1
    return end
