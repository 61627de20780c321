"""Settings modules of sites that are set up in another way; `tox -e variants` runs each of them.

The tests are those of `integration/test_settings_variants.py`, which also run as things ship.
"""
