"""The adversarial server: one program that does to a client, on demand, what servers do in the field. For tests only.

    python3 -I -S -B tests/adversary lines MODE [WORD…]    over standard input and output
    python3 -I -S -B tests/adversary box NOTES MODE        the same, for flows: notes what happens to it in a file
    python3 -I -S -B tests/adversary web MODE [CERT KEY]   streamable HTTP; prints its port, then each request
    python3 -I -S -B tests/adversary events MODE           the older HTTP+SSE; likewise

What it does, the field report that tells of it, and what is right. A mode decides how it comes up; a tool misbehaves
when it is called, in every mode.

| mode of `lines`, `box`      | report | right |
|---|---|---|
| exits, exit, dies_on_discover | I27 | its code and last lines; tried again with growing pauses, then parked |
| exits_talking               | I27    | the log of a crash loop stays small |
| hang, hangs, refuses        | I16    | the handshake has a bound, and nothing of the try is left |
| junk, banner, tool stray, tool binary | I34 | skipped, kept in the log; the session goes on |
| version V                   | I36    | every version that we know is taken, others are refused by name |
| silent_discover, slow_start, odd, modern, says_32022 | I37 | the era is found, whatever the answer to the probe |
| paged, repeat, endless      | –      | every page once; a list that repeats or has no end is ended |
| duplicate                   | I47    | the first counts, with a warning |
| never_lists, lists_nonsense | –      | it fails in that step, with the reason |
| stubborn, late_child        | I15    | killed with its children, also when eVi was killed |
| offer, only_prompts, no_lists | –    | what it offers beside tools is listed, and nothing else is asked for |
| plain, many; quick.sh       | I11, I12 | no more starts at once than allowed, and all come up |

| tool of `lines`             | report | right |
|---|---|---|
| echo, given                 | I51, I54 | arguments and results arrive as they are |
| grow                        | I38    | the tools are listed again |
| slow, never, block          | –      | the limit holds, is put off by progress, and the server is told |
| told_late                   | –      | progress never falls and is never another's |
| hold, unasked, as_text      | –      | answers find their calls in any order; others are nobody's |
| huge, big, broken           | –      | an error for that call at once; the next one works |
| crash, half                 | –      | the call fails at once, the server comes back |
| asks                        | –      | ping is answered, what was not offered is refused |
| flood                       | I27    | a thousand lines a second do not slow a call |
| argv                        | I06    | its arguments arrive element for element |
| env, leak                   | I66, I68 | values arrive; a secret that it prints is hidden |

| mode of `web`, `events`     | report | right |
|---|---|---|
| single                      | I25    | the session is deleted at the end |
| says400, says401, says503, says200; tool forget | I23 | a new session, and no call is sent twice |
| 307, 401, 403, 404, 429, 503, html | –  | each has its own code, and nothing of the body |
| modern                      | I37    | its headers are sent, tools with wrong marks are left out |
| notices                     | I38    | the tools are listed again |
| foreign, mute, late, lines  | –      | the endpoint must be of the same origin; a silent stream has a bound |
| tools lock, shut            | –      | sign-in needed; stale, with its tools offered meanwhile |
| tools resume, cut, hang, huge, huge_event | – | a stream is gone on with, or its call ends with the reason |
"""
import runpy
import sys

runpy.run_module(sys.argv.pop(1), run_name="__main__")
