#!/bin/sh
# Writes an access log of four hours, and settings of a policy
awk 'BEGIN {
    for (second = 0; second < 14400; second += 4)
        printf "192.0.2.9 - - [01/Mar/2026:%02d:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 512\n",
            second / 3600, second % 3600 / 60, second % 60
}' > access.log
# The settings are those of the page
awk '/^\[policy.schedule\]$/ { shown = 1 } /^```$/ { if (shown) exit } shown' docs/tasks/scale-farm.md > scaler.toml
