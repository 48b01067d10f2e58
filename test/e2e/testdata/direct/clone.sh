#!/bin/sh
# clone.sh URL: clones a repository without a proxy and shows what is in it.
set -e
into=$(mktemp -d)
trap 'rm -rf "$into"' EXIT
git -c http.proxy= clone --quiet "$1" "$into/clone"
cat "$into/clone/page"
