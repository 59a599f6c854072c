"""What parsers of command lines and settings refuse: argparse, click, absl, fire, tyro, Hydra, cobra, clap, getopt."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

NAMED = r"(?P<what>[`'\"]?-{0,2}[\w.:=/@+-]{1,100}[`'\"]?)"

REMEDIES = (
    Remedy(
        "unknown-option",
        words=(
            r"(?i)\b(?:unrecogni[sz]ed|unknown|unexpected|misplaced) (?:command[- ]line )?"
            rf"(?:arguments?|options?|flags?|switch(?:es)?|parameters?)\b:? {NAMED}",
            rf"\bNo such (?:option|command):? {NAMED}",
            rf"\bCould not consume arg: {NAMED}",
            rf"\bCannot find key: {NAMED}",
            r"\b[Gg]ot unexpected extra arguments? \((?P<extra>[^)\n]{1,100})\)",
            rf"\bunknown (?:shorthand flag: [`'\"]\w[`'\"] in|command) {NAMED}",
        ),
        lines=True,
        fix="The program does not know {what}: write it as the program's own --help does, or take it out.{told}",
        kind="argument",
        blame="user",
        source="Python argparse.py; click exceptions.py; absl flags/_exceptions.py; python-fire core.py; tyro "
        "_arguments.py; spf13/pflag flag.go, cobra args.go; clap error/kind.rs",
        sample=(
            "Unknown command line flag 'learning_rte'. Did you mean: learning_rate ?",
            "ERROR: Could not consume arg: --lr_rate",
            "Error: unknown flag: --gpu",
            "| Unrecognized options: --optim.rate |",
            'Error: unknown command "lanch" for "ctl"',
        ),
        counter=("error: an option is missing", "Using fallback: option '--fused' is not available"),
    ),
    Remedy(
        "missing-option",
        words=(
            r"\b(?:the )?following (?:required )?arguments (?:are required|were not provided):? ?(?P<what>[\w./, "
            r"<>-]{0,100})",
            r"\breceived no value for the required argument: (?P<what>[\w.-]{1,100})",
            r"\b[Mm]issing (?:required )?(?:option|argument|parameter|flag)s?:? "
            r"(?P<what>[`'\"]?-{0,2}[\w.-]{1,100}[`'\"]?)",
            r"\brequired flag\(s\) (?P<what>\"[^\n]{1,100}\") not set",
            r"\b[Ff]lag (?P<what>--[\w.-]{1,80}) must have a value other than None",
            r"\bYou must specify '(?P<what>[\w./@-]{1,80})', e\.g,",
            r"\bKey (?P<what>\"[\w.-]{1,80}\") is required but not included",
        ),
        lines=True,
        fix="Give {what}, which the program cannot do without.{told}",
        kind="argument",
        blame="user",
        source="Python argparse.py; click exceptions.py (MissingParameter); absl flags/_exceptions.py; python-fire "
        "core.py; cobra command.go (validateRequiredFlags); Hydra _internal/defaults_list.py; jsonargparse _core.py",
        sample=(
            "│ The following arguments are required: --data   │",
            "ERROR: The function received no value for the required argument: model",
            "flag --config=None: Flag --config must have a value other than None.",
            "You must specify 'dataset', e.g, dataset=<OPTION>",
        ),
        counter="the following arguments are given: --data",
    ),
    Remedy(
        "bad-value",
        words=(
            r"\binvalid (?:value|argument) (?P<what>[`'\"][^\n]{1,80}?[`'\"]) for (?P<option>[`'\"]?-{0,2}[\w. "
            r"<>-]{1,80})",
            r"\bInvalid value for (?P<option>[`'\"]?-{0,2}[\w.-]{1,60}[`'\"]?(?: / '-\w')?): (?P<what>[^\n]{1,120})",
            r"\bflag (?P<option>--[\w.-]{1,80})=(?P<what>[^\n:]{0,80}): invalid literal",
            r"\bargument (?P<option>-{1,2}[\w./-]{1,80}): (?P<what>(?:invalid|expected|not allowed)\b[^\n]{1,160})",
        ),
        lines=True,
        fix="Give {option} a value that it takes; what was given is refused: {what}.{told}",
        kind="argument",
        blame="user",
        source="clap error/kind.rs; cobra (pflag's errors); click exceptions.py (BadParameter); absl; argparse",
        sample=(
            "error: invalid value 'fp9' for '--dtype <DTYPE>'",
            'Error: invalid argument "8x" for "--gpus" flag: strconv.ParseInt: parsing "8x": invalid syntax',
            "flag --steps=1e4: invalid literal for int() with base 10: '1e4'",
        ),
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Remedy(
        "override-grammar",
        words=(
            r"\bmismatched input '[^'\n]{0,40}' expecting\b",
            r"\btoken recognition error at: ",
            r"\bno viable alternative at input '",
            r"\bLexerNoViableAltException\b",
        ),
        lines=True,
        fix=(
            "Write the override as Hydra reads it, key=value: quote a value that holds = , : blanks or brackets "
            "('key=\"a=b\"'), once for Hydra and once for the shell."
        ),
        kind="config",
        source="Hydra grammar/OverrideParser.g4, core/override_parser/overrides_parser.py; ANTLR's error texts",
        sample="mismatched input '=' expecting <EOF>",
        counter="mismatched shapes of the input",
    ),
    Remedy(
        "yaml-refused",
        words=(
            r"\berror converting YAML to JSON: yaml: (?P<what>[^\n]{1,160})",
            r"\bno matches for kind (?P<what>\"\w{1,60}\" in version \"[\w./-]{1,80}\")",
            r"^The \w{1,40} \"[^\"\n]{1,253}\" is invalid: (?P<what>[^\n]{1,200})",
        ),
        lines=True,
        fix=(
            "Correct the manifest where it is refused: {what}. A kind that the cluster does not know is of an "
            "operator that is not installed there, or of another version."
        ),
        commands=(command("kubectl api-resources"),),
        kind="config",
        source="kubernetes apimachinery pkg/util/yaml, pkg/api/meta (NoKindMatchError), pkg/api/errors (NewInvalid)",
        sample=(
            "error: error parsing job.yaml: error converting YAML to JSON: yaml: line 14: did not find expected key",
            'error: resource mapping not found for name: "fit" namespace: "" from "job.yaml": no matches for kind '
            '"PyTorchJob" in version "kubeflow.org/v1"',
        ),
        counter="error: no matches for the pattern",
    ),
)
