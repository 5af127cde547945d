// Made from crates/contract by `cargo xtask gen`; edit there.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Code = "invalid_input" | "unknown_command" | "not_found" | "already_exists" | "read_only" | "config_unreadable" | "storage" | "no_keychain" | "secret_locked" | "mcp_off" | "unavailable" | "upstream_failed" | "unknown_tool" | "forbidden" | "denied" | "invalid_arguments" | "timed_out" | "cancelled" | "rpc" | "port_busy" | "unsafe_address" | "no_model" | "model" | "busy" | "attach" | "internal";
export type Problem = { 
/**
 * Stable word.
 */
code: Code, 
/**
 * What failed.
 */
message: string, 
/**
 * What to try.
 */
hint?: string, 
/**
 * The field of the form it belongs to.
 */
field?: string, };
export type Tag = "app" | "settings" | "upstreams" | "logs" | "tools" | "gateway" | "chats" | "approvals" | "activity";
export type Kind = "query" | "mutation";
export type Nothing = Record<symbol, never>;
export type AppInfo = { 
/**
 * eVi's version.
 */
version: string, 
/**
 * The home.
 */
home: string, 
/**
 * The path of `mcp.json`.
 */
mcp_json: string, 
/**
 * The path of `config.toml`.
 */
config_toml: string, 
/**
 * The folder of logs.
 */
logs: string, 
/**
 * `desktop`, `web`, `serve`, `command`.
 */
shell: string, 
/**
 * Process id of the owner of the home.
 */
pid: number, 
/**
 * Whether secrets can be kept; else why not.
 */
keychain_problem?: Problem, 
/**
 * What was not clear in the files.
 */
config_problems: Array<ConfigProblemView>, 
/**
 * Whether `[tools] mcp` is on.
 */
mcp_on: boolean, };
export type ConfigProblemView = { 
/**
 * The file.
 */
file: string, 
/**
 * From 1.
 */
line?: number, 
/**
 * From 1.
 */
column?: number, 
/**
 * What is wrong.
 */
message: string, 
/**
 * Whether nothing is written to that file until it is mended.
 */
whole_file: boolean, };
export type Settings = { 
/**
 * `[tools] mcp`.
 */
mcp_on: boolean, 
/**
 * `[tools] mcp_allow`.
 */
mcp_allow: Array<string>, 
/**
 * `[llm] base_url`.
 */
base_url: string, 
/**
 * `[llm] model`.
 */
model: string, 
/**
 * Whether a key is set; its value is not shown.
 */
key_set: boolean, 
/**
 * `keychain`, `file`, `environment` or empty.
 */
key_place: string, 
/**
 * `[auto] auto_approve`.
 */
auto_approve: Array<string>, 
/**
 * `[auto] rules`, as written.
 */
rules: Array<string>, 
/**
 * `[auto] hard_deny`.
 */
hard_deny: Array<string>, 
/**
 * The gateway's port.
 */
port: number, };
export type SettingsPatch = { 
/**
 * `[tools] mcp`.
 */
mcp_on?: boolean, 
/**
 * `[tools] mcp_allow`.
 */
mcp_allow?: Array<string>, 
/**
 * `[llm] base_url`.
 */
base_url?: string, 
/**
 * `[llm] model`.
 */
model?: string, };
export type KeySet = { 
/**
 * The key.
 */
key?: string, };
export type FoundModels = { 
/**
 * `Ollama`, `LM Studio`, `llama.cpp`.
 */
title: string, 
/**
 * For `[llm] base_url`.
 */
base_url: string, 
/**
 * Its models.
 */
models: Array<string>, };
export type ModelNames = { 
/**
 * By name.
 */
models: Array<string>, };
export type UpstreamRef = { 
/**
 * Its name.
 */
name: string, };
export type UpstreamStateView = "off" | "mcp_off" | "blocked" | "invalid" | "starting" | "installing" | "ready" | "stale" | "sign_in_needed" | "secret_locked" | "failed" | "parked";
export type UpstreamOptionsView = { 
/**
 * `auto`, `legacy`, `modern`; absent is `auto`.
 */
era?: string, 
/**
 * Seconds that a start may take.
 */
startup_timeout_sec?: number, 
/**
 * Seconds that a call may take without a sign of life.
 */
tool_timeout_sec?: number, 
/**
 * Seconds that a call may take in all.
 */
tool_total_timeout_sec?: number, 
/**
 * A PEM file of certificates that are trusted besides the system's.
 */
ca?: string, };
export type StageView = { 
/**
 * `saved`, `started`, `handshake`, `discovery`.
 */
kind: string, 
/**
 * `pending`, `running`, `done`, `failed`.
 */
state: string, 
/**
 * What it gave, in words.
 */
detail?: string, 
/**
 * Milliseconds.
 */
took_ms?: number, };
export type UpstreamRow = { 
/**
 * Its name.
 */
name: string, 
/**
 * `stdio`, `http`, `sse`.
 */
transport: string, 
/**
 * In one line: command and arguments, or the address. References stay references.
 */
summary: string, 
/**
 * The program, for stdio.
 */
command: string, 
/**
 * Its arguments.
 */
args: Array<string>, 
/**
 * The endpoint, for http and sse.
 */
url: string, 
/**
 * Its working folder.
 */
cwd?: string, 
/**
 * Its settings.
 */
options: UpstreamOptionsView, 
/**
 * Names of its env values.
 */
env_keys: Array<string>, 
/**
 * Names of its headers.
 */
header_keys: Array<string>, 
/**
 * Those of both that are in the keychain.
 */
secret_keys: Array<string>, 
/**
 * Its switch.
 */
enabled: boolean, 
/**
 * The plugin it belongs to; then it is read-only.
 */
plugin?: string, 
/**
 * How it is doing.
 */
state: UpstreamStateView, 
/**
 * The steps.
 */
stages: Array<StageView>, 
/**
 * What failed.
 */
problem?: Problem, 
/**
 * Stable word for the failure (`program_not_found`, …).
 */
failure?: string, 
/**
 * The last lines of its stderr, where it failed.
 */
stderr: Array<string>, 
/**
 * How many tools it has.
 */
tools: number, 
/**
 * What it calls itself, with version.
 */
server?: string, 
/**
 * The protocol version in use.
 */
protocol?: string, 
/**
 * Process id.
 */
pid?: number, };
export type LogLineView = { 
/**
 * When, in milliseconds since 1970.
 */
at_ms: number, 
/**
 * `stderr`, `stdout`, `evi`.
 */
stream: string, 
/**
 * The line.
 */
text: string, };
export type UpstreamLog = { 
/**
 * Oldest first.
 */
lines: Array<LogLineView>, };
export type ParseText = { 
/**
 * The text.
 */
text: string, };
export type UpstreamDraft = { 
/**
 * Its name.
 */
name: string, 
/**
 * `stdio`, `http`, `sse`.
 */
transport: string, 
/**
 * The program, for stdio.
 */
command: string, 
/**
 * Its arguments.
 */
args: Array<string>, 
/**
 * Its working folder.
 */
cwd?: string, 
/**
 * The endpoint, for http and sse.
 */
url: string, 
/**
 * Env values.
 */
env: Array<DraftValue>, 
/**
 * Headers.
 */
headers: Array<DraftValue>, 
/**
 * Its settings; absent keeps what is stored.
 */
options?: UpstreamOptionsView, };
export type DraftValue = { 
/**
 * Its name.
 */
key: string, 
/**
 * Its value; absent keeps what is stored.
 */
value?: string, 
/**
 * Whether it goes to the keychain; what looks like a reference stays one in the file.
 */
secret: boolean, };
export type ParsedUpstream = { 
/**
 * One draft for each server that was found.
 */
drafts: Array<UpstreamDraft>, 
/**
 * Where the first one's program was found.
 */
resolved?: string, 
/**
 * What was not clear.
 */
problem?: Problem, 
/**
 * What to look at twice: a shell with `-c`, a mangled argument.
 */
warnings: Array<string>, };
export type UpstreamAdd = { 
/**
 * The server.
 */
draft: UpstreamDraft, 
/**
 * Whether it is on.
 */
enabled: boolean, 
/**
 * Whether a server of that name is replaced.
 */
overwrite: boolean, 
/**
 * Whether `[tools] mcp` is switched on with it, as a window does with the first one.
 */
turn_on_mcp: boolean, };
export type UpstreamAdded = { 
/**
 * Its name.
 */
name: string, 
/**
 * In one line.
 */
summary: string, 
/**
 * Whether `[tools] mcp` was off and is on now.
 */
turned_on_mcp: boolean, 
/**
 * Whether `[tools] mcp` is on.
 */
mcp_on: boolean, };
export type UpstreamEdit = { 
/**
 * Which.
 */
name: string, 
/**
 * What it becomes; its name is `name` still.
 */
draft: UpstreamDraft, };
export type UpstreamRename = { 
/**
 * Which.
 */
name: string, 
/**
 * Its new name.
 */
to: string, };
export type UpstreamSwitch = { 
/**
 * Which.
 */
name: string, 
/**
 * On or off.
 */
enabled: boolean, };
export type UpstreamSettle = { 
/**
 * Only this one.
 */
name?: string, };
export type PluginRef = { 
/**
 * Its name.
 */
name: string, };
export type PluginSwitch = { 
/**
 * Its name.
 */
name: string, 
/**
 * On or off.
 */
enabled: boolean, };
export type PluginRow = { 
/**
 * Its folder's name.
 */
name: string, 
/**
 * Whether it is on.
 */
enabled: boolean, 
/**
 * Its version.
 */
version?: string, 
/**
 * What it says it is for, on one line.
 */
description: string, 
/**
 * Its servers: `<plugin>:<server>`.
 */
servers: Array<string>, 
/**
 * Its commands, which are prompts: `<plugin>:<command>`.
 */
commands: Array<string>, 
/**
 * How many skills lie in it.
 */
skills: number, 
/**
 * What is not clear in its files.
 */
problem?: Problem, };
export type PluginRemoved = { 
/**
 * Its name.
 */
name: string, 
/**
 * Its folder in the trash.
 */
moved_to: string, };
export type ToolRow = { 
/**
 * As shown and as used to call it: `filesystem.read_file`, `remember`.
 */
name: string, 
/**
 * The server it belongs to; absent for eVi's own.
 */
server?: string, 
/**
 * The category, for eVi's own.
 */
category?: string, 
/**
 * Its title.
 */
title?: string, 
/**
 * What it says it does.
 */
description: string, 
/**
 * JSON Schema of its arguments.
 */
input_schema: Json, 
/**
 * Whether it says that it only reads; a hint for servers, a fact for eVi's own.
 */
read_only: boolean, 
/**
 * Whether it says that it may destroy something.
 */
destructive: boolean, 
/**
 * Its switch.
 */
enabled: boolean, 
/**
 * The name a model sees.
 */
model_name: string, 
/**
 * Whether clients of the gateway see it.
 */
shared: boolean, };
export type ToolList = { 
/**
 * In the order of servers, eVi's own last.
 */
tools: Array<ToolRow>, 
/**
 * Servers that are on and have no tools to show, with the reason.
 */
missing: Array<MissingServer>, };
export type MissingServer = { 
/**
 * Which.
 */
server: string, 
/**
 * Why.
 */
problem: Problem, };
export type ToolSwitch = { 
/**
 * As shown.
 */
tool: string, 
/**
 * On or off.
 */
enabled: boolean, };
export type ToolCallRequest = { 
/**
 * As shown.
 */
tool: string, 
/**
 * A JSON object.
 */
arguments: Json, 
/**
 * An identity chosen by the caller, to cancel by.
 */
call?: string, 
/**
 * Of a large result only the beginning, and a handle for the rest.
 */
paged?: boolean, };
export type CallView = { 
/**
 * Its identity.
 */
call: string, 
/**
 * The tool as shown.
 */
tool: string, 
/**
 * `ok` or `tool_error`; a call without a result is a problem instead.
 */
outcome: string, 
/**
 * The result object, whole; of one that is `kept` only its pictures.
 */
result: Json, 
/**
 * Flattened to text; of one that is `kept` only the beginning.
 */
text: string, 
/**
 * Milliseconds.
 */
took_ms: number, 
/**
 * How many bytes the result object has.
 */
bytes: number, 
/**
 * Where the whole can be read, when this is not it.
 */
kept?: KeptView, };
export type KeptView = { 
/**
 * Its handle for `result_read`.
 */
handle: string, 
/**
 * How many characters the flattened result has.
 */
chars: number, };
export type CallRef = { 
/**
 * Its identity.
 */
call: string, };
export type ActivityRow = { 
/**
 * Its identity.
 */
call: string, 
/**
 * When, in milliseconds since 1970.
 */
at_ms: number, 
/**
 * `chat`, `person`, or the client's name.
 */
caller: string, 
/**
 * The tool as shown.
 */
tool: string, 
/**
 * Redacted.
 */
arguments: string, 
/**
 * `ok`, `tool_error`, or why there was no result.
 */
outcome: string, 
/**
 * Milliseconds.
 */
took_ms: number, };
export type ResultRead = { 
/**
 * Its handle.
 */
handle: string, 
/**
 * The conversation that it belongs to; absent for one of a call by the person.
 */
chat?: string, 
/**
 * Its JSON instead of the flattened text.
 */
raw?: boolean, 
/**
 * The character to begin at.
 */
offset?: number, 
/**
 * The most characters; at most 1,000,000.
 */
limit: number, };
export type ResultPage = { 
/**
 * The part.
 */
text: string, 
/**
 * The character that it begins at.
 */
offset: number, 
/**
 * Where the next one begins; absent at the end.
 */
next?: number, 
/**
 * How many characters there are.
 */
total: number, };
export type OfferQuery = { 
/**
 * Only this server's.
 */
server?: string, };
export type ResourceRow = { 
/**
 * The server it belongs to.
 */
server: string, 
/**
 * Its address; of a template, the address with variables (RFC 6570).
 */
uri: string, 
/**
 * Whether it is a template.
 */
template: boolean, 
/**
 * Its name.
 */
name: string, 
/**
 * Its title.
 */
title?: string, 
/**
 * What it is.
 */
description: string, 
/**
 * Its media type.
 */
mime?: string, 
/**
 * Bytes, as its server says.
 */
size?: number, 
/**
 * The definition as its server gave it.
 */
definition: Json, };
export type ResourceList = { 
/**
 * In the order of servers; each server's templates last.
 */
resources: Array<ResourceRow>, 
/**
 * Servers that are on and have nothing to show, with the reason.
 */
missing: Array<MissingServer>, };
export type ResourceRead = { 
/**
 * Whose.
 */
server: string, 
/**
 * Its address, without variables.
 */
uri: string, 
/**
 * An identity chosen by the caller, to cancel by.
 */
call?: string, };
export type ResourceView = { 
/**
 * The result object, whole: `contents` holds texts, and blobs as base64.
 */
result: Json, 
/**
 * Its texts; a blob is `[image/png, 12 bytes]`.
 */
text: string, 
/**
 * Milliseconds.
 */
took_ms: number, };
export type PromptRow = { 
/**
 * The server it belongs to.
 */
server: string, 
/**
 * Its name.
 */
name: string, 
/**
 * Its title.
 */
title?: string, 
/**
 * What it is for.
 */
description: string, 
/**
 * Its arguments, each a text.
 */
arguments: Array<PromptArgument>, 
/**
 * The definition as its server gave it.
 */
definition: Json, };
export type PromptArgument = { 
/**
 * Its name.
 */
name: string, 
/**
 * Its title.
 */
title?: string, 
/**
 * What it is for.
 */
description: string, 
/**
 * Whether it must be given.
 */
required: boolean, };
export type PromptList = { 
/**
 * In the order of servers.
 */
prompts: Array<PromptRow>, 
/**
 * Servers that are on and have nothing to show, with the reason.
 */
missing: Array<MissingServer>, };
export type PromptGet = { 
/**
 * Whose.
 */
server: string, 
/**
 * Its name.
 */
name: string, 
/**
 * By name.
 */
arguments: { [key in string]: string }, 
/**
 * An identity chosen by the caller, to cancel by.
 */
call?: string, };
export type PromptView = { 
/**
 * The result object, whole.
 */
result: Json, 
/**
 * Its messages, each behind its role.
 */
text: string, 
/**
 * Milliseconds.
 */
took_ms: number, };
export type CompletionOf = { "kind": "prompt", 
/**
 * The prompt.
 */
name: string, } | { "kind": "template", 
/**
 * The address with variables.
 */
uri: string, };
export type CompletionAsk = { 
/**
 * Which server.
 */
server: string, 
/**
 * Of what.
 */
ref: CompletionOf, 
/**
 * The argument or variable.
 */
argument: string, 
/**
 * What is typed so far.
 */
value: string, 
/**
 * The other arguments that have a value.
 */
others?: { [key in string]: string }, };
export type Completion = { 
/**
 * In its order, at most 100.
 */
values: Array<string>, 
/**
 * Whether there are more.
 */
more: boolean, };
export type ServerAbout = { 
/**
 * Its name for programs.
 */
name: string, 
/**
 * Its version.
 */
version: string, 
/**
 * Its name for people.
 */
title?: string, 
/**
 * What it is.
 */
description?: string, 
/**
 * Its address in the web: to show, never to open by itself.
 */
website?: string, 
/**
 * A picture that it brought along, as a `data:` address; one that would have to be fetched is left out.
 */
icon?: string, 
/**
 * What it says about the use of what it offers.
 */
instructions?: string, 
/**
 * Whether it suggests values for arguments.
 */
completes: boolean, 
/**
 * How many resources it has, and templates.
 */
resources: number, 
/**
 * How many prompts it has.
 */
prompts: number, };
export type GatewayView = { 
/**
 * The switch.
 */
enabled: boolean, 
/**
 * `off`, `starting`, `running`, `failed`.
 */
state: string, 
/**
 * Why it does not run.
 */
problem?: Problem, 
/**
 * `http://127.0.0.1:8765/mcp`.
 */
address: string, 
/**
 * The port.
 */
port: number, 
/**
 * The token with all but its ends hidden.
 */
token_hint: string, 
/**
 * Whether the token is in the keychain; else it lasts until eVi ends.
 */
token_kept: boolean, 
/**
 * Who is connected.
 */
clients: Array<ClientRow>, 
/**
 * What the profile `default` shares of the servers.
 */
shares: Array<ShareRow>, 
/**
 * What it shares of eVi's own tools.
 */
categories: Array<CategoryRow>, 
/**
 * How many tools a client with the profile `default` sees.
 */
tools: number, };
export type ClientRow = { 
/**
 * What it calls itself.
 */
name: string, 
/**
 * Its version.
 */
version: string, 
/**
 * `http` or `stdio`.
 */
transport: string, 
/**
 * Since when, in milliseconds since 1970.
 */
since_ms: number, 
/**
 * Its last call.
 */
last_call_ms?: number, };
export type ShareRow = { 
/**
 * Which.
 */
server: string, 
/**
 * How many tools it has now.
 */
tools: number, 
/**
 * How it is shared; absent when it is not.
 */
mode?: ShareModeView, };
export type ShareModeView = "full" | "read_only" | "ask";
export type CategoryRow = { 
/**
 * Which.
 */
category: string, 
/**
 * How many tools it has.
 */
tools: number, 
/**
 * Shared or not.
 */
shared: boolean, };
export type ShareSet = { 
/**
 * Which.
 */
server: string, 
/**
 * How; absent: not.
 */
mode?: ShareModeView, };
export type CategorySet = { 
/**
 * Which.
 */
category: string, 
/**
 * Shared or not.
 */
shared: boolean, };
export type Switch = { 
/**
 * On or off.
 */
enabled: boolean, };
export type PortSet = { 
/**
 * 1 to 65535.
 */
port: number, };
export type TokenText = { 
/**
 * The token.
 */
token: string, };
export type ConnectQuery = { 
/**
 * `claude-desktop`, `cursor`, …; absent: the common block.
 */
client?: string, 
/**
 * Over HTTP with the token, in place of stdio.
 */
http: boolean, 
/**
 * Value of `--categories`.
 */
categories?: string, 
/**
 * Value of `--profile`.
 */
profile?: string, };
export type ConnectText = { 
/**
 * For which application.
 */
client: string, 
/**
 * Its name for people.
 */
title: string, 
/**
 * The file it belongs to, if known.
 */
file?: string, 
/**
 * `json`, `toml` or `yaml`.
 */
language: string, 
/**
 * The block. Over HTTP it says where to put the token and does not hold it.
 */
text: string, 
/**
 * The command that the application will run, element for element; empty over HTTP.
 */
command: Array<string>, };
export type ClientKind = { 
/**
 * `claude-desktop`, …
 */
id: string, 
/**
 * `Claude Desktop`, …
 */
title: string, 
/**
 * Whether it can connect over HTTP.
 */
http: boolean, };
export type ConnectCheck = { 
/**
 * The command, element for element.
 */
command: Array<string>, 
/**
 * The steps.
 */
stages: Array<StageView>, 
/**
 * What failed.
 */
problem?: Problem, 
/**
 * The last lines of its stderr, where it failed.
 */
stderr: Array<string>, };
export type ChatRow = { 
/**
 * Its identity.
 */
id: string, 
/**
 * Its title.
 */
title: string, 
/**
 * When it last changed, in milliseconds since 1970.
 */
updated_ms: number, 
/**
 * Whether a turn is running.
 */
running: boolean, };
export type ChatRef = { 
/**
 * Its identity.
 */
chat: string, };
export type ChatView = { 
/**
 * Its identity.
 */
id: string, 
/**
 * Its title.
 */
title: string, 
/**
 * Oldest first. The last may still grow while `running`.
 */
messages: Array<MessageView>, 
/**
 * Whether a turn is running.
 */
running: boolean, 
/**
 * Calls that wait for an answer.
 */
approvals: Array<ApprovalView>, };
export type MessageView = { 
/**
 * Its identity.
 */
id: string, 
/**
 * When, in milliseconds since 1970.
 */
at_ms: number, 
/**
 * `user`, `assistant`, `tool`.
 */
role: string, 
/**
 * Its text.
 */
text: string, 
/**
 * The calls it asks for, with how they stand.
 */
calls: Array<CallRow>, 
/**
 * Why it ends early: `stopped`, or an error.
 */
ended?: string, };
export type CallRow = { 
/**
 * Its identity.
 */
call: string, 
/**
 * The tool as shown.
 */
tool: string, 
/**
 * The server, for tools of servers.
 */
server?: string, 
/**
 * The exact arguments.
 */
arguments: Json, 
/**
 * `waiting` for the person, `running`, `ok`, `tool_error`, or why there was no result.
 */
state: string, 
/**
 * Milliseconds.
 */
took_ms?: number, 
/**
 * Flattened result, or its beginning, or the reason.
 */
text?: string, 
/**
 * The result object, whole, where it is small.
 */
result?: Json, 
/**
 * How many characters the flattened result has, where `text` is only its beginning.
 */
chars?: number, 
/**
 * Its handle for `result_read`, where it is kept whole.
 */
kept?: string, };
export type ChatSend = { 
/**
 * In which.
 */
chat?: string, 
/**
 * What.
 */
text: string, };
export type ChatSent = { 
/**
 * In which conversation.
 */
chat: string, 
/**
 * The turn.
 */
turn: string, };
export type ChatRename = { 
/**
 * Which.
 */
chat: string, 
/**
 * Its new title.
 */
title: string, };
export type ApprovalView = { 
/**
 * The call.
 */
call: string, 
/**
 * The conversation it belongs to, if any.
 */
chat?: string, 
/**
 * Who asks: `chat`, or the client's name.
 */
caller: string, 
/**
 * The tool as shown.
 */
tool: string, 
/**
 * The server, for tools of servers.
 */
server?: string, 
/**
 * The exact arguments.
 */
arguments: Json, 
/**
 * Why it is asked.
 */
reason: string, 
/**
 * When it becomes a denial by itself, in milliseconds since 1970; absent: it waits.
 */
until_ms?: number, };
export type Answer = "allow_once" | "allow_for_chat" | "deny";
export type ApprovalAnswer = { 
/**
 * The call.
 */
call: string, 
/**
 * The answer.
 */
answer: Answer, };
export type Event = { "kind": "invalidated", 
/**
 * Which.
 */
tags: Array<Tag>, } | { "kind": "turn", 
/**
 * In which conversation.
 */
chat: string, 
/**
 * How.
 */
event: TurnEventView, };
export type TurnEventView = { "step": "text", 
/**
 * What was added.
 */
delta: string, } | { "step": "reasoning", 
/**
 * What was added.
 */
delta: string, } | { "step": "call", 
/**
 * The call.
 */
call: CallRow, } | { "step": "message", 
/**
 * The message.
 */
message: MessageView, } | { "step": "ended", 
/**
 * `done`, `stopped`, or an error in words.
 */
reason: string, };

export interface CommandMap {
  /** Facts about this run */
  app_info: [Nothing, AppInfo];
  /** What can be set, without secrets */
  settings_get: [Nothing, Settings];
  /** Changes settings */
  settings_update: [SettingsPatch, Settings];
  /** Puts the model's key into the keychain, or deletes it */
  model_key_set: [KeySet, Settings];
  /** Looks for model servers on this machine */
  model_discover: [Nothing, Array<FoundModels>];
  /** Lists the models of the configured endpoint */
  model_list: [Nothing, ModelNames];
  /** Every configured server with its state */
  upstream_list: [Nothing, Array<UpstreamRow>];
  /** One server with its state */
  upstream_get: [UpstreamRef, UpstreamRow];
  /** The last lines of a server's log */
  upstream_log: [UpstreamRef, UpstreamLog];
  /** Splits a pasted command line, address or settings block */
  upstream_parse: [ParseText, ParsedUpstream];
  /** Adds a server */
  upstream_add: [UpstreamAdd, UpstreamAdded];
  /** Changes a server; values that are not given stay */
  upstream_edit: [UpstreamEdit, UpstreamRow];
  /** Renames a server; its secrets stay with it */
  upstream_rename: [UpstreamRename, UpstreamRow];
  /** Removes a server and its secrets */
  upstream_remove: [UpstreamRef, Nothing];
  /** Switches a server */
  upstream_set_enabled: [UpstreamSwitch, UpstreamRow];
  /** Stops a server and starts it again */
  upstream_restart: [UpstreamRef, UpstreamRow];
  /** Waits until no server is on its way, starting them for this command where [tools] mcp is off */
  upstream_settle: [UpstreamSettle, Array<UpstreamRow>];
  /** Every plugin with what it brings */
  plugin_list: [Nothing, Array<PluginRow>];
  /** Switches a plugin with all that it brings */
  plugin_set_enabled: [PluginSwitch, PluginRow];
  /** Moves a plugin's folder into the trash */
  plugin_remove: [PluginRef, PluginRemoved];
  /** Every tool there is now */
  tool_list: [Nothing, ToolList];
  /** Switches a tool */
  tool_set_enabled: [ToolSwitch, Nothing];
  /** Calls a tool for the person */
  tool_call: [ToolCallRequest, CallView];
  /** A part of a result that was too large to be shown whole */
  result_read: [ResultRead, ResultPage];
  /** Cancels a call */
  call_cancel: [CallRef, Nothing];
  /** The newest calls */
  activity_list: [Nothing, Array<ActivityRow>];
  /** What can be read at the servers, and how */
  resource_list: [OfferQuery, ResourceList];
  /** Reads a resource for the person */
  resource_read: [ResourceRead, ResourceView];
  /** The prompts of the servers */
  prompt_list: [OfferQuery, PromptList];
  /** Gets a prompt's messages for the person */
  prompt_get: [PromptGet, PromptView];
  /** Values that a server suggests for an argument or a variable */
  completion_get: [CompletionAsk, Completion];
  /** What a server says of itself */
  upstream_about: [UpstreamRef, ServerAbout];
  /** The served endpoint */
  gateway_get: [Nothing, GatewayView];
  /** Starts or stops the served endpoint */
  gateway_set_enabled: [Switch, GatewayView];
  /** Changes the port */
  gateway_set_port: [PortSet, GatewayView];
  /** Gives the token, because the person asked for it */
  gateway_token_copy: [Nothing, TokenText];
  /** Makes a new token; the old one ends at once */
  gateway_token_replace: [Nothing, GatewayView];
  /** Shares a server with the clients of the gateway, or not */
  share_set: [ShareSet, GatewayView];
  /** Shares a category of eVi's own tools, or not */
  category_set: [CategorySet, GatewayView];
  /** The applications that eVi can write the block for */
  connect_clients: [Nothing, Array<ClientKind>];
  /** The block that connects another application */
  connect_text: [ConnectQuery, ConnectText];
  /** Starts eVi exactly as the application will and says how it went */
  connect_check: [ConnectQuery, ConnectCheck];
  /** Every conversation, newest first */
  chat_list: [Nothing, Array<ChatRow>];
  /** One conversation */
  chat_get: [ChatRef, ChatView];
  /** Says something; the turn goes on in events */
  chat_send: [ChatSend, ChatSent];
  /** Ends the running turn and cancels its call */
  chat_stop: [ChatRef, Nothing];
  /** Renames a conversation */
  chat_rename: [ChatRename, Nothing];
  /** Deletes a conversation */
  chat_delete: [ChatRef, Nothing];
  /** Calls that wait for an answer */
  approval_list: [Nothing, Array<ApprovalView>];
  /** Answers a call that waits */
  approval_answer: [ApprovalAnswer, Nothing];
}

export type Command = keyof CommandMap;

export const commands: Record<Command, { kind: Kind; tags: readonly Tag[] }> = {
  app_info: { kind: "query", tags: ["app","settings"] },
  settings_get: { kind: "query", tags: ["settings"] },
  settings_update: { kind: "mutation", tags: ["settings","app","upstreams","tools","gateway"] },
  model_key_set: { kind: "mutation", tags: ["settings"] },
  model_discover: { kind: "query", tags: [] },
  model_list: { kind: "query", tags: ["settings"] },
  upstream_list: { kind: "query", tags: ["upstreams"] },
  upstream_get: { kind: "query", tags: ["upstreams"] },
  upstream_log: { kind: "query", tags: ["logs"] },
  upstream_parse: { kind: "query", tags: [] },
  upstream_add: { kind: "mutation", tags: ["upstreams","tools","settings","app","gateway"] },
  upstream_edit: { kind: "mutation", tags: ["upstreams","tools","gateway"] },
  upstream_rename: { kind: "mutation", tags: ["upstreams","tools","gateway"] },
  upstream_remove: { kind: "mutation", tags: ["upstreams","tools","gateway"] },
  upstream_set_enabled: { kind: "mutation", tags: ["upstreams","tools","gateway"] },
  upstream_restart: { kind: "mutation", tags: ["upstreams","tools"] },
  upstream_settle: { kind: "mutation", tags: ["upstreams","tools"] },
  plugin_list: { kind: "query", tags: ["upstreams","settings"] },
  plugin_set_enabled: { kind: "mutation", tags: ["upstreams","tools","settings","gateway"] },
  plugin_remove: { kind: "mutation", tags: ["upstreams","tools","settings","gateway"] },
  tool_list: { kind: "query", tags: ["tools"] },
  tool_set_enabled: { kind: "mutation", tags: ["tools","gateway"] },
  tool_call: { kind: "mutation", tags: ["activity"] },
  result_read: { kind: "query", tags: [] },
  call_cancel: { kind: "mutation", tags: [] },
  activity_list: { kind: "query", tags: ["activity"] },
  resource_list: { kind: "query", tags: ["tools"] },
  resource_read: { kind: "query", tags: [] },
  prompt_list: { kind: "query", tags: ["tools"] },
  prompt_get: { kind: "query", tags: [] },
  completion_get: { kind: "query", tags: [] },
  upstream_about: { kind: "query", tags: ["tools"] },
  gateway_get: { kind: "query", tags: ["gateway"] },
  gateway_set_enabled: { kind: "mutation", tags: ["gateway"] },
  gateway_set_port: { kind: "mutation", tags: ["gateway","settings"] },
  gateway_token_copy: { kind: "mutation", tags: [] },
  gateway_token_replace: { kind: "mutation", tags: ["gateway"] },
  share_set: { kind: "mutation", tags: ["gateway","tools"] },
  category_set: { kind: "mutation", tags: ["gateway","tools"] },
  connect_clients: { kind: "query", tags: [] },
  connect_text: { kind: "query", tags: ["gateway"] },
  connect_check: { kind: "mutation", tags: [] },
  chat_list: { kind: "query", tags: ["chats"] },
  chat_get: { kind: "query", tags: ["chats","approvals"] },
  chat_send: { kind: "mutation", tags: ["chats"] },
  chat_stop: { kind: "mutation", tags: ["chats","approvals"] },
  chat_rename: { kind: "mutation", tags: ["chats"] },
  chat_delete: { kind: "mutation", tags: ["chats","approvals"] },
  approval_list: { kind: "query", tags: ["approvals"] },
  approval_answer: { kind: "mutation", tags: ["approvals"] },
};
