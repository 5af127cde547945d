#!/usr/bin/env python3
"""Reads and clicks the tray menu of the application in the session, through the bus as a panel does.

  tray.py list          the menu as JSON lines: id, label, enabled, toggle ("" | "checkmark" | "radio"), checked, depth
  tray.py click LABEL   clicks the entry with exactly this label (mnemonic underscores left out), at any depth
  tray.py props         the icon's properties as one JSON object

Waits up to 10 seconds for the icon to register. Exit status: 0 done, 1 no icon or no such entry, 2 wrong usage.
"""

import json
import sys
import time

import dbus

WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = "org.kde.StatusNotifierItem"
MENU = "com.canonical.dbusmenu"
WAIT_SECONDS = 10
PROPERTIES = ["Id", "Title", "Status", "Category", "IconName", "IconThemePath", "Menu"]


def property_of(item, name):
    return item.Get(ITEM, name, dbus_interface=dbus.PROPERTIES_IFACE)


def first_item(bus):
    """The first registered icon, its owner on the bus and its object."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            watcher = bus.get_object(WATCHER, "/StatusNotifierWatcher")
            items = watcher.Get(WATCHER, "RegisteredStatusNotifierItems", dbus_interface=dbus.PROPERTIES_IFACE)
        except dbus.DBusException as problem:
            fail(f"no tray host on this bus: {problem.get_dbus_message()}")
        for item in items:
            owner, slash, path = str(item).partition("/")
            if bus.name_has_owner(owner):
                return owner, bus.get_object(owner, slash + path)
        if time.monotonic() > deadline:
            fail(f"no tray icon registered within {WAIT_SECONDS} s")
        time.sleep(0.1)


def entries(node, depth=0):
    """The menu's entries, depth first, without the root and without separators."""
    for child in node[2]:
        number, properties = int(child[0]), {str(key): value for key, value in child[1].items()}
        if str(properties.get("type", "standard")) != "separator" and bool(properties.get("visible", True)):
            yield {
                "id": number,
                "label": str(properties.get("label", "")).replace("_", ""),
                "enabled": bool(properties.get("enabled", True)),
                "toggle": str(properties.get("toggle-type", "")),
                "checked": int(properties.get("toggle-state", -1)) == 1,
                "depth": depth,
            }
        yield from entries(child, depth + 1)


def menu_of(bus, owner, item):
    menu = dbus.Interface(bus.get_object(owner, property_of(item, "Menu")), MENU)
    menu.AboutToShow(0)
    _, root = menu.GetLayout(0, -1, dbus.Array([], signature="s"))
    return menu, list(entries(root))


def fail(message):
    print(f"tray.py: {message}", file=sys.stderr)
    sys.exit(1)


def main(arguments):
    command = arguments[0] if arguments else ""
    if (command, len(arguments)) not in {("list", 1), ("props", 1), ("click", 2)}:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    bus = dbus.SessionBus()
    owner, item = first_item(bus)
    if command == "props":
        shown = {}
        for name in PROPERTIES:
            try:
                shown[name] = str(property_of(item, name))
            except dbus.DBusException as problem:
                shown[name] = f"({problem.get_dbus_name()})"
        print(json.dumps(shown))
        return
    menu, rows = menu_of(bus, owner, item)
    if command == "list":
        for row in rows:
            print(json.dumps(row))
        return
    found = [row for row in rows if row["label"] == arguments[1]]
    if not found:
        fail(f'no entry "{arguments[1]}"; there are: {", ".join(row["label"] for row in rows)}')
    if not found[0]["enabled"]:
        fail(f'the entry "{arguments[1]}" is disabled')
    stamp = dbus.UInt32(int(time.time()) & 0x7FFFFFFF)
    menu.Event(found[0]["id"], "clicked", dbus.String("", variant_level=1), stamp)


if __name__ == "__main__":
    main(sys.argv[1:])
