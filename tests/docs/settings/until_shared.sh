#!/bin/bash
# Waits until the server shares its overrides over the bus
source tests/docs/settings/await.sh
is_shared() { lbdns status --json | jq -e .shared_overrides.connected > "$SANDBOX/shared"; }
await "the server does not share its overrides" is_shared
