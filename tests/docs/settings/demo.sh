# A running demo, with its own ports, and the variable that it prints
make demo > "$SANDBOX/demo.out" &
source tests/docs/settings/await.sh
demo=$!
prints_or_ends() { grep -q 'LBDNS_CONFIG=' "$SANDBOX/demo.out" || ! kill -0 $demo 2> /dev/null; }
await "the demo has printed no LBDNS_CONFIG" prints_or_ends
kill -0 $demo
grep -o 'export LBDNS_CONFIG=.*' "$SANDBOX/demo.out" > "$SANDBOX/profile"
source "$SANDBOX/profile"
tests/docs/settings/until_usable.sh
