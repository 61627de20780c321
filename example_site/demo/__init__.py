"""The whole demo in one command: `python -m example_site.demo`, with `--check` without a person.

Redis, web server, search engine, Dramatiq worker and a loop that runs `publish_scheduled`, each
a process of its own, all on loopback, all ended together.
"""
