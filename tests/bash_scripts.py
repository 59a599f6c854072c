"""Scripts made by hypothesis: each of bash's ways to say what a start gets, put into each other."""

from hypothesis import strategies as st

NAMES = ("A", "B", "C")
PLAIN = ("1", "2", "7", "n1", "two words", "", "a,b", "n1:29500", "x.y")
NUMBERS = ("0", "1", "2", "3", "08", "10")


def _quoted(text: str) -> str:
    return f'"{text}"'


names = st.sampled_from(NAMES)
expansions = st.builds(
    lambda form, name: form.replace("V", name),
    st.sampled_from((
        "$V", "${V}", "${V:-d}", "${V-e}", "${V:+s}", "${V+s}", "${#V}", "${V%1}", "${V#n}", "${V%%:*}", "${V##*:}",
        "${V/1/one}", "${V^^}", "${V:1}", "${V:0:2}", "${V//,/ }", "$((N + 1))", "$((${N:-2} * 3))", "$(echo $V)",
        '$(echo "$V" | tr , -)', "$(go $V)", "${L[0]}", "${L[@]}", "${L[*]}", "${#L[@]}", "${L[-1]}", "${L[1]:-none}",
        "$1", "$@", "${V:=set}", "`echo $V`", "${!P}", "$(printf '%s-%s' $V x)", "${L[@]:1}", "${V,,}",
    )),
    names,
)  # fmt: skip
pieces = st.one_of(
    st.sampled_from(("a", "-x", "--y=", "{p,q}", "{1..3}", "a\\ b", "'$A'", "'a  b'", "\\$A", "$'t\\tn'", "#", "=")),
    expansions,
    expansions.map(_quoted),
    st.sampled_from(PLAIN).map(_quoted),
)
words = st.lists(pieces, min_size=1, max_size=3).map("".join).filter(lambda word: not word.startswith("#"))
starts = st.lists(words, max_size=3).map(lambda more: " ".join(["torchrun", "--in", *more, "a.py"]))
values = st.one_of(st.sampled_from(PLAIN).map(_quoted), expansions, expansions.map(_quoted), st.sampled_from(NUMBERS))
assignments = st.builds(
    lambda form, name, value: form.replace("V", name).replace("@v", value),
    st.sampled_from((
        "V=@v", "V=@v", "export V=@v", "export V", "V+=@v", "unset V", "L=(@v x)", "L+=(@v)", "L=()",
        'L=("${L[@]}" @v)',
        "declare V=@v", "N=$((N + 1))", "((V = 2))", "readonly R=@v", "read -r V rest <<< @v",
        "IFS=, read -r V B <<< @v",
        "set -- @v y", "shift", "mapfile -t L < <(echo @v)", "printf -v V '%s' @v", "let V=3", "L[1]=@v", "export -n V",
        "V=$(echo @v)", ": ${V:=@v}", "IFS=:", "unset IFS", 'eval "V=@v"',
    )),
    names,
    values,
)  # fmt: skip
conditions = st.builds(
    lambda form, one, other: form.replace("@a", one).replace("@b", other),
    st.sampled_from((
        '[ "@a" = "@b" ]', '[[ @a == @b ]]', '[ -z "@a" ]', '[ -n "@a" ]', '[[ -z @a || @b == 1 ]]', "true", "false",
        '[[ "@a" != n* ]]', '[ ! "@a" = 1 ]', '! [ "@a" = "@b" ]', '[ "@a" = 1 -o "@b" = 2 ]', "((N > 4))",
        '[[ @a =~ ^n ]]',
        '[[ "@a" && ! -n "@b" ]]', '[ "@a" ]', "[[ 2 -gt 1 ]]", "test x = x", "[ 1 = 1 ] && [ \"@a\" = 1 ]",
        "[ 1 = 2 ] || true", "ok 1", "ok 0",
    )),
    st.sampled_from(("$A", "$B", "${C:-1}", "n1", "1", "${L[0]}")),
    st.sampled_from(("$A", "1", "n1", "$C", "2")),
)  # fmt: skip


known_words = words.filter(lambda word: not any(sign in word for sign in ("C", "@", "$1")))
"""Those that lint knows too: else nobody can count the turns of a loop over them."""


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map("\n".join)
    return st.one_of(
        st.builds("if {}; then\n{}\nfi".format, conditions, body),
        st.builds("if {}; then\n{}\nelse\n{}\nfi".format, conditions, body, body),
        st.builds("{} && {{\n{}\n}}".format, conditions, body),
        st.builds("{} || {{\n{}\n}}".format, conditions, body),
        st.builds("for V in {} {}; do\n{}\ndone".format, known_words, known_words, body),
        st.builds("for A in {}; do\n{}\n  {} && break\ndone".format, known_words, body, conditions),
        st.builds("for A in 1 2 3; do\n  {} && continue\n{}\ndone".format, conditions, body),
        st.builds("for ((i = 0; i < {}; i++)); do\n{}\ndone".format, st.sampled_from("123"), body),
        st.builds("(\n{}\n)".format, body),
        st.builds("{{\n{}\n}}".format, body),
        st.builds("{{\n{}\n}} &\nwait".format, body),
        st.builds("f() {{\n  local A={}\n{}\n  return 0\n{}\n}}\nf {} {}".format, values, body, body, words, words),
        st.builds("f() {{\n{}\n}}\nA={} f x".format, body, values),
        st.builds(
            "case {} in\n  n*)\n{}\n  ;;\n  1|2)\n{}\n  ;;\n  *)\n{}\n  ;;\nesac".format, values, body, body, body
        ),
        st.builds("bash <<EOF\n{}\nEOF".format, body),
        st.builds("bash -s p q <<'EOF'\n{}\nEOF".format, body),
        st.builds("A={} bash -c '{}' zero one".format, values, body.filter(lambda text: "'" not in text)),
        st.builds("n=0\nwhile [ $n -lt 2 ]; do\n{}\n  n=$((n + 1))\ndone".format, body),
        st.builds("while read -r A; do\n{}\ndone <<< {}".format, body, values),
        st.builds("echo {} | while read -r A; do\n{}\ndone".format, values, body),
        st.builds('ssh h "\n{}\n"'.format, body.filter(lambda text: '"' not in text)),
        st.builds("ssh h {}".format, starts),
        st.builds("env C={} {}".format, values, starts),
        st.builds("{}\nexit 0".format, inner),
        st.builds("srun -n 1 {}".format, starts),
    )


statements = st.recursive(st.one_of(starts, assignments), _nested, max_leaves=8)
SCRIPT_HEAD = 'go() { echo "g-$1"; }\nok() { [ "$1" = 0 ]; }\nL=(l1 "l 2")\nA=1 B=n1:29500 N=4 P=A\n'
scripts = st.lists(statements, min_size=1, max_size=6).map(lambda lines: SCRIPT_HEAD + "\n".join(lines) + "\n")
