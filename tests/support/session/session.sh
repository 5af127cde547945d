#!/usr/bin/env bash
# session.sh COMMAND [ARGUMENT...]
# Runs COMMAND in a desktop session of its own and ends with its exit status: a private D-Bus, an unlocked throw-away
# keyring, an X server without a screen, a window manager and a tray host. It never touches the caller's own session,
# keyring or files under the XDG folders, and leaves no process and no file behind.
set -euo pipefail

if [ "$#" -eq 0 ]; then
  echo "usage: session.sh COMMAND [ARGUMENT...]" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The outer half makes the folders and owns the clean-up; the inner half runs on the private bus.
if [ "${EVI_SESSION_STEP:-outer}" = outer ]; then
  for tool in dbus-run-session gnome-keyring-daemon Xvfb openbox /usr/bin/python3; do
    if ! command -v "$tool" >/dev/null; then
      echo "session.sh: $tool is missing; run: cargo xtask setup --tests" >&2
      exit 127
    fi
  done
  session=$(mktemp -d "${TMPDIR:-/tmp}/evi-session.XXXXXX")
  # Whatever still runs with this session's environment, however it detached itself, belongs to it.
  members() { grep -lzxF "EVI_SESSION_DIR=$session" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
  close() {
    local status=$? pid signal
    trap - EXIT INT TERM HUP
    unset EVI_SESSION_DIR # or the looking tools below would find themselves
    for signal in TERM KILL; do
      for pid in $(members); do kill -s "$signal" "$pid" 2>/dev/null || true; done
      for _ in $(seq 20); do
        if [ -z "$(members)" ]; then break 2; fi
        sleep 0.1
      done
    done
    rm -rf "$session"
    exit "$status"
  }
  trap close EXIT
  trap 'exit 143' TERM HUP
  trap 'exit 130' INT
  for folder in run data config cache state; do mkdir -m 700 "$session/$folder"; done
  export EVI_SESSION_STEP=inner EVI_SESSION_DIR="$session"
  export XDG_RUNTIME_DIR="$session/run" XDG_DATA_HOME="$session/data" XDG_CONFIG_HOME="$session/config"
  export XDG_CACHE_HOME="$session/cache" XDG_STATE_HOME="$session/state"
  unset WAYLAND_DISPLAY DISPLAY SESSION_MANAGER DBUS_SESSION_BUS_ADDRESS GNOME_KEYRING_CONTROL
  dbus-run-session -- bash "$here/session.sh" "$@" <&0 &
  inner=$!
  status=0
  wait "$inner" || status=$?
  exit "$status"
fi

# wait_for WHAT TEST...: waits at most ten seconds until TEST holds.
wait_for() {
  local what=$1
  shift
  for _ in $(seq 100); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  echo "session.sh: $what did not start within 10 s" >&2
  exit 1
}

keyring=$(printf 'a throw-away password' | gnome-keyring-daemon --unlock --components=secrets 2>"$EVI_SESSION_DIR/keyring.log")
eval "$keyring"
export GNOME_KEYRING_CONTROL

Xvfb -displayfd 3 -screen 0 1280x800x24 -nolisten tcp 3>"$EVI_SESSION_DIR/display" >"$EVI_SESSION_DIR/xvfb.log" 2>&1 &
wait_for "the X server (see $EVI_SESSION_DIR/xvfb.log)" test -s "$EVI_SESSION_DIR/display"
DISPLAY=":$(cat "$EVI_SESSION_DIR/display")"
# The accessibility bus would outlive the session, and Wayland is not there.
export DISPLAY NO_AT_BRIDGE=1 GDK_BACKEND=x11 XDG_SESSION_TYPE=x11

# Without a window manager nothing maps or focuses a window and pictures stay grey.
openbox >"$EVI_SESSION_DIR/openbox.log" 2>&1 &

/usr/bin/python3 "$here/tray_watcher.py" >"$EVI_SESSION_DIR/tray.log" 2>&1 &
wait_for "the tray host" grep -q '^ready$' "$EVI_SESSION_DIR/tray.log"

unset EVI_SESSION_STEP
status=0
"$@" || status=$?
exit "$status"
