#!/bin/sh
# chromium.sh URL: shows a page as Chromium sees it. Chromium takes its CA from
# a database in the home folder, and would ask for https:// where the URL says
# http://.
set -e
store=$HOME/.pki/nssdb
mkdir -p "$store"
certutil -N -d "sql:$store" --empty-password
certutil -A -d "sql:$store" -n robotsproxy -t C,, -i "$ROBOTSPROXY_CA_FILE"
export TMPDIR=/tmp # the path of a socket that it makes there must be short
chromium --headless --no-sandbox --disable-gpu --disable-features=HttpsUpgrades --proxy-server="$http_proxy" --dump-dom "$1"
