#!/bin/sh
# Records the demo for a few seconds while clients look up a name
lbdns-sim record http://127.0.0.1:8053 tuesday.jsonl --force &
for second in 1 2 3 4; do
    lbdns ask best.hobbit > /dev/null
    sleep 1
done
kill -TERM $!
wait
