#!/bin/sh
# Waits until all three web servers report. If a page has run a second agent under a member's name, the collector rejects
# the reports of the member's own agent for 60 s, because it cannot tell them from replayed ones
end=$(($(date +%s) + 180))
until [ "$(lbdns status | grep -c ' usable ')" -ge 3 ]; do
    [ "$(date +%s)" -lt $end ] || { echo "after 180 s, not all web servers are usable:" >&2; lbdns status >&2; exit 1; }
    sleep 0.2
done
