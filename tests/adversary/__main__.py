"""The adversarial server: one program that does to a client, on demand, what servers do in the field. For tests only.

    python3 -I -S -B tests/adversary lines MODE [WORD…]    over standard input and output
    python3 -I -S -B tests/adversary box NOTES MODE        the same, for flows: notes what happens to it in a file
    python3 -I -S -B tests/adversary web MODE              streamable HTTP; prints its port, then each request
    python3 -I -S -B tests/adversary events MODE           the older HTTP+SSE; likewise
"""
import runpy
import sys

runpy.run_module(sys.argv.pop(1), run_name="__main__")
