# A running demo, with its own ports, and the variable that it prints
make demo > "$SANDBOX/demo.out" &
until grep -q 'LBDNS_CONFIG=' "$SANDBOX/demo.out"; do kill -0 $!; sleep 0.1; done
grep -o 'export LBDNS_CONFIG=.*' "$SANDBOX/demo.out" > "$SANDBOX/profile"
source "$SANDBOX/profile"
tests/docs/settings/until_usable.sh
