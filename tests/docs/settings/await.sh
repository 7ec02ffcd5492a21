# await WHAT COMMAND...: runs a command every 0.2 s until it succeeds; after 500 failures, says what did not happen
await() {
    local what=$1 tries=0
    shift
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 500 ] || { echo "after $tries tries: $what" >&2; return 1; }
        sleep 0.2
    done
}
