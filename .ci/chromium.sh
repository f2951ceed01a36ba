#!/usr/bin/env bash
# Debian's Chromium, which the tests of the report and of the web page drive; installed if missing.
set -euo pipefail

if [[ -x /usr/bin/chromium ]]; then
    exit 0
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null
