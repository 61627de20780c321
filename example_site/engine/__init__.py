"""A local IndexNow engine for tests and the demo: loopback only, standard library only.

Rule numbers (``M5``, ``M10`` …) in this package name what the engine checks; every refusal
carries its number in the ``X-Mock-Rule`` header. ``rules.RULES`` lists them.
"""

from example_site.engine.engine import Engine
from example_site.engine.keys import KeyState
from example_site.engine.profiles import PROFILES, Profile
from example_site.engine.records import Answer, RequestRecord

__all__ = ["PROFILES", "Answer", "Engine", "KeyState", "Profile", "RequestRecord"]
