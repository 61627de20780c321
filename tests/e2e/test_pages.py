"""Every page of ours: no serious fault for axe, in light and dark and from right to left.

With `SCREENSHOTS=docs/images` the pages in light are also the pictures of the documentation.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import screenshots

pytestmark = pytest.mark.timeout(300)
ADMIN = "/admin/indexnow/"
PAGES = {
    "report": f"{ADMIN}urls/",
    "report-filtered": f"{ADMIN}urls/?state=rejected",
    "submissions": f"{ADMIN}submissions/",
    "submission": f"{ADMIN}submissions/{{submission}}/",
    "events": f"{ADMIN}events/",
    "settings": f"{ADMIN}settings/",
    "rotate": f"{ADMIN}settings/keys/www.example.com/rotate/",
    "page-status": f"{ADMIN}pages/{{page}}/",
    "resubmit": "/admin/bulk/wagtail_indexnow/trackedurl/resubmit/?id={url}",
    "dashboard": "/admin/",
}
SERIOUS = ("serious", "critical")


def serious_faults(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [
        f"{fault['id']} ({fault['impact']}): {node['html']}"
        for fault in found
        if fault["impact"] in SERIOUS
        for node in fault["nodes"]
    ]


@pytest.fixture
def paths(museum: dict[str, Any]) -> dict[str, str]:
    ids = {"submission": museum["submission"], "url": museum["url"], "page": museum["pages"][0].pk}
    return {name: path.format(**ids) for name, path in PAGES.items()}


def test_axe_finds_a_fault_where_there_is_one(chromium: Any) -> None:
    page = chromium.new_page()
    page.set_content("<main><img src='data:,'><button></button></main>")

    faults = serious_faults(page)
    page.close()

    assert {fault.split()[0] for fault in faults} >= {"image-alt", "button-name"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_have_no_serious_fault(
    theme: str, open_page: Callable[..., Any], paths: dict[str, str]
) -> None:
    page = open_page("/admin/", theme=theme)
    faults = {}
    for name, path in paths.items():
        page.goto(path)
        faults[name] = serious_faults(page)
        if theme == "light":
            picture(page, name)
    assert not any(faults.values()), faults


def test_editors_menu_has_no_serious_fault(
    open_page: Callable[..., Any], museum: dict[str, Any]
) -> None:
    page = open_page(f"/admin/pages/{museum['pages'][0].pk}/edit/")
    page.get_by_role("button", name="Actions", exact=True).click()
    page.get_by_text("IndexNow: ").wait_for()
    page.wait_for_timeout(500)  # the menu fades in
    picture(page, "editor")

    faults = [fault for fault in serious_faults(page) if "indexnow" in fault.casefold()]

    assert faults == []


def test_pages_from_right_to_left_keep_within_the_window(
    open_page: Callable[..., Any], paths: dict[str, str]
) -> None:
    page = open_page("/admin/", language="ar")
    for name, path in paths.items():
        page.goto(path)
        assert page.locator("html").get_attribute("dir") == "rtl", name
        assert serious_faults(page) == [], name


def test_report_is_usable_by_keyboard(open_page: Callable[..., Any], museum: Any) -> None:
    page = open_page(f"{ADMIN}urls/")

    page.locator("summary").focus()
    page.keyboard.press("Enter")

    page.get_by_role("row", name="12/01/2026").wait_for()


def picture(page: Any, name: str) -> None:
    directory = screenshots()
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=directory / f"{name}.png")
