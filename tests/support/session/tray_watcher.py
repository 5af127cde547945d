#!/usr/bin/env python3
"""A tray host for a session without a panel: it lets applications register their tray icon and forgets them when they
leave the bus. It draws nothing; tray.py reads the list from it. Prints `ready` once it owns its name."""

import dbus
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

WATCHER = "org.kde.StatusNotifierWatcher"
WATCHER_PATH = "/StatusNotifierWatcher"
DEFAULT_ITEM_PATH = "/StatusNotifierItem"


class Watcher(dbus.service.Object):
    def __init__(self, bus):
        super().__init__(bus, WATCHER_PATH)
        self.bus = bus
        self.items = []

    @dbus.service.method(WATCHER, in_signature="s", sender_keyword="sender")
    def RegisterStatusNotifierItem(self, service, sender=None):
        # An item registers either the path of its object or a name on the bus; both forms are in use.
        owner, path = (sender, str(service)) if service.startswith("/") else (str(service), DEFAULT_ITEM_PATH)
        item = owner + path
        if item in self.items:
            return
        self.items.append(item)
        print("registered", item, flush=True)
        self.StatusNotifierItemRegistered(item)
        self.bus.watch_name_owner(owner, lambda name: None if name else self.forget(item))

    @dbus.service.method(WATCHER, in_signature="s")
    def RegisterStatusNotifierHost(self, service):
        self.StatusNotifierHostRegistered()

    @dbus.service.signal(WATCHER, signature="s")
    def StatusNotifierItemRegistered(self, item):
        pass

    @dbus.service.signal(WATCHER, signature="s")
    def StatusNotifierItemUnregistered(self, item):
        pass

    @dbus.service.signal(WATCHER, signature="")
    def StatusNotifierHostRegistered(self):
        pass

    @dbus.service.method(dbus.PROPERTIES_IFACE, in_signature="ss", out_signature="v")
    def Get(self, interface, name):
        return self.GetAll(interface)[name]

    @dbus.service.method(dbus.PROPERTIES_IFACE, in_signature="s", out_signature="a{sv}")
    def GetAll(self, interface):
        return {
            "RegisteredStatusNotifierItems": dbus.Array(self.items, signature="s"),
            "IsStatusNotifierHostRegistered": True,
            "ProtocolVersion": dbus.Int32(0),
        }

    def forget(self, item):
        if item in self.items:
            self.items.remove(item)
            print("left", item, flush=True)
            self.StatusNotifierItemUnregistered(item)


def main():
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    bus = dbus.SessionBus()
    name = dbus.service.BusName(WATCHER, bus, do_not_queue=True)
    watcher = Watcher(bus)
    print("ready", flush=True)
    GLib.MainLoop().run()
    return name, watcher


if __name__ == "__main__":
    main()
