"""What can go wrong in the demo."""


class DemoError(Exception):
    """Something of the demo does not start, ended by itself, or did the wrong thing."""


class Interrupted(BaseException):
    """A signal asks the demo to end. Not an `Exception`: no handler may swallow it."""
