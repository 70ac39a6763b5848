"""The search page over several collections in a browser: all at once, orders, images, the keyboard, filters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clients import a_document, fill
from tests.support.search_site import Site, Tab, chromium, tab_of, violations
from tests.support.servers import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = [pytest.mark.process, pytest.mark.slow]
IMAGES = "https://images.example.com/"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
LAMPS = [
    a_document(
        f"lamp-{number}",
        f"a lamp with a warm light, number {number}",
        title=f"Lamp {number}",
        url=f"https://example.com/lamps/{number}",
        updated_at=f"2026-04-{1 + number * 7 % 20:02}T10:00:00Z",
        metadata={
            "price": number * 37 % 100,
            "material": ["oak", "steel"][number % 2],
            "layout": ["wide", "narrow"][number % 2],
            **({"image": f"{IMAGES}{number}.png"} if number % 2 else {}),
            **({"draft": number == 0} if number < 3 else {}),
            **({"wattage": number} if number < 4 else {}),
        },
    )
    for number in range(20)
]
CHAIRS = [
    a_document(
        f"chair-{number}",
        f"a chair beside a lamp, number {number}",
        title=f"Chair {number}",
        updated_at=f"2026-05-{1 + number:02}T10:00:00Z",
        metadata={"image": ["javascript:alert(1)", "data:image/png;base64,AAAA", f"{IMAGES}gone.png"][number % 3]},
    )
    for number in range(6)
]
ALL = "#q=lamp&in=*&by=lexical"
ONE = "#q=lamp&in=lamps&by=lexical"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    fill(folder, "lamps", LAMPS)
    fill(folder, "chairs", CHAIRS)
    return folder


@pytest.fixture(scope="module")
def site(browser: Browser, store: Path) -> Iterator[Site]:
    served = Served(store, "")
    with served.run():
        yield Site(f"http://127.0.0.1:{served.port}/", served)


@pytest.fixture
def tab(browser: Browser, site: Site) -> Iterator[Tab]:
    with tab_of(browser, site.address) as opened:
        opened.elsewhere = IMAGES
        opened.page.route(f"{IMAGES}**", _pixel)
        yield opened


def _pixel(route: Route) -> None:
    if route.request.url.endswith("gone.png"):
        route.fulfill(status=404)
    else:
        route.fulfill(body=PIXEL, content_type="image/png")


def show(tab: Tab, fragment: str) -> None:
    tab.open(fragment)
    tab.ready()


def status(tab: Tab) -> str:
    return tab.page.get_by_role("status").first.inner_text()


def searches(tab: Tab) -> list[dict[str, Any]]:
    """The bodies of the searches that the page sends from now on."""
    sent: list[dict[str, Any]] = []
    tab.page.on("request", lambda one: sent.append(json.loads(one.post_data or "")) if "/search" in one.url else None)
    return sent


# -- all collections -------------------------------------------------------------------------------------------------


def test_without_a_default_all_collections_are_searched_at_once(tab: Tab) -> None:
    show(tab, "#q=lamp")
    assert tab.page.locator("#collection").input_value() == "*"
    assert "in 2 of 2 collections" in status(tab)
    places = tab.page.locator("#results .path > :first-child").all_inner_texts()
    assert set(places) == {"lamps", "chairs"}


def test_more_results_go_through_all_of_them_once(tab: Tab) -> None:
    show(tab, ALL)
    more = tab.page.get_by_role("button", name="More results")
    seen = 12
    while more.is_visible():
        more.click()
        tab.ready()
        tab.until(f"document.querySelectorAll('#results h2').length > {seen}")
        seen = len(tab.titles())
    assert sorted(tab.titles()) == sorted(one.title or "" for one in (*LAMPS, *CHAIRS))


def test_a_document_of_one_opens_and_the_way_back_leads_to_all(tab: Tab) -> None:
    show(tab, ALL)
    chair = next(one for one in tab.titles() if one.startswith("Chair"))
    tab.page.get_by_role("link", name=chair, exact=True).click()
    tab.page.get_by_role("heading", level=1, name=chair).wait_for()
    tab.page.locator(".chunk mark").first.wait_for()
    tab.page.get_by_role("link", name="← Results").click()
    tab.ready()
    assert tab.page.locator("#collection").input_value() == "*"
    tab.until(f"document.activeElement.innerText === {json.dumps(chair)}")


def test_one_that_fails_is_left_out_and_counted(tab: Tab) -> None:
    def refuse_chairs(route: Route) -> None:
        if '"chairs"' in (route.request.post_data or ""):
            route.fulfill(status=503, json={"error": "x", "message": "busy", "request_id": "r"})
        else:
            route.continue_()

    tab.page.route("**/search", refuse_chairs)
    show(tab, ALL)
    assert "in 1 of 2 collections" in status(tab)
    assert tab.titles() and all(one.startswith("Lamp") for one in tab.titles())
    tab.page.unroute("**/search")
    tab.page.route("**/search", lambda route: route.fulfill(status=503, json={"message": "all are busy"}))
    tab.open(ALL)
    tab.page.get_by_role("alert").get_by_text("All are busy.").wait_for()


def test_a_collection_is_chosen_and_all_again(tab: Tab) -> None:
    show(tab, ALL)
    tab.page.locator("#collection").select_option("chairs")
    tab.page.locator("#results h2", has_text="Chair").first.wait_for()
    tab.ready()
    assert all(one.startswith("Chair") for one in tab.titles())
    tab.page.locator("#collection").select_option("all collections")
    tab.page.get_by_text("in 2 of 2 collections").wait_for()


def test_completions_are_words_of_several_collections(tab: Tab) -> None:
    tab.open("#in=*")
    tab.page.locator("#mode option").first.wait_for(state="attached")
    tab.page.locator("#query").press_sequentially("besi")
    tab.page.get_by_role("option", name="beside").wait_for()


# -- orders ----------------------------------------------------------------------------------------------------------


def test_documents_are_sorted_by_a_number_and_the_address_says_so(tab: Tab) -> None:
    show(tab, ONE)
    tab.page.locator("#sort option", has_text="Price, highest first").wait_for(state="attached")
    by_relevance = tab.titles()
    tab.page.locator("#sort").select_option("Price, highest first")
    tab.until(f"document.querySelector('#results h2').innerText !== {json.dumps(by_relevance[0])}")
    tab.ready()
    dearest = sorted(LAMPS, key=lambda one: -int(str(one.metadata["price"])))
    assert tab.titles() == [one.title for one in dearest[:12]]
    assert status(tab).startswith("The first 12 documents")
    tab.page.reload()
    tab.page.locator("#sort option", has_text="Price, highest first").wait_for(state="attached")
    tab.ready()
    assert tab.titles() == [one.title for one in dearest[:12]]
    assert tab.page.locator("#sort").input_value() == "price descending"


def test_all_collections_are_sorted_by_date(tab: Tab) -> None:
    for label, descends in (("newest first", True), ("oldest first", False)):
        show(tab, ALL)
        tab.page.locator("#sort").select_option(label)
        tab.page.get_by_text("The first 12 documents").wait_for()
        tab.ready()
        tab.page.get_by_role("button", name="More results").click()
        tab.until("document.querySelectorAll('#results h2').length === 24")
        dates = tab.page.locator("#results time").evaluate_all("all => all.map(one => one.dateTime)")
        assert dates == sorted(dates, reverse=descends)


def test_fields_that_few_documents_have_are_no_order(tab: Tab) -> None:
    show(tab, ONE)
    tab.page.locator("#sort option", has_text="Price").first.wait_for(state="attached")
    assert not [one for one in tab.page.locator("#sort option").all_inner_texts() if "attage" in one]


# -- images ----------------------------------------------------------------------------------------------------------


def test_a_document_with_an_image_has_a_thumbnail_and_its_host_learns_nothing_of_the_page(tab: Tab) -> None:
    headers: list[dict[str, str]] = []
    tab.page.on("request", lambda one: headers.append(one.all_headers()) if one.url.startswith(IMAGES) else None)
    show(tab, ONE)
    images = tab.page.locator("#results img")
    tab.until("[...document.querySelectorAll('#results img')].some(one => one.naturalWidth > 0)")
    attributes = "all => all.map(one => [one.alt, one.loading, one.referrerPolicy, one.closest('li').innerText])"
    for alt, loading, policy, text in images.evaluate_all(attributes):
        assert (alt, loading, policy) == ("", "lazy", "no-referrer")
        assert int(re.findall(r"number (\d+)", text)[0]) % 2 == 1
    assert headers and not [one for one in headers if "referer" in one or "origin" in one]


def test_what_is_no_image_of_the_web_is_not_asked_for_and_a_broken_one_goes(tab: Tab) -> None:
    show(tab, "#q=chair&in=chairs&by=lexical")
    assert len(tab.titles()) == 6
    tab.until("document.querySelectorAll('#results img').length === 0")
    assert {one for one in tab.asked if not one.startswith(tab.address)} <= {"about:blank", f"{IMAGES}gone.png"}


def test_a_server_that_refuses_images_asks_for_none(browser: Browser, store: Path) -> None:
    served = Served(store, "[server]\nimages = false")
    with served.run(), tab_of(browser, f"http://127.0.0.1:{served.port}/") as tab:
        sent = searches(tab)
        show(tab, ONE)
        assert [one["return"]["image"] for one in sent] == [False] * len(sent) != []
        assert tab.page.locator("#results img").count() == 0


# -- the keyboard, filters, the name ---------------------------------------------------------------------------------


def test_the_first_result_is_two_steps_away_from_the_address_and_from_the_question(tab: Tab) -> None:
    keys = tab.page.keyboard
    show(tab, ONE)
    first = tab.titles()[0]
    keys.press("Tab")
    assert tab.focused() == "skip"
    keys.press("Enter")
    assert tab.focused() == first
    tab.page.locator("#query").focus()
    keys.press("Tab")
    assert tab.focused() == "toresults"
    assert tab.page.locator("#toresults").evaluate("one => getComputedStyle(one).opacity") == "1"
    keys.press("Enter")
    assert tab.focused() == first


def test_arrow_keys_go_through_the_results_and_back_to_the_question(tab: Tab) -> None:
    keys = tab.page.keyboard
    show(tab, ONE)
    first, second = tab.titles()[:2]
    tab.page.locator("#query").focus()
    for key, reached in (("ArrowDown", first), ("ArrowDown", second), ("ArrowUp", first), ("ArrowUp", "query")):
        keys.press(key)
        assert tab.focused() == reached
    keys.press("Alt+ArrowDown")
    assert tab.focused() == "query"


def test_filters_come_after_the_results_and_stand_beside_them(tab: Tab) -> None:
    show(tab, ONE)
    tab.page.get_by_role("group", name="Material").wait_for()
    after = "document.querySelector('#results').compareDocumentPosition(document.querySelector('#filters'))"
    assert tab.page.evaluate(after) == 4
    filters, results = (tab.page.locator(one).bounding_box() for one in ("#filters", "#results"))
    assert filters and results
    assert filters["x"] + filters["width"] <= results["x"] and abs(filters["y"] - results["y"]) < 40


def test_fields_are_offered_that_people_filter_by(tab: Tab) -> None:
    show(tab, ONE)
    tab.page.get_by_role("group", name="Material").wait_for()
    legends = tab.page.locator("#facets legend").all_inner_texts()
    assert sorted(legends) == ["Date", "Material", "Price"], "layout, draft and image are for what builds a page"
    show(tab, f"{ONE}&from:wattage=1")
    tab.page.get_by_role("group", name="Wattage").wait_for()


def test_collections_name_the_page_where_no_organization_does(tab: Tab) -> None:
    tab.open()
    tab.page.locator("#landing a").first.wait_for()
    assert tab.page.locator("#home").inner_text() == "chairs · lamps"
    assert tab.page.title() == "chairs · lamps"


# -- axe -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fragment", [ALL, ONE, f"{ALL}&sort=updated_at+descending", f"{ONE}&sort=price+descending"])
def test_axe_finds_nothing_in_light_and_in_dark_on_a_phone(tab: Tab, fragment: str) -> None:
    show(tab, fragment)
    tab.page.wait_for_load_state("networkidle")
    found = [violations(tab.page)]
    tab.page.locator("#toresults").focus()
    found.append(violations(tab.page))
    tab.page.emulate_media(color_scheme="dark")
    tab.page.set_viewport_size({"width": 375, "height": 720})
    found.append(violations(tab.page))
    assert found == [[], [], []]
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 375, "the phone has to scroll sideways"
