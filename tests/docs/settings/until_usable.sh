#!/bin/sh
# Waits until all three web servers report
tries=0
until [ "$(lbdns status | grep -c ' usable ')" -ge 3 ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "after $tries tries, not all web servers are usable:" >&2; lbdns status >&2; exit 1; }
    sleep 0.2
done
