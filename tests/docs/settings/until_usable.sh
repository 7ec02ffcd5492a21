#!/bin/sh
# Waits until all three web servers report
until [ "$(lbdns status | grep -c ' usable ')" -ge 3 ]; do sleep 0.2; done
