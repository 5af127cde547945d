"""An MCP server over stdio for the flows: `server.py NOTES MODE [WORD…]`. It writes what happens to it to the file NOTES.

Modes: `plain`, and one for each way not to come up: `exits`, `junk`, `hangs`,
`refuses`, `version`.
"""
import json
import os
import sys
import threading
import time

NOTES, MODE, *WORDS = sys.argv[1:]
LOCK = threading.Lock()
CANCELLED = {}


def schema(**properties):
    return {"type": "object", "properties": properties}


TOOLS = [
    {"name": "look", "description": "Gives back its arguments", "annotations": {"readOnlyHint": True},
     "inputSchema": schema(what={"type": "string"}, count={"type": "integer"})},
    {"name": "change", "description": "Notes its argument", "inputSchema": schema(what={"type": "string"})},
    {"name": "drop_table", "description": "Notes that it ran", "inputSchema": schema()},
    {"name": "wait", "description": "Answers only when it is cancelled", "inputSchema": schema()},
    {"name": "env", "description": "Gives an environment value", "inputSchema": schema(name={"type": "string"})},
    {"name": "leak", "description": "Prints its secret", "inputSchema": schema()},
    {"name": "crash", "description": "Ends the process", "inputSchema": schema()},
    {"name": "big", "description": "Gives a long text", "inputSchema": schema(size={"type": "integer"})},
    {"name": "grow", "description": "Adds a tool", "inputSchema": schema()},
]


def note(line):
    with LOCK, open(NOTES, "a", encoding="utf-8") as out:
        out.write(line + "\n")


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(ident, text, failed=False):
    send({"id": ident, "result": {"content": [{"type": "text", "text": text}], "isError": failed}})


def refuse(ident, code, message):
    send({"id": ident, "error": {"code": code, "message": message}})


def wait(ident):
    note("waiting")
    CANCELLED[ident].wait(120)


def call(ident, params):
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "look":
        answer(ident, json.dumps(arguments))
    elif name == "change":
        note("changed " + arguments.get("what", ""))
        answer(ident, "changed")
    elif name == "drop_table":
        note("dropped")
        answer(ident, "dropped")
    elif name == "wait":
        CANCELLED[ident] = threading.Event()
        threading.Thread(target=wait, args=(ident,), daemon=True).start()
    elif name == "env":
        answer(ident, os.environ.get(arguments.get("name", ""), "<unset>"))
    elif name == "leak":
        sys.stderr.write("my secret is " + os.environ.get("SECRET", "<unset>") + "\n")
        sys.stderr.flush()
        refuse(ident, -32000, "could not use " + os.environ.get("SECRET", "<unset>"))
    elif name == "big":
        answer(ident, "ö" * arguments["size"])
    elif name == "crash":
        os._exit(7)
    elif name == "grow":
        TOOLS.append({"name": "late", "inputSchema": schema()})
        send({"method": "notifications/tools/list_changed"})
        answer(ident, "grown")
    else:
        refuse(ident, -32602, "unknown tool")


def handle(message):
    method, ident, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize" and MODE == "refuses":
        refuse(ident, -32000, "bad key " + os.environ.get("SECRET", "<unset>"))
    elif method == "initialize":
        version = WORDS[0] if MODE == "version" else "2025-06-18"
        send({"id": ident, "result": {
            "protocolVersion": version, "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "flows", "version": "1.0"},
        }})
    elif method == "tools/list":
        send({"id": ident, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        call(ident, params)
    elif method == "notifications/cancelled":
        event = CANCELLED.get(params.get("requestId"))
        if event:
            # Here and not in the waiting thread, which the end of the process may overtake.
            note("cancelled")
            event.set()
    elif ident is not None and method:
        refuse(ident, -32601, "method not found")


def main():
    note("started")
    if MODE == "exits":
        sys.stderr.write("no API key\n")
        sys.exit(2)
    if MODE == "junk":
        while True:
            print("this is not the protocol", flush=True)
            time.sleep(0.05)
    if MODE == "hangs":
        for _ in sys.stdin:
            pass
        return
    for line in sys.stdin:
        handle(json.loads(line))
    note("ended")


main()
