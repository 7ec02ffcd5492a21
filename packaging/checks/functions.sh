# Functions of the checks, each of which runs as 'sh -eu' in a root file system without a network.

# Run a command that must fail; '!' would not end a script under 'set -e'
fails() {
    if "$@"; then
        echo "must fail, but succeeds: $*" >&2
        exit 1
    fi
}

# Fail if anything named after lbdns is left on the system
nothing_is_left() {
    left=$(find / -xdev -name '*lbdns*' -not -path '/dist/*' -not -path '/example/*' -not -path '/var/lib/rpm/*')
    if [ "$left" ]; then
        echo "left behind: $left" >&2
        exit 1
    fi
}

# Take a sample of the host
sample() {
    lbdns-agent --once --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["metrics"]["cpu_count"] > 0'
}

# serve_example CONFIGURATION COMMAND...: start the server and ask it for best.example.com
serve_example() {
    configuration=$1
    shift
    "$@" serve -c "$configuration" 2> /tmp/serve.log &
    server=$!
    for _ in $(seq 240); do
        if grep -q 'ready: 1 zone, 1 pool' /tmp/serve.log; then break; fi
        kill -0 "$server"
        sleep 0.5
    done
    cat /tmp/serve.log
    "$@" ask best.example.com @127.0.0.1 | grep -E 'web[12].example.com.[[:space:]]+0[[:space:]]+IN[[:space:]]+A[[:space:]]+192.0.2.[12]'
    kill "$server"
    wait "$server"
}
