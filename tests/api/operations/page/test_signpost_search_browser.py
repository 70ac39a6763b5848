"""The search page in a browser: what a person sees, types and reaches, with axe over every state."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pytest

from tests.support.search_site import (
    HOSTILE_TITLE,
    KEY,
    PARTNER,
    PARTNER_SECRET,
    Site,
    Tab,
    chromium,
    site as search_site,
    tab_of,
    violations,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = [pytest.mark.process, pytest.mark.slow]
SOUP = "#q=something+warm+with+lentils&in=ellery"
NONSENSE = "#q=quantum+chromodynamics+lattice+gauge&in=ellery"
STARTER = "#q=feed+the+starter+by+weight&in=ellery"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with search_site(tmp_path_factory.mktemp("site")) as served:
        yield served


@pytest.fixture
def tab(browser: Browser, site: Site) -> Iterator[Tab]:
    with tab_of(browser, site.address) as opened:
        yield opened


# -- every state, by axe ---------------------------------------------------------------------------------------------


def _start(tab: Tab) -> None:
    tab.open()
    tab.page.locator("#landing a").first.wait_for()


def _search(fragment: str) -> Callable[[Tab], None]:
    def act(tab: Tab) -> None:
        tab.open(fragment)
        tab.ready()

    return act


def _filtered(tab: Tab) -> None:
    tab.open(SOUP)
    tab.page.get_by_role("checkbox", name="Recipe").check()
    tab.page.get_by_label("From").first.fill("2026-01-01")
    tab.page.get_by_text("2 chosen").wait_for()


def _nearest(tab: Tab) -> None:
    _search(NONSENSE)(tab)
    tab.page.get_by_role("button", name="Show the nearest passages").click()


def _completing(tab: Tab) -> None:
    tab.open("#in=ellery")
    tab.page.locator("#query").press_sequentially("how to sharp")
    tab.page.get_by_role("option").first.wait_for()
    tab.page.keyboard.press("ArrowDown")


def _reading(tab: Tab) -> None:
    _search(STARTER)(tab)
    tab.page.locator("#results h2 a").first.click()
    tab.page.locator(".chunk.hit").wait_for()


def _details(tab: Tab) -> None:
    tab.open("#in=ellery&doc=smoky-lentil-soup")
    tab.page.get_by_text("Details").click()


def _key(tab: Tab) -> None:
    tab.open()
    tab.page.get_by_role("button", name="Access key").click()


def _failing(tab: Tab) -> None:
    tab.page.route("**/search", lambda route: _refuse(route, 503, "the server is busy"))
    tab.open(SOUP)
    tab.page.get_by_role("alert").wait_for()


def _offline(tab: Tab) -> None:
    tab.open("#in=ellery")
    tab.page.locator("#mode option").first.wait_for(state="attached")
    tab.page.context.set_offline(True)
    tab.page.locator("#query").fill("lentils")
    tab.page.get_by_role("alert").wait_for()


def _slow(tab: Tab) -> None:
    tab.page.clock.install()
    tab.page.route("**/search", lambda route: None)
    tab.open(SOUP)
    tab.page.locator("#mode option").first.wait_for(state="attached")
    tab.page.clock.run_for(10_000)
    tab.page.get_by_text("This takes longer than usual").wait_for()


def _code(tab: Tab) -> None:
    tab.open("#view=code&q=lentils&in=ellery")
    tab.page.get_by_role("button", name="Run it here").click()
    tab.page.get_by_role("region", name="Answer").get_by_text('"results"').wait_for()


def _browse(fragment: str) -> Callable[[Tab], None]:
    def act(tab: Tab) -> None:
        tab.open(fragment)
        tab.page.locator("#browsing a").first.wait_for()

    return act


def _docs(tab: Tab) -> None:
    tab.open(path="docs")
    tab.page.locator("#search summary").first.wait_for()
    for number in range(3):
        tab.page.locator("#search > details > summary").nth(number).click()


STATES: dict[str, Callable[[Tab], None]] = {
    "start": _start,
    "completing": _completing,
    "results": _search(SOUP),
    "code and lists": _search(STARTER),
    "filtered": _filtered,
    "corrected": _search("#q=lentl+soup&in=ellery"),
    "nothing fits": _search(NONSENSE),
    "nearest": _nearest,
    "without text": _search("#q=marmoset&in=withheld"),
    "document": _reading,
    "details": _details,
    "collections": _browse("#view=browse"),
    "collection": _browse("#view=browse&in=ellery"),
    "code": _code,
    "key": _key,
    "failing": _failing,
    "offline": _offline,
    "slow": _slow,
    "right to left": _search("#q=%D8%AE%D8%A8%D8%B2&in=odd"),
    "documentation": _docs,
}


def _refuse(route: Route, status: int, message: str) -> None:
    route.fulfill(
        status=status, json={"error": "x", "message": message, "request_id": "req_1"}, headers={"Retry-After": "2"}
    )


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing_in_light_and_in_dark_on_a_phone(tab: Tab, state: str) -> None:
    STATES[state](tab)
    page = tab.page
    found = {"light": violations(page)}
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 375, "height": 720})
    found["dark, phone"] = violations(page)
    assert found == {"light": [], "dark, phone": []}
    assert page.evaluate("document.documentElement.scrollWidth") <= 375, "the phone has to scroll sideways"


def test_axe_would_find_a_fault(tab: Tab) -> None:
    STATES["start"](tab)
    tab.page.evaluate("document.querySelector('#query').removeAttribute('aria-label')")
    tab.page.evaluate("document.querySelector('#query').removeAttribute('placeholder')")
    assert any(one.startswith("aria-input-field-name") or one.startswith("label") for one in violations(tab.page))


# -- searching -------------------------------------------------------------------------------------------------------


def test_a_search_by_keyboard_alone_to_a_document_and_back(tab: Tab) -> None:
    tab.open("#in=ellery")
    page, keys = tab.page, tab.page.keyboard
    page.locator("#mode option").first.wait_for(state="attached")
    page.evaluate("document.activeElement.blur()")
    keys.press("/")
    assert tab.focused() == "query"
    keys.type("warm lenti", delay=15)
    page.get_by_role("option", name="warm lentils").wait_for()
    keys.press("ArrowDown")
    active = str(page.locator("#query").get_attribute("aria-activedescendant"))
    chosen = page.locator(f"#{active}").inner_text()
    keys.press("Enter")
    assert chosen.startswith("warm lenti") and page.locator("#query").input_value() == chosen
    assert page.locator("#query").get_attribute("aria-expanded") == "false"
    page.get_by_role("link", name="Smoky lentil soup").wait_for()
    for _ in range(60):
        if tab.focused() == "Smoky lentil soup":
            break
        keys.press("Tab")
    assert tab.focused() == "Smoky lentil soup"
    keys.press("Enter")
    page.locator("#reading h1").wait_for()
    page.get_by_role("heading", level=1, name="Smoky lentil soup").wait_for()
    assert tab.focused() == "title"
    keys.press("Shift+Tab")
    assert tab.focused() == "← Results"
    keys.press("Enter")
    tab.until("document.activeElement.innerText === 'Smoky lentil soup'")
    page.get_by_role("checkbox", name="Recipe").focus()
    keys.press("Space")
    page.get_by_text("1 chosen").wait_for()
    assert page.evaluate("document.activeElement.dataset.mark") == "type=Recipe"
    keys.press("/")
    keys.press("Tab")
    keys.press("Escape")
    assert "is%3Atype=Recipe" in page.url


def test_typing_asks_once_it_pauses_and_shows_the_last_answer(tab: Tab) -> None:
    tab.open("#in=ellery")
    tab.page.locator("#mode option").first.wait_for(state="attached")
    tab.page.locator("#query").press_sequentially("a concert on a summer evening", delay=8)
    tab.page.get_by_role("link", name="Harbour jazz weekend").wait_for()
    searches = [one for one in tab.asked if one.endswith("/search")]
    assert 1 <= len(searches) <= 6
    assert unquote(tab.page.url).endswith("q=a+concert+on+a+summer+evening&in=ellery")
    tab.page.go_back()
    assert tab.page.locator("#query").input_value() == ""


def test_an_older_answer_never_replaces_a_newer_one(tab: Tab) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "first" in str(route.request.post_data):
            held.append(route)
        else:
            route.continue_()

    tab.page.route("**/search", hold)
    tab.open("#q=first+lentils&in=ellery")
    tab.page.locator("#mode option").first.wait_for(state="attached")
    tab.page.locator("#query").fill("boats in the harbour")
    tab.page.keyboard.press("Enter")
    tab.page.locator("#results h2").first.wait_for()
    newer = tab.titles()
    for route in held:
        route.abort()
    assert tab.titles() == newer
    assert tab.page.locator("#trouble").is_hidden()


def test_filters_narrow_and_their_counts_say_what_else_there_is(tab: Tab) -> None:
    tab.open(SOUP)
    tab.page.get_by_role("checkbox", name="Recipe").check()
    tab.page.get_by_text("1 chosen").wait_for()
    tab.ready()
    assert "Smoky lentil soup" in tab.titles()
    links = tab.page.locator("#results .path a").evaluate_all("all => all.map(one => one.href)")
    assert links and all("/recipes/" in link for link in links)
    event = tab.page.locator(".tick", has_text="Event")
    assert event.locator(".count").inner_text() != "0"
    tab.page.get_by_role("group", name="Date").get_by_label("From").fill("2026-02-01")
    tab.page.get_by_text("2 chosen").wait_for()
    tab.ready()
    dates = tab.page.locator("#results time").evaluate_all("all => all.map(one => one.dateTime)")
    assert dates and min(dates) >= "2026-02-01"
    tab.page.get_by_role("button", name="Clear all").click()
    tab.page.get_by_text("2 chosen").wait_for(state="hidden")
    assert "is%3A" not in tab.page.url and "from%3A" not in tab.page.url


def test_snippets_keep_code_and_lists_and_mark_whole_words(tab: Tab) -> None:
    _reading(tab)
    document = tab.page.locator("#reading")
    assert document.get_by_role("listitem").first.inner_text() == "discard all but 50 grams of starter"
    assert "feed --starter 50" in document.locator("pre code").inner_text()
    assert document.locator("th").all_inner_texts() == ["hours", "temperature"]
    marks = set(document.locator("mark").all_inner_texts())
    assert {"starter", "weight"} <= marks
    assert all(re.fullmatch(r"[\w-]+", one) for one in marks)
    tab.page.get_by_role("link", name="← Results").click()
    tab.ready()
    first = tab.page.locator("#results > li").first
    assert first.locator("ul:not(.further) li").count() >= 3
    assert "```" not in first.inner_text() and "\n- " not in first.inner_text()


def test_a_long_document_goes_on_when_asked(tab: Tab) -> None:
    tab.open("#in=ellery&doc=documents/guide.md")
    tab.page.locator(".chunk").first.wait_for()
    before = tab.page.locator(".chunk").count()
    tab.page.get_by_role("button", name="More of this document").click()
    tab.until(f"document.querySelectorAll('.chunk').length > {before}")
    assert tab.focused() == f"passage{before}"
    shown = tab.page.locator(".chunk").evaluate_all("all => all.map(one => one.dataset.id)")
    numbers = [int(one.rpartition("_")[2]) for one in shown]
    assert numbers == list(range(1, len(numbers) + 1))


def test_what_was_corrected_is_said_and_can_be_refused(tab: Tab) -> None:
    tab.open("#q=lentl+soup&in=ellery")
    tab.page.locator("#spelling").wait_for()
    assert "lentil soup" in tab.page.locator("#spelling").inner_text()
    assert "Smoky lentil soup" in tab.titles()
    tab.page.locator("#spelling a").click()
    tab.page.wait_for_url("**exact**" if "Results for" in tab.page.locator("#spelling").inner_text() else "**")
    tab.ready()


ALONE = "Search for the words alone."
SIGNS = {
    '"lentil soup" -tomato': f"Passages with “lentil soup” as it is written, without tomato. {ALONE}",
    "lentil soup -tomato": f"Passages without tomato. {ALONE}",
    '"soup lentil"': "No passage has “soup lentil” as it is written. Results for soup lentil.",
}


@pytest.mark.parametrize(("query", "told"), SIGNS.items())
def test_how_signs_in_a_query_were_read_is_said_and_can_be_refused(tab: Tab, query: str, told: str) -> None:
    tab.open(f"#q={quote(query)}&in=ellery")
    tab.page.get_by_text(told).wait_for()
    assert "Smoky lentil soup" in tab.titles()
    if told.endswith(ALONE):
        tab.page.get_by_role("link", name=ALONE[:-1]).click()
        tab.page.wait_for_url("**exact**")
        tab.page.locator("#spelling").wait_for(state="hidden")


def test_nothing_that_fits_is_said_and_no_score_is_shown(tab: Tab) -> None:
    tab.open(NONSENSE)
    tab.page.get_by_role("heading", name="Nothing here seems to fit").wait_for()
    assert tab.page.get_by_role("status").first.inner_text() == "Nothing fits"
    assert tab.page.locator("#results").is_hidden()
    tab.page.get_by_role("button", name="Show the nearest passages").click()
    assert tab.page.locator("#results h2").count() > 3
    assert not re.search(r"score|\d\.\d\d", tab.page.locator("#results").inner_text())


# -- addresses -------------------------------------------------------------------------------------------------------


def test_an_address_shows_the_same_to_somebody_else(tab: Tab, browser: Browser, site: Site) -> None:
    tab.open(SOUP)
    tab.page.get_by_role("checkbox", name="Recipe").check()
    tab.page.get_by_text("1 chosen").wait_for()
    tab.page.locator("#mode").select_option("lexical")
    tab.ready()
    titles, address = tab.titles(), tab.page.url
    with tab_of(browser, site.address) as other:
        other.page.goto(address)
        other.page.get_by_text("1 chosen").wait_for()
        assert other.titles() == titles
        assert other.page.locator("#mode").input_value() == "lexical"
        assert other.page.locator("#query").input_value() == "something warm with lentils"
    tab.page.locator("#results h2 a").first.click()
    tab.page.locator("#reading h1").wait_for()
    with tab_of(browser, site.address) as other:
        other.page.goto(tab.page.url)
        other.page.get_by_role("heading", level=1, name=titles[0]).wait_for()


def test_back_and_forward_go_through_what_was_shown(tab: Tab) -> None:
    tab.open("#in=ellery")
    page = tab.page
    page.locator("#mode option").first.wait_for(state="attached")
    for query in ("lentils", "boats in the harbour"):
        page.locator("#query").fill(query)
        page.keyboard.press("Enter")
        tab.ready()
        tab.until(f"document.title.startsWith({json.dumps(query)})")
    page.locator("#results h2 a").first.click()
    page.locator("#reading h1").wait_for()
    page.go_back()
    tab.until("document.querySelector('#query').value === 'boats in the harbour'")
    page.go_back()
    tab.until("document.querySelector('#query').value === 'lentils'")
    page.get_by_role("link", name="Smoky lentil soup").wait_for()
    page.go_forward()
    tab.until("document.querySelector('#query').value === 'boats in the harbour'")


def test_an_old_address_with_a_query_string_is_understood(tab: Tab) -> None:
    tab.open("", "?q=lentils&in=ellery")
    tab.page.get_by_role("link", name="Smoky lentil soup").wait_for()


# -- what is hostile, and right to left ------------------------------------------------------------------------------


def test_hostile_titles_addresses_and_texts_show_as_text(tab: Tab) -> None:
    tab.open("#q=marmoset&in=odd")
    tab.ready()
    assert HOSTILE_TITLE in tab.titles()
    fresh = "#results :is(img, script, iframe, b, u, i), #facets :is(img, script, iframe, b, u, i)"
    assert tab.page.locator(fresh).count() == 0
    assert "<b onclick" in tab.page.locator("#results").inner_text()
    assert "javascript:alert(document.domain)" in tab.page.locator("#results").inner_text()
    hrefs = tab.page.locator("a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    assert {re.split("[:#]", one)[0] for one in hrefs} <= {"", "https", "docs"}
    tab.page.get_by_role("link", name=HOSTILE_TITLE).click()
    tab.page.locator(".chunk").wait_for()
    assert tab.page.locator("h1").inner_text() == HOSTILE_TITLE
    assert tab.page.locator("#reading :is(img, script, iframe, b, u, i)").count() == 0
    links = tab.page.locator("#reading .chunk a").evaluate_all("all => all.map(one => one.href)")
    assert links == ["https://example.com/good"]
    assert "broken" not in tab.page.title()
    tab.page.go_back()
    tab.ready()
    marks = tab.page.locator("#results li", has_text="sits").locator("mark").all_inner_texts()
    assert set(marks) == {"marmoset"}, "spans are counted in code points"


def test_a_hostile_fragment_is_text_too(tab: Tab) -> None:
    tab.open("#q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&in=%3Cb%3E&by=%22&is:__proto__=x&from:constructor=1&doc=")
    tab.ready()
    assert tab.page.locator("#query").input_value() == "<img src=x onerror=alert(1)>"
    assert tab.page.locator("main img").count() == 0


def test_it_is_right_to_left_down_to_the_input(tab: Tab) -> None:
    tab.open("#in=odd")
    direction = "one => getComputedStyle(one).direction"
    assert tab.page.locator("#query").evaluate(direction) == "ltr"
    tab.page.locator("#query").fill("خبز الميناء")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("link", name="خبز الميناء").wait_for()
    assert tab.page.locator("#query").evaluate(direction) == "rtl"
    arabic = tab.page.locator("#results li", has_text="تخبز")
    assert arabic.locator(".text p").first.evaluate(direction) == "rtl"
    assert arabic.locator("h2 a").evaluate(direction) == "rtl"
    assert arabic.locator(".path a").evaluate(direction) == "ltr"


# -- keys and failures -----------------------------------------------------------------------------------------------


def test_a_key_opens_more_and_is_never_in_the_address(tab: Tab) -> None:
    tab.open("#view=browse")
    cards = tab.page.locator("#browsing .cards strong")
    cards.first.wait_for()
    assert "sealed" not in cards.all_inner_texts()
    tab.page.get_by_role("button", name="Access key").click()
    tab.page.get_by_role("textbox", name="Access key").fill(KEY)
    tab.page.keyboard.press("Enter")
    tab.page.locator("#browsing strong", has_text="sealed").wait_for()
    tab.page.goto(f"{tab.address}#q=marmoset&in=sealed")
    tab.page.reload()
    tab.page.get_by_role("link", name="Sealed").wait_for()
    assert KEY not in tab.page.url and not [one for one in tab.asked if KEY in one]
    assert tab.page.evaluate("localStorage.length") == 0


def test_a_wrong_key_is_told_and_another_can_be_given(tab: Tab) -> None:
    tab.open()
    tab.page.get_by_role("button", name="Access key").click()
    tab.page.get_by_role("textbox", name="Access key").fill("wrong")
    tab.page.keyboard.press("Enter")
    alert = tab.page.locator("#trouble")
    alert.wait_for()
    assert "Give another access key, or none." in alert.inner_text()
    tab.page.get_by_role("button", name="Access key").click()
    tab.page.get_by_role("textbox", name="Access key").fill("")
    tab.page.keyboard.press("Enter")
    tab.page.locator("#landing a").first.wait_for()
    assert alert.is_hidden()


def test_a_failure_is_told_with_its_cure_and_can_be_tried_again(tab: Tab) -> None:
    _failing(tab)
    assert "The server is busy." in tab.page.locator("#what").inner_text()
    assert tab.page.locator("#cure").inner_text() == "Try again in 2 s."
    tab.page.unroute("**/search")
    tab.page.get_by_role("button", name="Try again").click()
    tab.ready()
    assert "Smoky lentil soup" in tab.titles()
    assert tab.page.locator("#trouble").is_hidden()


def test_it_goes_on_when_the_connection_is_back(tab: Tab) -> None:
    _offline(tab)
    assert tab.page.locator("#what").inner_text() == "You are offline."
    tab.page.context.set_offline(False)
    tab.page.get_by_role("link", name="Smoky lentil soup").wait_for()
    assert tab.page.locator("#trouble").is_hidden()


def test_a_collection_without_text_is_searched_without(tab: Tab) -> None:
    tab.open("#q=marmoset&in=withheld")
    tab.page.get_by_role("link", name="Withheld").click()
    tab.page.get_by_text("This collection does not show its text here.").wait_for()


# -- browsing, code, documentation -----------------------------------------------------------------------------------


def test_a_collection_shows_what_it_holds(tab: Tab) -> None:
    tab.open("#view=browse&in=ellery")
    facts = tab.page.locator("#browsing .facts")
    facts.wait_for()
    told = facts.inner_text()
    assert all(one in told for one in ("63 in", "English", "example.com", "all-MiniLM-L6-v2", "Last change"))
    documents = tab.page.locator(".listed a[href*='doc=']")
    first = documents.count()
    tab.page.get_by_role("button", name="More documents").click()
    tab.until(f"document.querySelectorAll('.listed li').length > {first}")
    assert documents.count() == 63
    tab.page.get_by_role("link", name="Smoky lentil soup").click()
    tab.page.get_by_role("heading", level=1, name="Smoky lentil soup").wait_for()


def _run(language: str, code: str) -> str:
    command = {
        "curl": ["bash", "-c", code],
        "Python": [sys.executable, "-c", code],
        "JavaScript": ["node", "--input-type=module", "-e", code],
    }
    environment = {**os.environ, "AIDRE_KEY": KEY, "AIP_PARTNER": PARTNER, "AIP_SECRET": PARTNER_SECRET}
    done = subprocess.run(command[language], capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


MEMBERS = {
    "AIDRE": "results",
    "NLWeb": "results",
    "MCP": "result",
    "Agentic Intent": "content",
    "Agent Intake": "offer",
}


def test_every_example_of_the_playground_runs(tab: Tab) -> None:
    tab.open("#view=code&in=ellery&q=" + "it's+%22warm%22+%24HOME+%5C+soup+%F0%9F%98%80+with+lentils")
    protocols = tab.page.get_by_role("tablist", name="Protocol").get_by_role("tab")
    protocols.first.wait_for()
    assert protocols.all_inner_texts() == list(MEMBERS)
    needed: dict[str, tuple[str, ...]] = {"curl": ("curl", "openssl"), "Python": (), "JavaScript": ("node",)}
    languages = [name for name, programs in needed.items() if all(map(shutil.which, programs))]
    for protocol, member in MEMBERS.items():
        tab.page.get_by_role("tab", name=protocol, exact=True).click()
        for language in languages:
            tab.page.get_by_role("tab", name=language, exact=True).click()
            answer = json.loads(_run(language, tab.page.locator("#snippet").inner_text()))
            assert answer.get(member), f"{protocol} by {language}: {answer}"


def test_the_tabs_of_the_playground_follow_the_arrow_keys(tab: Tab) -> None:
    tab.open("#view=code&in=ellery&q=soup")
    tab.page.get_by_role("tab", name="AIDRE").focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.focused() == "NLWeb"
    assert tab.page.get_by_role("tab", name="NLWeb").get_attribute("aria-selected") == "true"
    tab.page.keyboard.press("End")
    assert tab.focused() == "Agent Intake"
    tab.page.keyboard.press("ArrowRight")
    assert tab.focused() == "AIDRE"


def test_the_documentation_draws_every_operation_and_tries_one(tab: Tab) -> None:
    tab.open(path="docs")
    tab.page.locator("#search").wait_for()
    described = json.loads(tab.page.evaluate("fetch('openapi.json').then(answer => answer.text())"))
    names = {one["operationId"] for path in described["paths"].values() for one in path.values()}
    drawn = tab.page.locator(".operation").evaluate_all("all => all.map(one => one.id)")
    assert set(drawn) == names and len(drawn) == len(names)
    search = tab.page.locator("#search")
    search.get_by_text("SearchRequest").click()
    search.locator("code", has_text="query_vector").first.wait_for()
    search.get_by_text("Try it").click()
    search.get_by_label("Body").fill(json.dumps({"query": "lentils", "collection": "ellery", "top_k": 1}))
    search.get_by_role("button", name="Send").click()
    search.get_by_text("smoky-lentil-soup").wait_for()
    assert search.get_by_role("region", name="Answer").inner_text().startswith("200")
