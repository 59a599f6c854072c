"""Small hard scripts: what each starts is asked of bash itself (`bash_oracle`), so that none has a label of ours."""

TEXTS: dict[str, str] = {}


def _add(name: str, text: str) -> None:
    TEXTS[name] = text.removeprefix("\n")


_add(
    "a function with its own arguments",
    r"""
run() { local rank=$1; shift; torchrun --node-rank="$rank" "$@" --of "$#"; }
run 0 a.py --lr 1
run 1 b.py
""",
)
_add(
    "a function sets what others see",
    r"""
port=29500
choose() { port=29600; local host=n9; export CHOSEN=$1; }
host=n1
choose yes
torchrun --master-port $port --master-addr $host a.py
""",
)
_add(
    "a function gives its result by echo",
    r"""
address() { echo "$1:$((29500 + $2))"; }
torchrun --rdzv-endpoint "$(address n3 7)" a.py
""",
)
_add(
    "a function returns early",
    r"""
run() { if [ "$1" = 0 ]; then return 0; fi; torchrun --node-rank "$1" a.py; }
run 0
run 1
""",
)
_add(
    "set -e ends a script at the first failure",
    r"""
set -e
torchrun --one a.py
false
torchrun --two a.py
""",
)
_add(
    "set -e spares what a condition asks",
    r"""
set -e
if false; then torchrun --zero a.py; fi
false || torchrun --one a.py
! true
torchrun --two a.py
""",
)
_add(
    "exit",
    r"""
torchrun --one a.py
exit 0
torchrun --two a.py
""",
)
_add(
    "exit in a branch that is taken",
    r"""
MODE=check
if [ "$MODE" = check ]; then torchrun --check a.py; exit 0; fi
torchrun --real a.py
""",
)
_add(
    "exit in a subshell ends that alone",
    r"""
(torchrun --one a.py; exit 1; torchrun --two a.py)
torchrun --three a.py
""",
)
_add(
    "a subshell keeps its variables to itself",
    r"""
N=2
(N=4; export M=1; torchrun --in $N a.py)
torchrun --out $N a.py
""",
)
_add(
    "variables of a pipeline's loop are lost",
    r"""
N=0
printf 'n1\nn2\n' | while read -r host; do N=$((N + 1)); torchrun --host "$host" --n $N a.py; done
torchrun --after $N a.py
""",
)
_add(
    "a loop over a here-string keeps them",
    r"""
N=0
while read -r host; do N=$((N + 1)); torchrun --host "$host" --n $N a.py; done <<< "$(printf 'n1\nn2')"
torchrun --after $N a.py
""",
)
_add(
    "ssh with single quotes: the far side expands",
    r"""
RANK=3
export RANK
ssh n1 'torchrun --node-rank=$RANK a.py'
""",
)
_add(
    "ssh with double quotes: this side expands",
    r"""
RANK=3
ssh n1 "torchrun --node-rank=$RANK --host \$(hostname) a.py"
""",
)
_add(
    "ssh joins its words with blanks",
    r"""
NAME="two words"
ssh n1 torchrun --name "$NAME" a.py
ssh n1 torchrun --name "'$NAME'" a.py
""",
)
_add(
    "ssh over hosts, side by side",
    r"""
i=0
for h in n1 n2 n3; do
  ssh "$h" "cd /x; MASTER_ADDR=n1 torchrun --nnodes 3 --node-rank $i a.py" &
  i=$((i+1))
done
wait
""",
)
_add(
    "ssh reads the loop's input away",
    r"""
while read -r h; do
  ssh $h "torchrun --host $h a.py"
done <<< "$(printf 'n1\nn2\nn3')"
""",
)
_add(
    "ssh -n leaves the loop's input alone",
    r"""
while read -r h; do
  ssh -n $h "torchrun --host $h a.py"
done <<EOF
n1
n2
EOF
""",
)
_add(
    "a here-document without quotes",
    r"""
N=4
ssh n1 bash <<EOF
N=8
torchrun --nproc-per-node $N --inner \$N a.py
EOF
""",
)
_add(
    "a here-document with quotes",
    r"""
N=4
ssh n1 bash -s <<'EOF'
N=8
torchrun --nproc-per-node $N a.py
EOF
""",
)
_add("a here-document with tabs taken off", "N=4\nbash <<-EOF\n\ttorchrun --n $N a.py\n\tEOF\ntorchrun --after a.py\n")
_add(
    "bash -s with arguments",
    r"""
bash -s -- 5 six <<'EOF'
torchrun --one $1 --two $2 a.py
EOF
""",
)
_add(
    "bash -c and its arguments",
    r"""
bash -c 'torchrun --zero $0 --one $1 a.py' first second
""",
)
_add(
    "bash -c does not get what is not exported",
    r"""
A=1
export B=2
bash -c 'torchrun --a "$A" --b "$B" a.py'
""",
)
_add(
    "srun bash -c over lines",
    r"""
#!/bin/bash
#SBATCH --nodes=2
export MASTER_PORT=29501
HEAD=n0
srun bash -c "
  export NODE=$HEAD
  torchrun --port \$MASTER_PORT --head \$NODE --early $HEAD a.py
"
""",
)
_add(
    "arrays of options",
    r"""
ARGS=(--nnodes 2)
ARGS+=(--name "two words")
[ -n "$NOTHING" ] && ARGS+=(--never)
torchrun "${ARGS[@]}" a.py
torchrun ${ARGS[*]} a.py
torchrun "${ARGS[*]}" a.py
torchrun "${ARGS[@]:1:2}" --count ${#ARGS[@]} a.py
""",
)
_add(
    "array elements by name",
    r"""
declare -A PORT=([n1]=29500 [n2]=29600)
PORT[n3]=29700
for h in n1 n3; do torchrun --port "${PORT[$h]}" a.py; done
torchrun --count ${#PORT[@]} a.py
""",
)
_add(
    "array elements from the end, and unset",
    r"""
H=(n1 n2 n3)
unset 'H[1]'
torchrun --first ${H[0]} --last ${H[-1]} --all "${H[@]}" --n ${#H[@]} a.py
""",
)
_add(
    "scontrol's nodes in an array",
    r"""
#!/bin/bash
#SBATCH --nodes=2
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]}
for ((i = 0; i < ${#nodes[@]}; i++)); do
  srun -N1 -n1 -w "${nodes[$i]}" torchrun --node-rank $i --head "$head" a.py &
done
wait
""",
)
_add(
    "mapfile and a process substitution",
    r"""
mapfile -t hosts < <(printf 'n1\nn2\n')
for i in "${!hosts[@]}"; do torchrun --rank $i --host "${hosts[i]}" a.py; done
""",
)
_add(
    "arithmetic",
    r"""
N=3 G=8
W=$((N * G))
(( W += 2 ))
let "V = W % 5"
declare -i K=N+1
torchrun --w $W --v $V --k $K --hex $((0x10)) --oct $((010)) --pow $((2**3)) --tern $((W > 9 ? 1 : 2)) a.py
""",
)
_add(
    "defaults, alternatives and errors",
    r"""
A= B=set
torchrun ${A:-empty} ${A-unset} ${B:+there} ${C:+no} "${D:=given}" $D ${B:1} ${B/s/S} ${#B} a.py
: "${E:=assigned}"
torchrun --e $E ${B^^} ${B%t} ${B#s} a.py
""",
)
_add(
    "words are split where IFS says",
    r"""
LIST="n1,n2,n3"
IFS=',' read -r -a hosts <<< "$LIST"
torchrun --n ${#hosts[@]} --last "${hosts[2]}" a.py
IFS=,
for h in $LIST; do torchrun --host $h a.py; done
""",
)
_add(
    "an assignment before a command",
    r"""
A=1
A=2 torchrun --a $A a.py
torchrun --a $A a.py
""",
)
_add(
    "an assignment before a function holds in it alone",
    r"""
go() { torchrun --a $A a.py; }
A=1
A=2 go
go
""",
)
_add(
    "export of what is set later",
    r"""
export A
A=5
B=6
export -n B
export A
torchrun --plain a.py
unset A
torchrun --gone a.py
""",
)
_add(
    "set -a",
    r"""
set -a
A=1
set +a
B=2
torchrun a.py
""",
)
_add(
    "a sourced file",
    r"""
#@ every node
N=1
. ./env.sh --gpus 4
torchrun --n $N --g $GPUS a.py
#@ file env.sh
N=2
GPUS=$2
""".replace("#@ every node\n", ""),
)
_add(
    "a called file gets the exported alone",
    r"""
N=1
export M=2
bash run.sh 7 8
./run.sh
#@ file run.sh
torchrun --n "$N" --m "$M" --args "$#" "$@" a.py
""",
)
_add(
    "eval",
    r"""
CMD="torchrun --x '\$HOME' a.py"
eval $CMD
eval "$CMD"
$CMD
""",
)
_add(
    "a command in a variable",
    r"""
LAUNCH="torchrun --nnodes 2"
PRE=
$PRE $LAUNCH a.py --text "a  b"
OPTS='--name "two words"'
torchrun $OPTS a.py
""",
)
_add(
    "case",
    r"""
MODE=multi-node
case "$MODE" in
  single) torchrun --single a.py ;;
  multi-*) torchrun --multi a.py ;;&
  *node) torchrun --node a.py ;;
  *) torchrun --other a.py ;;
esac
case x in x) torchrun --falls a.py ;& y) torchrun --through a.py ;; z) torchrun --not a.py ;; esac
""",
)
_add(
    "options by getopts and shift",
    r"""
set -- --nodes 4 --port 29700 rest
while [ $# -gt 0 ]; do
  case $1 in
    --nodes) NODES=$2; shift 2 ;;
    --port) PORT=$2; shift 2 ;;
    *) REST=$1; shift ;;
  esac
done
torchrun --nnodes $NODES --master-port $PORT --rest $REST a.py
""",
)
_add(
    "getopts",
    r"""
set -- -n 3 -v x
while getopts "n:v" o; do case $o in n) N=$OPTARG ;; v) V=1 ;; esac; done
shift $((OPTIND - 1))
torchrun --n $N --v $V --rest $1 a.py
""",
)
_add(
    "break and continue",
    r"""
for i in 0 1 2 3; do
  [ $i = 1 ] && continue
  if [ $i -eq 3 ]; then break; fi
  torchrun --rank $i a.py
done
torchrun --after $i a.py
""",
)
_add(
    "until and counting down",
    r"""
n=3
until [ $n -le 0 ]; do torchrun --n $n a.py; ((n--)); done
torchrun --end $n a.py
""",
)
_add(
    "and, or, and both",
    r"""
true && torchrun --one a.py || torchrun --two a.py
false && torchrun --three a.py || torchrun --four a.py
[ a = b ] || [ a = a ] && torchrun --five a.py
[[ abc == a* && ! x == y ]] && torchrun --six a.py
[[ n12 =~ ^n([0-9]+)$ ]] && torchrun --seven ${BASH_REMATCH[1]} a.py
[ 1 = 1 -a 2 = 3 ] || torchrun --eight a.py
test -d /nowhere/at/all || torchrun --nine a.py
""",
)
_add(
    "quotes of every kind",
    r"""
X="a b"
torchrun 'it'\''s' "say \"$X\"" $'tab\there' "back\\slash" plain\ blank "" '' "$X"'$X' a.py
torchrun --json '{"lr": 1}' --more "{\"x\": \"$X\"}" {a,b}.py n{1..3} a.py
""",
)
_add(
    "comments and lines that go on",
    r"""
torchrun --a 1 \
  --b 2 `# a comment` \
  --c '#no' a#b \
  a.py  # the end
""",
)
_add(
    "time, nice, env, timeout, exec",
    r"""
time torchrun --one a.py
env -u HOME A=1 torchrun --two a.py
timeout 60 nice -n 5 torchrun --three a.py
nohup torchrun --four a.py &
wait
exec torchrun --five a.py
torchrun --six a.py
""",
)
_add(
    "python -c in a substitution",
    r"""
PORT=$(python -c 'print(29500 + 4)')
torchrun --master-port $PORT a.py
""",
)
_add(
    "substitutions of text",
    r"""
HOSTS="n1 n2 n3"
HEAD=$(echo $HOSTS | awk '{print $1}')
N=$(echo $HOSTS | wc -w)
LIST=$(echo "$HOSTS" | tr ' ' ',')
LAST=`echo $HOSTS | cut -d' ' -f3`
torchrun --head $HEAD --n $N --list $LIST --last $LAST --up "$(printf '%s:%d' $HEAD 29500)" a.py
""",
)
_add(
    "seq and brace ranges",
    r"""
for i in $(seq 0 1); do torchrun --seq $i a.py; done
for i in {0..4..2}; do torchrun --brace $i a.py; done
for i in {01..03}; do torchrun --zero $i a.py; done
N=2
for i in {0..$N}; do torchrun --literal $i a.py; done
for i in `seq 2 -1 1`; do torchrun --down $i a.py; done
""",
)
_add(
    "local variables of a called function are seen by what it calls",
    r"""
inner() { torchrun --x $X a.py; }
outer() { local X=inner; inner; }
X=outer
outer
inner
""",
)
_add(
    "a function in the background",
    r"""
go() { torchrun --rank $1 a.py; COUNT=9; }
COUNT=0
for r in 0 1; do go $r & done
wait
torchrun --count $COUNT a.py
""",
)
_add(
    "a condition on what the header told",
    r"""
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
GPUS=4
if (( GPUS > 1 )); then
  MODE="--nproc-per-node $GPUS"
else
  MODE="--nproc-per-node 1"
fi
srun torchrun $MODE a.py
""",
)
_add(
    "mpirun hands on what -x names",
    r"""
A=1
export B=2
mpirun -np 2 -x C=3 -x A -x B torchrun --x a.py
""",
)
_add(
    "xargs",
    r"""
echo n1 n2 | xargs -n 1 torchrun --host
""",
)
_add(
    "pdsh and quotes",
    r"""
N=3
pdsh -w n1,n2 "torchrun --n $N --m \$N a.py"
""",
)
_add(
    "a heredoc written and run",
    r"""
PORT=29500
cat > go.sh <<EOF
export PORT=$PORT
torchrun --port \$PORT --later \$1 a.py
EOF
chmod +x go.sh
bash go.sh first
""",
)
_add(
    "a file of variables written and sourced",
    r"""
echo "export NODES=3" > vars.sh
echo 'RANKS=$((NODES * 8))' >> vars.sh
source vars.sh
torchrun --nodes $NODES --ranks $RANKS a.py
""",
)
_add(
    "trap and return codes",
    r"""
trap 'torchrun --cleanup a.py' EXIT
torchrun --one a.py
ok() { return 1; }
if ok; then torchrun --two a.py; else torchrun --three a.py; fi
""",
)
_add(
    "words that only look like a comment or a keyword",
    r"""
if true; then echo if; fi; for in in a; do torchrun $in do done a.py; done
torchrun if then a.py#x
""",
)
_add(
    "a here-string and read",
    r"""
read -r A B C <<< "one two three four"
torchrun $A $B "$C" a.py
read A <<< "x  y"
torchrun "$A" a.py
""",
)
_add(
    "nested quotes of a remote shell",
    r"""
X=here
ssh n1 "bash -c 'torchrun --x $X --y \"a b\" a.py'"
ssh n1 bash -c 'torchrun --lost a.py'
""",
)
_add(
    "indirect names",
    r"""
A=B B=C
declare "V_$A=7"
torchrun ${!A} $V_B a.py
declare -n ref=B
ref=D
torchrun $B a.py
printf -v P '%02d' 7
torchrun $P a.py
""",
)
_add(
    "globs that match nothing, and tilde",
    r"""
torchrun --data /nowhere/*.bin ~/x ~+/.. "~" a=~/b a.py
""",
)
_add(
    "select what stands in a group",
    r"""
{ torchrun --one a.py; N=5; } > /dev/null 2>&1
torchrun --n $N a.py
""",
)
_add(
    "coming out of loops two deep",
    r"""
for i in 1 2; do
  for j in a b; do
    [ "$j" = b ] && continue 2
    torchrun --i $i --j $j a.py
  done
  torchrun --never a.py
done
while true; do torchrun --once a.py; break; done
""",
)
_add(
    "unset and empty in tests",
    r"""
A=
[ -z "$A" ] && torchrun --empty a.py
[ -n "$A" ] && torchrun --full a.py
[ -z ${B+x} ] && torchrun --unset a.py
[ -v A ] && torchrun --is-set a.py
[[ -z $C ]] && torchrun --c a.py
if [ $A = x ]; then torchrun --error a.py; else torchrun --fails a.py; fi
""",
)
_add(
    "single quotes within the double quotes of a shell behind ssh",
    r"""
HEAD=n1
COUNT=$(wc -l < /dev/null)
ssh n1 "cd / && bash -c 'torchrun --master-addr=$HEAD --nnodes $COUNT --at \$UNSET --name \"a b\" a.py'"
bash -c "bash -c 'torchrun --node-rank $COUNT --tag x$COUNT.y a.py'"
""",
)
