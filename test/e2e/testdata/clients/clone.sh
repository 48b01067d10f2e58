#!/bin/sh
# clone.sh URL: clones a repository and shows what is in it.
set -e
into=$(mktemp -d)
trap 'rm -rf "$into"' EXIT
git clone --quiet "$1" "$into/clone"
cat "$into/clone/page"
