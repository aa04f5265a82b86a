#!/bin/sh
# Makes the virtual environment: set_up.sh VENV [PYTHON]. Called by make; says in words what is missing.
# Without PYTHON it takes the first Python on the search path that is new enough.
set -eu

venv=$1
wanted=${2:-}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

command -v git >/dev/null 2>&1 || fail "git was not found." "Install git 2.38 or newer, then repeat."

if [ -n "$wanted" ]; then
    command -v "$wanted" >/dev/null 2>&1 || fail "$wanted was not found." "Name another: make PYTHON=python3.12 …"
    "$wanted" -c '' >/dev/null 2>&1 || fail "$wanted does not run: $("$wanted" -V 2>&1 | head -n 1)" \
        "Name another: make PYTHON=/path/to/python3.12 …"
    new_enough "$wanted" || fail "$wanted is $("$wanted" -V 2>&1); Bridge needs Python 3.11 or newer." \
        "Name another: make PYTHON=python3.12 …"
    python=$wanted
else
    python=
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if new_enough "$candidate"; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] || fail "No Python 3.11 or newer was found (python3 is $(python3 -V 2>/dev/null || echo missing))." \
        "Install one, or name it: make PYTHON=/path/to/python3.12 …"
fi

# Debian and Ubuntu ship venv and ensurepip in a package of their own.
if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    fail "$python cannot make virtual environments (venv or ensurepip is missing)." \
        "On Debian and Ubuntu: apt-get install python$version-venv (or python3-venv), then repeat."
fi

printf 'making %s with %s\n' "$venv" "$("$python" -V 2>&1)" >&2
"$python" -m venv --clear "$venv"
