"""Tell IndexNow search engines about every public URL that changes on a Wagtail site."""

__version__ = "0.1.0"
