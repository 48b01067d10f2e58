#!/bin/sh
# chromium.sh URL: shows a page as Chromium sees it. Root's Chromium has no sandbox.
set -e
if [ "$(id -u)" = 0 ]; then set -- --no-sandbox "$1"; fi
export TMPDIR=/tmp # the path of a socket that it makes there must be short
exec chromium --headless --dump-dom "$@"
