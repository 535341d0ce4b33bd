#!/bin/sh
# Print the first Python of at least 3.11 that can make virtual environments:
#     sh scripts/find-python.sh [candidate ...]
# Candidates are names or paths; without any, those that systems usually have.
set -eu
least='import sys; sys.exit(sys.version_info < (3, 11))'
able='import ensurepip, venv'
without=''
[ "$#" -gt 0 ] || set -- python3.11 python3.12 python3.13 python3.14 python3.15 python3 python
for candidate in "$@"; do
    if "$candidate" -c "$least" >/dev/null 2>&1; then
        if "$candidate" -c "$able" >/dev/null 2>&1; then
            command -v "$candidate"
            exit 0
        fi
        without="$candidate"
    fi
done
if [ -n "$without" ]; then
    echo "$without cannot make virtual environments: install its venv package (Debian, Ubuntu: apt install $(basename "$without")-venv), or name another with make PYTHON=..." >&2
else
    echo "No Python 3.11 or newer found among: $*. Install one, or name it with make PYTHON=/path/to/python3" >&2
fi
exit 1
