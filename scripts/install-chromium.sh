#!/bin/sh
# Installs Chromium and its driver, which the tests of the report need. Does nothing where they are there; where
# they cannot be had it says so and goes on: set VIEWLOOM_NO_BROWSER=1 to run the tests without them.
set -u

have() { command -v "$1" >/dev/null 2>&1; }

ready() { have chromedriver && { have chromium || have chromium-browser || have google-chrome; }; }

give_up() {
    echo "install-chromium: $1; set VIEWLOOM_NO_BROWSER=1 to run the tests without a browser"
    exit 0
}

if ready; then
    echo "install-chromium: chromium and chromedriver are there"
    exit 0
fi
have apt-get || give_up "there is no apt-get; install chromium and chromedriver by hand"

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    have sudo && sudo -n true 2>/dev/null || give_up "not root, and no sudo without a password"
    as_root="sudo"
fi

install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }

install chromium chromium-driver ||
    { $as_root apt-get update && install chromium chromium-driver; } ||
    give_up "apt-get could not install chromium and chromium-driver"
ready || give_up "installed, but not found"
echo "install-chromium: chromium and chromedriver are installed"
