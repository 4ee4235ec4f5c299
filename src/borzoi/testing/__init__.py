"""What tests of borzoi, and of programs that use it, draw their examples from.

Handed work by test suites only: hypothesis strategies, example values, generators of garbage.
Hands work to the packages whose values it makes. Nothing that runs in a server or a client may
import from here, because hypothesis is not installed with them.
"""
